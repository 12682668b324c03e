//! Names that one client changes: every change in a known order.
//!
//! Each change takes effect at some instant between its begin and its end, and the changes of a client in the order in
//! which it made them. Whoever sees a state of a name says by it that the change that made the state came
//! before the end of his look, and the change that ended it after its begin. So every change has an earliest and a latest
//! instant, and the history is possible if and only if they can be chosen in order. That is exact, also for `rename`,
//! which changes two names at one instant, and takes no search.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::check::Rules;
use crate::event::{Event, Instant, NEVER, Operation, Outcome};
use crate::sight::{Kind, Seen, Sight, kind, refusal, sights};
use crate::token::Token;

/// What a name is at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Absent,
    File(Token),
    /// From the open to the close of a write; then anything between the two may be seen.
    Writing {
        old: Option<Token>,
        new: Token,
    },
}

/// A state and the change that made it; the first has none.
#[derive(Clone, Debug)]
struct Version {
    state: State,
    change: Option<usize>,
}

/// A change by the owner.
#[derive(Clone)]
struct Change {
    text: String,
    /// When its call, or the one that completed it, began and ended: whatever is seen, it happened in between if it is known.
    began: Instant,
    ended: Instant,
    earliest: Instant,
    /// Who says that it cannot have been earlier.
    earliest_by: String,
    latest: Instant,
    latest_by: String,
    /// Nobody knows whether it was done; then it is in no order.
    is_unknown: bool,
    /// It made a name, which its own host sees before the others, or alone if it is never closed.
    is_home_first: bool,
}

/// The changes of one client and what they made of its names.
#[derive(Default)]
struct Owner {
    client: u16,
    /// Clients of the same host, as far as that is known.
    neighbours: BTreeSet<u16>,
    rules: Rules,
    changes: Vec<Change>,
    names: BTreeMap<String, Vec<Version>>,
    /// Of each name the versions that nobody knows to have ended: the next change may not have been made.
    open_ended: HashMap<String, Vec<usize>>,
    /// The opens that made a name which has not been closed yet.
    making: HashMap<String, usize>,
    /// The writes over the same inode: what a reader may meet who has the file open.
    overwritten: HashMap<Token, (Token, Instant)>,
}

/// Checks all names that have one owner; what is wrong, in words.
pub(crate) fn check(
    events: &[&Event],
    names: impl Iterator<Item = String>,
    rules: Rules,
    hosts: &BTreeMap<u16, u16>,
) -> Vec<String> {
    let mut owners: BTreeMap<u16, Owner> = BTreeMap::new();
    let mut owner_of: HashMap<String, u16> = HashMap::new();
    let mut wrong = Vec::new();
    for event in events {
        for name in changed(event) {
            let owner = *owner_of.entry(name.to_owned()).or_insert(event.client);
            if owner != event.client {
                wrong.push(format!("{name} is changed by clients {owner} and {}", event.client));
            }
        }
        let host = hosts.get(&event.client).copied();
        let neighbours = hosts.iter().filter(|(_, other)| Some(**other) == host);
        let neighbours = neighbours.map(|(client, _)| *client).collect();
        let new = || Owner { client: event.client, neighbours, rules, ..Owner::default() };
        owners.entry(event.client).or_insert_with(new).take(event);
    }
    for name in names.filter(|n| kind(n) == Kind::Own) {
        let empty = Owner::default();
        let owner = owner_of.get(&name).and_then(|c| owners.get_mut(c));
        match owner {
            Some(owner) => {
                owner.note_open_ended(&name);
                wrong.extend(sights(&name, events).filter_map(|s| owner.hold(&name, &s)));
            }
            // Nobody ever made it.
            None => wrong.extend(sights(&name, events).filter_map(|s| empty.impossible(&name, &s))),
        }
    }
    wrong.extend(owners.values().flat_map(Owner::out_of_order));
    wrong
}

/// The names of its own that an operation changes.
fn changed(event: &Event) -> Vec<&str> {
    let names = match &event.operation {
        Operation::Open { name, .. } | Operation::Close { name } | Operation::Unlink { name } => {
            vec![name]
        }
        Operation::Rename { from, to } => vec![from, to],
        _ => vec![],
    };
    names.into_iter().map(String::as_str).filter(|n| kind(n) == Kind::Own).collect()
}

