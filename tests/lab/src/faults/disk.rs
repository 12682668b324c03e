//! The disk of a host: a file with an ext4 file system in it, that can be full or lose its power.
#![expect(unsafe_code, reason = "an ioctl of ext4")]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use intarsia_posix_tests::{run, wait_for};
use rustix::ioctl::{Opcode, Setter, opcode};

/// `EXT4_IOC_SHUTDOWN` of the kernel's `fs/ext4/ext4.h`: `_IOR('X', 125, __u32)`.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
/// Without writing out the journal.
const NO_LOG_FLUSH: u32 = 2;

/// A mounted image.
pub(crate) struct Disk {
    image: PathBuf,
    place: PathBuf,
}

impl Disk {
    /// Makes an image of so many bytes and mounts it at `place`.
    pub(crate) fn mount(image: &Path, place: &Path, bytes: u64) -> Self {
        let file = File::create(image).expect("an image");
        file.set_len(bytes).expect("its length");
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(image));
        std::fs::create_dir_all(place).expect("a mount point");
        let disk = Self { image: image.to_owned(), place: place.to_owned() };
        disk.attach();
        let _ = std::fs::remove_dir(place.join("lost+found"));
        disk
    }

    fn attach(&self) {
        run(Command::new("mount").args(["-o", "loop"]).args([&self.image, &self.place]));
    }

    /// From now on nothing reaches the disk any more, as when its power fails.
    pub(crate) fn lose_power(&self) -> io::Result<()> {
        let root = File::open(&self.place)?;
        // SAFETY: the kernel reads one `u32` for this code.
        unsafe { rustix::ioctl::ioctl(&root, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH)) }?;
        Ok(())
    }

    /// Mounts what the disk held when its power failed.
    pub(crate) fn power_up(&self) {
        self.detach();
        self.attach();
        // Whoever has copied the mounts since, as every new lab does, keeps the file system without power in use.
        let probe = self.place.join("probe");
        File::create(&probe).expect(
            "a disk with power: a mount namespace that was made meanwhile keeps the old one; make no labs beside this",
        );
        let _ = std::fs::remove_file(probe);
    }

    fn detach(&self) {
        wait_for("unmounting the disk", Duration::from_secs(20), || {
            Command::new("umount").arg(&self.place).output().ok()?.status.success().then_some(())
        });
    }

    /// Fills it but for `left` bytes.
    pub(crate) fn fill(&self, left: u64) {
        let stat = rustix::fs::statvfs(&self.place).expect("statvfs");
        let free = stat.f_bavail * stat.f_frsize;
        let filler = File::create(self.filler()).expect("a filler");
        let len = free.saturating_sub(left);
        let flags = rustix::fs::FallocateFlags::empty();
        // The last blocks may be gone meanwhile.
        let _ = rustix::fs::fallocate(&filler, flags, 0, len);
    }

    /// Takes the filler away.
    pub(crate) fn clear(&self) {
        let _ = std::fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.place.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.place).output();
    }
}
