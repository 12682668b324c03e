//! Names that all clients change, each change in one call.
//!
//! A history is possible if the operations can be put in an order that keeps to their times and in which each gives what
//! it gave. One is searched for as Wing and Gong did ("Testing and verifying concurrent objects", JPDC 1993) with the
//! memory of Lowe ("Testing for linearizability", CCPE 2017): a set of operations done and the state they led to is
//! tried once. Names are independent, so each has a search of its own.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::event::{Event, Instant, NEVER, Operation, Outcome};
use crate::sight::{Seen, sights};
use crate::token::Token;

/// Steps after which a search gives up.
const BUDGET: u64 = 5_000_000;

/// What the name is.
type State = Option<Token>;

/// What an operation does and needs.
enum Action {
    Put(Token),
    /// Refused where there is a name; `None` when nobody knows which it was.
    PutNew(Token, Option<bool>),
    /// `false` where there was none; `None` when nobody knows.
    Remove(Option<bool>),
    See(Option<BTreeSet<Token>>),
}

struct Step {
    action: Action,
    start: Instant,
    end: Instant,
    text: String,
}

/// What came of a search.
pub(crate) enum Found {
    Possible,
    /// In words.
    Impossible(Vec<String>),
    /// The search was given up.
    Undecided,
}

/// Checks one shared name.
pub(crate) fn check(name: &str, events: &[&Event]) -> Found {
    let (mut steps, published) = changes(name, events);
    let mut wrong = Vec::new();
    for sight in sights(name, events) {
        match tokens_of(&sight.seen, &published) {
            Ok(tokens) => steps.push(Step {
                action: Action::See(tokens),
                start: sight.start,
                end: sight.end,
                text: sight.to_string(),
            }),
            Err(why) => wrong.push(format!("{name}: {sight}, but {why}")),
        }
    }
    if !wrong.is_empty() {
        return Found::Impossible(wrong);
    }
    match Search::of(&steps).run() {
        Ok(true) => Found::Possible,
        Ok(false) => Found::Undecided,
        Err(blocked) => {
            let text = steps.get(blocked).map_or("", |s| s.text.as_str());
            Found::Impossible(vec![format!(
                "{name}: no order of the operations explains that {text}"
            )])
        }
    }
}

/// The changes of the name, and the writes by their sizes.
fn changes(name: &str, events: &[&Event]) -> (Vec<Step>, HashMap<u64, BTreeSet<Token>>) {
    let mut steps = Vec::new();
    let mut published: HashMap<u64, BTreeSet<Token>> = HashMap::new();
    for event in events.iter().filter(|e| !e.is_undelivered()) {
        let (is_done, is_known) = match &event.outcome {
            Some(Outcome::Done) => (true, true),
            Some(Outcome::Absent | Outcome::Exists) => (false, true),
            _ => (false, false),
        };
        let known = is_known.then_some(is_done);
        let action = match &event.operation {
            Operation::Publish { name: n, token, exclusive } if n == name => {
                published.entry(token.size()).or_default().insert(*token);
                if *exclusive { Action::PutNew(*token, known) } else { Action::Put(*token) }
            }
            Operation::Unlink { name: n } if n == name => Action::Remove(known),
            _ => continue,
        };
        steps.push(Step {
            action,
            start: event.start,
            end: if is_known { event.end } else { NEVER },
            text: format!(
                "client {} did {:?} in {}..{}",
                event.client, event.operation, event.start, event.end
            ),
        });
    }
    (steps, published)
}

/// Which writes a sight can be of; `None` is no name. An error says why it can be of none.
fn tokens_of(
    seen: &Seen,
    published: &HashMap<u64, BTreeSet<Token>>,
) -> Result<Option<BTreeSet<Token>>, String> {
    let of_size = |size: u64| published.get(&size).into_iter().flatten().copied();
    let tokens: BTreeSet<Token> = match seen {
        Seen::Absent => return Ok(None),
        Seen::Present => published.values().flatten().copied().collect(),
        Seen::Size(size) => of_size(*size).collect(),
        Seen::Content(content) => {
            of_size(content.length).filter(|t| content.is_whole(*t)).collect()
        }
    };
    if tokens.is_empty() {
        return Err("nothing like it was ever given that name, and what is, is whole".into());
    }
    Ok(Some(tokens))
}

fn apply(state: State, action: &Action) -> Option<State> {
    match action {
        Action::Put(token) => Some(Some(*token)),
        Action::PutNew(token, known) => match (state, known) {
            (None, Some(true) | None) => Some(Some(*token)),
            (Some(_), Some(false) | None) => Some(state),
            _ => None,
        },
        Action::Remove(known) => match (state, known) {
            (Some(_), Some(true)) | (_, None) => Some(None),
            (None, Some(false)) => Some(None),
            _ => None,
        },
        Action::See(tokens) => match (state, tokens) {
            (None, None) => Some(state),
            (Some(token), Some(tokens)) => tokens.contains(&token).then_some(state),
            _ => None,
        },
    }
}

