//! The check: whether the records of a store agree with each other, and repairs where they do not.
//!
//! It is for a store that nobody else uses meanwhile. Records are read in pages; about 100 bytes of each inode are kept in
//! memory.

mod damage;
mod known;
mod repair;
mod survey;

use std::fmt;

use intarsia_types::Result;

use self::damage::Damage;
use self::survey::Survey;
use super::Namespace;

/// A repair can bring more damage to light: a directory that gets a name in `/lost+found` changes the counts there. So all
/// records are read again after repairs, at most so many times.
const ROUNDS_MAX: usize = 8;

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckProgress {
    /// What is being read.
    pub stage: &'static str,
    /// Records read so far in this stage.
    pub records: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Inodes read.
    pub inodes: u64,
    /// Names read.
    pub names: u64,
    /// Orphans, which wait to be removed. They are no damage.
    pub orphans: u64,
    /// Everything that was wrong.
    pub findings: Vec<Finding>,
}

/// One thing that was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was wrong, in words.
    pub what: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: no repair was asked for.
    Left,
    /// It was mended in this way.
    Repaired(String),
    /// It cannot be mended here, for this reason.
    Unrepairable(String),
}

impl CheckReport {
    /// Whether nothing is wrong now: nothing was, or all of it was mended.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|finding| matches!(finding.outcome, Outcome::Repaired(_)))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Left => f.write_str(&self.what),
            Outcome::Repaired(how) => write!(f, "{}; repaired: {how}", self.what),
            Outcome::Unrepairable(why) => write!(f, "{}; not repaired: {why}", self.what),
        }
    }
}

impl Namespace {
    /// Checks that all records agree. With `repair`, repairs what can be repaired without guessing what users' data was; inodes
    /// without a name get one in `/lost+found`. `progress` is called after each page.
    pub fn check(
        &self,
        repair: bool,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let mut survey = Survey::of(self, progress)?;
        let mut report = survey.summary();
        for _ in 0..ROUNDS_MAX {
            let damages = std::mem::take(&mut survey.damages);
            let mut mended = false;
            for damage in &damages {
                let finding = self.deal_with(damage, repair)?;
                mended |= matches!(finding.outcome, Outcome::Repaired(_));
                // Damage that cannot be repaired is found in every round again.
                if !report.findings.contains(&finding) {
                    report.findings.push(finding);
                }
            }
            if !mended {
                break;
            }
            survey = Survey::of(self, progress)?;
            if report.inodes == 0 {
                // The first survey met unfinished changes and read nothing else.
                report = CheckReport { findings: report.findings, ..survey.summary() };
            }
        }
        if repair {
            self.sync()?;
        }
        Ok(report)
    }

    fn deal_with(&self, damage: &Damage, repair: bool) -> Result<Finding> {
        let outcome = if repair { self.mend(damage)? } else { Outcome::Left };
        Ok(Finding { what: damage.to_string(), outcome })
    }
}
