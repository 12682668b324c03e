//! The keyed tag of a frame on a connection that is authenticated but not encrypted.

use intarsia_wire::TAG_BYTES;

/// The key of one direction of one connection, and how many frames it has tagged. Both come from the TLS handshake
/// and die with the connection, so no frame is accepted twice, in another order, or on another connection.
pub(crate) struct TagKey {
    key: [u8; blake3::KEY_LEN],
    frames: u64,
}

impl TagKey {
    pub(crate) const fn new(key: [u8; blake3::KEY_LEN]) -> Self {
        Self { key, frames: 0 }
    }

    /// The tag of the next frame: keyed BLAKE3 over its number, prefix and header (which holds the payload's sum).
    pub(crate) fn next(&mut self, prefix: &[u8], header: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.frames.to_le_bytes()).update(prefix).update(header);
        self.frames = self.frames.wrapping_add(1);
        hasher.finalize()
    }

    /// Whether the next frame carries the right tag; compared in constant time.
    pub(crate) fn accepts(&mut self, prefix: &[u8], tag: [u8; TAG_BYTES], header: &[u8]) -> bool {
        self.next(prefix, header) == blake3::Hash::from_bytes(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_content_and_key_all_matter() {
        let tag = *TagKey::new([1; 32]).next(b"prefix", b"header").as_bytes();
        assert!(TagKey::new([1; 32]).accepts(b"prefix", tag, b"header"));
        assert!(!TagKey::new([2; 32]).accepts(b"prefix", tag, b"header"));
        assert!(!TagKey::new([1; 32]).accepts(b"prefix", tag, b"Header"));
        assert!(!TagKey::new([1; 32]).accepts(b"Prefix", tag, b"header"));
        let mut later = TagKey::new([1; 32]);
        assert!(later.accepts(b"prefix", tag, b"header"));
        assert!(!later.accepts(b"prefix", tag, b"header"), "a replayed frame");
    }
}
