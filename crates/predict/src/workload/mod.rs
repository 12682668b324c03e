//! What runs: a graph of tasks with their files and operations, whatever store it runs on.
//!
//! Read from WfFormat 1.5 and 1.6 ([WfCommons](https://wfcommons.org/format)) or from a small form of our own; both give the same
//! [`Workload`], which can be predicted on any [profile](crate::profile) and [configuration](crate::configuration).

mod draft;
mod graph;
mod native;
mod pattern;
mod wfformat;

use intarsia_types::HintSet;

use crate::Problem;
use crate::json::{Node, parse};

pub(crate) use draft::Draft;
pub use pattern::FilePattern;

/// Index of a file in [`Workload::files`].
pub type FileId = usize;
/// Index of a task in [`Workload::tasks`].
pub type TaskId = usize;

/// Tasks, files and what the tasks do with them. Always consistent: every index is valid, every range lies within its
/// file, a file has one writing task at most, and the tasks have an order.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// What it is called.
    pub name: String,
    /// All files.
    pub files: Vec<File>,
    /// All tasks.
    pub tasks: Vec<Task>,
    /// The names of the stages, in the order in which they first appear.
    pub stages: Vec<String>,
    /// What is odd about the input, but no reason to refuse it.
    pub warnings: Vec<String>,
}

/// A file that the workload reads or writes.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its length when it is complete.
    pub size_bytes: u64,
    /// What the user tells the store of it.
    pub hints: HintSet,
    /// The task that writes it; an input of the workload has none.
    pub writer: Option<TaskId>,
    /// The tasks that read it, each once.
    pub readers: Vec<TaskId>,
}

/// A program that reads, computes and writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Index of its stage in [`Workload::stages`].
    pub stage: usize,
    /// What the workflow engine takes to start it, in seconds.
    pub overhead_seconds: f64,
    /// Slots of a host that it occupies.
    pub slots: u32,
    /// What it does, one after the other.
    pub operations: Vec<Operation>,
    /// Tasks that must have ended before it starts, each once.
    pub parents: Vec<TaskId>,
    /// Tasks that wait for it, each once.
    pub children: Vec<TaskId>,
}

/// One thing that a task does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    /// Open a file.
    Open(FileId),
    /// Read bytes of a file.
    Read(Extent),
    /// Compute for so many seconds on a host of speed 1.
    Compute(f64),
    /// Write bytes of a file.
    Write(Extent),
    /// Close a file.
    Close(FileId),
}

/// A range of bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The file.
    pub file: FileId,
    /// The first byte.
    pub offset_bytes: u64,
    /// How many.
    pub size_bytes: u64,
}

impl Extent {
    /// The byte behind the last one.
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.size_bytes
    }
}

impl Task {
    /// The files that it reads, each once.
    #[must_use]
    pub fn inputs(&self) -> Vec<FileId> {
        let reads = self.operations.iter().filter_map(|operation| match operation {
            Operation::Read(extent) => Some(extent.file),
            _ => None,
        });
        let mut files: Vec<FileId> = reads.collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}

impl Workload {
    /// Reads a workload from the text of `file`, which is named in errors.
    ///
    /// # Errors
    /// When the text is no JSON, of an unknown form or version, or does not hold together: a cycle, a file that nobody
    /// describes, a negative size, two writers of one file.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problem> {
        let value = parse(file, text)?;
        let root = Node::root(file, &value);
        if root.optional("schemaVersion")?.is_some() {
            return wfformat::read(&root);
        }
        if root.optional("format")?.is_some() {
            return native::read(&root);
        }
        Err(root.refuse("neither WfFormat (no 'schemaVersion') nor a workload of ours (no 'format')").with_help(
            "give an instance of WfFormat 1.5 or 1.6, or {\"format\": \"intarsia-workload\", \"version\": 1, …}",
        ))
    }

    /// The bytes that all tasks read and write, counted as often as that happens.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        let operations = self.tasks.iter().flat_map(|task| &task.operations);
        operations.fold(0, |sum: u64, operation| match operation {
            Operation::Read(extent) | Operation::Write(extent) => {
                sum.saturating_add(extent.size_bytes)
            }
            _ => sum,
        })
    }

    /// Files that go into a reduction, by the task that reads them: it reads what several other tasks wrote, and nobody
    /// else reads this file. Such files are better collocated.
    #[must_use]
    pub fn reduction_of(&self, file: FileId) -> Option<TaskId> {
        let [reader] = self.files[file].readers[..] else { return None };
        let writer = self.files[file].writer?;
        (self.tasks[reader].parents.len() > 1 && writer != reader).then_some(reader)
    }
}
