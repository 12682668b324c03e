//! `intarsia simulate`, and what is handed on to Python.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

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
