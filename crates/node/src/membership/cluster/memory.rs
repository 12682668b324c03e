//! The memory budget for bytes of other hosts that are fetched ahead.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use intarsia_sync::Mutex;

/// What all remote files of a node may hold together.
const MEMORY_BYTES: u64 = 64 << 20;

/// Somebody who holds a part of the memory.
pub(crate) trait Holder: Send + Sync {
    /// Lets go of it all, if nobody has read there for a while.
    fn clear_if_idle(&self);
}

/// The memory that pieces may take.
pub(crate) struct PieceMemory {
    used_bytes: AtomicU64,
    /// Those that hold pieces, or did.
    holders: Mutex<VecDeque<Weak<dyn Holder>>>,
}

/// A part of that memory, given back in the end.
pub(crate) struct Room {
    memory: Arc<PieceMemory>,
    bytes: u64,
}

impl PieceMemory {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { used_bytes: AtomicU64::new(0), holders: Mutex::default() })
    }

    /// So much of it; none while others have too much.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Option<Room> {
        let fits = |used: u64| (used + bytes <= MEMORY_BYTES).then_some(used + bytes);
        self.used_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .ok()
            .map(|_| Room { memory: Arc::clone(self), bytes })
    }

    /// Takes the pieces of those who stopped reading.
    pub(crate) fn reclaim(&self) {
        let holders: Vec<_> = self.holders.lock().iter().filter_map(Weak::upgrade).collect();
        holders.iter().for_each(|holder| holder.clear_if_idle());
    }

    /// From now on `holder` is asked to make room for others.
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

    /// Lets go of its part when it is asked to.
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