impl Owner {
    /// Follows the owner's own changes.
    fn take(&mut self, event: &Event) {
        // "No such name" changes nothing; what it says of the name is a sight.
        let is_none = refusal(event).is_some() || event.is_undelivered();
        if changed(event).is_empty() || is_none {
            return;
        }
        let change = self.changes.len();
        let is_unknown = event.outcome != Some(Outcome::Done);
        let text = format!("client {}: {}", event.client, described(&event.operation));
        self.changes.push(Change {
            began: event.start,
            ended: event.end,
            earliest: event.start,
            earliest_by: "it began then".into(),
            latest: if is_unknown { NEVER } else { event.end },
            latest_by: "it had ended then".into(),
            is_unknown,
            is_home_first: false,
            text,
        });
        match &event.operation {
            Operation::Open { name, token } => {
                let old = self.token(name);
                match old {
                    Some(old) => {
                        self.overwritten.insert(old, (*token, event.start));
                    }
                    None if self.rules.names_may_wait => self.make(name, change),
                    None => {}
                }
                self.push(name, State::Writing { old, new: *token }, change);
                if self.rules.opens_may_be_undone && is_unknown && old.is_none() {
                    self.undo(name, change);
                }
            }
            Operation::Close { name } => {
                if !is_unknown {
                    self.made(name, event.end);
                }
                if let Some(State::Writing { new, .. }) = self.state(name).cloned() {
                    self.push(name, State::File(new), change);
                }
            }
            Operation::Unlink { name } => self.push(name, State::Absent, change),
            Operation::Rename { from, to } => {
                if let Some(token) = self.token(from) {
                    self.push(to, State::File(token), change);
                    self.push(from, State::Absent, change);
                }
            }
            _ => {}
        }
    }

    /// A new name may go again, at some instant after the open that made it began.
    fn undo(&mut self, name: &str, open: usize) {
        let Some(opened) = self.changes.get(open) else { return };
        let undone = Change {
            text: format!("{}, undone", opened.text),
            earliest_by: "the open began then".into(),
            is_home_first: false,
            latest: NEVER,
            ..opened.clone()
        };
        self.changes.push(undone);
        self.push(name, State::Absent, open + 1);
    }

    /// A new name is there for others from some instant on between its open and the end of its close, if it is closed.
    fn make(&mut self, name: &str, change: usize) {
        self.making.insert(name.to_owned(), change);
        if let Some(open) = self.changes.get_mut(change) {
            open.latest = NEVER;
            open.is_unknown = true;
            open.is_home_first = true;
        }
    }

    fn made(&mut self, name: &str, closed: Instant) {
        let open = self.making.remove(name).and_then(|change| self.changes.get_mut(change));
        if let Some(open) = open {
            (open.latest, open.ended) = (closed, closed);
            open.latest_by = "its close had ended then".into();
            open.is_unknown = false;
        }
    }

    fn push(&mut self, name: &str, state: State, change: usize) {
        let versions = self.names.entry(name.to_owned()).or_insert_with(first);
        versions.push(Version { state, change: Some(change) });
    }

    fn state(&self, name: &str) -> Option<&State> {
        self.names.get(name)?.last().map(|v| &v.state)
    }

    /// What the name holds after all changes so far.
    fn token(&self, name: &str) -> Option<Token> {
        match self.state(name)? {
            State::File(token) => Some(*token),
            State::Absent | State::Writing { .. } => None,
        }
    }

