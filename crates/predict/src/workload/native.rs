//! The form of our own: what WfFormat cannot say (ranges, hints, overheads), and nothing else.

use intarsia_types::{Hint, HintKey, HintSet};

use super::{Draft, Extent, Operation, TaskId, Workload};
use crate::Problem;
use crate::json::Node;

pub(super) fn read(root: &Node<'_>) -> Result<Workload, Problem> {
    root.is_format("intarsia-workload")?;
    root.only(&["format", "version", "name", "files", "tasks"])?;
    let mut draft = Draft::default();
    for file in root.items_of("files")? {
        file.only(&["name", "size_bytes", "hints"])?;
        draft.file(&file.field("name")?, file.field("size_bytes")?.whole()?, hints(&file)?)?;
    }
    let tasks = root.field("tasks")?;
    let mut ids = Vec::new();
    for node in tasks.items()? {
        ids.push(task(&mut draft, &node)?);
    }
    for (node, id) in tasks.items()?.zip(ids) {
        for parent in node.items_of("after")? {
            let parent = draft.task_named(&parent)?;
            draft.after(id, parent);
        }
    }
    let name = root.optional("name")?.map_or(Ok("workload"), |name| name.text())?;
    draft.finish(name, &tasks)
}

fn hints(file: &Node<'_>) -> Result<HintSet, Problem> {
    let Some(hints) = file.optional("hints")? else { return Ok(HintSet::default()) };
    let mut set = HintSet::default();
    for (name, value) in hints.fields()? {
        let hint = name
            .parse::<HintKey>()
            .and_then(|key| Hint::new(key, value.text().unwrap_or_default()))
            .map_err(|error| value.refuse(error))?;
        set.set(hint);
    }
    Ok(set)
}

const FIELDS: &[&str] = &[
    "name",
    "stage",
    "after",
    "slots",
    "overhead_seconds",
    "compute_seconds",
    "reads",
    "writes",
    "operations",
];

fn task(draft: &mut Draft, node: &Node<'_>) -> Result<TaskId, Problem> {
    node.only(FIELDS)?;
    let name = node.field("name")?;
    let stage = node.optional("stage")?.map_or_else(|| name.text(), |stage| stage.text())?;
    let task = draft.task(&name, stage)?;
    if let Some(slots) = node.optional("slots")? {
        draft.task_mut(task).slots = slots.count(1, 1 << 16)?;
    }
    if let Some(overhead) = node.optional("overhead_seconds")? {
        draft.task_mut(task).overhead_seconds = overhead.number()?;
    }
    let Some(operations) = node.optional("operations")? else {
        simple(draft, node, task)?;
        return Ok(task);
    };
    for short in ["reads", "writes", "compute_seconds"] {
        if let Some(field) = node.optional(short)? {
            return Err(field.refuse("stands beside 'operations', which says the same"));
        }
    }
    for operation in operations.items()? {
        one(draft, &operation, task)?;
    }
    Ok(task)
}

/// Files read whole, a computation, files written whole.
fn simple(draft: &mut Draft, node: &Node<'_>, task: TaskId) -> Result<(), Problem> {
    for file in node.items_of("reads")? {
        let id = draft.file_named(&file)?;
        draft.push(&file, task, Operation::Open(id))?;
        draft.push(&file, task, Operation::Read(draft.whole(id)))?;
        draft.push(&file, task, Operation::Close(id))?;
    }
    if let Some(seconds) = node.optional("compute_seconds")? {
        draft.push(&seconds, task, Operation::Compute(seconds.number()?))?;
    }
    for file in node.items_of("writes")? {
        let id = draft.file_named(&file)?;
        draft.push(&file, task, Operation::Write(draft.whole(id)))?;
        draft.push(&file, task, Operation::Close(id))?;
    }
    Ok(())
}

/// `{"read": FILE, "offset_bytes": N, "size_bytes": N}` and the like; without a range the whole file is meant.
fn one(draft: &mut Draft, node: &Node<'_>, task: TaskId) -> Result<(), Problem> {
    const KINDS: [&str; 5] = ["open", "read", "compute_seconds", "write", "close"];
    node.only(&[
        "open",
        "read",
        "compute_seconds",
        "write",
        "close",
        "offset_bytes",
        "size_bytes",
    ])?;
    let mut given = Vec::new();
    for kind in KINDS {
        given.extend(node.optional(kind)?.map(|value| (kind, value)));
    }
    let [(kind, value)] = &given[..] else {
        return Err(node.refuse(format!("give one of {}", KINDS.join(", "))));
    };
    let operation = match *kind {
        "compute_seconds" => Operation::Compute(value.number()?),
        "open" => Operation::Open(draft.file_named(value)?),
        "close" => Operation::Close(draft.file_named(value)?),
        "read" => Operation::Read(extent(draft, node, value)?),
        _ => Operation::Write(extent(draft, node, value)?),
    };
    draft.push(node, task, operation)
}

fn extent(draft: &Draft, node: &Node<'_>, file: &Node<'_>) -> Result<Extent, Problem> {
    let whole = draft.whole(draft.file_named(file)?);
    let offset_bytes = node.optional("offset_bytes")?.map_or(Ok(0), |offset| offset.whole())?;
    let rest = whole.size_bytes.saturating_sub(offset_bytes);
    let size_bytes = node.optional("size_bytes")?.map_or(Ok(rest), |size| size.whole())?;
    Ok(Extent { offset_bytes, size_bytes, ..whole })
}
