//! A mounted store: start, wait, unmount.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fuser::{Config, INodeNo, MountOption, Session, SessionACL};
use intarsia_node::Node;
use intarsia_sync::{Condvar, Mutex};
use intarsia_types::{Error, Result};

use crate::adapter::Adapter;
use crate::mode::{Mode, obstacle};
use crate::slow::Lanes;

/// Reads that may wait for other hosts at the same time; more wait for one of these.
const REMOTE_READS: usize = 8;

/// Loops that are started while requests that wait, for another host say, hold up all others. So many calls, and those
/// of the event loops, wait side by side.
const SPARE_LOOPS: usize = 64;

/// How often it is looked at what keeps a mount alive: while it serves, and once it is unmounted or not in use.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
const LOOK_INTERVAL_LEFT: Duration = Duration::from_millis(200);

/// What somebody who looks for users of a mount has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It is in use, or where it was mounted.
    Used,
    /// At this look nothing used it.
    Unused,
    /// Nothing uses it any more, although the kernel keeps it.
    Over,
}

/// Settings of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Where.
    pub mount_point: PathBuf,
    /// Threads that take requests from the kernel; 0 for one per core, at least 2 and at most 8.
    pub event_loops: usize,
    /// Whether other users may enter; permissions are checked by the kernel either way.
    pub allow_other: bool,
    /// Whether passthrough is wanted.
    pub passthrough: bool,
    /// Refuse all changes.
    pub read_only: bool,
}

/// A mount in force.
pub struct Mount {
    mount_point: PathBuf,
    mode: Mode,
    life: Arc<Life>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Serving,
    /// Gone from where it was mounted; the kernel ends it when nothing uses it any more.
    Unmounted,
    /// The kernel has no more requests.
    Ended(Result<()>),
}

#[derive(Default)]
struct Life {
    stage: Mutex<Stage>,
    changed: Condvar,
}

impl Life {
    fn end(&self, outcome: Result<()>) {
        *self.stage.lock() = Stage::Ended(outcome);
        self.changed.notify_all();
    }

    fn unmounted(&self) {
        let mut stage = self.stage.lock();
        if matches!(*stage, Stage::Serving) {
            *stage = Stage::Unmounted;
            self.changed.notify_all();
        }
    }

    fn wait(&self, mut look: impl FnMut(Look) -> Look) -> Result<()> {
        let mut stage = self.stage.lock();
        let mut found = Look::Used;
        loop {
            let pause = match (&mut *stage, found) {
                (Stage::Ended(outcome), _) => return std::mem::replace(outcome, Ok(())),
                (_, Look::Over) => return Ok(()),
                (Stage::Serving, Look::Used) => LOOK_INTERVAL,
                (Stage::Unmounted, _) | (_, Look::Unused) => LOOK_INTERVAL_LEFT,
            };
            let is_told = !self.changed.wait_for(&mut stage, pause).timed_out();
            if is_told {
                continue;
            }
            drop(stage);
            found = look(found);
            stage = self.stage.lock();
        }
    }
}

impl Mount {
    /// Mounts the node's store and serves it in the background.
    ///
    /// # Errors
    /// Saying what is missing: the device, the helper program, the right to mount.
    pub fn start(node: &Arc<Node>, options: &MountOptions) -> Result<Self> {
        let status = node.status()?;
        let has_stackable = status.tiers.iter().any(|t| t.is_stackable);
        let obstacle = obstacle(options.passthrough && node.options().passthrough, has_stackable);
        let lanes = Lanes::start(node.is_shared(), REMOTE_READS);
        let lanes = lanes.map_err(|e| Error::io("start threads", e))?;
        let mode = Arc::new(Mutex::new(match obstacle {
            Some(reason) => Mode::off(reason),
            None => Mode::on(),
        }));
        let adapter = Adapter::new(Arc::clone(node), lanes, Arc::clone(&mode));
        let notifier = adapter.notifier_slot();
        let config = config(&status.store, options);
        let session = Session::new(adapter, &options.mount_point, &config)
            .map_err(|e| explain(&options.mount_point, e))?;
        // Empty until here, and filled before the first request is taken.
        let _ = notifier.set(session.notifier());
        let kernel = session.notifier();
        node.set_page_cache(Box::new(move |ino, bytes| {
            // ENOENT means that the kernel has forgotten the inode; then nobody is about to read it.
            let _ = kernel.store(INodeNo(ino.0), 0, bytes);
        }));
        let kernel = session.notifier();
        node.set_page_dropper(Box::new(move |ino| {
            match kernel.inval_inode(INodeNo(ino.0), 0, 0) {
                // It has nothing cached.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
                outcome => outcome,
            }
        }));
        let kernel = session.notifier();
        node.set_attribute_dropper(Box::new(move |ino| {
            // A negative offset leaves the pages alone. Once the mount is gone there is nobody to ask.
            kernel.inval_known_inode(INodeNo(ino.0), -1, 0).unwrap_or(true)
        }));
        let life = Arc::<Life>::default();
        let of_session = Arc::clone(&life);
        intarsia_sync::thread::Builder::new()
            .name("fuse".into())
            .spawn(move || {
                let run = std::panic::AssertUnwindSafe(|| session.run());
                of_session.end(match std::panic::catch_unwind(run) {
                    Ok(outcome) => outcome.map_err(|e| Error::io("FUSE event loop", e)),
                    Err(_) => Err(Error::Engine("a FUSE event loop panicked; see the log".into())),
                });
            })
            .map_err(|e| Error::io("start the FUSE thread", e))?;
        if node.is_shared() {
            crate::kernel_readahead::widen(&options.mount_point);
        }
        let mode = mode.lock().clone();
        tracing::info!(mount_point = %options.mount_point.display(), passthrough = mode.in_force, reason = mode.reason, "mounted");
        Ok(Self { mount_point: options.mount_point.clone(), mode, life })
    }

