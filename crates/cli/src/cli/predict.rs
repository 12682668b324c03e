//! The command line of `intarsia predict` and `intarsia advise`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use intarsia_predict::configuration::{Placement, Scheduler};
use intarsia_types::ByteCount;

/// Predict how long a workflow takes on a store that need not exist
///
/// The workload is an instance of WfFormat 1.5 or the small form of docs/user/predict.md. The profile says what the hosts,
/// links and services of a store deliver. Everything printed is simulated from these two; nothing is run.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia predict montage.json --profile lab.json                       all hosts of the profile, files local
  intarsia predict montage.json --profile lab.json --hosts 8 --placement round-robin --stripe-width 4
  intarsia predict montage.json --profile lab.json --storage-hosts 5 --metadata-hosts 1 --chunk 256KiB
  intarsia predict montage.json --profile lab.json --runs 10 --json      other random numbers each, for programs

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
    /// Where new files go: local, round-robin or collocate
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
    /// Who runs a task that is ready: workqueue or location
    #[arg(long, value_name = "SCHEDULER")]
    pub(crate) scheduler: Option<Scheduler>,
    /// Repeat the run with other random numbers, for an interval
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: u32,
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
    /// Where new files go: local, round-robin, collocate [default: each]
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
    /// Who runs a task that is ready: workqueue, location [default: each]
    #[arg(long, value_name = "SCHEDULER,...", value_delimiter = ',')]
    pub(crate) scheduler: Vec<Scheduler>,
    /// Also say which is the cheapest that ends within this time, such as 10min
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) within: Option<std::time::Duration>,
    /// Runs of the best ones, with other random numbers each
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
