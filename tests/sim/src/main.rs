//! `sim`: runs many seeds, or one again with all that it says, or the smallest part of one that fails.

mod child;
mod many;
mod shrink;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use clap::Parser;
use intarsia_sim::run::{Choices, Report, run};
use intarsia_sync::simulation::{self, Failure};

use self::child::{Made, UNFINISHED};

/// Whole nodes in one process, on virtual time, from a seed.
///
/// Example: sim --seeds 1000
/// A seed that fails is printed; sim --seed N --shrink finds the smallest run of it that fails, and sim --seed N --trace shows
/// what happened in it.
#[derive(Parser)]
struct Arguments {
    /// Run this seed alone, in this process
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds to run
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Begin no more seeds once one has failed
    #[arg(long)]
    until_failure: bool,
    /// Without --seed: print what came of all runs as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    made: Made,
    /// Runs at the same time [default: the processors]
    #[arg(long)]
    jobs: Option<usize>,
    /// Real seconds after which a run counts as hanging
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// With --seed: keep what the clients did and saw in this directory
    #[arg(long)]
    records: Option<PathBuf>,
    /// With --seed: print what the nodes log, with the simulated time, host and thread
    #[arg(long)]
    trace: bool,
    /// With --seed: find the smallest run of it that fails, by leaving out what can be left out
    #[arg(long, requires = "seed", conflicts_with_all = ["trace", "records"])]
    shrink: bool,
    /// With --shrink: real minutes after which the smallest so far will do
    #[arg(long, default_value_t = 5.0, requires = "shrink")]
    minutes: f64,
}

/// The seed that this process runs, and where its hosts' disks are.
static RUNNING: OnceLock<(u64, PathBuf)> = OnceLock::new();

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a program of its own")]
fn say(text: &str) {
    eprintln!("{text}");
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.seed {
        Some(seed) if arguments.shrink => shrink::shrink(seed, &arguments),
        Some(seed) => run_one(seed, &arguments),
        None => many::run_many(&arguments),
    }
}

/// Simulated time, host and thread, before each line of the log.
struct Moment;

impl tracing_subscriber::fmt::time::FormatTime for Moment {
    fn format_time(
        &self,
        writer: &mut tracing_subscriber::fmt::format::Writer<'_>,
    ) -> std::fmt::Result {
        match simulation::whereabouts() {
            Some((at, group, thread)) => {
                write!(writer, "{:12.6} {group}/{thread}", at.as_secs_f64())
            }
            None => write!(writer, "{:>12}", "-"),
        }
    }
}

/// A run cannot come to its end: what is known of it is printed all the same.
fn give_up(why: String) -> ! {
    if let Some((seed, home)) = RUNNING.get() {
        let report = Report::unfinished(*seed, why);
        print(&serde_json::to_string(&report).unwrap_or_default());
        let _ = std::fs::remove_dir_all(home);
    }
    // Its threads wait for ever: nothing is left to do here.
    std::process::exit(UNFINISHED.into());
}

fn failed(failure: &Failure) {
    let why = format!("FAILED at {:.6} s: {}", failure.at.as_secs_f64(), failure.what);
    say(&why);
    failure.threads.iter().for_each(|line| say(&format!("  {line}")));
    give_up(why);
}

/// Ends a run that takes too long.
fn watch(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        let why = format!("hangs: no end within {} real seconds", limit.as_secs());
        say(&why);
        give_up(why);
    });
}

/// One thread of a run has a turn at a time: on another processor it would only come later. What is begun stays there too.
fn stay_on_one_processor(turn: u64) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let turn = usize::try_from(turn).unwrap_or(0);
    let Some(cpu) = processors.get(turn % processors.len().max(1)) else { return };
    let mut one = CpuSet::new();
    one.set(*cpu);
    // Without it a run only takes longer.
    let _ = sched_setaffinity(None, &one);
}

fn run_one(seed: u64, arguments: &Arguments) -> ExitCode {
    if arguments.trace {
        let filter = tracing_subscriber::EnvFilter::try_from_default_env();
        tracing_subscriber::fmt()
            .with_env_filter(filter.unwrap_or_else(|_| "debug".into()))
            .with_timer(Moment)
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .init();
    }
    stay_on_one_processor(seed);
    let home = match tempfile::Builder::new().prefix("intarsia-sim-").tempdir_in("/dev/shm") {
        Ok(home) => home,
        Err(error) => {
            say(&format!("making a directory in /dev/shm: {error}"));
            return ExitCode::from(2);
        }
    };
    let _ = RUNNING.set((seed, home.path().to_owned()));
    watch(Duration::from_secs(arguments.limit));
    let choices = Choices {
        seed,
        seconds: arguments.made.seconds,
        parts: arguments.made.parts(),
        must_not_break: arguments.made.must_not_break.clone(),
        on_failure: failed,
        records: arguments.records.clone(),
    };
    // On a thread of its own, for which nothing was drawn yet: a log changes nothing.
    let outcome = std::thread::scope(|scope| {
        scope
            .spawn(|| run(&choices, home.path()))
            .join()
            .unwrap_or_else(|_| Err("it panics".into()))
    });
    let _ = home.close();
    let code = match outcome {
        Ok(report) => {
            print(&serde_json::to_string(&report).unwrap_or_default());
            report.violations.iter().for_each(|violation| say(&format!("VIOLATION {violation}")));
            u8::from(!report.violations.is_empty())
        }
        Err(why) => {
            say(&why);
            2
        }
    };
    // Threads of hosts that were killed wait for ever.
    std::process::exit(code.into());
}
