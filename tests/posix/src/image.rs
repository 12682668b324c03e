//! A small disk: a file with an ext4 file system in it, mounted through a loop device.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::wait_for;

/// A mounted image; unmounted and removed when dropped.
#[derive(Debug)]
pub struct DiskImage {
    mount_point: PathBuf,
    _dir: tempfile::TempDir,
}

impl DiskImage {
    /// Makes and mounts a disk of so many bytes, or says why this machine cannot.
    ///
    /// # Errors
    /// In words.
    pub fn mount(bytes: u64) -> Result<Self, String> {
        let dir = tempfile::Builder::new()
            .prefix("intarsia-disk-")
            .tempdir()
            .map_err(|e| e.to_string())?;
        let image = dir.path().join("image");
        let mount_point = dir.path().join("disk");
        std::fs::create_dir(&mount_point).map_err(|e| e.to_string())?;
        let file = std::fs::File::create(&image).map_err(|e| e.to_string())?;
        file.set_len(bytes).map_err(|e| e.to_string())?;
        // No blocks kept for root: the tests are root, and must find the end of the disk.
        let mut make = Command::new("mkfs.ext4");
        try_run(make.args(["-q", "-F", "-m", "0"]).arg(&image))?;
        try_run(Command::new("mount").args(["-o", "loop"]).args([&image, &mount_point]))?;
        Ok(Self { mount_point, _dir: dir })
    }

    /// Where the disk is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.mount_point
    }
}

fn try_run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("{command:?}: {said}"))
}

impl Drop for DiskImage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = Command::new("umount").arg("--lazy").arg(&self.mount_point).output();
            return;
        }
        // A node that has just ended may still be closing its files.
        wait_for("unmounting the disk image", std::time::Duration::from_secs(10), || {
            Command::new("umount").arg(&self.mount_point).status().ok()?.success().then_some(())
        });
    }
}
