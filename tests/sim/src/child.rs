//! One run, in a process of its own.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use intarsia_sim::parts::{Only, Parts};
use intarsia_sim::run::Report;

/// How a run ends that does not come to its end.
pub(crate) const UNFINISHED: u8 = 3;
/// Lines that are kept of what such a run says.
const LINES_MAX: usize = 12;

/// What of a seed is run.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct Made {
    /// Simulated seconds that clients work for
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u64,
    /// Break only what has these numbers, such as 3,7; none; or all. Numbers count in the order in which faults are drawn; where
    /// two things break at a time those of one are odd
    #[arg(long, value_name = "NUMBERS", default_value_t)]
    pub(crate) faults: Only<u64>,
    /// Have only these programs work, such as writer@n1,clients@n2; none; or all
    #[arg(long, value_name = "NAMES", default_value_t)]
    pub(crate) programs: Only<String>,
    /// A fault of this kind counts as a violation
    #[arg(long, value_name = "KIND", hide = true)]
    pub(crate) must_not_break: Option<String>,
}

impl Made {
    pub(crate) fn parts(&self) -> Parts {
        Parts { faults: self.faults.clone(), programs: self.programs.clone() }
    }

    /// The arguments by which it is run again.
    pub(crate) fn words(&self, seed: u64) -> Vec<String> {
        let Self { seconds, faults, programs, must_not_break } = self;
        let all = [
            ("--seed", Some(seed.to_string())),
            ("--seconds", Some(seconds.to_string())),
            ("--faults", (*faults != Only::All).then(|| faults.to_string())),
            ("--programs", (*programs != Only::All).then(|| programs.to_string())),
            ("--must-not-break", must_not_break.clone()),
        ];
        let said = all.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        said.flatten().collect()
    }
}

/// Runs a seed with `program`, for so many real seconds at most. A run of which nothing is known has its reason as a violation.
pub(crate) fn run(program: &Path, seed: u64, made: &Made, limit_s: u64) -> Report {
    let mut command = Command::new(program);
    command.args(made.words(seed)).args(["--limit", &limit_s.to_string()]).stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            let why = format!("{}: {error}", program.display());
            return Report { seed, violations: vec![why], ..Report::default() };
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let Ok(mut report) = serde_json::from_slice::<Report>(&output.stdout) else {
        let why = format!("{}\n  {}", output.status, excerpt(&said));
        return Report { seed, violations: vec![why], ..Report::default() };
    };
    if output.status.code() == Some(UNFINISHED.into()) {
        report.violations.iter_mut().for_each(|why| *why = format!("{why}\n  {}", excerpt(&said)));
    }
    report
}

/// From where it panics, or ends.
fn excerpt(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let begin = lines.iter().position(|line| line.contains("FAILED") || line.contains("panicked"));
    lines[begin.unwrap_or(0)..].iter().take(LINES_MAX).copied().collect::<Vec<_>>().join("\n  ")
}
