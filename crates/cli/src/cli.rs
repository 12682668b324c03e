//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use intarsia_cluster::deployment::Encrypt;
use intarsia_types::ByteCount;
use serde::{Deserialize, Serialize};

use crate::config::{Given, Key, Layers, Source};
use crate::exit;

mod lab;
mod predict;
mod stage;
pub(crate) use lab::*;
pub(crate) use predict::*;
pub(crate) use stage::*;

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
    Up(Up),
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
    Predict(Predict),
    Advise(Advise),
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
    Completions(Completions),
    Man(Man),
}

/// Bring a store up and mount it
///
/// Checks everything first, starts a node in the background and waits until programs can work in the
/// mount. The `export` line goes to standard output, all other text to standard error.
#[derive(Args)]
#[command(after_long_help = "Examples:
  eval \"$(intarsia up /mnt/work)\"
  intarsia up ~/work --tier /ssd/me/work,class=ssd,capacity=200GiB --tier /dev/shm/work,class=memory
  intarsia up ~/work --durability sync --rule '*.tmp tier=memory close=fast'
  intarsia up ~/work --dry-run --json
  intarsia up /mnt/work --hosts 'node[01-08]' --tier /local/ssd/work
  intarsia up /mnt/work --hosts 'node[001-256]' --meta-hosts 31    many small files
  intarsia up /mnt/work --tier /local/ssd/work        in a Slurm job: on all its hosts
  intarsia up '/mnt/{host}' --lab lab --dir '/tmp/lab/{host}'     a cluster on this machine

Each setting can also stand in the environment (INTARSIA_DURABILITY=sync) or in a TOML file
(durability = \"sync\"). A flag wins over the environment, that over the file, that over the default.")]
pub(crate) struct Up {
    /// Check everything and say what would be done, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as JSON instead of the `export` line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) hosts: HostFlags,
    /// Have the hosts join the store that is mounted here on this host; its other hosts go on
    #[arg(long, value_name = "MOUNT", value_hint = ValueHint::DirPath,
          conflicts_with_all = ["meta", "meta_ca", "meta_hosts", "encrypt", "discard"])]
    pub(crate) join: Option<PathBuf>,
    /// With several hosts: keep the metadata on servers that exist, as rediss://user@host:port, with a
    /// password better in [env: INTARSIA_META]; else the hosts run servers of their own
    #[arg(long, value_name = "URL")]
    pub(crate) meta: Option<String>,
    /// The authority that signed the certificates of these servers, in PEM [default: those of the system]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) meta_ca: Option<PathBuf>,
    /// With several hosts: how many of them begin with metadata servers. With 3 or more the store goes on by itself
    /// when any one host is lost; more do more at once, and cost more when nothing happens [default: 3, 5 from 25
    /// hosts on, 7 from 49, 15 at most]
    #[arg(long, value_name = "N", conflicts_with = "meta")]
    pub(crate) meta_hosts: Option<usize>,
    /// With several hosts, after some were lost: go on with an older copy of the part of the names of which no newer one
    /// is there, what was changed since then is not in it; and, with one host alone, with one copy of each change
    #[arg(long, conflicts_with = "join")]
    pub(crate) accept_loss: bool,
    /// What is encrypted between several hosts: metadata, all, or off; that a host belongs is proved in
    /// any case
    #[arg(long, value_name = "metadata|all|off", default_value = "metadata")]
    pub(crate) encrypt: Encrypt,
    /// With several hosts: the first of 9 ports that a node and its metadata servers listen on
    #[arg(long, value_name = "PORT", default_value_t = 7400,
          value_parser = clap::value_parser!(u16).range(1..=65527))]
    pub(crate) port: u16,
    /// In a job of several hosts: delete the data when the store goes down, at the latest with the job
    #[arg(long)]
    pub(crate) discard: bool,
    #[command(flatten)]
    pub(crate) place: PlaceFlags,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// Several hosts as one store.
