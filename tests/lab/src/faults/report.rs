//! What came of the rounds of a kind.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::Kind;
use super::book::{Findings, Tally};

/// No call takes longer (docs/semantics.md), but for what the machine adds when it is busy.
const BOUND: Duration = Duration::from_secs(10);
const ALLOWANCE: Duration = Duration::from_secs(3);

/// What came of the rounds of a kind.
#[derive(Clone, Debug)]
pub struct Report {
    pub(super) kind: Kind,
    pub(super) rounds: u64,
    pub(super) tally: Tally,
    pub(super) findings: Findings,
    /// What else is not as it should be.
    pub(super) trouble: Vec<String>,
    pub(super) detection: Vec<Duration>,
    pub(super) repair: Vec<Duration>,
}

impl Report {
    /// The first lines of the table.
    pub const HEADER: &'static str = "\
| fault | rounds | acknowledged | failed | lost | wrong | other | longest call | detected (median, max) | whole again (median, max) |
|---|---|---|---|---|---|---|---|---|---|";

    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            rounds: 0,
            tally: Tally::default(),
            findings: Findings::default(),
            trouble: Vec::new(),
            detection: Vec::new(),
            repair: Vec::new(),
        }
    }

    /// Whether everything was as promised.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_right() && self.trouble.is_empty()
    }

    /// Whether all that was acknowledged is there, and nothing else.
    pub fn is_right(&self) -> bool {
        self.findings.lost.is_empty() && self.findings.wrong.is_empty()
    }

    /// What was not, in words.
    pub fn violations(&self) -> impl Iterator<Item = &String> {
        self.findings.lost.iter().chain(&self.findings.wrong).chain(&self.trouble)
    }

    /// Takes note of what the programs saw.
    pub(super) fn count(&mut self, tally: Tally) {
        if Duration::from_millis(tally.slowest_ms) > BOUND + ALLOWANCE {
            self.trouble.push(format!("{} took {} ms", tally.slowest_call, tally.slowest_ms));
        }
        let mine = &mut self.tally;
        mine.acknowledged += tally.acknowledged;
        mine.failed += tally.failed;
        if tally.slowest_ms > mine.slowest_ms {
            (mine.slowest_ms, mine.slowest_call) = (tally.slowest_ms, tally.slowest_call);
        }
        for (errno, count) in tally.errnos {
            *mine.errnos.entry(errno).or_default() += count;
        }
    }

    /// How often which errno was given.
    #[must_use]
    pub const fn errnos(&self) -> &BTreeMap<i32, u64> {
        &self.tally.errnos
    }
}

/// Seconds: the median and the longest.
fn spread(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort();
    match (times.get(times.len() / 2), times.last()) {
        (Some(median), Some(longest)) => {
            format!("{:.1} s, {:.1} s", median.as_secs_f64(), longest.as_secs_f64())
        }
        _ => "–".into(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = &self.tally;
        write!(
            f,
            "| {} | {} | {} | {} | {} | {} | {} | {:.1} s ({}) | {} | {} |",
            self.kind.name(),
            self.rounds,
            tally.acknowledged,
            tally.failed,
            self.findings.lost.len(),
            self.findings.wrong.len(),
            self.trouble.len(),
            Duration::from_millis(tally.slowest_ms).as_secs_f64(),
            tally.slowest_call,
            spread(&self.detection),
            spread(&self.repair),
        )
    }
}
