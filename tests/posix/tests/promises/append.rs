//! Appending from several descriptors at once loses nothing.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;

use intarsia_posix_tests::{Mode, Settings, Store, in_both_modes};

const WRITERS: usize = 4;
const RECORDS: usize = 500;

fn concurrent_appends(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let path = store.path("log");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
            scope.spawn(move || {
                for record in 0..RECORDS {
                    file.write_all(format!("{writer:04} {record:04}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    let text = std::fs::read_to_string(&path).unwrap();
    let expected: BTreeSet<String> = (0..WRITERS)
        .flat_map(|writer| (0..RECORDS).map(move |record| format!("{writer:04} {record:04}")))
        .collect();
    assert_eq!(text.lines().count(), WRITERS * RECORDS);
    assert_eq!(text.lines().map(str::to_owned).collect::<BTreeSet<_>>(), expected);
}

in_both_modes!(concurrent_appends);
