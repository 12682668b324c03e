//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use serde::{Deserialize, Serialize};

use crate::exit;

mod hint;
mod lab;
mod members;
mod predict;
mod record;
mod simulate;
mod stage;
mod up;
pub(crate) use hint::*;
pub(crate) use lab::*;
pub(crate) use members::*;
pub(crate) use predict::*;
pub(crate) use record::*;
pub(crate) use simulate::*;
pub(crate) use stage::*;
pub(crate) use up::*;

/// Intermediate storage for workflows, as a file system of this host's disks, SSDs and memory.
///
/// `intarsia up` mounts a store in which unmodified programs run; its files are plain files in the
/// directories that you name. Hints tell the store what will be done with a file.
#[derive(Parser)]
#[command(name = "intarsia", version, max_term_width = 100, after_long_help = concat_help(
    "Examples:
  eval \"$(intarsia up /mnt/work)\"     bring a store up, set INTARSIA_MOUNT
  intarsia status                     what it holds and does
  intarsia down /mnt/work             take it down; the data stays"))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

fn concat_help(examples: &str) -> String {
    format!("{examples}\n\n{}", exit::HELP)
}

#[derive(Args)]
pub(crate) struct Global {
    /// Configuration file instead of the usual places [env: INTARSIA_CONFIG]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Form of the log lines on standard error (filter: INTARSIA_LOG, such as debug)
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    Up(Box<Up>),
    Down(Down),
    Status(Status),
    Locate(Locate),
    Hint(HintVerb),
    Check(Check),
    Lost(Lost),
    Balance(Balance),
    Leave(Leave),
    Doctor(Doctor),
    Config(ConfigVerb),
    Simulate(Simulate),
    Record(RecordVerb),
    /// Make the workload of a run from what was recorded of it: by a store, strace, Darshan, WfFormat
    #[command(disable_help_flag = true)]
    Trace(PythonArguments),
    /// Measure a directory or a store as a black box, as a profile for `predict` and `advise`
    #[command(disable_help_flag = true)]
    Seed(PythonArguments),
    /// Correct a profile by what runs took that were predicted with it
    #[command(disable_help_flag = true)]
    Refine(PythonArguments),
    Predict(Predict),
    Advise(Advise),
    /// Run a workflow's tasks over hosts, beside their data: commands in YAML, or a replay of WfFormat
    #[command(disable_help_flag = true)]
    Run(PythonArguments),
    /// Find by experiments which settings decide how fast a store is
    #[command(disable_help_flag = true)]
    Characterise(PythonArguments),
    /// Fit a model of a store's latency, and predict with it
    #[command(disable_help_flag = true)]
    Model(PythonArguments),
    /// Say which of several unlike stores should hold which load
    #[command(disable_help_flag = true)]
    BalanceStores(PythonArguments),
    /// Forecast what deduplication brings: size and ratio of a store of backups, also from a sample
    #[command(disable_help_flag = true)]
    ForecastDedup(PythonArguments),
    Stage(StageVerb),
    Lab(LabVerb),
    Node(Node),
    #[command(hide = true)]
    Agent(Agent),
    #[command(hide = true)]
    Launcher,
    /// Have the kernel write back what it holds of the mount at a path
    #[command(hide = true)]
    WriteBack {
        /// The mount
        path: PathBuf,
        /// What has to be there, as MAJOR:MINOR
        device: String,
    },
    Completions(Completions),
    Man(Man),
}

/// Take a store down; its data stays unless --purge is given
///
/// Works with a dead node too, and names whoever keeps the mount busy. Nothing to take down is no failure.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia down /mnt/work
  intarsia down /mnt/work --lazy        leave the mount to the programs that still use it
  intarsia down /mnt/work --force       end the node although programs hold files open
  intarsia down /mnt/work --purge       delete the data as well
  intarsia down /mnt/work --hosts 'node[01-08]'")]