#[derive(Args, Default)]
#[command(next_help_heading = "Several hosts (paths may contain {host}, the name of each)")]
pub(crate) struct HostFlags {
    /// The hosts, as a,b,c[01-10] [default: those of the Slurm or PBS job, else this one alone]
    #[arg(long, value_name = "HOSTS", conflicts_with = "hostfile")]
    pub(crate) hosts: Option<String>,
    /// A file with hosts, one or an expression a line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) hostfile: Option<PathBuf>,
    /// The nodes of this lab (see 'intarsia lab'), all of them without --hosts
    #[arg(long, value_name = "LAB")]
    pub(crate) lab: Option<String>,
    /// How the hosts are reached, as 'ssh -p 2222 -i KEY' [env: INTARSIA_SSH]
    /// [default: srun within a Slurm job, else ssh]
    #[arg(long, value_name = "COMMAND", conflicts_with = "lab")]
    pub(crate) ssh: Option<String>,
    /// This host alone, also in a job of several
    #[arg(long, conflicts_with_all = ["hosts", "hostfile", "lab"])]
    pub(crate) this_host: bool,
}

/// The part of a verb over several hosts that runs on each of them.
#[derive(Args)]
pub(crate) struct Agent {
    /// What to do
    pub(crate) duty: Duty,
}

/// What an agent does with its orders, the first line of its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Duty {
    /// Look at everything and change nothing.
    Inspect,
    /// Look, and start a node when told to, which stays when told to.
    Up,
    /// Take down what is here, step by step as told.
    Down,
    /// Start a node that lives no longer than whoever holds the other end of standard input.
    Keep,
    /// List the points at which tests can end a process.
    Points,
}

/// Run a node in the foreground, for service managers and containers
///
/// Takes the same settings as `up`. SIGTERM and SIGINT unmount, close the store and end the node.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia node --mount /mnt/work --dir /var/lib/intarsia/work
  exec intarsia node --config /etc/intarsia/config.toml --log-format json")]
pub(crate) struct Node {
    /// Settings come through standard input, readiness goes to standard output
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    #[command(flatten)]
    pub(crate) place: PlaceFlags,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Args)]
pub(crate) struct PlaceFlags {
    /// Mount over a directory that is not empty; its files are hidden meanwhile
    #[arg(long)]
    pub(crate) nonempty: bool,
    /// The FUSE device
    #[arg(long, hide = true, default_value = "/dev/fuse")]
    pub(crate) fuse_device: PathBuf,
}

