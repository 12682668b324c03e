//! Opening the socket, also where its path is longer than a socket address can be.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket address holds 108 bytes with the closing zero; longer paths go through `/proc/self/fd`.
const MAX_PATH_BYTES: usize = 100;

pub(super) fn bind(path: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = with_short_path(path, |short| UnixListener::bind(short))?;
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o600))?;
    Ok(listener)
}

pub(super) fn connect(path: &Path) -> std::io::Result<UnixStream> {
    with_short_path(path, |short| UnixStream::connect(short))
}

fn with_short_path<T>(
    path: &Path,
    open: impl FnOnce(&Path) -> std::io::Result<T>,
) -> std::io::Result<T> {
    if path.as_os_str().len() <= MAX_PATH_BYTES {
        return open(path);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return open(path) };
    let parent = File::open(parent)?;
    open(&PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd())).join(name))
}
