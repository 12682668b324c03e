//! What programs themselves find that must not be, and how long their calls took.

use std::collections::BTreeMap;
use std::io::Result as IoResult;
use std::time::Duration;

use intarsia_sync::Instant;
use parking_lot::Mutex;

use crate::run::Report;

/// Violations that are kept; one fault can show many times.
const KEPT_MAX: usize = 20;
const EIO: i32 = 5;

/// What all programs of a run have found.
// A lock of the system: whoever holds it gives no turn away.
#[derive(Debug, Default)]
pub(crate) struct Findings(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    violations: Vec<String>,
    calls: usize,
    slowest: BTreeMap<&'static str, Duration>,
    failures: BTreeMap<(&'static str, i32), usize>,
}

impl Findings {
    /// Something must not be.
    pub(crate) fn tell(&self, what: String) {
        tracing::error!(what, "a program finds what must not be");
        let violations = &mut self.0.lock().violations;
        if violations.len() < KEPT_MAX {
            violations.push(what);
        }
    }

    /// Notes how long one call takes, and whether it fails, but for errors that are `usual` where nothing breaks.
    pub(crate) fn call<T>(
        &self,
        name: &'static str,
        usual: &[i32],
        work: impl FnOnce() -> IoResult<T>,
    ) -> IoResult<T> {
        let begun = Instant::now();
        let outcome = work();
        let took = begun.elapsed();
        tracing::trace!(name, ?took, is_ok = outcome.is_ok(), "a call of a program");
        let mut found = self.0.lock();
        found.calls += 1;
        let slowest = found.slowest.entry(name).or_default();
        *slowest = took.max(*slowest);
        if let Err(error) = &outcome {
            let errno = error.raw_os_error().unwrap_or(EIO);
            if !usual.contains(&errno) {
                tracing::debug!(name, errno, ?took, "a call of a program fails");
                *found.failures.entry((name, errno)).or_default() += 1;
            }
        }
        outcome
    }

    /// Puts everything into the report, with calls that took too long, and those that failed if none may.
    pub(crate) fn judge(&self, limit_ms: u64, may_fail: bool, report: &mut Report) {
        let found = self.0.lock();
        report.operations += found.calls;
        report.violations.extend(found.violations.iter().cloned());
        for (name, took) in &found.slowest {
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            report.slowest_ms = report.slowest_ms.max(took_ms);
            if took_ms > limit_ms {
                report.violations.push(format!("a call of a program, {name}, took {took_ms} ms"));
            }
        }
        for ((name, errno), count) in &found.failures {
            *report.failures.entry(format!("{name} {errno}")).or_default() += count;
            if !may_fail {
                report.violations.push(format!("{name} failed with error {errno}"));
            }
        }
    }
}