/// Settings of a store. Each can also stand in the environment (INTARSIA_DURABILITY) or in the TOML file
/// (durability = "sync"); a flag wins over the environment, that over the file.
#[derive(Args, Default)]
#[command(next_help_heading = "Settings ('intarsia config show' prints values and defaults)")]
pub(crate) struct SettingFlags {
    /// Where to mount the store; made if it is missing, and then removed by `down`
    /// [default: ~/intarsia, for root /mnt/intarsia]
    #[arg(value_name = "MOUNT", value_hint = ValueHint::DirPath, help_heading = "Arguments")]
    pub(crate) place: Option<String>,
    /// The same as MOUNT
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "place")]
    pub(crate) mount: Option<String>,
    /// The store's directory: metadata, log, control socket
    /// [default: ~/.local/state/intarsia/NAME, for root /var/lib/intarsia/NAME]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<String>,
    /// A directory for the files, DIR[,class=memory|ssd|disk][,capacity=10GiB]; repeatable
    /// [default: `tier` in the store's directory]
    #[arg(long = "tier", value_name = "TIER", value_hint = ValueHint::DirPath)]
    pub(crate) tiers: Vec<String>,
    /// A directory whose tree appears in the store's, such as one of a parallel file system; read, never
    /// written. The same for the life of the store, and on every host
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) lower: Option<String>,
    /// When no tier has room, put new files into a directory of the lower file system, which does not show
    #[arg(long)]
    pub(crate) overflow: bool,
    /// Directory with the description and the secrets of a deployment of several hosts, of which this
    /// is one; `up --hosts` makes it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) deployment: Option<String>,
    /// The node's name, as the batch system calls the host
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What an acknowledged close survives: memory nothing, interval any process, sync power loss
    #[arg(long, value_name = "memory|interval|sync")]
    pub(crate) durability: Option<String>,
    /// With interval: what power loss can take back at most, such as 1s
    #[arg(long, value_name = "TIME")]
    pub(crate) interval: Option<String>,
    /// Serve all I/O through the process, also where the kernel offers passthrough
    #[arg(long)]
    pub(crate) no_passthrough: bool,
    /// With several hosts: ask the metadata servers for every name, keep nothing of directories
    #[arg(long)]
    pub(crate) no_directory_leases: bool,
    /// Largest file kept beside its inode, such as 4KiB; 0 for none
    #[arg(long, value_name = "SIZE")]
    pub(crate) inline_limit: Option<String>,
    /// Room for all such files
    #[arg(long, value_name = "SIZE")]
    pub(crate) inline_budget: Option<String>,
    /// Free bytes below which a tier takes no new files
    #[arg(long, value_name = "SIZE")]
    pub(crate) watermark: Option<String>,
    /// Memory for cached metadata
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache: Option<String>,
    /// Hints for every path that matches, 'GLOB NAME=VALUE…'; repeatable, a later rule wins
    #[arg(long = "rule", value_name = "RULE")]
    pub(crate) rules: Vec<String>,
    /// Copies of each file on different hosts, where no hint says [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) replicas: Option<String>,
    /// Bytes a second that copies made in the background may take, such as 50MiB; 0 for no bound
    #[arg(long, value_name = "SIZE")]
    pub(crate) copy_rate: Option<String>,
    /// Threads that serve the kernel; 0 chooses
    #[arg(long, value_name = "N")]
    pub(crate) event_loops: Option<String>,
    /// Let other users in, as far as permissions go [default: only when root mounts]
    #[arg(long, overrides_with = "no_allow_other")]
    pub(crate) allow_other: bool,
    /// Keep all other users out
    #[arg(long)]
    pub(crate) no_allow_other: bool,
    /// Mount read-only
    #[arg(long)]
    pub(crate) read_only: bool,
    /// How long `up` waits for the node [default: 20s]
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<String>,
}

impl SettingFlags {
    /// The strongest layer of the configuration.
    pub(crate) fn layers(&self) -> Layers {
        let mut layers = Layers::default();
        let mut add = |key, texts: Vec<String>| {
            if !texts.is_empty() {
                layers.add(key, Given { texts, source: Source::Flag });
            }
        };
        for (key, text) in [
            (Key::Mount, self.place.as_ref().or(self.mount.as_ref())),
            (Key::Dir, self.dir.as_ref()),
            (Key::Lower, self.lower.as_ref()),
            (Key::Deployment, self.deployment.as_ref()),
            (Key::Name, self.name.as_ref()),
            (Key::Durability, self.durability.as_ref()),
            (Key::Interval, self.interval.as_ref()),
            (Key::InlineLimit, self.inline_limit.as_ref()),
            (Key::InlineBudget, self.inline_budget.as_ref()),
            (Key::Watermark, self.watermark.as_ref()),
            (Key::Cache, self.cache.as_ref()),
            (Key::Replicas, self.replicas.as_ref()),
            (Key::CopyRate, self.copy_rate.as_ref()),
            (Key::EventLoops, self.event_loops.as_ref()),
            (Key::Wait, self.wait.as_ref()),
        ] {
            add(key, text.cloned().into_iter().collect());
        }
        for (key, is_given, text) in [
            (Key::Overflow, self.overflow, "true"),
            (Key::Passthrough, self.no_passthrough, "false"),
            (Key::DirectoryLeases, self.no_directory_leases, "false"),
            (Key::AllowOther, self.allow_other, "true"),
            (Key::AllowOther, self.no_allow_other, "false"),
            (Key::ReadOnly, self.read_only, "true"),
        ] {
            add(key, is_given.then(|| text.to_owned()).into_iter().collect());
        }
        add(Key::Tiers, self.tiers.clone());
        add(Key::Rules, self.rules.clone());
        layers
    }
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
    /// How long a node may take to end without showing that it works; with --force, to end at all
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) timeout: String,
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
  getfattr -n user.intarsia.location --only-values /mnt/work/a.dat    the same from any program
  getfattr -n user.intarsia.node --only-values .                      am I in a store, and whose?")]
