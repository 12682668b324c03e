//! What `balance --journal` keeps: each file that moved, so that it can be moved back.
//!
//! The node writes and reads it, because it may be longer than what is said between it and whoever asks.

use std::fs::OpenOptions;
use std::path::Path;

use serde_json::{Value, json};

use crate::exit::{Failure, Outcome};
use crate::runtime::{MoveReport, Moved};

const HELP: &str = "give the file that 'intarsia balance --journal' wrote";

/// Makes the file, so that it is known before anything moves that it can be written.
pub(super) fn make(journal: &Path) -> Outcome {
    OpenOptions::new().write(true).create_new(true).open(journal).map(|_| ()).map_err(|e| {
        Failure::usage(format!("--journal {}: {e}", journal.display()))
            .with_help("name a new file in a directory that you may write")
    })
}

/// Writes what moved, and returns the report without it.
pub(super) fn keep(mut report: MoveReport, journal: Option<&Path>) -> Outcome<Value> {
    let moved = std::mem::take(&mut report.moved);
    if let Some(journal) = journal {
        std::fs::write(journal, format!("{}\n", json!(moved)))
            .map_err(|e| Failure::io(format!("--journal {}", journal.display()), &e))?;
    }
    let mut report = json!(report);
    if let Some(fields) = report.as_object_mut() {
        fields.remove("moved");
    }
    Ok(report)
}

/// Reads what moved.
pub(super) fn read(journal: &Path) -> Outcome<Vec<Moved>> {
    let told =
        |why: String| Failure::usage(format!("{}: {why}", journal.display())).with_help(HELP);
    let text = std::fs::read_to_string(journal).map_err(|e| told(e.to_string()))?;
    serde_json::from_str(&text).map_err(|e| told(e.to_string()))
}

#[cfg(test)]
mod tests {
    use intarsia_types::{InodeId, TierId};

    use super::*;
    use crate::runtime::Place;

    #[test]
    fn what_moved_comes_back_from_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("moved.json");
        make(&journal).unwrap();
        assert!(make(&journal).unwrap_err().message.contains("exists"), "nothing is overwritten");
        let place = |n| Place::Tier(TierId(n));
        let moved = vec![Moved { ino: InodeId(7), from: place(0), to: place(1) }];
        let report =
            MoveReport { files: 1, bytes: 9, moved: moved.clone(), ..MoveReport::default() };
        let told = keep(report, Some(&journal)).unwrap();
        assert_eq!((told["files"].as_u64(), told.get("moved")), (Some(1), None));
        assert_eq!(read(&journal).unwrap(), moved);
    }

    #[test]
    fn what_is_no_journal_is_refused_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{}", "[{\"ino\": 1}]"] {
            let path = dir.path().join("j.json");
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).unwrap_err().message.contains("j.json: "), "{text:?}");
        }
        assert!(read(&dir.path().join("none")).unwrap_err().message.contains("none: No such file"));
    }
}
