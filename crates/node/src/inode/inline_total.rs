//! What content beside inodes takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use intarsia_meta::Namespace;

use crate::metrics::Metrics;

/// What the metadata engine takes on disk, bodies beside inodes included.
pub(crate) struct InlineTotal {
    namespace: Arc<Namespace>,
    /// Says how many files have been folded.
    metrics: Arc<Metrics>,
    bytes: AtomicU64,
}

impl InlineTotal {
    pub(crate) fn new(namespace: &Arc<Namespace>, metrics: &Arc<Metrics>) -> Self {
        let (namespace, metrics) = (Arc::clone(namespace), Arc::clone(metrics));
        Self { namespace, metrics, bytes: AtomicU64::new(0) }
    }

    /// In bytes, as of at most so many folds ago.
    pub(crate) fn bytes(&self) -> u64 {
        const ASKED_EVERY: u64 = 1024;
        if self.metrics.folded.load(Ordering::Relaxed).is_multiple_of(ASKED_EVERY) {
            let bytes = self.namespace.engine_stats().disk_bytes;
            self.bytes.store(bytes, Ordering::Relaxed);
        }
        self.bytes.load(Ordering::Relaxed)
    }
}
