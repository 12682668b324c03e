//! Which hosts use a directory at the same time: to make a name there takes longer then, as the others must hear of it.

use std::collections::HashMap;

use intarsia_des::{Span, Time};

use crate::workload::{FileId, Workload};

/// Who has not used a directory for this long, in seconds, is not told of changes: as the store has it, which takes the lease from
/// such a host.
const UNUSED_SECONDS: f64 = 1.0;

/// When hosts last used directories.
#[derive(Debug)]
pub(super) struct Directories {
    /// By file.
    of: Vec<usize>,
    /// By directory.
    used: Vec<Vec<(u32, Time)>>,
}

impl Directories {
    pub(super) fn new(workload: &Workload) -> Self {
        let mut known = HashMap::new();
        let of = workload.files.iter().map(|file| {
            let number = known.len();
            *known.entry(directory(&file.name)).or_insert(number)
        });
        let of = of.collect();
        Self { of, used: vec![Vec::new(); known.len()] }
    }

    /// A host uses the directory of a file.
    pub(super) fn note(&mut self, file: FileId, host: u32, now: Time) {
        let used = &mut self.used[self.of[file]];
        match used.iter_mut().find(|(other, _)| *other == host) {
            Some((_, at)) => *at = now,
            None => used.push((host, now)),
        }
    }

    /// Whether any other host uses it.
    pub(super) fn is_shared(&self, file: FileId, host: u32, now: Time) -> bool {
        let unused = Span::from_secs_f64(UNUSED_SECONDS);
        let mut used = self.used[self.of[file]].iter();
        used.any(|(other, at)| *other != host && now.since(*at) <= unused)
    }
}

/// Where a file lies. Names that begin with a slash are those of another system, as in instances of WfFormat: a run puts all
/// of these into one directory.
fn directory(name: &str) -> &str {
    if name.starts_with('/') {
        return "";
    }
    name.rsplit_once('/').map_or("", |(directory, _)| directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_shared_while_another_host_uses_it() {
        let text = r#"{"format": "intarsia-workload", "version": 1,
            "files": [{"name": "a/1", "size_bytes": 1}, {"name": "a/2", "size_bytes": 1},
                      {"name": "b/1", "size_bytes": 1}, {"name": "/x/y", "size_bytes": 1}, {"name": "z", "size_bytes": 1}],
            "tasks": [{"name": "t", "reads": ["a/1", "a/2", "b/1", "/x/y", "z"], "compute_seconds": 1, "writes": []}]}"#;
        let mut directories = Directories::new(&Workload::parse("w.json", text).unwrap());
        assert_eq!(directories.of, [0, 0, 1, 2, 2]);
        let at = |seconds| Time::ZERO + Span::from_secs_f64(seconds);
        directories.note(0, 7, at(1.0));
        assert!(!directories.is_shared(1, 7, at(1.0)), "its own use counts for nothing");
        assert!(directories.is_shared(1, 8, at(2.0)));
        assert!(!directories.is_shared(1, 8, at(2.1)), "that was long ago");
        assert!(!directories.is_shared(2, 8, at(1.0)), "another directory");
        directories.note(1, 7, at(3.0));
        assert!(directories.is_shared(0, 8, at(3.5)));
    }
}
