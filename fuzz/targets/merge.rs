//! Changes that an engine applies to stored records: directories and counters.
#![no_main]

use intarsia_meta::merge::{merge_counter, merge_directory};
use intarsia_meta::{DirDelta, Inode};
use intarsia_types::{InodeId, Timestamp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (i32, i64, &[u8])| {
    let (nlink, entries, record) = input;
    let ino = InodeId(7);
    let delta = DirDelta { time: Timestamp { secs: entries, nanos: 1 }, nlink, entries };
    // A merge looks at the head of a record only, so it may keep damage behind it.
    if Inode::decode(ino, record).is_err() {
        let _ = merge_directory(ino, record, delta);
    } else if let Ok(merged) = merge_directory(ino, record, delta) {
        let dir = Inode::decode(ino, &merged).expect("a merged record is a record");
        assert!(dir.is_directory() && dir.mtime == delta.time && dir.ctime >= delta.time);
    }
    if let Ok(counter) = merge_counter(Some(record), entries) {
        assert_eq!((record.len(), counter.len()), (8, 8));
    }
});
