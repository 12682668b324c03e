//! A name that `rename` replaces all the time is there all the time.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

use intarsia_posix_tests::{Mode, Settings, Store, in_both_modes};

const REPLACEMENTS: usize = 3000;
const SIZE: usize = 5000;

/// Who looked a name up just before it was replaced is not told that there is none, nor of a file without bytes,
/// however often it is replaced.
fn a_replaced_name_is_never_absent(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let (name, new) = (store.path("name"), store.path("new"));
    std::fs::write(&name, vec![0; SIZE]).unwrap();
    let is_done = AtomicBool::new(false);
    let look = || {
        let mut looks = 0;
        while !is_done.load(Ordering::Relaxed) {
            match std::fs::read(&name) {
                Ok(bytes) => assert_eq!(bytes.len(), SIZE),
                Err(e) => panic!("open after {looks}: {e}"),
            }
            match std::fs::metadata(&name) {
                Ok(_) => {}
                Err(e) => assert_ne!(e.kind(), ErrorKind::NotFound, "stat after {looks}"),
            }
            looks += 1;
        }
        looks
    };
    let looks: usize = std::thread::scope(|scope| {
        let lookers = [scope.spawn(look), scope.spawn(look), scope.spawn(look)];
        for _ in 0..REPLACEMENTS {
            std::fs::write(&new, vec![0; SIZE]).unwrap();
            std::fs::rename(&new, &name).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        lookers.map(|l| l.join().unwrap()).iter().sum()
    });
    assert!(looks > 0);
}

in_both_modes!(a_replaced_name_is_never_absent);