pub(crate) struct Down {
    /// Mount point or store directory [default: INTARSIA_MOUNT, or the only store]
    #[arg(value_name = "MOUNT|DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    /// End the node although programs use the mount; what they have open fails for them
    #[arg(long, conflicts_with = "lazy")]
    pub(crate) force: bool,
    /// Detach the mount now; the node ends when the last program has closed its files
    #[arg(long)]
    pub(crate) lazy: bool,
    /// The store's directory, as for `up`, where nothing is mounted and nobody remembers it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// How long a node may take to end without saying anything new [default: 10s; for one that shows that it lives 10m, with
    /// --force 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    #[command(flatten)]
    pub(crate) hosts: HostFlags,
    /// Delete the store's data too
    #[arg(long)]
    pub(crate) purge: bool,
    /// Say what would be done, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the stores that are up, or one of them
///
/// With a store (or INTARSIA_MOUNT, or a single store) its state in full, else a list.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia status
  intarsia status /mnt/work --json
  intarsia status /mnt/work --hosts 'node[01-08]'     all hosts of a store, one line each
  intarsia status /mnt/work --metrics                 Prometheus text")]
pub(crate) struct Status {
    /// Mount point or store directory
    #[arg(value_name = "MOUNT|DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    /// List all stores, one line each
    #[arg(long, conflicts_with_all = ["store", "metrics"])]
    pub(crate) all: bool,
    /// Print the metrics as Prometheus text
    #[arg(long, conflicts_with = "json")]
    pub(crate) metrics: bool,
    #[command(flatten)]
    pub(crate) hosts: HostFlags,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say on which node a file lies, and how
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia locate /mnt/work/a.dat /mnt/work/b.dat
  intarsia locate --chunks /mnt/work/matrix.dat                       which host has which region
  getfattr -n user.intarsia.location --only-values /mnt/work/a.dat    the same from any program
  getfattr -n user.intarsia.node --only-values .                      am I in a store, and whose?")]
pub(crate) struct Locate {
    /// Files in a mount
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// Say of each run of bytes where it lies, for files that are dealt over hosts
    #[arg(long)]
    pub(crate) chunks: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Verify a store: names, inodes, files in the tiers and, with --content, what is in them
///
/// A running store is checked by its node, any other is opened without mounting it.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia check /mnt/work
  intarsia check ~/.local/state/intarsia/home-me-work --repair")]
pub(crate) struct Check {
    /// Mount point or store directory [default: INTARSIA_MOUNT, or the only store]
    #[arg(value_name = "MOUNT|DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    /// Repair what can be repaired; the store must be down
    #[arg(long)]
    pub(crate) repair: bool,
    /// Also read every file and compare it with its checksums
    #[arg(long)]
    pub(crate) content: bool,
    /// With --repair: say what would be repaired, but do nothing
    #[arg(long, requires = "repair")]
    pub(crate) dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what a bug report needs: versions, FUSE, passthrough, limits, configuration, stores, logs
///
/// Ends with 0 when all is well, 3 when something deserves attention, 1 when no store can be mounted.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia doctor
  intarsia doctor --json > report.json")]
pub(crate) struct Doctor {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The FUSE device
    #[arg(long, hide = true, default_value = "/dev/fuse")]
    pub(crate) fuse_device: PathBuf,
}

/// Look at the configuration
#[derive(Args)]
pub(crate) struct ConfigVerb {
    #[command(subcommand)]
    pub(crate) verb: ConfigAction,
}

#[derive(Subcommand)]
pub(crate) enum ConfigAction {
    Show(ConfigShow),
}

/// Show the effective configuration with the source of each value
///
/// Flag over environment over file over default. The file is the first of --config, INTARSIA_CONFIG,
/// $XDG_CONFIG_HOME/intarsia/config.toml and /etc/intarsia/config.toml. The output is itself a
/// valid file.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia config show > config.toml
  INTARSIA_DURABILITY=sync intarsia config show --json")]
pub(crate) struct ConfigShow {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// Print completions for a shell
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia completions bash > ~/.local/share/bash-completion/completions/intarsia
  intarsia completions zsh > ~/.zfunc/_intarsia
  intarsia completions fish > ~/.config/fish/completions/intarsia.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write the pages of all verbs into a directory
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia man | man -l -
  intarsia man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Made if it is missing
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}
