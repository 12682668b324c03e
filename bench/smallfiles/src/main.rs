//! Creates, inspects, lists, reads and removes many small files in one directory, and prints the
//! rate and the CPU time of each phase as JSON.

mod cpu;
mod phase;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::phase::{Outcome, Phase, Plan};

/// Measures small files in one directory.
///
/// Cold phases begin by dropping the kernel's cached names and attributes, which needs root; without
/// root they are left out of the result instead of being reported warm.
#[derive(Debug, Parser)]
#[command(name = "smallfiles", version)]
struct Args {
    /// Directory to work in; a new directory is made inside it and removed at the end.
    directory: PathBuf,
    /// Number of files.
    #[arg(long, default_value_t = 10_000)]
    files: usize,
    /// Bytes written to and read from each file.
    #[arg(long, default_value_t = 4096)]
    bytes: usize,
    /// Client threads; they share the directory and divide the files.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Phases to run, in order; files exist only between `create` and `unlink`.
    #[arg(long, value_delimiter = ',', default_values = Phase::NAMES)]
    phases: Vec<Phase>,
    /// Also report the CPU time of these processes (the file system's server) in each phase.
    #[arg(long, value_delimiter = ',', value_name = "PID")]
    server_pids: Vec<u32>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("smallfiles: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> io::Result<()> {
    let plan = Plan {
        directory: args.directory.join(format!("smallfiles-{}", std::process::id())),
        files: args.files,
        content: vec![0x5a; args.bytes],
        clients: usize::from(args.clients),
    };
    std::fs::create_dir(&plan.directory)?;
    let outcomes = args
        .phases
        .iter()
        .filter_map(|phase| phase.measure(&plan, &args.server_pids).transpose())
        .collect::<io::Result<Vec<Outcome>>>();
    std::fs::remove_dir_all(&plan.directory)?;
    print(&plan, &outcomes?)
}

fn print(plan: &Plan, outcomes: &[Outcome]) -> io::Result<()> {
    let phases: Vec<String> = outcomes.iter().map(|outcome| outcome.to_json()).collect();
    writeln!(
        io::stdout(),
        "{{\"files\": {}, \"bytes\": {}, \"clients\": {}, \"phases\": {{{}}}}}",
        plan.files,
        plan.content.len(),
        plan.clients,
        phases.join(", "),
    )
}

#[allow(clippy::print_stderr, reason = "a command reports its errors on standard error")]
fn complain(message: &str) {
    eprintln!("{message}");
}
