//! What was tried, what was left out and why, and what was wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Cases or stories that were planned.
    pub planned: usize,
    /// Those that were run.
    pub run: usize,
    /// Verbs that were given altogether.
    pub verbs: usize,
    /// Those left out, by their reasons.
    pub skipped: BTreeMap<String, usize>,
    /// Points that are reached by a process, of all.
    pub reached: BTreeSet<String>,
    /// All points.
    pub points: BTreeSet<String>,
    /// States of the model that were begun with.
    pub states: BTreeSet<String>,
    /// Files that were acknowledged.
    pub acknowledged: usize,
    /// Stories that went on without names of which no host had a copy any more.
    pub accepted_losses: usize,
    /// Stories that ended with the root of all names lost, of which no host had a copy any more.
    pub lost_roots: usize,
    /// What was wrong, with the case.
    pub violations: Vec<String>,
}

impl Report {
    /// Whether nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Points that no case reached.
    #[must_use]
    pub fn unreached(&self) -> Vec<&str> {
        self.points.difference(&self.reached).map(String::as_str).collect()
    }

    pub(crate) fn skip(&mut self, reason: &str) {
        self.skip_several(reason, 1);
    }

    pub(crate) fn skip_several(&mut self, reason: &str, count: usize) {
        if count > 0 {
            *self.skipped.entry(reason.to_owned()).or_default() += count;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} planned, {} run, {} verbs given, {} states, {} of {} points reached, {} files acknowledged, {} violations",
            self.planned,
            self.run,
            self.verbs,
            self.states.len(),
            self.reached.len(),
            self.points.len(),
            self.acknowledged,
            self.violations.len()
        )?;
        if self.accepted_losses > 0 {
            writeln!(
                f,
                "{} went on by --accept-loss, after the disks of a host were gone",
                self.accepted_losses
            )?;
        }
        if self.lost_roots > 0 {
            writeln!(
                f,
                "{} ended without the root of all names, after the disks of a host were gone",
                self.lost_roots
            )?;
        }
        for (reason, count) in &self.skipped {
            writeln!(f, "skipped {count}: {reason}")?;
        }
        let unreached = self.unreached();
        if !unreached.is_empty() {
            writeln!(f, "points not reached: {}", unreached.join(", "))?;
        }
        self.violations.iter().try_for_each(|violation| writeln!(f, "VIOLATION {violation}"))
    }
}
