//! `faults`: breaks a store over several hosts, again and again, and looks whether anything acknowledged is lost.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use intarsia_lab_tests::faults::{self, Kind, Plan};

/// Breaks a store over the hosts of a lab, and looks whether anything acknowledged is lost.
#[derive(Parser)]
#[command(
    name = "faults",
    after_help = "Examples:
  faults run --rounds 50                            all kinds, one after the other
  faults run --kind power-loss --rounds 5 --seed 7

Exit codes: 0 nothing was lost, 1 something was, or is not as promised; 2 wrong command line"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Break and look
    Run {
        /// What to break; repeatable [default: everything]
        #[arg(long)]
        kind: Vec<Kind>,
        /// How often
        #[arg(long, default_value_t = 2)]
        rounds: u64,
        /// From which places and times follow [default: another one each time, printed]
        #[arg(long)]
        seed: Option<u64>,
        /// Stop at the first content that is lost or wrong, and leave the lab as it is
        #[arg(long)]
        stop: bool,
    },
    /// Be a program on a host
    #[command(hide = true)]
    Actor { dir: PathBuf, book: PathBuf, log: PathBuf, stop: PathBuf, seed: u64 },
}

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Actor { dir, book, log, stop, seed } => {
            match faults::act(&dir, &book, &log, &stop, seed) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("actor: {error}");
                    ExitCode::FAILURE
                }
            }
        }
        Verb::Run { kind, rounds, seed, stop } => {
            let kinds = if kind.is_empty() { Kind::ALL.to_vec() } else { kind };
            let seed = seed.unwrap_or_else(intarsia_posix_tests::fresh_seed);
            let actor = std::env::current_exe().expect("the program knows its own path");
            let mut is_clean = true;
            println!("seed {seed}");
            println!("{}", faults::Report::HEADER);
            for kind in kinds {
                let plan = Plan { kind, rounds, seed, actor: actor.clone(), stops: stop };
                let report = faults::run(&plan);
                println!("{report}");
                is_clean &= report.is_clean();
            }
            if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}
