//! Pure decisions. Nodes act on them and the predictor asks the same code, so that a prediction cannot drift from the
//! product. No I/O, no clock, no async.
//!
//! [`place`] is the one entry for where bytes are to be and how they are reached; what else is decided is of many files
//! at once: what moves ([`plan_balance`], [`choose_files`]), what is made again ([`Census`]), what goes
//! ([`choose_victim`]), what is fetched before it is asked for ([`Sequences`]), who gives whom which piece ([`Spread`]).

mod balance;
mod copies;
mod dealt;
mod due;
mod fold;
mod home;
mod io_mode;
mod keep;
mod moves;
mod plan;
mod readahead;
mod reason;
mod repair;
mod spread;
mod stripe;
mod tier;
mod wanted;
mod wish;

pub use balance::{HostRoom, Room, Transfer, plan_balance};
pub use copies::{HostState, Link, copies_wanted};
pub use dealt::Dealt;
pub use due::{Speeds, check_speeds, due_bytes};
pub use fold::FoldLimits;
pub use home::Home;
pub use io_mode::{IoMode, OpenRequest};
pub use keep::{CacheRoom, Evictable, KeepRequest, choose_victim};
pub use moves::{FileMove, choose_files};
pub use plan::{FileState, Here, PlaceRequest, Plan, PlannedLayout, Purpose, place};
pub use readahead::{Ahead, PIECE_BYTES, Sequences, WINDOW_MAX_BYTES, pieces_of};
pub use reason::Reason;
pub use repair::{Census, Named, lacks_copies};
pub use spread::{
    ASK_AGAIN, Giver, SPREAD_MIN_BYTES, Spread, Take, has_room_to_take, is_to_ask, piece_bytes,
};
pub use stripe::{Span, Stripe};
pub use tier::TierState;
pub use wanted::Wanted;
pub use wish::{HostWish, Wish, choose_group_host, named_host, reduces_with_its_directory};