/// A list of begins and ends by time, from which operations are taken when they are given a place in the order.
struct Search<'a> {
    steps: &'a [Step],
    /// Which step, and whether this is its end.
    marks: Vec<(usize, bool)>,
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Where the end of each step stands.
    end_of: Vec<usize>,
}

/// Place of the head of the list; marks stand from 1.
const HEAD: usize = 0;

impl<'a> Search<'a> {
    fn of(steps: &'a [Step]) -> Self {
        let mut order: Vec<(Instant, bool, usize)> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            // Begins come before ends of the same instant: then the two overlap.
            order.extend([(step.start, false, index), (step.end, true, index)]);
        }
        order.sort_unstable();
        let count = order.len();
        let mut marks = vec![(usize::MAX, false)];
        marks.extend(order.iter().map(|(_, is_end, step)| (*step, *is_end)));
        let mut end_of = vec![HEAD; steps.len()];
        for (place, (step, is_end)) in marks.iter().enumerate() {
            if let Some(end) = end_of.get_mut(*step).filter(|_| *is_end) {
                *end = place;
            }
        }
        // The last place leads to the head again.
        let next = (1..=count).chain([HEAD]).collect();
        let previous = [count].into_iter().chain(0..count).collect();
        Self { steps, marks, next, previous, end_of }
    }

    /// `Ok(false)` when it was given up; an error is the operation that has no place.
    fn run(mut self) -> Result<bool, usize> {
        let mut state: State = None;
        let mut done = Done::default();
        let mut tried: HashSet<(Done, State)> = HashSet::new();
        let mut taken: Vec<(usize, State)> = Vec::new();
        let (mut furthest, mut blocked) = (0, 0);
        let mut place = self.at(&self.next, HEAD);
        for _ in 0..BUDGET {
            if self.at(&self.next, HEAD) == HEAD {
                return Ok(true);
            }
            let Some((index, is_end)) = self.marks.get(place).copied().filter(|_| place != HEAD)
            else {
                return Ok(true);
            };
            let step = self.steps.get(index);
            if !is_end {
                let after = step.and_then(|s| apply(state, &s.action));
                let is_new = after.is_some_and(|after| tried.insert((done.with(index), after)));
                if let Some(after) = after.filter(|_| is_new) {
                    taken.push((place, state));
                    state = after;
                    done = done.with(index);
                    self.take_out(place, index);
                    place = self.at(&self.next, HEAD);
                } else {
                    place = self.at(&self.next, place);
                }
                continue;
            }
            // It had ended by then, and has found no place: undo the last.
            if taken.len() >= furthest {
                (furthest, blocked) = (taken.len(), index);
            }
            let Some((back, before)) = taken.pop() else { return Err(blocked) };
            let undone = self.marks.get(back).map_or(0, |(step, _)| *step);
            state = before;
            done = done.with(undone);
            self.put_back(back, undone);
            place = self.at(&self.next, back);
        }
        Ok(false)
    }

    fn at(&self, list: &[usize], place: usize) -> usize {
        list.get(place).copied().unwrap_or(HEAD)
    }

    fn take_out(&mut self, begin: usize, step: usize) {
        let end = self.at(&self.end_of, step);
        for place in [begin, end] {
            let (before, after) = (self.at(&self.previous, place), self.at(&self.next, place));
            self.link(before, after);
        }
    }

    /// In the reverse order, so that each finds its neighbours again.
    fn put_back(&mut self, begin: usize, step: usize) {
        let end = self.at(&self.end_of, step);
        for place in [end, begin] {
            let (before, after) = (self.at(&self.previous, place), self.at(&self.next, place));
            if let Some(next) = self.next.get_mut(before) {
                *next = place;
            }
            if let Some(previous) = self.previous.get_mut(after) {
                *previous = place;
            }
        }
    }

    fn link(&mut self, before: usize, after: usize) {
        if let Some(next) = self.next.get_mut(before) {
            *next = after;
        }
        if let Some(previous) = self.previous.get_mut(after) {
            *previous = before;
        }
    }
}

/// A set of operations as a sum of 128 random bits each: two sets have the same with a chance of 2^-128.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Done(u128);

impl Done {
    /// The set with the operation, or without it if it was in.
    fn with(self, index: usize) -> Self {
        let half = |salt: u64| u128::from(crate::token::mix(index as u64, salt));
        Self(self.0 ^ (half(1) << 64 | half(2)))
    }
}
