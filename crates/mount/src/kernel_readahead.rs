//! How far the kernel reads ahead in files that are served through the process.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags};

/// As much as one request carries. A FUSE mount begins with 128 KiB and takes no more from its server, so that a file of
/// another host would be read with eight times as many requests.
const READAHEAD_KIB: u32 = 1024;

/// Has the kernel read further ahead on this mount. It may refuse, as it does to users other than root.
pub(crate) fn widen(mount_point: &Path) {
    if let Err(error) = write_setting(mount_point) {
        tracing::debug!(%error, "the kernel reads ahead as little as it does by itself");
    }
}

fn write_setting(mount_point: &Path) -> std::io::Result<()> {
    // Not synced: the kernel knows the numbers without asking us.
    let flags = AtFlags::STATX_DONT_SYNC;
    let device = rustix::fs::statx(CWD, mount_point, flags, StatxFlags::TYPE)?;
    let (major, minor) = (device.stx_dev_major, device.stx_dev_minor);
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    std::fs::write(path, READAHEAD_KIB.to_string())
}
