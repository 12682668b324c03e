//! Nouns and units that every part of Intarsia shares. No I/O, no clock, no async.

mod attr;
mod bytes;
mod durability;
mod encoding;
mod error;
mod hint;
mod id;
mod layout;
mod problem;
mod rule;
mod tier;
mod time;

pub use attr::{Attr, FileKind};
pub use bytes::{ByteCount, ParseByteCountError};
pub use durability::Durability;
pub use encoding::Encoding;
pub use error::{Error, Result};
pub use hint::{
    CacheHint, CloseMode, Dealing, HINT_PREFIX, Hint, HintError, HintKey, HintSet, Integrity,
    LOCATION_NAME, Pattern, Placement, RecordedHints,
};
pub use id::{BackingFileId, InodeId, NodeId, PartitionId, TierId};
pub use layout::{BackingRef, Layout, LowerStamp};
pub use problem::{Problem, nearest};
pub use rule::{Rule, RuleError, RuleSet};
pub use tier::{TierClass, TierSpec, TierSpecError};
pub use time::Timestamp;
