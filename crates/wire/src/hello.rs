//! The first message in each direction once the key is proved: who I am, whom I take you for.

use std::fmt;
use std::str::FromStr;

use intarsia_types::NodeId;
use serde::{Deserialize, Serialize};

use crate::{Fault, MAX_HEADER_BYTES, WireError};

/// The identity of a store: 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoreId(#[serde(with = "postcard::fixint::le")] pub u128);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for StoreId {
    type Err = WireError;
    fn from_str(text: &str) -> Result<Self, WireError> {
        let number = (text.len() == 32).then(|| u128::from_str_radix(text, 16));
        match number {
            Some(Ok(number)) => Ok(Self(number)),
            _ => Err(WireError::Malformed {
                what: "store identity",
                why: format!("'{text}' is not 32 hexadecimal digits"),
            }),
        }
    }
}

/// What a connection carries. Small messages have one of their own, so that none waits behind a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// 0: messages with little or no payload.
    Small,
    /// 1: messages with a large payload, in either direction.
    Bulk,
}

/// Sent by the side that connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The node that connects.
    pub node: NodeId,
    /// The node that it means to reach.
    pub to: NodeId,
    /// The store both must serve.
    pub store: StoreId,
    /// Incarnation of the connecting node: larger after each of its starts.
    pub epoch: u64,
    /// Connections with the same node, epoch and session share handles; the last one to close releases them.
    #[serde(with = "postcard::fixint::le")]
    pub session: u64,
    /// What this connection will carry.
    pub lane: Lane,
    /// The preamble again, now under the key: version.
    pub version: u16,
    /// The preamble again, now under the key: number of the protection.
    pub protection: u8,
}

/// Sent back by the side that was connected to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The node that answers.
    pub node: NodeId,
    /// Its store.
    pub store: StoreId,
    /// Its incarnation.
    pub epoch: u64,
}

/// The answer to a [`Hello`]: 0 welcome, 1 refused with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// 0: requests may follow.
    Welcome(Welcome),
    /// 1: the connection closes.
    Refused(Fault),
}

macro_rules! coded {
    ($type:ty, $what:literal) => {
        impl $type {
            /// The message in postcard.
            ///
            /// # Errors
            /// Longer than a header may be.
            pub fn encode(&self) -> Result<Vec<u8>, WireError> {
                crate::header::encode(self, $what)
            }

            /// Reads a whole message.
            ///
            /// # Errors
            /// Bytes that are no such message, or more bytes than it has.
            pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
                crate::header::decode(bytes, $what)
            }
        }
    };
}
coded!(Hello, "hello");
coded!(Verdict, "answer to a hello");

impl Hello {
    /// Longest encoded hello or answer.
    pub const MAX_BYTES: usize = MAX_HEADER_BYTES;
}
