//! The command line of `intarsia stage`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Copy files into a store before a run, and results out of it after or during the run
///
/// Each file is copied under a temporary name, flushed, read back, compared with the BLAKE3 sum of what was
/// read at the source, and only then given its name. What is there already and the same is only verified,
/// so a copy that was cut short is taken up again by the same command.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia stage in /project/inputs /mnt/work
  intarsia stage out /mnt/work/results /project --manifest results.manifest
  intarsia stage out /mnt/work/results /project --follow &     while the run goes on
  intarsia stage status results.manifest --verify")]
pub(crate) struct StageVerb {
    #[command(subcommand)]
    pub(crate) verb: StageAction,
}

#[derive(Subcommand)]
pub(crate) enum StageAction {
    In(StageIn),
    Out(StageOut),
    Status(StageStatus),
}

/// Copy files and directories into a store
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia stage in /project/inputs /project/reference.fa /mnt/work
  intarsia stage in /project/inputs/. /mnt/work/inputs          the content, not the directory")]
pub(crate) struct StageIn {
    #[command(flatten)]
    pub(crate) copy: StageCopy,
}

/// Copy files and directories out of a store
///
/// With --follow it goes on until it is interrupted (SIGINT, SIGTERM): what nobody is writing any more is
/// copied as it appears, so that a last 'stage out' only has to verify.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia stage out /mnt/work/results /project --manifest results.manifest
  intarsia stage out /mnt/work/results /project --follow --manifest results.manifest")]
pub(crate) struct StageOut {
    /// Go on copying files as they settle, until SIGINT or SIGTERM
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) follow: bool,
    /// With --follow: how often to look for files
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub(crate) every: String,
    #[command(flatten)]
    pub(crate) copy: StageCopy,
}

#[derive(Args)]
pub(crate) struct StageCopy {
    /// Files and directories, then the directory that they go into; it is made if it is missing
    #[arg(required = true, num_args = 2.., value_name = "SOURCE… DEST", value_hint = ValueHint::AnyPath)]
    pub(crate) places: Vec<PathBuf>,
    /// Record each file with its sum here; a record that is there is gone on with
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) manifest: Option<PathBuf>,
    /// Files copied at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: u16,
    /// Say what would be copied, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what a manifest records, and with --verify whether the files are still so
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia stage status results.manifest
  intarsia stage status results.manifest --verify --json")]
pub(crate) struct StageStatus {
    /// The manifest
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) manifest: PathBuf,
    /// Read every file and compare it with its sum
    #[arg(long)]
    pub(crate) verify: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
