//! Memory for payloads that stays mapped: touching fresh memory costs several times a copy.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use intarsia_wire::MAX_PAYLOAD_BYTES;
use parking_lot::Mutex;

/// Below this the allocator does as well.
const MIN_BYTES: usize = 4 << 10;
/// Sizes are powers of two from `MIN_BYTES` to the largest payload.
const CLASSES: usize = (MAX_PAYLOAD_BYTES / MIN_BYTES).ilog2() as usize + 1;

/// A bounded stock of payload buffers. Cloning gives another handle to the same stock.
#[derive(Clone, Debug)]
pub struct BufferPool(Arc<Shelves>);

#[derive(Debug)]
struct Shelves {
    classes: [Mutex<Vec<Vec<u8>>>; CLASSES],
    idle_bytes_of_class: usize,
}

impl BufferPool {
    /// A stock that keeps at most `idle_bytes` of unused memory.
    #[must_use]
    pub fn new(idle_bytes: usize) -> Self {
        Self(Arc::new(Shelves {
            classes: std::array::from_fn(|_| Mutex::new(Vec::new())),
            idle_bytes_of_class: idle_bytes / CLASSES,
        }))
    }

    /// A buffer of `len_bytes` with arbitrary old content. Whoever fills less of it must [`Buffer::truncate`] it.
    #[must_use]
    pub fn take(&self, len_bytes: usize) -> Buffer {
        if !(MIN_BYTES..=MAX_PAYLOAD_BYTES).contains(&len_bytes) {
            return Buffer { bytes: vec![0; len_bytes], len_bytes, home: None };
        }
        let full_bytes = len_bytes.next_power_of_two();
        let idle = self.0.class(full_bytes).and_then(|class| class.lock().pop());
        let bytes = idle.unwrap_or_else(|| vec![0; full_bytes]);
        Buffer { bytes, len_bytes, home: Some(Arc::clone(&self.0)) }
    }

    /// A buffer with a copy of `bytes`.
    #[must_use]
    pub fn copy(&self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.take(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }
}

impl Shelves {
    fn class(&self, full_bytes: usize) -> Option<&Mutex<Vec<Vec<u8>>>> {
        let index = (full_bytes / MIN_BYTES).checked_ilog2()?;
        self.classes.get(usize::try_from(index).ok()?)
    }

    fn put(&self, bytes: Vec<u8>) {
        let most = self.idle_bytes_of_class / bytes.len().max(1);
        if let Some(class) = self.class(bytes.len()) {
            let mut class = class.lock();
            if class.len() < most {
                class.push(bytes);
            }
        }
    }
}

/// Bytes of a payload; the memory goes back to its pool in the end.
#[derive(Debug, Default)]
pub struct Buffer {
    // Always wholly initialised, so that taking a buffer writes nothing.
    bytes: Vec<u8>,
    len_bytes: usize,
    home: Option<Arc<Shelves>>,
}

impl Buffer {
    /// Keeps the first `len_bytes`; a longer length changes nothing.
    pub fn truncate(&mut self, len_bytes: usize) {
        self.len_bytes = self.len_bytes.min(len_bytes);
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { len_bytes: bytes.len(), bytes, home: None }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len_bytes).unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.len_bytes).unwrap_or_default()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.put(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_and_is_bounded() {
        let pool = BufferPool::new(CLASSES * (1 << 20));
        let first = pool.take(1 << 20);
        let address = first.as_ptr();
        let second = pool.take(1 << 20);
        drop(first);
        drop(second); // Over the bound of this class: freed.
        let again = pool.take((1 << 20) - 5);
        assert_eq!((again.as_ptr(), again.len()), (address, (1 << 20) - 5));
        assert_ne!(pool.take(1 << 20).as_ptr(), address);
    }

    #[test]
    fn every_length_up_to_the_largest_payload_is_served() {
        let pool = BufferPool::new(1 << 20);
        for len in [0, 1, MIN_BYTES - 1, MIN_BYTES, MIN_BYTES + 1, MAX_PAYLOAD_BYTES] {
            for _ in 0..3 {
                let mut buffer = pool.take(len);
                assert_eq!(buffer.len(), len);
                buffer.truncate(len / 2);
                assert_eq!(buffer.len(), len / 2);
            }
        }
        assert_eq!(&*pool.copy(b"abc"), b"abc");
    }
}
