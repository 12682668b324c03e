//! The FUSE floor: a complete memory-only file system with nothing behind it.
//!
//! What a program loses between a native file system and this one is the price of FUSE itself,
//! so any other file system on the same library is measured against it.

mod adapter;
mod counts;
mod directory;
mod inode;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::Parser;
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::adapter::{Adapter, Mode};
use crate::counts::Counts;
use crate::tree::Tree;

/// Mounts a memory-only file system and serves it until it is unmounted or told to stop.
#[derive(Debug, Parser)]
#[command(name = "floor", version)]
struct Args {
    /// An existing empty directory to mount on.
    mountpoint: PathBuf,
    /// Let the kernel gather writes and own sizes and times (write-back cache).
    #[arg(long)]
    writeback: bool,
    /// Show how low the price can go: refuse every request the kernel can do without (OPEN, OPENDIR,
    /// FLUSH, FSYNC, extended attributes) and check no permissions.
    #[arg(long)]
    lean: bool,
    /// Event loops, each with its own descriptor of the FUSE device.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Let other users reach the mount.
    #[arg(long)]
    allow_other: bool,
    /// File data to hold at most, in MiB; beyond it writes get ENOSPC.
    #[arg(long, default_value_t = 8192)]
    capacity_mib: u64,
    /// Write the number of requests by kind to this file as JSON, at exit and on SIGUSR1.
    #[arg(long, value_name = "FILE")]
    count: Option<PathBuf>,
}

fn main() -> ExitCode {
    match serve(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("floor: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &Args) -> io::Result<()> {
    let counts = Arc::new(Counts::default());
    let mode = Mode { writeback: args.writeback, lean: args.lean };
    let adapter = Adapter::new(Tree::new(args.capacity_mib << 20), Arc::clone(&counts), mode);

    // Resolved before the mount appears, since looking at it needs it served.
    let mountpoint =
        args.mountpoint.canonicalize().map_err(|error| cannot_mount(&args.mountpoint, &error))?;
    // Registered before the mount appears, so that a stop right after it is not lost.
    let signals = Signals::new([SIGTERM, SIGINT, SIGUSR1])?;
    let session = Session::new(adapter, &args.mountpoint, &session_config(args))
        .map_err(|error| cannot_mount(&args.mountpoint, &error))?;
    let watcher =
        Watcher { signals, mountpoint, counts: Arc::clone(&counts), file: args.count.clone() };
    std::thread::Builder::new().name("signals".into()).spawn(move || watcher.watch())?;

    let outcome = session.run();
    if let Some(file) = &args.count {
        counts.save(file)?;
    }
    outcome
}

fn session_config(args: &Args) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("floor".into()),
        MountOption::Subtype("floor".into()),
        MountOption::NoAtime,
    ];
    // A check by the kernel costs a GETATTR of the directory after each change of its names.
    if !args.lean {
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    config.acl = if args.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(usize::from(args.threads));
    config.clone_fd = true;
    config
}

fn cannot_mount(mountpoint: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot mount on {}: {error}", mountpoint.display()))
}

/// Turns signals into an unmount or a snapshot of the counts.
struct Watcher {
    signals: Signals,
    mountpoint: PathBuf,
    counts: Arc<Counts>,
    file: Option<PathBuf>,
}

impl Watcher {
    fn watch(mut self) {
        for signal in self.signals.forever() {
            let outcome = match (signal, &self.file) {
                (SIGUSR1, Some(file)) => self.counts.save(file),
                (SIGUSR1, None) => Ok(()),
                // The event loops end when the mount is gone, and with them the process.
                _ => unmount(&self.mountpoint),
            };
            if let Err(error) = outcome {
                complain(&format!("floor: {error}"));
            }
        }
    }
}

/// Takes the mount down; one in use goes out of sight at once and ends with its last user.
fn unmount(mountpoint: &Path) -> io::Result<()> {
    match rustix::mount::unmount(mountpoint, UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => unmount_by_helper(mountpoint),
        Err(Errno::BUSY) => {
            complain(&format!("floor: {} is in use, detached", mountpoint.display()));
            let flags = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH;
            Ok(rustix::mount::unmount(mountpoint, flags)?)
        }
        outcome => Ok(outcome?),
    }
}

/// Only root may unmount by itself; others have a helper of FUSE that may.
fn unmount_by_helper(mountpoint: &Path) -> io::Result<()> {
    let status = Command::new("fusermount3").arg("-uz").arg(mountpoint).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("fusermount3: {status}"))) }
}

#[allow(clippy::print_stderr, reason = "a command reports its errors on standard error")]
fn complain(message: &str) {
    eprintln!("{message}");
}