    /// Narrows the instants of the changes by what was seen; what is impossible at once, in words.
    fn hold(&mut self, name: &str, sight: &Sight) -> Option<String> {
        let Some((first, last)) = self.fitting(name, sight) else {
            return self.impossible(name, sight);
        };
        let change_of = |owner: &Self, index: usize| owner.names.get(name)?.get(index)?.change;
        let made = change_of(self, first);
        let ended = change_of(self, last + 1);
        let is_near = sight.client == self.client || self.neighbours.contains(&sight.client);
        let tells = |change: &Change| !change.is_home_first || !is_near;
        let made = made.filter(|c| self.changes.get(*c).is_some_and(tells));
        if let Some(change) =
            made.and_then(|c| self.changes.get_mut(c)).filter(|c| c.latest > sight.end)
        {
            change.latest = sight.end;
            change.latest_by = format!("{sight} of {name}");
        }
        if let Some(change) =
            ended.and_then(|c| self.changes.get_mut(c)).filter(|c| c.earliest < sight.start)
        {
            change.earliest = sight.start;
            change.earliest_by = format!("{sight} of {name}");
        }
        None
    }

    /// The first and the last version that could be what was seen, by the times of the changes alone.
    fn fitting(&self, name: &str, sight: &Sight) -> Option<(usize, usize)> {
        let only = first();
        let versions = self.names.get(name).unwrap_or(&only);
        let mut fitting = self
            .in_time(versions, self.open_ended(name), sight)
            .filter(|i| versions.get(*i).is_some_and(|v| self.fits(&v.state, sight)));
        let first = fitting.next()?;
        Some((first, fitting.last().unwrap_or(first)))
    }

    fn note_open_ended(&mut self, name: &str) {
        let Some(versions) = self.names.get(name) else { return };
        let is_unknown = |version: &Version| {
            version.change.and_then(|c| self.changes.get(c)).is_some_and(|c| c.is_unknown)
        };
        let next = (0..).zip(versions.iter().skip(1));
        let open_ended = next.filter(|(_, next)| is_unknown(next)).map(|(index, _)| index);
        self.open_ended.insert(name.to_owned(), open_ended.collect());
    }

    fn open_ended(&self, name: &str) -> &[usize] {
        self.open_ended.get(name).map_or(&[], Vec::as_slice)
    }

