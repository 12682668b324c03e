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
    /// One task reads it, an input of the workload, or nobody does.
    Once,
}

impl FilePattern {
    /// The words for them.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("broadcast", Self::Broadcast),
        ("reduce", Self::Reduce),
        ("pipeline", Self::Pipeline),
        ("once", Self::Once),
    ];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Pipeline => "pipeline",
            Self::Once => "once",
        }
    }
}

impl Workload {
    /// How tasks use a file.
    #[must_use]
    pub fn pattern_of(&self, file: FileId) -> FilePattern {
        let described = &self.files[file];
        match described.readers.len() {
            0 => FilePattern::Once,
            1 if self.reduction_of(file).is_some() => FilePattern::Reduce,
            1 if described.writer.is_some() => FilePattern::Pipeline,
            1 => FilePattern::Once,
            _ => FilePattern::Broadcast,
        }
    }
}
