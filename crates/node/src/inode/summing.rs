//! Checksums of files that have settled.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use intarsia_meta::Namespace;
use intarsia_types::{Error, InodeId, Result};

use crate::background::queue::Queue;
use crate::body::integrity::{Summed, checksum_extras, sum_file_unless};
use crate::inode::live::LiveTable;
use crate::inode::unawaited::limit_unawaited;
use crate::metrics::Metrics;
use crate::space::tiers::Tiers;

/// Takes the sums of files that have settled.
pub(crate) struct Summer {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) live: Arc<LiveTable>,
    /// Says when to stop.
    pub(crate) queue: Arc<Queue>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Summer {
    /// Sums a settled file, unless somebody has opened it since.
    pub(crate) fn sum(&self, ino: InodeId) -> Result<()> {
        let inode = match self.namespace.get(ino) {
            Ok(inode) if !inode.checksummed => inode,
            Ok(_) | Err(Error::NotFound) => return Ok(()),
            Err(e) => return Err(e),
        };
        let Some(backing) = inode.layout.backing() else { return Ok(()) };
        if !self.tiers.has(backing.tier) {
            return Ok(());
        }
        let file = self.tiers.get(backing.tier)?.open_file(backing.file, false)?;
        let is_stopping = || self.queue.is_stopping();
        let Some(Summed { sums, read_bytes }) = sum_file_unless(&file, is_stopping)? else {
            return Ok(());
        };
        self.metrics.summed_bytes.fetch_add(read_bytes, Ordering::Relaxed);
        let _limit = limit_unawaited();
        self.live.with(ino, |state| {
            // Opened for writing meanwhile: the sums may match neither the old nor the new content.
            if state.mark.is_unsettled() || state.writers > 0 {
                return Ok(());
            }
            let is_summed = std::cell::Cell::new(false);
            let outcome = self.namespace.change(ino, |now, extras| {
                let is_same = now.version == inode.version && now.layout == inode.layout;
                is_summed.set(is_same);
                if is_same {
                    extras.extend(checksum_extras(&sums));
                }
                Ok(())
            });
            match outcome {
                Err(Error::NotFound) => Ok(()),
                Err(e) => Err(e),
                Ok(summed) => {
                    if is_summed.get() {
                        state.sums.note_stored(true);
                        if let Some(known) = &mut state.record
                            && known.version == inode.version
                        {
                            *known = summed;
                        }
                        self.metrics.summed.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                }
            }
        })
    }
}
