//! Times to the nanosecond, before 1970 and after 2038, also after a restart.

use std::os::unix::fs::MetadataExt;

use intarsia_posix_tests::{Mode, Settings, Store, in_both_modes};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

const TIMES: [(i64, i64); 5] =
    [(0, 0), (1, 123_456_789), (-2, 500_000_001), (1 << 33, 999_999_999), (1_700_000_000, 1)];

fn are_kept_to_the_nanosecond(mode: Mode) {
    let mut store = Store::start(Settings::new(mode));
    let at = |i: usize| store.path(i.to_string());
    for (i, (secs, nanos)) in TIMES.into_iter().enumerate() {
        std::fs::write(at(i), vec![b'x'; i * 3000]).unwrap();
        let time = |secs| Timespec { tv_sec: secs, tv_nsec: nanos };
        let times = Timestamps { last_access: time(secs), last_modification: time(secs + 1) };
        utimensat(CWD, at(i), &times, AtFlags::empty()).unwrap();
    }
    let verify = |store: &Store| {
        for (i, (secs, nanos)) in TIMES.into_iter().enumerate() {
            let meta = store.path(i.to_string()).metadata().unwrap();
            assert_eq!((meta.atime(), meta.atime_nsec()), (secs, nanos), "access of {i}");
            assert_eq!((meta.mtime(), meta.mtime_nsec()), (secs + 1, nanos), "change of {i}");
        }
    };
    verify(&store);
    store.settle();
    verify(&store);
    store.remount();
    verify(&store);
}

in_both_modes!(are_kept_to_the_nanosecond);
