//! `intarsia up`, the node that it starts, and their settings.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use intarsia_cluster::deployment::Encrypt;

use crate::config::{Given, Key, Layers, Source};

/// Bring a store up and mount it
///
/// Checks everything first, starts a node in the background and waits until programs can work in the
/// mount. The `export` line goes to standard output, all other text to standard error.
#[derive(Args, Clone)]
#[command(after_long_help = "Examples:
  eval \"$(intarsia up /mnt/work)\"
  intarsia up ~/work --tier /ssd/me/work,class=ssd,capacity=200GiB --tier /dev/shm/work,class=memory
  intarsia up ~/work --durability sync --rule '*.tmp tier=memory close=fast'
  intarsia up ~/work --dry-run --json
  intarsia up /mnt/work --hosts 'node[01-08]' --tier /local/ssd/work
  intarsia up /mnt/work --hosts 'node[001-256]' --meta-hosts 31    many small files
  intarsia up /mnt/work --tier /local/ssd/work        in a Slurm job: on all its hosts
  intarsia up /mnt/work --advice advice.json          as 'intarsia advise --json' recommends
  intarsia up '/mnt/{host}' --lab lab --dir '/tmp/lab/{host}'     a cluster on this machine
  intarsia up /mnt/work --stage-in /project/raw/. --stage-out results /project/results --discard \\
    -- snakemake --directory /mnt/work --cores all      for one command: it is down when that has ended

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
    /// is there, what was changed since then is not in it; without the files of tiers of which nothing is there; and, with
    /// one host alone, with one copy of each change
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
    /// In a job of several hosts: delete the data when the store goes down, at the latest with the job. With a COMMAND: when
    /// that has ended
    #[arg(long)]
    pub(crate) discard: bool,
    /// Bring it up as this advice recommends, and say what of it is applied; it is what `advise --json` prints. Other
    /// flags come before it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "join")]
    pub(crate) advice: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) around: AroundFlags,
    #[command(flatten)]
    pub(crate) place: PlaceFlags,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
    /// Run this once the store is up, with INTARSIA_MOUNT in its environment, and take the store down when it has ended; its exit
    /// code is this one's
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["json", "join"], help_heading = "Arguments")]
    pub(crate) command: Vec<OsString>,
}

/// What happens around a command that the store is for.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "With a COMMAND")]
pub(crate) struct AroundFlags {
    /// Copy this into the store first, verified, as `stage in` does; repeatable; SOURCE/. is its content
    #[arg(long, value_name = "SOURCE", requires = "command", value_hint = ValueHint::AnyPath)]
    pub(crate) stage_in: Vec<OsString>,
    /// Copy what lies at PATH in the store to DEST at the end, verified, also if the command failed; repeatable
    #[arg(long, num_args = 2, value_names = ["PATH", "DEST"], requires = "command", value_hint = ValueHint::AnyPath)]
    pub(crate) stage_out: Vec<OsString>,
}

/// Several hosts as one store.
#[derive(Args, Clone, Default)]
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

#[derive(Args, Clone)]
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
#[derive(Args, Clone, Default)]
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
    /// Record what programs do with files: coarse (opens, closes, names, bytes), fine (each request, which makes reads
    /// and writes slower) or off; see 'intarsia record' [default: off]
    #[arg(long, value_name = "off|coarse|fine")]
    pub(crate) record: Option<String>,
    /// What the log of a recording may take [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) record_limit: Option<String>,
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
            (Key::Record, self.record.as_ref()),
            (Key::RecordLimit, self.record_limit.as_ref()),
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
