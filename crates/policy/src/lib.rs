//! Pure decisions. The node acts on them and the predictor will ask the same code, so that a
//! prediction cannot drift from the product. No I/O, no clock, no async.

mod balance;
mod copies;
mod due;
mod fold;
mod home;
mod io_mode;
mod keep;
mod place;
mod placement;
mod spread;
mod stripe;
mod wanted;

pub use balance::{HostRoom, Room, Transfer, choose_host, plan_balance};
pub use copies::{HostState, choose_copies};
pub use due::{Speeds, check_speeds, due_bytes};
pub use fold::{FoldLimits, should_fold};
pub use home::{Home, HomeReason, choose_home};
pub use io_mode::{IoMode, OpenRequest, choose_io_mode};
pub use keep::{KeepRequest, kept_max_bytes, should_keep};
pub use place::{HostWish, PlaceRequest, Plan, choose_group_host, place};
pub use placement::{TierState, choose_tier};
pub use spread::{Giver, Spread, TAKING_MAX, Take, copies_to_serve, piece_bytes};
pub use stripe::{Span, Stripe};
pub use wanted::Wanted;
