//! Bytes that are no message of ours.

/// Why received bytes were refused, or why a message cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The first bytes are not ours: something else speaks on that port.
    #[error("this is no Intarsia node: the connection begins with {found:02x?}")]
    Magic {
        /// What came instead of the magic.
        found: [u8; 8],
    },
    /// The other side speaks another version of the protocol.
    #[error(
        "protocol version {theirs} there, {ours} here; run the same release of intarsia on all hosts"
    )]
    Version {
        /// Version of this program.
        ours: u16,
        /// Version of the other side.
        theirs: u16,
    },
    /// The two sides were configured with different protection.
    #[error("the peer says encrypt={theirs}, this node encrypt={ours}; set the same on all hosts")]
    Protection {
        /// What this node was configured with.
        ours: crate::Protection,
        /// What the other side announced.
        theirs: crate::Protection,
    },
    /// A preamble with a number for the protection that this version does not know.
    #[error("unknown protection number {0} in the preamble")]
    UnknownProtection(u8),
    /// A header longer than [`crate::MAX_HEADER_BYTES`].
    #[error("a message header of {len_bytes} bytes; at most {limit_bytes} are allowed")]
    HeaderTooLong {
        /// Its length.
        len_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// A payload longer than [`crate::MAX_PAYLOAD_BYTES`].
    #[error("a payload of {len_bytes} bytes; at most {limit_bytes} are allowed")]
    PayloadTooLong {
        /// Its length.
        len_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// Bytes that decode to no message, or more bytes than the message has.
    #[error("not a {what}: {why}")]
    Malformed {
        /// What was expected.
        what: &'static str,
        /// What the decoder found.
        why: String,
    },
}
