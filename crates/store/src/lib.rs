//! Local tiers of one host: directories full of plain backing files; and the lower file system, which is
//! only read.
//!
//! A tier knows nothing of names or inodes. It hands out numbered files, says how much space they
//! take, tells when nobody can write to one any more, and takes them back clean.

mod device;
mod file;
mod lease;
mod lower;
mod pool;
mod probe;
mod replace;
mod tier;

pub use device::{Access, Device, Times, simulate};
pub use file::{BackingFile, BackingStat};
pub use lease::{LeaseTest, is_unshared, is_unwritten, test_lease};
pub use lower::{LowerEntry, LowerTree};
pub use pool::{Pool, PooledFile};
pub use probe::{FileSystem, probe};
pub use replace::replace_file;
pub use tier::identity::tier_at;
pub use tier::{Space, Tier, TierOptions};
