//! `intarsia lost`, `balance` and `leave`: the hosts of a store.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use intarsia_types::ByteCount;

/// List the files whose bytes were at lost hosts only
///
/// Reading such a file gives EIO until its host is back. Nothing is removed unless --forget is given.
/// Ends with 3 when there are any.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia lost /mnt/work
  intarsia lost /mnt/work --json | jq -r .files[].path
  intarsia lost /mnt/work --forget       the hosts will not come back; remove what only they had")]
pub(crate) struct Lost {
    /// Mount point on this host [default: INTARSIA_MOUNT, or the only store]
    #[arg(value_name = "MOUNT", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    /// Remove these files from the store, for good
    #[arg(long)]
    pub(crate) forget: bool,
    /// Print the list as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Move files between hosts until all are about equally full, or as full as they are fast; or between tiers
///
/// Files that somebody has open stay where they are. The store can be used meanwhile.
/// Ends with 3 when some files could not be moved.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia balance /mnt/work --dry-run           what would move
  intarsia balance /mnt/work --speeds s.toml     fast hosts hold more than slow ones, by measured models
  intarsia balance /mnt/work --speeds t.toml     the same with the tiers of this host, if the file has [tiers]
  intarsia balance /mnt/work --rate 200MiB --journal moved.json     at most 200 MiB a second
  intarsia balance /mnt/work --undo moved.json   all of that back")]
pub(crate) struct Balance {
    /// Mount point on this host [default: INTARSIA_MOUNT, or the only store]
    #[arg(value_name = "MOUNT", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rate: MoveRate,
    /// How fast each host is, or each tier of this host, as 'intarsia characterise speeds' writes it
    ///
    /// Bytes are then spread in proportion to the speeds, so that requests which are spread over the bytes keep
    /// all busy alike. A host or tier keeps half of the room that it would have if all were equally full.
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub(crate) speeds: Option<PathBuf>,
    /// Write what moved into this file, for --undo
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub(crate) journal: Option<PathBuf>,
    /// Move back what a balance moved that wrote this journal; what has moved on since stays
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["speeds", "journal", "dry_run"])]
    pub(crate) undo: Option<PathBuf>,
    /// Say what would move, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Move all files of a host to the others, so that it can be taken out of the store
///
/// The host serves on while its files move; new files go elsewhere. When it is empty, take it down on that
/// host ('intarsia down MOUNT --this-host'): it is a member no more then. What is open stays until it is closed;
/// the same command again goes on. A host that is lost is forgotten at once, if no file was there alone.
/// Ends with 3 when some files are still there.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia leave node07 /mnt/work
  intarsia leave node07 /mnt/work --stay         it stays after all")]
pub(crate) struct Leave {
    /// The host, as 'intarsia status' names it
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
    /// Mount point on this host [default: INTARSIA_MOUNT, or the only store]
    #[arg(value_name = "MOUNT", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    /// Take it back: the host stays
    #[arg(long, conflicts_with = "rate")]
    pub(crate) stay: bool,
    #[command(flatten)]
    pub(crate) rate: MoveRate,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How fast files move.
#[derive(Args)]
pub(crate) struct MoveRate {
    /// Bytes to move in a second at most, on average, such as 200MiB [default: no bound]
    #[arg(long, value_name = "SIZE")]
    pub(crate) rate: Option<ByteCount>,
}

impl MoveRate {
    pub(crate) fn bytes_per_s(&self) -> Option<u64> {
        self.rate.map(|rate| rate.0).filter(|rate| *rate > 0)
    }
}
