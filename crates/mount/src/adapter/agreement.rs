//! What the mount asks the kernel to do.

use std::sync::atomic::Ordering;

use fuser::{InitFlags, KernelConfig};

use super::Adapter;
use crate::mode::Mode;

/// Largest request in either direction.
const MAX_TRANSFER_BYTES: u32 = 1 << 20;

impl Adapter {
    /// Settles with the kernel how it serves files of this mount.
    pub(super) fn agree(&self, config: &mut KernelConfig) {
        let is_passthrough = self.agree_on_passthrough(config);
        let wanted = self.wanted(is_passthrough) & config.capabilities();
        let _ = config.add_capabilities(wanted);
        let _ = config.set_max_write(MAX_TRANSFER_BYTES);
        let _ = config.set_max_readahead(MAX_TRANSFER_BYTES);
        let _ = config.set_max_background(64);
        let has_write_back = wanted.contains(InitFlags::FUSE_WRITEBACK_CACHE);
        self.has_write_back.store(has_write_back, Ordering::Release);
        let maps_direct = wanted.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        self.maps_direct.store(maps_direct, Ordering::Release);
        self.node.set_kernel_mode(is_passthrough, has_write_back);
    }

    /// Whether the kernel reads and writes files of tiers by itself.
    fn agree_on_passthrough(&self, config: &mut KernelConfig) -> bool {
        let mut mode = self.mode.lock();
        if mode.in_force && !config.capabilities().contains(InitFlags::FUSE_PASSTHROUGH) {
            *mode = Mode::off("the kernel does not offer it (Linux 6.9 or later is needed)");
        }
        if mode.in_force {
            // One level: an overlay file system (containers) can still stand on this mount.
            let _ = config.set_max_stack_depth(1);
        }
        mode.in_force
    }

    fn wanted(&self, is_passthrough: bool) -> InitFlags {
        let mut wanted = InitFlags::FUSE_ASYNC_READ
            | InitFlags::FUSE_BIG_WRITES
            | InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_MAX_PAGES
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_NO_OPENDIR_SUPPORT
            | InitFlags::FUSE_EXPLICIT_INVAL_DATA
            // An inode that the kernel has forgotten can be opened by its handle: it is looked up as "." below itself.
            | InitFlags::FUSE_EXPORT_SUPPORT
            // Not FUSE_ASYNC_DIO: what a reader brought into the kernel's pages while an asynchronous write went past
            // them would stay there after the write has been reported done.
            | InitFlags::FUSE_ABORT_ERROR
            // Lists are checked by the kernel; the umask is ours to apply, for a default list replaces it.
            | InitFlags::FUSE_POSIX_ACL
            | InitFlags::FUSE_DONT_MASK
            // Only then it says that whoever sets a list is not in the file's group.
            | InitFlags::FUSE_SETXATTR_EXT;
        if is_passthrough {
            wanted |= InitFlags::FUSE_PASSTHROUGH;
        } else if !self.node.is_shared() && !self.node.has_lower() {
            // With it the kernel believes its own lengths for as long as it knows a file, so that it
            // would never see what another host appended, or what changed in a lower file system.
            wanted |= InitFlags::FUSE_WRITEBACK_CACHE;
        }
        if self.node.is_shared() {
            // Locks hold between hosts. On one host the kernel keeps them.
            wanted |= InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_FLOCK_LOCKS;
            // So that files which others may change can be read past its pages.
            wanted |= InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        }
        wanted
    }
}
