//! Many seeds, one after the other and some at a time.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use intarsia_sim::run::Report;
use parking_lot::Mutex;
use serde::Serialize;

use crate::{Arguments, child, print, say, stay_on_one_processor};

/// What all runs together came to. Names of fields are stable.
#[derive(Default, Serialize)]
struct Total {
    seeds: u64,
    virtual_s: f64,
    wall_s: f64,
    operations: usize,
    faults: u64,
    lost_commits: u64,
    dirty_reads: u64,
    /// What is wrong with each seed that failed.
    failed: BTreeMap<u64, Vec<String>>,
}

pub(crate) fn run_many(arguments: &Arguments) -> ExitCode {
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
            let report = child::run(&program, seed, &arguments.made, arguments.limit);
            note(&total, seed, &report, begun);
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
            "{} seeds, {:.2} virtual hours in {:.1} min, {} operations, {} faults, {} commits lost ({} dirty reads), {} seeds failed {:?}",
            self.seeds,
            self.virtual_s / 3600.0,
            self.wall_s / 60.0,
            self.operations,
            self.faults,
            self.lost_commits,
            self.dirty_reads,
            self.failed.len(),
            self.failed.keys().collect::<Vec<_>>()
        )
    }
}

fn has_failed(total: &Mutex<Total>) -> bool {
    !total.lock().failed.is_empty()
}

fn note(total: &Mutex<Total>, seed: u64, report: &Report, begun: Instant) {
    let mut total = total.lock();
    total.seeds += 1;
    total.virtual_s += report.virtual_s;
    total.operations += report.operations;
    total.lost_commits += report.lost_commits;
    total.dirty_reads += report.dirty_reads;
    total.faults += report.faults.values().sum::<u64>();
    if !report.violations.is_empty() {
        say(&format!("seed {seed}:"));
        report.violations.iter().take(5).for_each(|violation| say(&format!("  {violation}")));
        total.failed.insert(seed, report.violations.clone());
    }
    if total.seeds.is_multiple_of(50) {
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        say(&format!("{} seeds in {minutes:.1} min, {} failed", total.seeds, total.failed.len()));
    }
}
