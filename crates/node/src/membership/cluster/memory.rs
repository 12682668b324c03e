//! The memory budget for bytes of other hosts that are fetched ahead.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use intarsia_sync::Mutex;

/// How many bytes the pieces of all remote files of a node may take together.
const MEMORY_BYTES: u64 = 64 << 20;

/// Holds a part of the memory, for one file.
pub(crate) trait Holder: Send + Sync {
    /// Gives all of it back if the file was not read for a while.
    fn clear_if_idle(&self);
}

/// The memory that pieces may take.
pub(crate) struct PieceMemory {
    used_bytes: AtomicU64,
    /// The holders that can be asked to give memory back; some have nothing any more.
    holders: Mutex<VecDeque<Weak<dyn Holder>>>,
}

/// A part of the memory, given back when it is dropped.
pub(crate) struct Room {
    memory: Arc<PieceMemory>,
    bytes: u64,
}

impl PieceMemory {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { used_bytes: AtomicU64::new(0), holders: Mutex::default() })
    }

    /// Takes a part of the memory; none if fewer than `bytes` are left.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Option<Room> {
        let fits = |used: u64| (used + bytes <= MEMORY_BYTES).then_some(used + bytes);
        self.used_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .ok()
            .map(|_| Room { memory: Arc::clone(self), bytes })
    }

    /// Has files that are no longer read give their memory back.
    pub(crate) fn reclaim(&self) {
        let holders: Vec<_> = self.holders.lock().iter().filter_map(Weak::upgrade).collect();
        holders.iter().for_each(|holder| holder.clear_if_idle());
    }

    /// Adds `holder` to those that are asked to make room for others.
    pub(crate) fn enlist(&self, holder: Weak<dyn Holder>) {
        let mut holders = self.holders.lock();
        holders.retain(|holder| holder.strong_count() > 0);
        holders.push_back(holder);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.used_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its part back when it is asked to.
    struct Idle(Mutex<Option<Room>>);

    impl Holder for Idle {
        fn clear_if_idle(&self) {
            drop(self.0.lock().take());
        }
    }

    #[test]
    fn the_memory_is_bounded_and_idle_holders_make_room() {
        let memory = PieceMemory::new();
        let idle = Arc::new(Idle(Mutex::new(memory.take(MEMORY_BYTES))));
        memory.enlist(Arc::downgrade(&idle) as Weak<dyn Holder>);
        assert!(memory.take(1).is_none());
        memory.reclaim();
        let room = memory.take(MEMORY_BYTES);
        assert!(room.is_some() && memory.take(1).is_none());
        drop(room);
        assert!(memory.take(1).is_some());
    }
}