pub(crate) struct Locate {
    /// Files in a mount
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

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

/// Move files between hosts until all are about equally full
///
/// Files that somebody has open stay where they are. The store can be used meanwhile.
/// Ends with 3 when some files could not be moved.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia balance /mnt/work --dry-run           what would move
  intarsia balance /mnt/work --rate 200MiB       at most 200 MiB a second")]
pub(crate) struct Balance {
    /// Mount point on this host [default: INTARSIA_MOUNT, or the only store]
    #[arg(value_name = "MOUNT", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rate: MoveRate,
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

/// Simulate machines that nobody has at hand: checkpoints and failures, file systems at scale
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia simulate presets                              scenarios that come with the program
  intarsia simulate checkpoint --preset rxsim-pfs        a million nodes, checkpoints to a central file system
  intarsia simulate checkpoint my.toml --json > my.json  your own scenario, for programs")]
pub(crate) struct Simulate {
    #[command(subcommand)]
    pub(crate) verb: SimulateVerb,
}

#[derive(Subcommand)]
pub(crate) enum SimulateVerb {
    /// Which share of a machine's time is useful work when nodes fail?
    ///
    /// Jobs run, fail, are repaired, restart from their last checkpoint and finish. The report says where
    /// the time went: useful work, writing checkpoints, lost work, booting, repair. A scenario is a TOML
    /// file, a preset, or a file that changes a preset; `--dry-run` prints all of it, defaults included.
    #[command(after_long_help = "Examples:
  intarsia simulate checkpoint --preset rxsim-dfs
  intarsia simulate checkpoint --preset rxsim-pfs --set machine.nodes=131072 --set checkpoint.interval='2 h'
  intarsia simulate checkpoint --preset rxsim-pfs --dry-run > my.toml     a start for your own scenario
  intarsia simulate checkpoint my.toml --replications 100 --json > my.json

A scenario, in which [[level]] says where checkpoints go:
  [machine]
  nodes = 9_408
  memory_per_node = \"512 GiB\"
  reboot = \"5 min\"
  [failures]
  lifetime = { model = \"exponential\", mean = \"5 years\" }
  [[level]]
  name = \"lustre\"
  kind = \"lower\"
  bandwidth = \"5 TB/s\"
  [workload]
  walltime = \"12 h\"")]
    Checkpoint(SimulateCheckpoint),
    /// What does a file system over all nodes of a machine deliver?
    ///
    /// Nodes follow a program of metadata operations, writes, reads and barriers on a local-first, striped or
    /// central file system; messages cross a torus, a fat tree, a dragonfly or I/O nodes, and queue there.
    /// The report gives throughput, efficiency and latencies of each phase and how busy the links were.
    #[command(after_long_help = "Examples:
  intarsia simulate scale --preset fusionsim-bgp --nodes 512,1024,16384,2097152
  intarsia simulate scale --preset striped-bgp --set network.kind=ideal --nodes 4096
  intarsia simulate scale my.toml --nodes 64,4096 --json > my.json      an array, one object a number of nodes
  intarsia simulate scale --preset fusionsim-bgp --calibrate published  fit constants to measured rates

A scenario:
  [nodes]
  count = [64, 4096]
  [system]
  kind = \"local-first\"
  device_write = \"2 GB/s\"
  device_read = \"4 GB/s\"
  [system.metadata]
  create = \"50 us\"
  [network]
  kind = \"dragonfly\"
  link_rate = \"25 GB/s\"
  [workload]
  kind = \"ior\"")]
    Scale(SimulateScale),
    /// What do streams of requests see on an array of disks, a flash drive or a network volume?
    ///
    /// For programs: an array of runs in, an array of outcomes out, both JSON. Each stream keeps its number of
    /// requests outstanding. An outcome has latencies in ms, requests a second and the seeks that were seen.
    /// `python -m intarsia.characterise stores` does it for people, with stores that come with the program.
    #[command(after_long_help = "Examples:
  intarsia simulate datastores runs.json > outcomes.json
  python -m intarsia.characterise stores --json | jq .nas       a store to start from

