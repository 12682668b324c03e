//! A workload while it is being read: names become indices, and what does not hold together is refused.

use std::collections::HashMap;

use intarsia_types::HintSet;

use super::{Extent, File, FileId, Operation, Task, TaskId, Workload, graph};
use crate::Problem;
use crate::json::Node;

/// Larger workloads are refused: the model's messages count tasks and files in 32 bits.
const MOST: usize = 1 << 24;

#[derive(Default)]
pub(crate) struct Draft {
    files: Vec<File>,
    file_ids: HashMap<String, FileId>,
    tasks: Vec<Task>,
    task_ids: HashMap<String, TaskId>,
    stages: Vec<String>,
    stage_ids: HashMap<String, usize>,
    pub(crate) warnings: Vec<String>,
}

impl Draft {
    /// Adds a file; `node` is where its name stands.
    pub(crate) fn file(
        &mut self,
        node: &Node<'_>,
        size_bytes: u64,
        hints: HintSet,
    ) -> Result<(), Problem> {
        let name = node.text()?.to_owned();
        if self.file_ids.insert(name.clone(), self.files.len()).is_some() {
            return Err(node.refuse(format!("the file '{name}' is described twice")));
        }
        if self.files.len() >= MOST {
            return Err(node.refuse(format!("more than {MOST} files")));
        }
        self.files.push(File { name, size_bytes, hints, writer: None, readers: Vec::new() });
        Ok(())
    }

    /// Adds a task without operations; `node` is where its name stands.
    pub(crate) fn task(&mut self, node: &Node<'_>, stage: &str) -> Result<TaskId, Problem> {
        let name = node.text()?.to_owned();
        let id = self.tasks.len();
        if self.task_ids.insert(name.clone(), id).is_some() {
            return Err(node.refuse(format!("the task '{name}' is described twice")));
        }
        if id >= MOST {
            return Err(node.refuse(format!("more than {MOST} tasks")));
        }
        let stages = &mut self.stages;
        let stage = *self.stage_ids.entry(stage.to_owned()).or_insert_with(|| {
            stages.push(stage.to_owned());
            stages.len() - 1
        });
        self.tasks.push(Task {
            name,
            stage,
            overhead_seconds: 0.0,
            slots: 1,
            operations: Vec::new(),
            parents: Vec::new(),
            children: Vec::new(),
        });
        Ok(id)
    }

    pub(crate) fn task_mut(&mut self, task: TaskId) -> &mut Task {
        &mut self.tasks[task]
    }

    /// The file that is named here.
    pub(crate) fn file_named(&self, node: &Node<'_>) -> Result<FileId, Problem> {
        let name = node.text()?;
        self.file_ids.get(name).copied().ok_or_else(|| {
            node.refuse(format!("no file '{name}' is described"))
                .with_help("add it to 'files' with its size, or remove it here")
        })
    }

    /// The task that is named here.
    pub(crate) fn task_named(&self, node: &Node<'_>) -> Result<TaskId, Problem> {
        let name = node.text()?;
        self.task_ids
            .get(name)
            .copied()
            .ok_or_else(|| node.refuse(format!("no task '{name}' is described")))
    }

    /// All of a file.
    pub(crate) fn whole(&self, file: FileId) -> Extent {
        Extent { file, offset_bytes: 0, size_bytes: self.files[file].size_bytes }
    }

    /// The task starts after another one has ended.
    pub(crate) fn after(&mut self, task: TaskId, parent: TaskId) {
        self.tasks[task].parents.push(parent);
    }

    /// Appends an operation; `node` is where it stands. One that goes on where the one before ended is merged with it.
    pub(crate) fn push(
        &mut self,
        node: &Node<'_>,
        task: TaskId,
        operation: Operation,
    ) -> Result<(), Problem> {
        match operation {
            Operation::Read(extent) => {
                self.check(node, &extent)?;
                let readers = &mut self.files[extent.file].readers;
                if readers.last() != Some(&task) {
                    readers.push(task);
                }
            }
            Operation::Write(extent) => {
                self.check(node, &extent)?;
                self.written(node, extent.file, task)?;
            }
            Operation::Open(_) | Operation::Compute(_) | Operation::Close(_) => {}
        }
        let operations = &mut self.tasks[task].operations;
        let merged = operations.last().and_then(|last| merge(*last, operation));
        match (merged, operations.last_mut()) {
            (Some(merged), Some(last)) => *last = merged,
            _ => operations.push(operation),
        }
        Ok(())
    }

    fn check(&self, node: &Node<'_>, extent: &Extent) -> Result<(), Problem> {
        let file = &self.files[extent.file];
        let end = extent.offset_bytes.checked_add(extent.size_bytes);
        if end.is_none_or(|end| end > file.size_bytes) {
            let why = format!(
                "{} bytes from {} reach beyond the {} bytes of '{}'",
                extent.size_bytes, extent.offset_bytes, file.size_bytes, file.name
            );
            return Err(node.refuse(why));
        }
        Ok(())
    }

    fn written(&mut self, node: &Node<'_>, file: FileId, task: TaskId) -> Result<(), Problem> {
        let other = self.files[file].writer.replace(task).filter(|other| *other != task);
        other.map_or(Ok(()), |other| {
            let name = &self.files[file].name;
            let other = &self.tasks[other].name;
            Err(node.refuse(format!("'{name}' is written by '{other}' too; a file has one writer")))
        })
    }

    /// Joins tasks through their files, and checks that they have an order. `tasks` is where they stand.
    pub(crate) fn finish(mut self, name: &str, tasks: &Node<'_>) -> Result<Workload, Problem> {
        if self.tasks.is_empty() {
            return Err(tasks.refuse("there is no task"));
        }
        graph::join(&mut self.tasks, &mut self.files);
        if let Some(cycle) = graph::cycle(&self.tasks) {
            let names: Vec<&str> = cycle.iter().map(|t| self.tasks[*t].name.as_str()).collect();
            let first = names.first().copied().unwrap_or_default();
            let chain = names.join("' waits for '");
            return Err(tasks
                .refuse(format!("the tasks form a cycle: '{chain}' waits for '{first}'"))
                .with_help("remove one of these dependencies"));
        }
        for (index, file) in self.files.iter().enumerate() {
            if file.size_bytes == 0 && file.writer.is_none() && !file.readers.is_empty() {
                self.warnings.push(format!(
                    "files[{index}]: the input '{}' has 0 bytes; the time to read it is not predicted",
                    file.name
                ));
            }
        }
        Ok(Workload {
            name: name.to_owned(),
            files: self.files,
            tasks: self.tasks,
            stages: self.stages,
            warnings: self.warnings,
        })
    }
}

/// The two operations as one, where the second goes on where the first ended.
fn merge(last: Operation, next: Operation) -> Option<Operation> {
    let joined = |a: Extent, b: Extent| {
        let is_next = a.file == b.file && a.end_bytes() == b.offset_bytes;
        is_next.then(|| Extent { size_bytes: a.size_bytes + b.size_bytes, ..a })
    };
    match (last, next) {
        (Operation::Read(a), Operation::Read(b)) => joined(a, b).map(Operation::Read),
        (Operation::Write(a), Operation::Write(b)) => joined(a, b).map(Operation::Write),
        (Operation::Compute(a), Operation::Compute(b)) => Some(Operation::Compute(a + b)),
        _ => None,
    }
}
