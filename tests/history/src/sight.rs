//! What an operation shows of one name.

use std::collections::BTreeSet;

use crate::event::{Event, Instant, Operation, Outcome};
use crate::token::Content;

/// What was seen of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Absent,
    /// It is there; no more is known.
    Present,
    Size(u64),
    Content(Content),
}

/// Something was seen of a name, at some instant from `start` to `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) client: u16,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) seen: Seen,
    /// By which call.
    pub(crate) by: &'static str,
}

impl std::fmt::Display for Sight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {} saw by {} ", self.client, self.by)?;
        match &self.seen {
            Seen::Absent => write!(f, "no such name")?,
            Seen::Present => write!(f, "the name")?,
            Seen::Size(size) => write!(f, "{size} bytes")?,
            Seen::Content(content) => {
                write!(f, "{} bytes", content.length)?;
                for token in content.tokens.iter().take(3) {
                    write!(f, ", of {token}")?;
                }
            }
        }
        write!(f, " in {}..{}", self.start, self.end)
    }
}

/// Everything that was seen of `name`. A listing speaks of every name of its directory, also of one that is
/// not in it.
pub(crate) fn sights<'a>(name: &'a str, events: &'a [&Event]) -> impl Iterator<Item = Sight> + 'a {
    events.iter().filter_map(move |event| {
        let (seen, by) = seen(name, event)?;
        Some(Sight { client: event.client, start: event.start, end: event.end, seen, by })
    })
}

fn seen(name: &str, event: &Event) -> Option<(Seen, &'static str)> {
    let outcome = event.outcome.as_ref()?;
    if let Some((refused, call)) = refusal(event) {
        return (refused == name).then_some((Seen::Absent, call));
    }
    match (&event.operation, outcome) {
        (Operation::Read { name: n }, Outcome::Absent) if n == name => Some((Seen::Absent, "open")),
        (Operation::Read { name: n }, Outcome::Content(content)) if n == name => {
            Some((Seen::Content(content.clone()), "read"))
        }
        (Operation::Stat { name: n }, Outcome::Absent) if n == name => Some((Seen::Absent, "stat")),
        (Operation::Stat { name: n }, Outcome::Size(size)) if n == name => {
            Some((Seen::Size(*size), "stat"))
        }
        (Operation::List { directory }, Outcome::Names(names)) => {
            let last = name.strip_prefix(directory.as_str())?.strip_prefix('/')?;
            let is_listed = names.iter().any(|n| n == last);
            Some((if is_listed { Seen::Present } else { Seen::Absent }, "a listing"))
        }
        _ => None,
    }
}

/// The name of its own that a client was to change, and was told is not there; and by which call.
pub(crate) fn refusal(event: &Event) -> Option<(&str, &'static str)> {
    const ENOENT: i32 = 2;
    match (&event.operation, event.outcome.as_ref()?) {
        (Operation::Unlink { name }, Outcome::Absent) if kind(name) == Kind::Own => {
            Some((name, "unlink"))
        }
        (Operation::Rename { from, .. }, Outcome::Failed { errno: ENOENT, .. }) => {
            Some((from, "rename"))
        }
        _ => None,
    }
}

/// Every name that a history speaks of.
pub(crate) fn names(events: &[&Event]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for event in events {
        match &event.operation {
            Operation::Open { name, .. }
            | Operation::Close { name }
            | Operation::Unlink { name }
            | Operation::Publish { name, .. }
            | Operation::Read { name }
            | Operation::Stat { name } => {
                names.insert(name.clone());
            }
            Operation::Rename { from, to } => names.extend([from.clone(), to.clone()]),
            Operation::List { directory } => {
                if let Some(Outcome::Names(listed)) = &event.outcome {
                    names.extend(listed.iter().map(|n| format!("{directory}/{n}")));
                }
            }
            Operation::Prepare { .. } => {}
        }
    }
    names
}

/// Whose a name is, as [`crate::client`] gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Changed by one client only.
    Own,
    /// Changed by all.
    Shared,
    /// Not of a client: nobody made it.
    Foreign,
}

pub(crate) fn kind(name: &str) -> Kind {
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.as_bytes().first() {
        Some(b'o') => Kind::Own,
        Some(b's') => Kind::Shared,
        _ => Kind::Foreign,
    }
}