A run; requests, warmup, seed and trace may be left out:
  [{\"store\": {\"kind\": \"network\", \"capacity_bytes\": 1000000000000, \"round_trip_ms\": 0.5,
              \"round_trip_sigma\": 0.3, \"iops\": 3000, \"burst\": 100, \"bytes_per_second\": 125000000,
              \"servers\": 8, \"read_ms\": 0.4, \"write_ms\": 0.9},
    \"streams\": [{\"random\": 0.75, \"read\": 0.95, \"bytes\": 4096, \"outstanding\": 4}]}]")]
    Datastores(SimulateDatastores),
    /// List the scenarios that come with the program, or print one
    #[command(after_long_help = "Examples:
  intarsia simulate presets
  intarsia simulate presets rxsim-pfs > my.toml")]
    Presets(SimulatePresets),
    /// Run a sweep, or a study that comes with the program: tables, figures, an HTML report
    #[command(disable_help_flag = true)]
    Study(PythonArguments),
    /// Fit distributions to failure records
    #[command(disable_help_flag = true)]
    Fit(PythonArguments),
    /// Write the report of a finished study anew
    #[command(disable_help_flag = true)]
    Report(PythonArguments),
}

/// What the Python package reads by itself; `--help` prints it.
#[derive(Args)]
pub(crate) struct PythonArguments {
    /// Arguments of the Python package; --help lists them
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct SimulateStudy {
    /// The scenario, a TOML file; - is standard input
    #[arg(value_name = "SCENARIO.toml", value_hint = ValueHint::FilePath)]
    pub(crate) scenario: Option<PathBuf>,
    /// Start from a scenario that comes with the program; the file changes it
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Change one field, such as machine.nodes=4096 or failures.lifetime.mean='5 years'; repeatable
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,
    /// From which all random numbers follow; the same as --set run.seed=N
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How often the run is repeated with other random numbers; the same as --set run.replications=N
    #[arg(long, value_name = "N")]
    pub(crate) replications: Option<u64>,
    /// Threads for the replications; the results do not depend on it [default: the processors]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the estimates as CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Check the scenario and print all of it, but simulate nothing
    #[arg(long, conflicts_with = "csv")]
    pub(crate) dry_run: bool,
}

#[derive(Args)]
pub(crate) struct SimulateCheckpoint {
    #[command(flatten)]
    pub(crate) study: SimulateStudy,
    /// Also write the jobs that the first replication finishes, in the Standard Workload Format
    #[arg(long, value_name = "FILE.swf", value_hint = ValueHint::FilePath, conflicts_with = "dry_run")]
    pub(crate) jobs: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct SimulateScale {
    #[command(flatten)]
    pub(crate) study: SimulateStudy,
    /// Numbers of compute nodes, each simulated by itself; instead of nodes.count
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    pub(crate) nodes: Vec<u32>,
    /// Fit constants to measured rates and print the error of each point; `published` is a table that
    /// comes with the program
    #[arg(long, value_name = "POINTS.toml", conflicts_with_all = ["nodes", "csv", "dry_run"])]
    pub(crate) calibrate: Option<PathBuf>,
    /// Print published IO500 results of real file systems, as outside reference points
    #[arg(long, conflicts_with_all = ["scenario", "preset", "nodes", "calibrate", "csv", "dry_run"])]
    pub(crate) io500: bool,
}

#[derive(Args)]
pub(crate) struct SimulateDatastores {
    /// The runs, a JSON file; - is standard input
    #[arg(value_name = "RUNS.json", value_hint = ValueHint::FilePath)]
    pub(crate) runs: PathBuf,
    /// Runs that are simulated at the same time; by default one for each processor
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

#[derive(Args)]
pub(crate) struct SimulatePresets {
    /// Print the scenario of this name
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "name")]
    pub(crate) json: bool,
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
