//! The fixed start of every frame: how long its parts are.

use crate::WireError;

/// Longest header in bytes.
pub const MAX_HEADER_BYTES: usize = 64 << 10;
/// Longest payload in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 4 << 20;
/// Length of an encoded prefix.
pub const PREFIX_BYTES: usize = 8;
/// Length of the keyed tag that follows the prefix on a connection that is not encrypted.
pub const TAG_BYTES: usize = 32;

/// The lengths of one frame. A value of this type is within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    header_bytes: u32,
    payload_bytes: u32,
}

impl Prefix {
    /// The prefix of a frame with these lengths.
    ///
    /// # Errors
    /// A length beyond its limit.
    pub fn new(header_bytes: usize, payload_bytes: usize) -> Result<Self, WireError> {
        let header = u32::try_from(header_bytes).ok().filter(|_| header_bytes <= MAX_HEADER_BYTES);
        let payload =
            u32::try_from(payload_bytes).ok().filter(|_| payload_bytes <= MAX_PAYLOAD_BYTES);
        Ok(Self {
            header_bytes: header.ok_or(WireError::HeaderTooLong {
                len_bytes: header_bytes,
                limit_bytes: MAX_HEADER_BYTES,
            })?,
            payload_bytes: payload.ok_or(WireError::PayloadTooLong {
                len_bytes: payload_bytes,
                limit_bytes: MAX_PAYLOAD_BYTES,
            })?,
        })
    }

    /// Length of the header.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        self.header_bytes as usize
    }

    /// Length of the payload.
    #[must_use]
    pub const fn payload_bytes(self) -> usize {
        self.payload_bytes as usize
    }

    /// Header length, payload length, both little-endian.
    #[must_use]
    pub const fn encode(self) -> [u8; PREFIX_BYTES] {
        let [a, b, c, d] = self.header_bytes.to_le_bytes();
        let [e, f, g, h] = self.payload_bytes.to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// Reads a prefix.
    ///
    /// # Errors
    /// A length beyond its limit: the stream is damaged or hostile and cannot be followed any further.
    pub fn decode(bytes: [u8; PREFIX_BYTES]) -> Result<Self, WireError> {
        let [a, b, c, d, e, f, g, h] = bytes;
        let length = |bytes| usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX);
        Self::new(length([a, b, c, d]), length([e, f, g, h]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_limits_are_exact() {
        assert!(Prefix::new(MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES).is_ok());
        assert!(matches!(
            Prefix::new(MAX_HEADER_BYTES + 1, 0),
            Err(WireError::HeaderTooLong { .. })
        ));
        assert!(matches!(
            Prefix::new(0, MAX_PAYLOAD_BYTES + 1),
            Err(WireError::PayloadTooLong { .. })
        ));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: [u8; PREFIX_BYTES]) {
            if let Ok(prefix) = Prefix::decode(bytes) {
                prop_assert_eq!(prefix.encode(), bytes);
            }
        }

        #[test]
        fn lengths_survive(header in 0..=MAX_HEADER_BYTES, payload in 0..=MAX_PAYLOAD_BYTES) {
            let prefix = Prefix::new(header, payload).unwrap();
            prop_assert_eq!(Prefix::decode(prefix.encode()).unwrap(), prefix);
            prop_assert_eq!((prefix.header_bytes(), prefix.payload_bytes()), (header, payload));
        }
    }
}
