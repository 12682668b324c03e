//! What nodes say to each other, as bytes: preamble, frames, messages. No I/O, no clock, no async.
//!
//! A connection begins with a [`Preamble`] from each side, in the clear. What follows are frames: a [`Prefix`] of
//! fixed length, a tag where the connection is authenticated but not encrypted, a [`Header`] in postcard, and a raw
//! payload. Every limit is checked before anything is allocated. `docs/internals/wire.md` describes all of it.

mod error;
mod fault;
mod header;
mod hello;
mod lock;
mod preamble;
mod prefix;
mod request;
mod response;

pub use error::WireError;
pub use fault::Fault;
pub use header::{Body, Header};
pub use hello::{Hello, Lane, StoreId, Verdict, Welcome};
pub use lock::{LockAnswer, LockClaim, LockKind, LockMode, LockPlace, LockQuestion, LockSpan};
pub use preamble::{MAGIC, PREAMBLE_BYTES, Preamble, Protection, VERSION};
pub use prefix::{MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, PREFIX_BYTES, Prefix, TAG_BYTES};
pub use request::{AllocateMode, Handle, PublishedFor, RecallKind, Request, Target};
pub use response::Response;
