//! The header of a frame: which message, and the checksum of its payload.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{MAX_HEADER_BYTES, PREFIX_BYTES, Prefix, Request, Response, WireError};

/// What a frame carries beside its payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// CRC-64/NVME of the payload; 0 without one.
    #[serde(with = "postcard::fixint::le")]
    pub payload_sum: u64,
    /// The message.
    pub body: Body,
}

/// A message. Persisted nowhere, but nodes agree on it by number: variants are only ever appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// 0: a question that wants an answer.
    Request {
        /// Chosen by the asker, unique among what is in flight on this connection.
        id: u64,
        /// The asker gives up after this time; a server need not begin what nobody waits for.
        patience_ms: u32,
        /// The question.
        request: Request,
    },
    /// 1: an answer; answers come in any order.
    Response {
        /// The id of the request.
        id: u64,
        /// The answer.
        response: Response,
    },
    /// 2: a message that wants no answer.
    OneWay {
        /// The message.
        request: Request,
    },
}

impl Header {
    /// The header in postcard.
    ///
    /// # Errors
    /// Longer than [`MAX_HEADER_BYTES`], as with a list or a path without end.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        encode(self, "message header")
    }

    /// The start of a frame in one piece: prefix, `gap_bytes` zeros for a tag, header.
    ///
    /// # Errors
    /// A header or payload beyond its limit.
    pub fn encode_frame(
        &self,
        payload_bytes: usize,
        gap_bytes: usize,
    ) -> Result<Vec<u8>, WireError> {
        let mut head = Vec::with_capacity(PREFIX_BYTES + gap_bytes + 64);
        head.resize(PREFIX_BYTES + gap_bytes, 0);
        let mut head = postcard::to_extend(self, head)
            .map_err(|e| WireError::Malformed { what: "message header", why: e.to_string() })?;
        let prefix = Prefix::new(head.len() - PREFIX_BYTES - gap_bytes, payload_bytes)?;
        if let Some(slot) = head.first_chunk_mut() {
            *slot = prefix.encode();
        }
        Ok(head)
    }

    /// Reads a whole header.
    ///
    /// # Errors
    /// Bytes that are no header, or more bytes than it has.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        decode(bytes, "message header")
    }
}

pub(crate) fn encode<T: Serialize>(message: &T, what: &'static str) -> Result<Vec<u8>, WireError> {
    let bytes = postcard::to_extend(message, Vec::with_capacity(64))
        .map_err(|e| WireError::Malformed { what, why: e.to_string() })?;
    if bytes.len() > MAX_HEADER_BYTES {
        return Err(WireError::HeaderTooLong {
            len_bytes: bytes.len(),
            limit_bytes: MAX_HEADER_BYTES,
        });
    }
    Ok(bytes)
}

pub(crate) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    what: &'static str,
) -> Result<T, WireError> {
    if bytes.len() > MAX_HEADER_BYTES {
        return Err(WireError::HeaderTooLong {
            len_bytes: bytes.len(),
            limit_bytes: MAX_HEADER_BYTES,
        });
    }
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => {
            Err(WireError::Malformed { what, why: format!("{} bytes too many", rest.len()) })
        }
        Err(e) => Err(WireError::Malformed { what, why: e.to_string() }),
    }
}
