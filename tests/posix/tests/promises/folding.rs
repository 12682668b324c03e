//! While a closed file settles and is folded, nobody sees anything but its whole content.

use std::sync::atomic::{AtomicBool, Ordering};

use intarsia_posix_tests::{Mode, Settings, Store, entries_of, in_both_modes, pattern};

const FILES: usize = 400;
const ROUNDS: usize = 3;
const LEN_BYTES: usize = 1500;

fn is_never_seen(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    for round in 0..ROUNDS {
        let dir = store.path(round.to_string());
        std::fs::create_dir(&dir).unwrap();
        (0..FILES).for_each(|i| {
            std::fs::write(dir.join(i.to_string()), pattern(i as u64, LEN_BYTES)).unwrap();
        });
        let is_settled = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                store.settle();
                is_settled.store(true, Ordering::Release);
            });
            while !is_settled.load(Ordering::Acquire) {
                // A change of the directory makes the kernel ask for listing and attributes anew.
                std::os::unix::fs::symlink("nowhere", dir.join("link")).unwrap();
                std::fs::remove_file(dir.join("link")).unwrap();
                for path in entries_of(&dir) {
                    let len = path.metadata().unwrap().len();
                    assert_eq!(len, LEN_BYTES as u64, "length of {}", path.display());
                }
            }
        });
        for i in 0..FILES {
            let path = dir.join(i.to_string());
            assert_eq!(path.metadata().unwrap().len(), LEN_BYTES as u64, "{}", path.display());
            assert!(std::fs::read(&path).unwrap() == pattern(i as u64, LEN_BYTES));
        }
    }
}

in_both_modes!(is_never_seen);