    /// How the kernel serves files of this mount.
    #[must_use]
    pub const fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Where it is mounted.
    #[must_use]
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Waits until somebody has unmounted it and the last request is answered, or until `look` says that it is over. That
    /// is asked now and then, with what it has found before, more often after [`unmount`](Self::unmount) and when nothing seems
    /// to use it.
    ///
    /// # Errors
    /// What ended the event loops, if it was no unmount.
    pub fn wait(&self, look: impl FnMut(Look) -> Look) -> Result<()> {
        self.life.wait(look)
    }

    /// Unmounts. [`wait`](Self::wait) returns once nothing uses it.
    ///
    /// # Errors
    /// [`Error::Busy`] while somebody has a file open or a working directory inside.
    pub fn unmount(&self) -> Result<()> {
        unmount(&self.mount_point, false)?;
        self.life.unmounted();
        Ok(())
    }

    /// Detaches the mount from the tree at once; it ends when the last user has left.
    ///
    /// # Errors
    /// The system's own.
    pub fn detach(&self) -> Result<()> {
        unmount(&self.mount_point, true)
    }
}

/// Unmounts by the system call when we may, else by `fusermount3`.
fn unmount(mount_point: &Path, lazy: bool) -> Result<()> {
    use rustix::mount::UnmountFlags;
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(mount_point, flags) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::BUSY) => {
            Err(Error::Busy(format!("{} is in use", mount_point.display())))
        }
        Err(rustix::io::Errno::PERM) => unmount_by_helper(mount_point, lazy),
        Err(e) => Err(Error::io(format!("unmount {}", mount_point.display()), e.into())),
    }
}

fn unmount_by_helper(mount_point: &Path, lazy: bool) -> Result<()> {
    let output = std::process::Command::new("fusermount3")
        .arg(if lazy { "-uz" } else { "-u" })
        .arg("--")
        .arg(mount_point)
        .output()
        .map_err(|e| Error::io("run fusermount3 (package fuse3)", e))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if message.contains("busy") {
        return Err(Error::Busy(format!("{} is in use", mount_point.display())));
    }
    Err(Error::io(message, std::io::Error::from_raw_os_error(libc::EIO)))
}

fn config(store: &str, options: &MountOptions) -> Config {
    let mut config = Config::default();
    let short = store.get(..8).unwrap_or(store);
    config.mount_options = vec![
        MountOption::FSName(format!("intarsia-{short}")),
        MountOption::Subtype("intarsia".into()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        MountOption::NoDev,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    if rustix::process::geteuid().is_root() {
        // Only root may let set-id programs and device files take effect.
        config.mount_options.retain(|o| *o != MountOption::NoDev);
        config.mount_options.extend([MountOption::Suid, MountOption::Dev]);
    }
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(event_loops(options.event_loops));
    config.clone_fd = true;
    config.spare_threads = SPARE_LOOPS;
    config
}

fn event_loops(wanted: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    if wanted == 0 { cores.clamp(2, 8) } else { wanted }
}

fn explain(mount_point: &Path, e: std::io::Error) -> Error {
    let hint = if !Path::new("/dev/fuse").exists() {
        ": /dev/fuse is missing; load the module with 'modprobe fuse', or give the container '--device /dev/fuse'"
    } else if e.kind() == std::io::ErrorKind::PermissionDenied {
        ": not permitted; is the package fuse3 installed, is 'user_allow_other' in /etc/fuse.conf (for --allow-other), has the container CAP_SYS_ADMIN?"
    } else if e.kind() == std::io::ErrorKind::NotFound {
        ": does the mount point exist, is fusermount3 (package fuse3) installed?"
    } else {
        ""
    };
    Error::io(format!("mount at {}{hint}", mount_point.display()), e)
}
