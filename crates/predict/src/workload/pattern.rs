//! How tasks use a file, as the graph of a workload tells it.

use serde::Serialize;

use super::{FileId, Workload};

/// What a store can be told of files by the tasks that write and read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FilePattern {
    /// Several tasks read it.
    Broadcast,
    /// One task reads it together with what others wrote.
    Reduce,
    /// One task writes it and one reads it, which reads of no other task.
    Pipeline,
}

impl FilePattern {
    /// The words for them.
    pub const WORDS: [(&'static str, Self); 3] =
        [("broadcast", Self::Broadcast), ("reduce", Self::Reduce), ("pipeline", Self::Pipeline)];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Pipeline => "pipeline",
        }
    }
}

impl Workload {
    /// How tasks use a file; none: nobody reads it, or one task reads an input of the workload.
    #[must_use]
    pub fn pattern_of(&self, file: FileId) -> Option<FilePattern> {
        let described = &self.files[file];
        match described.readers.len() {
            0 => None,
            1 if self.reduction_of(file).is_some() => Some(FilePattern::Reduce),
            1 => described.writer.map(|_| FilePattern::Pipeline),
            _ => Some(FilePattern::Broadcast),
        }
    }
}
