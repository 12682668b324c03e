//! Who else has a file open? Asked of the kernel through leases.
//!
//! A release from FUSE is not the end of writing: a shared mapping of a passthrough file outlives
//! it, and so does a process that keeps writing after this node was killed. The kernel grants a read
//! lease only while nobody has the file open for writing, and a write lease only while nobody else
//! has it open at all; both count mappings, which hold their file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Which question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseTest {
    /// Nobody, ourselves included, has it open for writing.
    Unwritten,
    /// Nobody but the asking descriptor has it open.
    Unshared,
}

/// Asks the kernel; `Ok(false)` means that somebody is in the way.
///
/// The lease is given up at once: what keeps the answer true afterwards is that every further open
/// goes through this process, which holds the inode's lock while it asks.
///
/// # Errors
/// The kernel's own, such as EINVAL on a file system without leases, or EACCES for another owner's file.
pub fn test_lease(file: &File, test: LeaseTest) -> io::Result<bool> {
    let kind = match test {
        LeaseTest::Unwritten => libc::F_RDLCK,
        LeaseTest::Unshared => libc::F_WRLCK,
    };
    match set_lease(file, kind) {
        Ok(()) => {
            set_lease(file, libc::F_UNLCK)?;
            Ok(true)
        }
        Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Nobody has `file` (itself open read-only) open for writing.
///
/// # Errors
/// As [`test_lease`].
pub fn is_unwritten(file: &File) -> io::Result<bool> {
    test_lease(file, LeaseTest::Unwritten)
}

/// Nobody but `file` has the file open.
///
/// # Errors
/// As [`test_lease`].
pub fn is_unshared(file: &File) -> io::Result<bool> {
    test_lease(file, LeaseTest::Unshared)
}

fn set_lease(file: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: F_SETLEASE takes an int and touches no memory of ours; the descriptor is open.
    let rc = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn a_writer_and_a_reader_each_stand_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let writer = OpenOptions::new().create_new(true).write(true).open(&path).unwrap();
        let ours = File::open(&path).unwrap();
        assert!(!is_unwritten(&ours).unwrap());
        drop(writer);
        assert!(is_unwritten(&ours).unwrap());
        assert!(is_unshared(&ours).unwrap());
        let reader = File::open(&path).unwrap();
        assert!(is_unwritten(&ours).unwrap());
        assert!(!is_unshared(&ours).unwrap());
        drop(reader);
        assert!(is_unshared(&ours).unwrap());
    }

    #[test]
    fn a_mapping_outlives_its_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let writer =
            OpenOptions::new().create_new(true).read(true).write(true).open(&path).unwrap();
        writer.set_len(4096).unwrap();
        // SAFETY: a fresh shared mapping of one page, unmapped below, never dereferenced.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                writer.as_raw_fd(),
                0,
            )
        };
        assert_ne!(map, libc::MAP_FAILED);
        drop(writer);
        let ours = File::open(&path).unwrap();
        assert!(!is_unwritten(&ours).unwrap(), "the mapping still counts as a writer");
        // SAFETY: the mapping made above.
        assert_eq!(unsafe { libc::munmap(map, 4096) }, 0);
        assert!(is_unwritten(&ours).unwrap());
    }
}
