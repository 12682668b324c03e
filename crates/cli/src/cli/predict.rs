//! The command line of `intarsia predict` and `intarsia advise`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use intarsia_predict::configuration::{Placement, Scheduler};
use intarsia_predict::profile::Stragglers;
use intarsia_predict::search::{Change, Weights};
use intarsia_types::{ByteCount, TierClass};

/// Predict how long a workflow takes on a store that need not exist
///
/// The workload is an instance of WfFormat 1.5 or 1.6, or the small form of docs/user/predict.md. The profile says what the hosts,
/// links and services of a store deliver. Everything printed is simulated from these two; nothing is run.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia predict montage.json --profile lab.json                       all hosts of the profile, files local
  intarsia predict montage.json --profile lab.json --hosts 8 --placement round-robin --stripe-width 4
  intarsia predict montage.json --profile lab.json --storage-hosts 5 --metadata-hosts 1 --chunk 256KiB
  intarsia predict montage.json --profile lab.json --runs 30 --json      an interval from more runs, for programs
  intarsia predict montage.json --profile lab.json --host-failures 2h --stragglers 5%,4 --second-runs 1.5 --runs 50

A workload:
  {\"format\": \"intarsia-workload\", \"version\": 1,
   \"files\": [{\"name\": \"db\", \"size_bytes\": 5000000000}, {\"name\": \"hits\", \"size_bytes\": 1000000}],
   \"tasks\": [{\"name\": \"search\", \"reads\": [\"db\"], \"compute_seconds\": 60, \"writes\": [\"hits\"]}]}

A profile; every field with a unit has it in its name:
  {\"format\": \"intarsia-profile\", \"version\": 1, \"name\": \"lab\", \"hosts\": 16,
   \"provenance\": {\"source\": \"assumed\", \"note\": \"10 Gb/s, one SSD a host\"},
   \"host\": {\"slots\": 4, \"in_bytes_per_second\": 1.25e9, \"out_bytes_per_second\": 1.25e9},
   \"network\": {\"latency_seconds\": 50e-6, \"loopback_bytes_per_second\": 4e9},
   \"manager\": {\"open_seconds\": 1e-4, \"allocate_seconds\": 2e-4, \"commit_seconds\": 2e-4},
   \"tiers\": [{\"class\": \"ssd\", \"capacity_bytes\": 500000000000,
              \"read\": {\"request_seconds\": 1e-4, \"bytes_per_second\": 2e9},
              \"write\": {\"request_seconds\": 1e-4, \"bytes_per_second\": 1e9}}]}")]
pub(crate) struct Predict {
    #[command(flatten)]
    pub(crate) inputs: PredictInputs,
    /// Hosts that are paid for [default: all of the profile]
    #[arg(long, value_name = "N")]
    pub(crate) hosts: Option<u32>,
    /// Hosts of these that only store and run no task [default: none, all of them do both]
    #[arg(long, value_name = "N")]
    pub(crate) storage_hosts: Option<u32>,
    /// Where new files go: local, round-robin, collocate or central [default: as the profile says, else local]
    #[arg(long, value_name = "PLACEMENT")]
    pub(crate) placement: Option<Placement>,
    /// Length of a chunk, such as 256KiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) chunk: Option<ByteCount>,
    /// Hosts that a file is dealt over with --placement round-robin
    #[arg(long, value_name = "N")]
    pub(crate) stripe_width: Option<u32>,
    /// Copies of each file, the first one included
    #[arg(long, value_name = "N")]
    pub(crate) copies: Option<u32>,
    /// The class of tier that files go to: memory, ssd or disk [default: the fastest that has room]
    #[arg(long, value_name = "CLASS")]
    pub(crate) tier: Option<TierClass>,
    /// Who runs a task that is ready: workqueue, location, local or wow
    #[arg(long, value_name = "SCHEDULER")]
    pub(crate) scheduler: Option<Scheduler>,
    /// Frequency of the processors, one of the profile's, in MHz
    #[arg(long, value_name = "MHZ")]
    pub(crate) frequency: Option<u32>,
    /// Runs with other random numbers each, and as many on variants of the profile [default: 10, fewer where these take long]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: Option<u32>,
}

