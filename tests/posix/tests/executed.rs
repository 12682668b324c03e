//! A file that runs as a program stays as it is.

use std::process::Command;

use rustix::fs::{OFlags, open};
use rustix::io::Errno;

use intarsia_posix_tests::{Mode, Settings, Store, find_program, in_both_modes};

/// However it is opened; the kernel alone would ask for the cut first and refuse after it when it is opened for
/// reading.
fn a_running_program_is_not_cut(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let program = store.path("program");
    // By another process: a child that the other test forks meanwhile would have it open for writing still.
    let mut copy = Command::new("install");
    copy.args(["-m", "755"]).arg(find_program("sleep").expect("sleep")).arg(&program);
    assert!(copy.status().unwrap().success());
    let len = std::fs::metadata(&program).unwrap().len();
    let mut running = Command::new(&program).arg("60").spawn().unwrap();
    let cut = |access: OFlags| open(&program, access | OFlags::TRUNC, rustix::fs::Mode::empty());
    for access in [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR] {
        assert_eq!(cut(access).unwrap_err(), Errno::TXTBSY);
        assert_eq!(std::fs::metadata(&program).unwrap().len(), len);
    }
    assert!(running.try_wait().unwrap().is_none(), "it runs on");
    running.kill().unwrap();
    running.wait().unwrap();
    cut(OFlags::RDONLY).unwrap();
    assert_eq!(std::fs::metadata(&program).unwrap().len(), 0);
}

in_both_modes!(a_running_program_is_not_cut);
