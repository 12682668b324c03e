//! The smallest run of a seed that still fails as the whole of it does.
//!
//! Seconds are halved, and faults and programs are left out piece by piece (`ddmin`), each candidate being run in a process of its own,
//! until nothing more can go or the time is over. No kept crate does that: `proptest` and `quickcheck` make smaller what
//! they have made themselves, one element after the other, and know no limit of time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use intarsia_sim::ddmin::smallest;
use intarsia_sim::kind::kind_of;
use intarsia_sim::parts::Only;
use intarsia_sim::run::Report;

use crate::child::{self, Made};
use crate::{Arguments, print, say};

/// Violations of the smallest run that are printed.
const SAID_MAX: usize = 5;

struct Shrinking {
    program: PathBuf,
    seed: u64,
    /// What is wrong with the whole run.
    kinds: BTreeSet<String>,
    begun: Instant,
    until: Instant,
    /// There is no time for another run.
    is_over: bool,
    /// The longest that one run may take.
    limit: Duration,
    runs: u64,
    /// The smallest run that fails so far, and what it says.
    made: Made,
    report: Report,
}

/// Shrinks the run of a seed, and prints how the smallest that fails is run again.
pub(crate) fn shrink(seed: u64, arguments: &Arguments) -> ExitCode {
    let Ok(program) = std::env::current_exe() else { return ExitCode::from(2) };
    let (begun, made) = (Instant::now(), arguments.made.clone());
    let report = child::run(&program, seed, &made, arguments.limit);
    if report.violations.is_empty() {
        print(&format!("seed {seed} does not fail"));
        return ExitCode::SUCCESS;
    }
    let mut shrinking = Shrinking {
        program,
        seed,
        kinds: kinds(&report),
        begun,
        until: begun + Duration::from_secs_f64(arguments.minutes.max(0.0) * 60.0),
        is_over: false,
        limit: Duration::from_secs(arguments.limit),
        runs: 1,
        made,
        report,
    };
    shrinking.tell();
    while shrinking.pass() {}
    shrinking.print();
    ExitCode::FAILURE
}

fn kinds(report: &Report) -> BTreeSet<String> {
    report.violations.iter().map(|violation| kind_of(violation)).collect()
}

impl Shrinking {
    /// Leaves out what can be left out; whether that was anything.
    fn pass(&mut self) -> bool {
        let before = self.made.clone();
        self.shorten();
        let faults = self.report.account.broken.keys().copied().collect();
        smallest(faults, |faults| {
            self.fails(Made { faults: Only::these(faults), ..self.made.clone() })
        });
        let programs = self.report.account.programs.iter().cloned().collect();
        smallest(programs, |programs| {
            self.fails(Made { programs: Only::these(programs), ..self.made.clone() })
        });
        self.made != before
    }

    /// Halves the time between the shortest run that is known to fail and the longest that is known not to.
    fn shorten(&mut self) {
        let mut passes = 0;
        while passes + 1 < self.made.seconds {
            let seconds = passes.midpoint(self.made.seconds);
            if !self.fails(Made { seconds, ..self.made.clone() }) {
                passes = seconds;
            }
        }
    }

    /// Whether a smaller run fails in the same way; if so, it is the smallest so far.
    fn fails(&mut self, made: Made) -> bool {
        let left = self.until.saturating_duration_since(Instant::now()).min(self.limit);
        self.is_over |= left.as_secs() == 0;
        if self.is_over {
            return false;
        }
        let report = child::run(&self.program, self.seed, &made, left.as_secs());
        self.runs += 1;
        let fails = !kinds(&report).is_disjoint(&self.kinds);
        if fails {
            (self.made, self.report) = (made, report);
            self.tell();
        }
        fails
    }

    fn tell(&self) {
        let account = &self.report.account;
        say(&format!(
            "{} s, {} faults, {} programs: fails (run {}, {:.1} min)",
            self.made.seconds,
            account.broken.len(),
            account.programs.len(),
            self.runs,
            self.begun.elapsed().as_secs_f64() / 60.0
        ));
    }

    fn print(&self) {
        let how = if self.is_over { "the time is over; smallest so far" } else { "smallest" };
        print(&format!("{how}, after {} runs:", self.runs));
        let program = Path::new(&self.program).display();
        print(&format!("  {program} {} --trace", self.made.words(self.seed).join(" ")));
        self.report
            .account
            .broken
            .iter()
            .for_each(|(n, broken)| print(&format!("fault {n}: {broken}")));
        let violations = self.report.violations.iter().take(SAID_MAX);
        violations.for_each(|violation| print(&format!("VIOLATION {violation}")));
    }
}
