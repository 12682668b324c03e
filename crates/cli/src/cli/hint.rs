//! `intarsia hint`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Tell the store what a file is for
///
/// Hints are extended attributes user.intarsia.NAME; what is set on a directory holds for files made
/// in it later. `intarsia hint list` explains each.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia hint set tier=memory close=fast /mnt/work/tmp
  intarsia hint get /mnt/work/tmp
  intarsia hint unset tier /mnt/work/tmp
  intarsia hint rule add '/stage1/**/*.tmp tier=memory'
  setfattr -n user.intarsia.tier -v memory /mnt/work/tmp              the same from any program")]
pub(crate) struct HintVerb {
    #[command(subcommand)]
    pub(crate) verb: HintAction,
}

#[derive(Subcommand)]
pub(crate) enum HintAction {
    /// Set hints on files or directories
    Set(HintSet),
    /// Show the hints of files or directories
    Get(HintGet),
    /// Remove hints from files or directories
    Unset(HintSet),
    /// Explain all hints, and say which are acted upon on this host
    List(Listing),
    /// Hints by path, for programs that copy without attributes
    #[command(subcommand)]
    Rule(RuleAction),
}

#[derive(Args)]
pub(crate) struct HintSet {
    /// NAME=VALUE… (for unset: NAME…), then FILE…; write a file named `a=b` as ./a=b
    #[arg(required = true, num_args = 2.., value_name = "HINT… FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) words: Vec<String>,
    /// Check and say what would be done, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args)]
pub(crate) struct HintGet {
    /// Files or directories in a mount
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Listing {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum RuleAction {
    /// Add rules to a running store; they hold until it goes down
    Add(RuleChange),
    /// Show the rules of a running store
    List(RuleList),
    /// Remove rules from a running store, by their text or their glob
    Remove(RuleChange),
    /// Check rules without a store; with paths, show what they would give
    Check(RuleCheck),
}

#[derive(Args)]
pub(crate) struct RuleChange {
    /// 'GLOB NAME=VALUE…'
    #[arg(required = true, value_name = "RULE")]
    pub(crate) rules: Vec<String>,
    /// Mount point or store directory
    #[arg(long, value_name = "MOUNT|DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    /// Check and say what would be done, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args)]
pub(crate) struct RuleList {
    /// Mount point or store directory
    #[arg(long, value_name = "MOUNT|DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RuleCheck {
    /// 'GLOB NAME=VALUE…'
    #[arg(required = true, value_name = "RULE")]
    pub(crate) rules: Vec<String>,
    /// A path within the store, such as /stage1/a.tmp; repeatable
    #[arg(long = "path", value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