/// Say which configuration of a store is best for a workflow, and why
///
/// Predicts every combination of the choices that are given, shows the fastest, the cheapest (host hours) and those that no
/// other one beats in both, and says in words what decides. Where two cannot be told apart it says so.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia advise montage.json --profile lab.json
  intarsia advise montage.json --profile lab.json --within 10min          the cheapest that is fast enough
  intarsia advise montage.json --profile lab.json --hosts 4,8,16 --placement local,collocate --chunk 1MiB
  intarsia advise montage.json --profile lab.json --storage-hosts all,2,5 --json > advice.json
  intarsia advise montage.json --profile lab.json --report build/advice   a page with pictures
  intarsia advise montage.json --profile lab.json --weigh time=2,cost=1,energy=1
  intarsia advise montage.json --profile lab.json --what-if host.in_bytes_per_second=x10 --what-if manager.open_seconds=0
  intarsia advise montage.json --profile lab.json --search 200            where there are too many combinations

`intarsia predict --help` shows a workload and a profile.")]
pub(crate) struct Advise {
    #[command(flatten)]
    pub(crate) inputs: PredictInputs,
    /// Numbers of hosts to try [default: all of the profile, and halves down to one]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    pub(crate) hosts: Vec<u32>,
    /// Hosts that only store; `all`: every host stores and runs tasks [default: all, and quarters and halves of the hosts]
    #[arg(long, value_name = "all|N,...", value_delimiter = ',', value_parser = storage_hosts)]
    pub(crate) storage_hosts: Vec<StorageHosts>,
    /// Where new files go: local, round-robin, collocate, central [default: the first three]
    #[arg(long, value_name = "PLACEMENT,...", value_delimiter = ',')]
    pub(crate) placement: Vec<Placement>,
    /// Lengths of chunks [default: 256KiB,1MiB,4MiB]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    pub(crate) chunk: Vec<ByteCount>,
    /// Hosts that a file is dealt over with round-robin [default: 4 and all]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub(crate) stripe_width: Vec<u32>,
    /// Copies of each file [default: 1]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub(crate) copies: Vec<u32>,
    /// Who runs a task that is ready: workqueue, location, local, wow [default: workqueue,local]
    #[arg(long, value_name = "SCHEDULER,...", value_delimiter = ',')]
    pub(crate) scheduler: Vec<Scheduler>,
    /// Classes of tiers to try for all files: memory, ssd, disk [default: the fastest that has room, and each that is slower]
    #[arg(long, value_name = "CLASS,...", value_delimiter = ',')]
    pub(crate) tier: Vec<TierClass>,
    /// Do not try hints for files by how tasks use them; nor are they tried where --placement is given
    #[arg(long)]
    pub(crate) no_pattern_hints: bool,
    /// Frequencies of the processors to try, in MHz; `all`: each of the profile [default: that for which it describes hosts]
    #[arg(long, value_name = "all|MHZ,...", value_delimiter = ',', value_parser = frequency)]
    pub(crate) frequency: Vec<Frequency>,
    /// Recommend by what you want: how much time, cost and energy weigh [default: time alone]
    #[arg(long, value_name = "GOAL=WEIGHT,...", value_parser = weights)]
    pub(crate) weigh: Option<Weights>,
    /// Say what a change of the profile would bring, as in `manager.open_seconds=0`; can be given several times
    #[arg(long, value_name = "FIELD=VALUE|FIELD=xFACTOR", value_parser = change)]
    pub(crate) what_if: Vec<Change>,
    /// Look at the configurations of this file, a JSON array, instead of combinations of choices
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub(crate) configurations: Option<PathBuf>,
    /// Let an optimiser choose so many configurations among all that there are, beyond the usual choices
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with_all = ["configurations", "what_if"])]
    pub(crate) search: Option<u32>,
    /// Spread --search over the workers of a dask.distributed scheduler
    #[arg(long, value_name = "ADDRESS", requires = "search")]
    pub(crate) dask: Option<String>,
    /// Also say which is the cheapest that ends within this time, such as 10min
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) within: Option<std::time::Duration>,
    /// Runs of those that are shown, with other random numbers each, and as many on variants of the profile
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) runs: u32,
    /// Write a page besides: report.html in this directory, which needs nothing else
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) report: Option<PathBuf>,
    /// Lines of the table
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
}

