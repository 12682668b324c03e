//! Calls that wait hold up neither one another nor those that need not wait.
//!
//! `fuser` is patched for it (third_party/fuser); this is the patch alone, with a file system that does nothing else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test may fail, and says why it is skipped"
)]

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fuser::{
    Config, Errno, Filesystem, INodeNo, InitFlags, KernelConfig, ReplyEntry, Request, Session,
};
use parking_lot::{Condvar, Mutex};

const LOOPS: usize = 2;
const SPARES: usize = 16;
const DEADLINE: Duration = Duration::from_secs(60);

/// Answers lookups of `wait-…` when so many of them wait at the same time, and all others at once.
struct Gate {
    wanted: usize,
    waiting: Mutex<usize>,
    all_wait: Condvar,
}

struct Gated(Arc<Gate>);

impl Filesystem for Gated {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Else the kernel itself has lookups in a directory wait for one another.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name.to_string_lossy().starts_with("wait-") {
            let mut waiting = self.0.waiting.lock();
            *waiting += 1;
            self.0.all_wait.notify_all();
            let wanted = self.0.wanted;
            let late = self.0.all_wait.wait_while_for(&mut waiting, |n| *n < wanted, DEADLINE);
            reply.error(if late.timed_out() { Errno::EIO } else { Errno::ENOENT });
        } else {
            reply.error(Errno::ENOENT);
        }
    }
}

fn may_mount() -> bool {
    let may = rustix::process::geteuid().is_root()
        && std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let must = std::env::var_os("INTARSIA_TEST_REQUIRE_ALL").is_some_and(|v| v == "1");
    assert!(may || !must, "/dev/fuse cannot be opened as root, and INTARSIA_TEST_REQUIRE_ALL=1");
    if !may {
        eprintln!("skipped: it needs root and /dev/fuse");
    }
    may
}

/// Unmounts, also when the test fails.
struct Mounted(fuser::SessionUnmounter);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.0.unmount();
    }
}

fn look_up(dir: &Path, name: &str) -> Option<i32> {
    std::fs::symlink_metadata(dir.join(name)).expect_err("no file is there").raw_os_error()
}

fn spare_loops() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("comm")).ok());
    names.filter(|name| name.starts_with("fuser-spare")).count()
}

#[test]
fn calls_that_wait_are_all_taken_and_the_loops_for_them_end() {
    if !may_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let wanted = LOOPS + SPARES;
    let (waiting, all_wait) = (Mutex::new(0), Condvar::new());
    let gate = Arc::new(Gate { wanted, waiting, all_wait });
    let mut config = Config::default();
    config.n_threads = Some(LOOPS);
    config.clone_fd = true;
    config.spare_threads = SPARES;
    let mut session = Session::new(Gated(Arc::clone(&gate)), dir.path(), &config).unwrap();
    let mount = Mounted(session.unmount_callable());
    let served = std::thread::spawn(move || session.run());

    let callers: Vec<_> = (0..wanted)
        .map(|n| {
            let dir = dir.path().to_owned();
            std::thread::spawn(move || look_up(&dir, &format!("wait-{n}")))
        })
        .collect();
    for caller in callers {
        assert_eq!(caller.join().unwrap(), Some(libc::ENOENT));
    }
    // Whichever of the spare ones still waits for a request ends after it.
    let deadline = Instant::now() + DEADLINE;
    for n in 0.. {
        assert_eq!(look_up(dir.path(), &format!("other-{n}")), Some(libc::ENOENT));
        if spare_loops() == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{} spare loops are left", spare_loops());
    }
    drop(mount);
    served.join().unwrap().unwrap();
}
