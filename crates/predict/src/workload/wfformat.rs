//! WfFormat 1.5 and 1.6, the format of WfCommons and of the instances that it publishes. 1.6 adds `metrics`, sums of what the
//! instance says itself: those of tasks and files tell one that was cut.
//!
//! What the format does not say is taken so: a task reads its input files whole and in their order, computes, and writes
//! its output files whole. `runtimeInSeconds` includes the I/O of the machine that was traced, so the computation is
//! `runtimeInSeconds · min(avgCPU, 100) / 100`. Where `avgCPU` is missing, all of it counts as computation, with a
//! warning. `readBytes` and `writtenBytes` count repeated reads and are not used.

use std::collections::HashMap;

use intarsia_types::HintSet;

use super::{Draft, Operation, TaskId, Workload};
use crate::Problem;
use crate::json::Node;

const VERSIONS: [&str; 2] = ["1.5", "1.6"];

/// What the execution tells of a task.
struct Run<'a> {
    compute_seconds: f64,
    slots: u32,
    program: Option<&'a str>,
    knows_cpu: bool,
}

pub(super) fn read(root: &Node<'_>) -> Result<Workload, Problem> {
    let version = root.field("schemaVersion")?;
    if !VERSIONS.contains(&version.text()?) {
        let known = VERSIONS.join(" and ");
        let why = format!("WfFormat {} is unknown; this program reads {known}", version.text()?);
        return Err(version.refuse(why));
    }
    let workflow = root.field("workflow")?;
    let specification = workflow.field("specification")?;
    let runs = runs(&workflow.field("execution")?)?;
    let mut draft = Draft::default();
    for file in specification.items_of("files")? {
        draft.file(&file.field("id")?, file.field("sizeInBytes")?.whole()?, HintSet::default())?;
    }
    let tasks = specification.field("tasks")?;
    let ids = add_tasks(&mut draft, &tasks, &runs)?;
    let tasks_found = ids.len() as u64;
    for (node, id) in tasks.items()?.zip(ids) {
        add_relations(&mut draft, &node, id)?;
    }
    check_metrics(&mut draft, &specification, tasks_found)?;
    let name = root.optional("name")?.map_or(Ok("workflow"), |name| name.text())?;
    draft.finish(name, &tasks)
}

fn runs<'a>(execution: &Node<'a>) -> Result<HashMap<&'a str, Run<'a>>, Problem> {
    let mut runs = HashMap::new();
    for task in execution.field("tasks")?.items()? {
        let runtime_seconds = task.field("runtimeInSeconds")?.number()?;
        let cpu_percent = task.optional("avgCPU")?.map(|cpu| cpu.number()).transpose()?;
        let cores = task.optional("coreCount")?.map(|n| n.positive()).transpose()?;
        let program = match task.optional("command")? {
            Some(command) => command.optional("program")?.map(|p| p.text()).transpose()?,
            None => None,
        };
        let run = Run {
            compute_seconds: runtime_seconds * cpu_percent.unwrap_or(100.0).min(100.0) / 100.0,
            slots: whole_cores(cores.unwrap_or(1.0)),
            program,
            knows_cpu: cpu_percent.is_some(),
        };
        let id = task.field("id")?;
        if runs.insert(id.text()?, run).is_some() {
            return Err(id.refuse(format!("'{}' was executed twice", id.text()?)));
        }
    }
    Ok(runs)
}

/// The format allows parts of a core.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and a cast saturates"
)]
fn whole_cores(cores: f64) -> u32 {
    cores.ceil() as u32
}

fn add_tasks(
    draft: &mut Draft,
    tasks: &Node<'_>,
    runs: &HashMap<&str, Run<'_>>,
) -> Result<Vec<TaskId>, Problem> {
    let mut ids = Vec::new();
    let mut without_cpu = 0_u32;
    for node in tasks.items()? {
        let id = node.field("id")?;
        let run = runs.get(id.text()?).ok_or_else(|| {
            id.refuse(format!(
                "'{}' has no run time in workflow.execution.tasks",
                id.text().unwrap_or_default()
            ))
        })?;
        let name = node.optional("name")?.map_or_else(|| id.text(), |name| name.text())?;
        let task = draft.task(&id, run.program.unwrap_or_else(|| stem(name)))?;
        draft.task_mut(task).slots = run.slots;
        for file in node.items_of("inputFiles")? {
            let id = draft.file_named(&file)?;
            draft.push(&file, task, Operation::Open(id))?;
            draft.push(&file, task, Operation::Read(draft.whole(id)))?;
            draft.push(&file, task, Operation::Close(id))?;
        }
        draft.push(&node, task, Operation::Compute(run.compute_seconds))?;
        for file in node.items_of("outputFiles")? {
            let id = draft.file_named(&file)?;
            draft.push(&file, task, Operation::Write(draft.whole(id)))?;
            draft.push(&file, task, Operation::Close(id))?;
        }
        without_cpu += u32::from(!run.knows_cpu);
        ids.push(task);
    }
    if without_cpu > 0 {
        draft.warnings.push(format!(
            "workflow.execution.tasks: {without_cpu} without 'avgCPU'; all of their run time counts as computation"
        ));
    }
    Ok(ids)
}

fn add_relations(draft: &mut Draft, node: &Node<'_>, task: TaskId) -> Result<(), Problem> {
    for parent in node.items_of("parents")? {
        let parent = draft.task_named(&parent)?;
        draft.after(task, parent);
    }
    for child in node.items_of("children")? {
        let child = draft.task_named(&child)?;
        draft.after(child, task);
    }
    Ok(())
}

/// Warns where the instance has another number of tasks, files or bytes than it says.
fn check_metrics(
    draft: &mut Draft,
    specification: &Node<'_>,
    tasks_found: u64,
) -> Result<(), Problem> {
    let Some(metrics) = specification.optional("metrics")? else { return Ok(()) };
    let files = specification.items_of("files")?;
    let mut sizes = files.iter().map(|file| file.field("sizeInBytes")?.whole());
    let bytes = sizes.try_fold(0_u64, |sum, size| Ok(sum.saturating_add(size?)))?;
    let counted = [
        ("numberOfTasks", tasks_found),
        ("numberOfFiles", files.len() as u64),
        ("sumOfFileSizesInBytes", bytes),
    ];
    for (name, found) in counted {
        let Some(said) = metrics.optional(name)? else { continue };
        let said = said.whole()?;
        if said != found {
            draft.warnings.push(format!(
                "workflow.specification.metrics.{name}: {said}, but there are {found}; is the instance whole?"
            ));
        }
    }
    Ok(())
}

/// A name without the number that makes it unique: `mProject_ID0000001`, `blastall_00000002`.
fn stem(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let stem = stem.strip_suffix("ID").unwrap_or(stem).trim_end_matches(['_', '-', '.']);
    if stem.is_empty() { name } else { stem }
}
