//! A shared mapping of a file: loads and stores through it go past every system call.
#![expect(unsafe_code, reason = "shared mappings are part of what is tested")]

use std::fs::File;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

/// A shared, writable mapping of the first bytes of a file.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
}

impl Mapping {
    /// Maps `len_bytes` of a file that is open for both, from an offset that is a multiple of the page.
    ///
    /// # Errors
    /// The system's own.
    pub fn new(file: &File, offset_bytes: u64, len_bytes: usize) -> std::io::Result<Self> {
        // SAFETY: a fresh mapping at an address that the kernel chooses; nothing else refers to it.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                offset_bytes,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(Self { start, len_bytes })
    }

    /// Stores bytes. The file must be long enough: storing past its end ends the process with SIGBUS.
    ///
    /// # Panics
    /// Outside of the mapping.
    pub fn store(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len_bytes, "outside of the mapping");
        // SAFETY: within the mapping, as asserted; no reference into it is ever handed out.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.start.as_ptr().add(offset),
                bytes.len(),
            );
        }
    }

    /// Loads bytes. The file must be long enough.
    ///
    /// # Panics
    /// Outside of the mapping.
    #[must_use]
    pub fn load(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len_bytes, "outside of the mapping");
        let mut bytes = vec![0; len];
        // SAFETY: within the mapping, as asserted; the target is our own.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), bytes.as_mut_ptr(), len);
        }
        bytes
    }

    /// Writes the dirty pages to the file.
    ///
    /// # Errors
    /// The system's own.
    pub fn sync(&self) -> std::io::Result<()> {
        // SAFETY: the mapping made above.
        unsafe { rustix::mm::msync(self.start.as_ptr().cast(), self.len_bytes, MsyncFlags::SYNC)? };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made above; nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
