//! The kernel in front of the node: what it can do, as the mount reported, and how many files may be open.
//!
//! Owns what the mount said when it began.
//! Asks the system for the limit of open descriptors.
//! Promises that nothing is taken to be possible before the mount has said so.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use intarsia_types::InodeId;

/// Puts all bytes of a file into the kernel's page cache; advice, so it cannot fail.
pub type PageCache = dyn Fn(InodeId, &[u8]) + Send + Sync;

/// The kernel, or none while no mount has said anything.
#[derive(Default)]
pub(crate) struct Kernel {
    has_passthrough: AtomicBool,
    has_write_back: AtomicBool,
    is_mounted: AtomicBool,
    page_cache: OnceLock<Box<PageCache>>,
}

impl Kernel {
    /// From now on it sends requests. It serves files by itself with `passthrough`, and keeps written pages and times
    /// until it flushes them with `write_back`.
    pub(crate) fn begin(&self, passthrough: bool, write_back: bool) {
        self.has_passthrough.store(passthrough, Ordering::Release);
        self.has_write_back.store(write_back, Ordering::Release);
        self.is_mounted.store(true, Ordering::Release);
    }

    /// Takes bytes of files into its page cache by `store`.
    pub(crate) fn offer_page_cache(&self, store: Box<PageCache>) {
        // A node is mounted once; a second offer changes nothing.
        let _ = self.page_cache.set(store);
    }

    /// Whether it reads and writes files of tiers past the process.
    pub(crate) fn has_passthrough(&self) -> bool {
        self.has_passthrough.load(Ordering::Acquire)
    }

    /// Whether it keeps written pages and times until it flushes them.
    pub(crate) fn has_write_back(&self) -> bool {
        self.has_write_back.load(Ordering::Acquire)
    }

    /// Whether it sends requests.
    pub(crate) fn is_mounted(&self) -> bool {
        self.is_mounted.load(Ordering::Acquire)
    }

    /// What puts the body of a folded file into its page cache, if it takes such.
    pub(crate) fn page_cache(&self) -> Option<&PageCache> {
        self.page_cache.get().map(|store| &**store)
    }
}

/// Raises the limit of open descriptors as far as it may be raised, and returns it: every open or
/// unsettled file holds one, whatever the limits of the programs that have it open.
pub(crate) fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open");
    let most = most.ok().and_then(|text| text.trim().parse::<u64>().ok());
    if let (Some(most), Some(hard)) = (most, limit.maximum)
        && hard < most
    {
        // With the privilege only; without it the hard limit is what there is.
        let raised = rustix::process::Rlimit { current: Some(most), maximum: Some(most) };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            return usize::try_from(most).unwrap_or(usize::MAX);
        }
    }
    limit.current = limit.maximum;
    if let Err(e) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(error = %e, "the limit of open files stays as it is");
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(current).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_offer_of_a_page_cache_counts_and_nothing_is_true_before_a_mount() {
        let kernel = Kernel::default();
        assert!(!kernel.is_mounted() && !kernel.has_passthrough() && kernel.page_cache().is_none());
        kernel.begin(true, false);
        assert!(kernel.is_mounted() && kernel.has_passthrough() && !kernel.has_write_back());
        kernel.offer_page_cache(Box::new(|ino, _| assert_eq!(ino, InodeId(7))));
        kernel.offer_page_cache(Box::new(|_, _| unreachable!("the second one")));
        kernel.page_cache().unwrap()(InodeId(7), b"bytes");
    }
}