/// What both read.
#[derive(Args)]
pub(crate) struct PredictInputs {
    /// What runs, a JSON file; - is standard input
    #[arg(value_name = "WORKLOAD.json", value_hint = ValueHint::FilePath)]
    pub(crate) workload: PathBuf,
    /// What it runs on, a JSON file
    #[arg(long, value_name = "PROFILE.json", value_hint = ValueHint::FilePath)]
    pub(crate) profile: PathBuf,
    /// The configuration, a JSON file; flags change it
    #[arg(long = "configuration", visible_alias = "with", value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub(crate) configuration: Option<PathBuf>,
    /// Metadata servers on hosts of their own [default: one, on a host that stores]
    #[arg(long, value_name = "N")]
    pub(crate) metadata_hosts: Option<u32>,
    /// Metadata servers that keep each change; a majority must have it before it counts [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) metadata_copies: Option<u32>,
    /// Hosts fail after this time in the mean, such as 30d [default: as in the profile, else never]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) host_failures: Option<std::time::Duration>,
    /// A host that failed is back after this time
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5min", requires = "host_failures")]
    pub(crate) repair: std::time::Duration,
    /// Another host takes the place of one that failed: what was on its disks is lost, not only what was in memory
    #[arg(long, requires = "host_failures")]
    pub(crate) lose_disks: bool,
    /// This share of the runs of tasks computes so many times as long, such as 5%,4
    #[arg(long, value_name = "SHARE,TIMES", value_parser = stragglers)]
    pub(crate) stragglers: Option<Stragglers>,
    /// Run a task a second time when it takes so many times the median of its stage, such as 1.5
    #[arg(long, value_name = "TIMES", value_parser = second_runs)]
    pub(crate) second_runs: Option<u32>,
    /// Do not follow the hints of the workload
    #[arg(long)]
    pub(crate) ignore_hints: bool,
    /// From which all random numbers follow
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Threads; the result does not depend on it [default: the processors]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Hosts that only store, if there are any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageHosts(pub(crate) Option<u32>);

fn storage_hosts(text: &str) -> Result<StorageHosts, String> {
    if text == "all" {
        return Ok(StorageHosts(None));
    }
    let count = text.parse().ok().filter(|count| *count > 0);
    count
        .map(|count| StorageHosts(Some(count)))
        .ok_or_else(|| "give 'all' or a number above 0".to_owned())
}

/// A frequency in MHz, or all of the profile's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frequency {
    All,
    Mhz(u32),
}

fn frequency(text: &str) -> Result<Frequency, String> {
    if text == "all" {
        return Ok(Frequency::All);
    }
    let number = text.parse().ok().filter(|mhz| *mhz > 0);
    number.map(Frequency::Mhz).ok_or_else(|| "give 'all' or a frequency in MHz".to_owned())
}

fn change(text: &str) -> Result<Change, String> {
    Change::parse(text).map_err(|problem| {
        problem
            .help
            .map_or_else(|| problem.message.clone(), |help| format!("{}; {help}", problem.message))
    })
}

fn weights(text: &str) -> Result<Weights, String> {
    let mut weights = Weights { time: 0.0, cost: 0.0, energy: 0.0 };
    for one in text.split(',') {
        let help = "give time, cost or energy with a weight, as in time=2,cost=1";
        let (goal, weight) = one.split_once('=').ok_or(help)?;
        let weight: f64 = weight.parse().map_err(|_| help)?;
        if !weight.is_finite() || weight < 0.0 {
            return Err("a weight is a number of 0 or more".to_owned());
        }
        match goal.trim() {
            "time" => weights.time = weight,
            "cost" => weights.cost = weight,
            "energy" => weights.energy = weight,
            other => return Err(format!("'{other}' is no goal: {help}")),
        }
    }
    if weights.time + weights.cost + weights.energy > 0.0 {
        return Ok(weights);
    }
    Err("one weight must be above 0".to_owned())
}

fn stragglers(text: &str) -> Result<Stragglers, String> {
    let help = "give a share and how many times as long, as in 5%,4";
    let (share, slowdown) = text.split_once(',').ok_or(help)?;
    let share = match share.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => share.parse(),
    };
    let (share, slowdown) = (share.map_err(|_| help)?, slowdown.parse::<f64>().map_err(|_| help)?);
    if !(0.0..=1.0).contains(&share) || !(1.0..f64::INFINITY).contains(&slowdown) {
        return Err("the share lies between 0 and 100 %, and the time is 1 or more".to_owned());
    }
    Ok(Stragglers { share, slowdown })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within 100 and 10,000"
)]
fn second_runs(text: &str) -> Result<u32, String> {
    let times: f64 = text.parse().map_err(|_| "give a number, as in 1.5".to_owned())?;
    if (1.0..=100.0).contains(&times) {
        return Ok((times * 100.0).round() as u32);
    }
    Err("it lies between 1 and 100".to_owned())
}
