//! The command line of `intarsia record`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use crate::runtime::Detail;

/// Record what programs do with the files of a store, as the workload for `predict` and `advise`
///
/// The node of each host writes a log below the store's directory, in `record`. `intarsia trace` makes a workload of the
/// logs of all hosts. A store can also be brought up recording: 'intarsia up --record coarse'.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia record start /mnt/work
  sh workflow.sh
  intarsia record stop /mnt/work                 prints where the log is
  intarsia trace n1.trace n2.trace --out workload.json
  intarsia record show n1.trace | less")]
pub(crate) struct RecordVerb {
    #[command(subcommand)]
    pub(crate) verb: RecordAction,
}

#[derive(Subcommand)]
pub(crate) enum RecordAction {
    /// Begin a new log on this host
    Start(RecordStart),
    /// End the log of this host
    Stop(RecordStore),
    /// Say whether this host records, and where to
    Status(RecordStore),
    /// Print a log, a line for each record
    Show(RecordShow),
}

#[derive(Args)]
pub(crate) struct RecordStart {
    #[command(flatten)]
    pub(crate) of: RecordStore,
    /// coarse: opens, closes, names and bytes; fine: each request, for files that are opened from now on, which makes
    /// reading and writing them slower
    #[arg(long, value_name = "coarse|fine", default_value = "coarse")]
    pub(crate) detail: Detail,
}

#[derive(Args)]
pub(crate) struct RecordStore {
    /// Mount point or store directory [default: INTARSIA_MOUNT, or the only store]
    #[arg(value_name = "MOUNT|DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RecordShow {
    /// The log
    #[arg(value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub(crate) log: PathBuf,
    /// Print each record as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
