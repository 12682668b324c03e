//! `life-cycle`: brings stores up and down in every way, interrupted at every step, and looks whether any is lost.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use intarsia_lab_tests::life_cycle::{self, Plan, Report, Stories};

/// Goes through the life cycle of stores over the hosts of labs, and looks whether any store is lost.
#[derive(Parser)]
#[command(
    name = "life-cycle",
    after_help = "Examples:
  life-cycle model                          every verb in every state, killed at every point
  life-cycle model --only Down-Up-up:looked one case
  life-cycle stories --count 200 --seed 7   random stories; a seed that fails prints itself
  life-cycle tables                         the tables of docs/internals/life-cycle.md

LIFE_CYCLE_LOGS=DIR keeps the logs of the hosts of each case that fails.

Exit codes: 0 all is as promised, 1 something is not; 2 wrong command line"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Every verb in every state, and every verb killed at every point
    Model {
        /// Begin no further case after so many minutes
        #[arg(long, default_value_t = 600)]
        minutes: u64,
        /// Labs side by side
        #[arg(long, default_value_t = 4)]
        labs: usize,
        /// Only each so-manieth case
        #[arg(long, default_value_t = 1)]
        every: usize,
        /// Only the cases of these names, or all that have the word in theirs; repeatable
        #[arg(long)]
        only: Vec<String>,
    },
    /// Random stories of 5 to 15 verbs, with kills, lost hosts, full tiers and programs that write
    Stories {
        /// How many
        #[arg(long, default_value_t = 200)]
        count: usize,
        /// From which the stories follow [default: another one each time, printed]
        #[arg(long)]
        seed: Option<u64>,
        /// Begin no further story after so many minutes
        #[arg(long, default_value_t = 600)]
        minutes: u64,
        /// Labs side by side
        #[arg(long, default_value_t = 4)]
        labs: usize,
    },
    /// The tables of the model
    Tables,
    /// Be the one who clears a lab
    #[command(hide = true)]
    Guard { lab: String, dir: PathBuf },
    /// Be a program that writes
    #[command(hide = true)]
    Writer { dir: PathBuf, log: PathBuf, stop: PathBuf, seed: u64 },
}

fn main() -> ExitCode {
    let program = std::env::current_exe().expect("the program knows its own path");
    let limit = |minutes: u64| Duration::from_secs(minutes * 60);
    match Cli::parse().verb {
        Verb::Guard { lab, dir } => done(life_cycle::keep_guard(&lab, &dir)),
        Verb::Writer { dir, log, stop, seed } => {
            done(life_cycle::write_on(&dir, &log, &stop, seed))
        }
        Verb::Tables => {
            print!("{}", life_cycle::tables());
            ExitCode::SUCCESS
        }
        Verb::Model { minutes, labs, every, only } => {
            let is_whole = every == 1 && only.is_empty();
            let plan = Plan { program, labs, limit: limit(minutes), every, only };
            let report = life_cycle::run(&plan);
            show(&report, is_whole)
        }
        Verb::Stories { count, seed, minutes, labs } => {
            let seed = seed.unwrap_or_else(intarsia_posix_tests::fresh_seed);
            println!("seed {seed}");
            show(
                &life_cycle::tell(&Stories { program, count, seed, labs, limit: limit(minutes) }),
                false,
            )
        }
    }
}

fn show(report: &Report, needs_all_points: bool) -> ExitCode {
    print!("{report}");
    let is_well = report.is_clean() && (!needs_all_points || report.unreached().is_empty());
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn done(outcome: std::io::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("life-cycle: {error}");
            ExitCode::FAILURE
        }
    }
}
