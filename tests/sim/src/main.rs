//! `sim`: runs many seeds, or one again with all that it says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use intarsia_sim::run::{Choices, Report, run};
use intarsia_sync::simulation::{self, Failure};
use parking_lot::Mutex;
use serde::Serialize;

/// Whole nodes in one process, on virtual time, from a seed.
///
/// Example: sim --seeds 1000
/// A seed that fails is printed; sim --seed N --trace shows what happened in it.
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
    /// Simulated seconds that clients work for
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Break nothing
    #[arg(long)]
    no_faults: bool,
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
}

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
        Some(seed) => run_one(seed, &arguments),
        None => run_many(&arguments),
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

fn failed(failure: &Failure) {
    say(&format!("FAILED at {:.6} s: {}", failure.at.as_secs_f64(), failure.what));
    failure.threads.iter().for_each(|line| say(&format!("  {line}")));
    // Its threads wait for ever: nothing is left to do here.
    std::process::exit(3);
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
    let choices = Choices {
        seed,
        seconds: arguments.seconds,
        has_faults: !arguments.no_faults,
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

/// What all runs together came to. Names of fields are stable.
#[derive(Default, Serialize)]
struct Total {
    seeds: u64,
    virtual_s: f64,
    wall_s: f64,
    operations: usize,
    faults: u64,
    /// What is wrong with each seed that failed.
    failed: BTreeMap<u64, Vec<String>>,
}

fn run_many(arguments: &Arguments) -> ExitCode {
    let begun = Instant::now();
    let Ok(program) = std::env::current_exe() else { return ExitCode::from(2) };
    let (next, total) = (AtomicU64::new(arguments.from), Mutex::new(Total::default()));
    let end = arguments.from + arguments.seeds;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.unwrap_or(processors);
    let work = |job: u64| {
        if jobs > 1 {
            // Else two runs could be on one processor, and none on the other.
            stay_on_one_processor(job);
        }
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end || (arguments.until_failure && has_failed(&total)) {
                return;
            }
            let outcome = run_child(&program, seed, arguments);
            note(&total, seed, &outcome, begun);
        }
    };
    std::thread::scope(|scope| {
        for job in 0..jobs as u64 {
            let work = &work;
            scope.spawn(move || work(job));
        }
    });
    let total = Total { wall_s: begun.elapsed().as_secs_f64(), ..total.into_inner() };
    print(&match arguments.json {
        true => serde_json::to_string(&total).unwrap_or_default(),
        false => total.in_words(),
    });
    ExitCode::from(u8::from(!total.failed.is_empty()))
}

impl Total {
    fn in_words(&self) -> String {
        format!(
            "{} seeds, {:.2} virtual hours in {:.1} min, {} operations, {} faults, {} seeds failed {:?}",
            self.seeds,
            self.virtual_s / 3600.0,
            self.wall_s / 60.0,
            self.operations,
            self.faults,
            self.failed.len(),
            self.failed.keys().collect::<Vec<_>>()
        )
    }
}

fn has_failed(total: &Mutex<Total>) -> bool {
    !total.lock().failed.is_empty()
}

fn note(total: &Mutex<Total>, seed: u64, outcome: &Result<Report, String>, begun: Instant) {
    let mut total = total.lock();
    total.seeds += 1;
    let violations = match outcome {
        Ok(report) => {
            total.virtual_s += report.virtual_s;
            total.operations += report.operations;
            total.faults += report.faults.values().sum::<u64>();
            report.violations.clone()
        }
        Err(why) => vec![why.clone()],
    };
    if !violations.is_empty() {
        say(&format!("seed {seed}:"));
        violations.iter().take(5).for_each(|violation| say(&format!("  {violation}")));
        total.failed.insert(seed, violations);
    }
    if total.seeds.is_multiple_of(50) {
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        say(&format!("{} seeds in {minutes:.1} min, {} failed", total.seeds, total.failed.len()));
    }
}

fn run_child(program: &PathBuf, seed: u64, arguments: &Arguments) -> Result<Report, String> {
    let mut command = Command::new(program);
    command
        .args(["--seed", &seed.to_string(), "--seconds", &arguments.seconds.to_string()])
        .args(arguments.no_faults.then_some("--no-faults"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let deadline = Instant::now() + Duration::from_secs(arguments.limit);
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("hangs: no end within {} real seconds", arguments.limit));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error.to_string()),
        }
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().collect();
        let begin = lines.iter().position(|l| l.contains("FAILED") || l.contains("panicked"));
        lines[begin.unwrap_or(0)..].iter().take(12).copied().collect::<Vec<_>>().join("\n  ")
    })
}
