//! The first bytes of a connection, in the clear: who speaks, and in which version.

use std::fmt;

use crate::WireError;

/// The first eight bytes that either side sends.
pub const MAGIC: [u8; 8] = *b"INTARSIA";
/// Version of everything in this crate. Nodes of one deployment run one version; a message that is appended
/// raises it.
pub const VERSION: u16 = 1;
/// Length of an encoded preamble.
pub const PREAMBLE_BYTES: usize = 16;

/// How a connection is protected after both sides have proved that they hold the deployment's key. The numbers
/// are sent: never change one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Protection {
    /// `encrypt=none`: frames in the clear; prefix, header and payload checksum carry a keyed tag.
    #[default]
    Tagged = 1,
    /// `encrypt=payload`: everything stays inside TLS.
    Encrypted = 2,
}

impl Protection {
    const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Tagged),
            2 => Some(Self::Encrypted),
            _ => None,
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tagged => "none",
            Self::Encrypted => "payload",
        })
    }
}

/// What each side sends first. It is not authenticated and grants nothing; the handshake that follows repeats
/// the version and the protection under the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// Version of the protocol.
    pub version: u16,
    /// Protection wanted.
    pub protection: Protection,
}

impl Preamble {
    /// The preamble of this version.
    #[must_use]
    pub const fn ours(protection: Protection) -> Self {
        Self { version: VERSION, protection }
    }

    /// Magic, version (little-endian), protection, five zero bytes.
    #[must_use]
    pub fn encode(self) -> [u8; PREAMBLE_BYTES] {
        let mut out = [0; PREAMBLE_BYTES];
        let (magic, rest) = out.split_at_mut(MAGIC.len());
        magic.copy_from_slice(&MAGIC);
        let [low, high] = self.version.to_le_bytes();
        for (slot, byte) in rest.iter_mut().zip([low, high, self.protection as u8]) {
            *slot = byte;
        }
        out
    }

    /// Reads what the other side sent and compares it with `self`.
    ///
    /// # Errors
    /// Another program, another version or another protection; each error names both sides.
    pub fn accept(self, bytes: [u8; PREAMBLE_BYTES]) -> Result<(), WireError> {
        let [m0, m1, m2, m3, m4, m5, m6, m7, low, high, protection, ..] = bytes;
        let found = [m0, m1, m2, m3, m4, m5, m6, m7];
        if found != MAGIC {
            return Err(WireError::Magic { found });
        }
        let theirs = u16::from_le_bytes([low, high]);
        if theirs != self.version {
            return Err(WireError::Version { ours: self.version, theirs });
        }
        // Compared after the version: only our own version's numbers mean something to us.
        let theirs =
            Protection::from_number(protection).ok_or(WireError::UnknownProtection(protection))?;
        if theirs != self.protection {
            return Err(WireError::Protection { ours: self.protection, theirs });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_accept_their_own_kind_only() {
        let tagged = Preamble::ours(Protection::Tagged);
        let encrypted = Preamble::ours(Protection::Encrypted);
        assert_eq!(tagged.accept(tagged.encode()), Ok(()));
        let refused = tagged.accept(encrypted.encode()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the peer says encrypt=payload, this node encrypt=none; set the same on all hosts"
        );
    }

    #[test]
    fn a_version_mismatch_names_both() {
        let ours = Preamble::ours(Protection::Tagged);
        let theirs = Preamble { version: 7, ..ours };
        let text = ours.accept(theirs.encode()).unwrap_err().to_string();
        assert!(text.contains("version 7 there") && text.contains("1 here"), "{text}");
    }

    #[test]
    fn another_protocol_is_named_as_such() {
        let refused = Preamble::ours(Protection::Tagged).accept(*b"GET / HTTP/1.1\r\n");
        assert!(matches!(refused, Err(WireError::Magic { .. })));
    }
}
