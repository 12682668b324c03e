//! One frame on its way out or in.

use intarsia_codec::block_sum;
use intarsia_wire::{Body, Header, Protection, TAG_BYTES, WireError};
use tokio::sync::OwnedSemaphorePermit;

use crate::Buffer;

/// A frame to be sent: its start in one piece, with room for a tag where one belongs, and its payload.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) head: Vec<u8>,
    pub(crate) payload: Buffer,
    /// Given back when the last byte is with the system.
    pub(crate) room: Option<Room>,
}

/// What an answer counts for in the limits of its connection and of its session.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) _connection: OwnedSemaphorePermit,
    pub(crate) _session: OwnedSemaphorePermit,
}

impl Frame {
    pub(crate) fn new(
        body: Body,
        payload: Option<Buffer>,
        protection: Protection,
    ) -> Result<Self, WireError> {
        let payload = payload.unwrap_or_default();
        let header = Header { payload_sum: payload_sum(&payload), body };
        let gap_bytes = gap_bytes(protection);
        Ok(Self { head: header.encode_frame(payload.len(), gap_bytes)?, payload, room: None })
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.head.len() + self.payload.len()
    }
}

/// A frame that was received; the payload is not yet compared with its sum.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) body: Body,
    pub(crate) payload: Buffer,
    pub(crate) payload_sum: u64,
}

/// The checksum of a payload; nothing has the sum 0.
pub(crate) fn payload_sum(payload: &[u8]) -> u64 {
    if payload.is_empty() { 0 } else { block_sum(payload) }
}

pub(crate) const fn gap_bytes(protection: Protection) -> usize {
    match protection {
        Protection::Tagged => TAG_BYTES,
        Protection::Encrypted => 0,
    }
}
