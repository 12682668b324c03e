//! Whether a history could be: the verdict over all records.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Event, Operation, Outcome, Record};
use crate::shared::Found;
use crate::sight::{self, Kind};
use crate::{owned, shared};

/// What is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The longest that a system call may take, in milliseconds.
    pub limit_ms: u64,
    /// Calls may fail, because something is being broken on purpose.
    pub may_fail: bool,
    /// Clients may be killed.
    pub may_die: bool,
    /// A new name may be seen on other hosts only once it is closed, and one that is never closed may be gone again. Clients
    /// of which no record says where they are count as each on a host of its own.
    pub names_may_wait: bool,
    /// Of a file that is being written, or whose writing failed, any part may be there and zeros elsewhere: its parts lie on
    /// several hosts.
    pub holes_may_show: bool,
    /// An open that fails, or of which nobody knows how it ended, may have shown a new name and taken it back.
    pub opens_may_be_undone: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            limit_ms: 10_000,
            may_fail: false,
            may_die: false,
            names_may_wait: false,
            holes_may_show: false,
            opens_may_be_undone: false,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How many operations there were.
    pub operations: usize,
    /// How many failed, by call and error number.
    pub failures: BTreeMap<(String, i32), usize>,
    /// The longest system call, in milliseconds.
    pub slowest_ms: u64,
    /// What cannot be, in words.
    pub violations: Vec<String>,
    /// Names for which it could not be decided in bounded time.
    pub undecided: Vec<String>,
}

impl Verdict {
    /// Whether all was checked and is as it should be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.undecided.is_empty()
    }
}

/// Checks the records of all clients of one run.
#[must_use]
pub fn check(records: &[Record], rules: Rules) -> Verdict {
    let mut verdict = Verdict::default();
    let mut clients = BTreeSet::new();
    for record in records {
        if !clients.insert(record.client) {
            verdict.violations.push(format!("there are two records of client {}", record.client));
        }
        check_end(record, rules, &mut verdict);
    }
    let hosts = records.iter().filter_map(|r| Some((r.client, r.host?))).collect();
    let mut events: Vec<&Event> = records.iter().flat_map(|r| &r.events).collect();
    // By begin; each client's own order stays.
    events.sort_by_key(|e| e.start);
    verdict.operations = events.len();
    for event in &events {
        check_call(event, rules, &mut verdict);
        check_listing(event, &events, &mut verdict);
    }
    let names = sight::names(&events);
    verdict.violations.extend(owned::check(&events, names.iter().cloned(), rules, &hosts));
    for name in &names {
        match sight::kind(name) {
            Kind::Own => {}
            Kind::Shared => match shared::check(name, &events) {
                Found::Possible => {}
                Found::Impossible(why) => verdict.violations.extend(why),
                Found::Undecided => verdict.undecided.push(name.clone()),
            },
            Kind::Foreign => verdict.violations.push(format!("{name}: nobody ever made it")),
        }
    }
    verdict
}

fn check_end(record: &Record, rules: Rules, verdict: &mut Verdict) {
    if record.is_finished || rules.may_die {
        return;
    }
    let last = record.events.last().filter(|e| e.outcome.is_none());
    let what = last
        .map_or_else(|| "between two operations".to_owned(), |e| format!("in {:?}", e.operation));
    verdict.violations.push(format!("client {} came to no end; it stopped {what}", record.client));
}

fn check_call(event: &Event, rules: Rules, verdict: &mut Verdict) {
    let slowest_ms = event.slowest_ns / 1_000_000;
    verdict.slowest_ms = verdict.slowest_ms.max(slowest_ms);
    let who = || format!("client {}: {:?} at {}", event.client, event.operation, event.start);
    if slowest_ms > rules.limit_ms {
        verdict.violations.push(format!("{} took {slowest_ms} ms", who()));
    }
    match &event.outcome {
        Some(Outcome::Failed { errno, call }) => {
            *verdict.failures.entry((call.clone(), *errno)).or_default() += 1;
            if !rules.may_fail {
                verdict.violations.push(format!("{}: {call} failed with error {errno}", who()));
            }
        }
        Some(Outcome::Content(content)) => {
            let hole_at = content.hole_at.filter(|_| !rules.holes_may_show);
            if let Some(offset) = content.foreign_at.into_iter().chain(hole_at).min() {
                verdict.violations.push(format!("{}: nobody wrote the bytes at {offset}", who()));
            }
        }
        _ => {}
    }
}

/// A name that nobody changed meanwhile is listed once at most.
fn check_listing(event: &Event, events: &[&Event], verdict: &mut Verdict) {
    let (Operation::List { directory }, Some(Outcome::Names(names))) =
        (&event.operation, &event.outcome)
    else {
        return;
    };
    let mut listed = BTreeSet::new();
    for name in names.iter().filter(|n| !listed.insert(n.as_str())) {
        let path = format!("{directory}/{name}");
        let is_changed = |e: &&Event| {
            let is_of = match &e.operation {
                Operation::Rename { from, to } => *from == path || *to == path,
                Operation::Open { name, .. }
                | Operation::Unlink { name }
                | Operation::Publish { name, .. } => *name == path,
                _ => false,
            };
            is_of && e.start <= event.end && e.end >= event.start
        };
        if !events.iter().any(is_changed) {
            verdict.violations.push(format!(
                "client {}: {path} is listed twice in {}..{}",
                event.client, event.start, event.end
            ));
        }
    }
}