    /// The versions that may have been there at some instant of the sight, in their order. The calls that made them came in
    /// that order, so only those around the sight are looked at, and the `open_ended`.
    fn in_time<'a>(
        &'a self,
        versions: &'a [Version],
        open_ended: &'a [usize],
        sight: &Sight,
    ) -> impl Iterator<Item = usize> + 'a {
        let (start, end) = (sight.start, sight.end);
        let times = |index: usize| {
            let change = versions.get(index)?.change?;
            self.events_of(change)
        };
        let begins = move |index: usize| times(index).map_or(0, |(start, _)| start);
        let ends = move |index: usize| match index + 1 < versions.len() {
            true => times(index + 1).map_or(NEVER, |(_, end)| end),
            false => NEVER,
        };
        let change_of = |version: &Version| self.changes.get(version.change?);
        let began = |version: &Version| change_of(version).map_or(0, |change| change.began);
        let ended = |version: &Version| change_of(version).map_or(0, |change| change.ended);
        let until = versions.partition_point(|version| began(version) <= end);
        // The version before the first change that ended after the sight began.
        let from = versions.partition_point(|version| ended(version) < start);
        let from = from.saturating_sub(1).min(until);
        let before = open_ended.iter().copied().take_while(move |index| *index < from);
        before.chain(from..until).filter(move |i| begins(*i) <= end && ends(*i) >= start)
    }

    /// Begin and end of a change, as far as they are known by now.
    fn events_of(&self, change: usize) -> Option<(Instant, Instant)> {
        self.changes.get(change).map(|c| (c.earliest, c.latest))
    }

    fn fits(&self, state: &State, sight: &Sight) -> bool {
        match (state, &sight.seen) {
            (State::Absent, Seen::Absent) => true,
            (State::Absent, _) | (_, Seen::Absent) => false,
            (_, Seen::Present) => true,
            (State::File(token), Seen::Size(size)) if *size == token.size() => true,
            (State::File(token), Seen::Content(content)) if content.is_whole(*token) => true,
            (State::File(token), seen) => {
                let writes = self.writes_over(*token, sight.end);
                writes.len() > 1 && is_between(&writes, seen)
            }
            (State::Writing { old, new }, seen) => {
                let mut writes = old.map_or_else(Vec::new, |o| self.writes_over(o, sight.end));
                writes.extend(self.writes_over(*new, sight.end));
                is_between(&writes, seen)
            }
        }
    }

    /// A write and those that went over it in the same file, begun before `end`, whatever the file was called then.
    fn writes_over(&self, token: Token, end: Instant) -> Vec<Token> {
        let mut writes = vec![token];
        let mut last = token;
        while let Some((next, _)) = self.overwritten.get(&last).filter(|(_, begun)| *begun <= end) {
            writes.push(*next);
            last = *next;
        }
        writes
    }

    /// In words, why a sight cannot be; `None` when it can.
    fn impossible(&self, name: &str, sight: &Sight) -> Option<String> {
        if self.fitting(name, sight).is_some() {
            return None;
        }
        let only = first();
        let versions = self.names.get(name).unwrap_or(&only);
        let possible: Vec<String> = self
            .in_time(versions, self.open_ended(name), sight)
            .filter_map(|i| versions.get(i))
            .map(|v| self.version_text(v))
            .collect();
        let mut text = format!("{name}: {sight}, when it could only be {}", possible.join(", or "));
        // The version that it looks like, and what speaks against it.
        let alike = versions.iter().enumerate().rev().find(|(_, v)| self.fits(&v.state, sight));
        if let Some((index, _)) = alike {
            let bounds = [index, index + 1].map(|i| self.bounds(versions.get(i)));
            for bound in bounds.into_iter().flatten() {
                text.push_str(&format!("; {bound}"));
            }
        }
        Some(text)
    }

    /// When the change that made a version was, and who says so.
    fn bounds(&self, version: Option<&Version>) -> Option<String> {
        let change = self.changes.get(version?.change?)?;
        Some(format!(
            "{} was not before {} ({}) and not after {} ({})",
            change.text, change.earliest, change.earliest_by, change.latest, change.latest_by
        ))
    }

    fn version_text(&self, version: &Version) -> String {
        let state = match &version.state {
            State::Absent => "absent".to_owned(),
            State::File(token) => format!("{} bytes of {token}", token.size()),
            State::Writing { new, .. } => format!("{new} on its way ({} bytes)", new.size()),
        };
        match version.change.and_then(|c| self.changes.get(c)) {
            Some(change) => {
                format!("{state} (by {} in {}..{})", change.text, change.earliest, change.latest)
            }
            None => format!("{state} (never made)"),
        }
    }

    /// The changes that cannot have an instant of their own, in words.
    fn out_of_order(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut last: Option<&Change> = None;
        for change in &self.changes {
            let floor = last.filter(|l| l.earliest > change.earliest).unwrap_or(change);
            if floor.earliest > change.latest {
                wrong.push(format!(
                    "{} was seen before it was done, or not seen when it was: not before {} ({}{}), and not after {} ({})",
                    change.text,
                    floor.earliest,
                    if std::ptr::eq(floor, change) { String::new() } else { format!("{}: ", floor.text) },
                    floor.earliest_by,
                    change.latest,
                    change.latest_by,
                ));
                // One contradiction is told once.
                continue;
            }
            if !change.is_unknown {
                last = Some(floor);
            }
        }
        wrong
    }
}

fn first() -> Vec<Version> {
    vec![Version { state: State::Absent, change: None }]
}

/// What may be seen of a file while these writes follow each other in it.
fn is_between(writes: &[Token], seen: &Seen) -> bool {
    let largest = writes.iter().map(|t| t.size()).max().unwrap_or(0);
    match seen {
        Seen::Absent => false,
        Seen::Present => true,
        Seen::Size(size) => *size <= largest,
        Seen::Content(content) => content.length <= largest && content.is_of(writes),
    }
}

fn described(operation: &Operation) -> String {
    match operation {
        Operation::Open { name, token } => format!("open {name} for {token}"),
        Operation::Close { name } => format!("close {name}"),
        Operation::Unlink { name } => format!("unlink {name}"),
        Operation::Rename { from, to } => format!("rename {from} to {to}"),
        other => format!("{other:?}"),
    }
}
