//! A log tells what was written to it, cut or damaged wherever it may be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on is to stop")]

use intarsia_trace::log::{LogError, MARK, Reader, Tail, Writer};
use intarsia_trace::{
    Access, Counted, Detail, Host, How, NameChange, Process, Range, Record, VERSION,
};
use proptest::prelude::*;

fn host() -> Record {
    Record::Host(Host {
        version: VERSION,
        name: "n1".into(),
        store: "s".into(),
        began_unix_ns: 7,
        detail: Detail::Coarse,
    })
}

/// One record of each kind.
fn records() -> Vec<Record> {
    let access = Access { writes: true, is_new: true, ..Access::default() };
    vec![
        host(),
        Record::Process(Process {
            number: 1,
            pid: 4711,
            parent_pid: 4700,
            began_unix_ns: 5,
            at_ns: 1,
            program: b"sort".to_vec(),
            command: b"sort\0-n\0".to_vec(),
        }),
        Record::Directory { ino: 1, path: Vec::new() },
        Record::Open {
            handle: 9,
            process: 1,
            file: 77,
            directory: 1,
            name: b"out".to_vec(),
            access,
            size_bytes: 0,
            at_ns: 10,
            took_ns: 3,
        },
        Record::Range(Range {
            handle: 9,
            is_write: true,
            offset: 0,
            span_bytes: 1 << 40,
            bytes: 1 << 40,
            calls: 1 << 20,
            began_ns: 20,
            ended_ns: 90,
            took_ns: 60,
        }),
        Record::Close {
            handle: 9,
            size_bytes: 1 << 40,
            at_ns: 100,
            read: Counted::default(),
            written: Counted { bytes: 1 << 40, how: How::Length },
        },
        Record::Name {
            process: 1,
            change: NameChange::Rename,
            directory: 1,
            name: b"out".to_vec(),
            new_directory: 1,
            new_name: b"done".to_vec(),
            at_ns: 120,
            took_ns: 4,
        },
        Record::Lost { records: 3 },
        Record::Ended { process: 1, at_ns: 150 },
        Record::End { at_ns: 200, is_full: true },
    ]
}

/// A log with a block for each record.
fn log_of(records: &[Record]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut writer = Writer::create(&path).unwrap();
    for record in records {
        let mut block = Vec::new();
        Writer::encode(record, &mut block);
        writer.append(&block).unwrap();
    }
    let log = std::fs::read(&path).unwrap();
    assert_eq!(writer.written_bytes(), log.len() as u64);
    log
}

fn read(log: &[u8]) -> Result<(Vec<Record>, Tail), LogError> {
    let mut reader = Reader::new(log)?;
    let records = reader.by_ref().collect();
    Ok((records, reader.tail()))
}

#[test]
fn a_log_tells_what_was_written() {
    assert_eq!(read(&log_of(&records())), Ok((records(), Tail::Whole)));
}

#[test]
fn a_log_that_is_there_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    drop(Writer::create(&path).unwrap());
    assert_eq!(Writer::create(&path).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
}

#[test]
fn a_log_cut_at_any_byte_tells_its_whole_blocks() {
    let log = log_of(&records());
    let mut most = 0;
    for cut in 0..log.len() {
        match read(&log[..cut]) {
            Ok((found, tail)) => {
                assert_eq!(found, records()[..found.len()], "cut at {cut}");
                assert!(found.len() >= most, "cut at {cut}");
                most = found.len();
                let is_whole = log_of(&found).len() == cut;
                assert_eq!(tail == Tail::Whole, is_whole, "cut at {cut}: {tail:?}");
                if let Tail::Torn { bytes } = tail {
                    assert_eq!(log_of(&found).len() as u64 + bytes, cut as u64);
                }
            }
            Err(LogError::NoLog) => assert_eq!(cut, 0),
            Err(error) => assert_eq!((error, most), (LogError::NoHost, 0), "cut at {cut}"),
        }
    }
    assert_eq!(most + 1, records().len());
}

#[test]
fn a_flipped_bit_anywhere_is_seen_and_what_is_before_it_stays() {
    let log = log_of(&records());
    for at in MARK.len()..log.len() {
        let mut damaged = log.clone();
        damaged[at] ^= 1 << (at % 8);
        match read(&damaged) {
            Ok((found, tail)) => {
                assert_ne!(tail, Tail::Whole, "at {at}");
                assert_eq!(found, records()[..found.len()], "at {at}");
            }
            Err(error) => assert_eq!(error, LogError::NoHost),
        }
    }
}

#[test]
fn other_versions_and_other_files_are_refused() {
    let Record::Host(mut newer) = host() else { unreachable!() };
    newer.version = VERSION + 1;
    let error = read(&log_of(&[Record::Host(newer)])).unwrap_err();
    assert_eq!(error, LogError::Newer { version: VERSION + 1 });
    assert!(error.to_string().contains("knows 1"), "{error}");
    assert_eq!(read(b"{}"), Err(LogError::NoLog));
    assert_eq!(read(&log_of(&records()[1..])), Err(LogError::NoHost));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&tail);
        let mut log = log_of(&records()[..1]);
        log.extend_from_slice(&tail);
        let (found, _) = read(&log).unwrap();
        prop_assert_eq!(&found[0], &host());
    }

    #[test]
    fn any_records_with_a_right_checksum_are_read_or_refused(block in proptest::collection::vec(any::<u8>(), 1..200)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut writer = Writer::create(&path).unwrap();
        let mut first = Vec::new();
        Writer::encode(&host(), &mut first);
        writer.append(&first).unwrap();
        writer.append(&block).unwrap();
        let _ = read(&std::fs::read(&path).unwrap()).unwrap();
    }
}
