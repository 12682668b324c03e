//! Talking to the agents of all hosts at once: each is told something and answers, in steps that all hosts take
//! together. When this ends, whatever the reason, their inputs close, and they take back what was not confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use intarsia_cluster::launch::{Closer, Event, Launch, Session, Stream};
use intarsia_types::NodeId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Outcomes;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::verbs::agent::Saying;

/// How long other hosts have to say why they fail after the first that does.
const LAST_WORD: Duration = Duration::from_secs(3);

/// The agents of some hosts.
pub(super) struct Conversation {
    session: Session,
    hosts: Vec<NodeId>,
    /// Hosts whose agents have ended.
    ended: BTreeSet<NodeId>,
    /// What came on standard error since the last answer, by host.
    said: BTreeMap<NodeId, Vec<String>>,
    /// When this host is busy, nobody waits for the answers of the others.
    decider: Option<NodeId>,
}

impl Conversation {
    /// Starts the agents; their first orders are their inputs.
    pub(super) fn begin(launch: &Launch) -> Self {
        Self {
            session: launch.start(),
            hosts: launch.tasks.iter().map(|task| task.host.clone()).collect(),
            ended: BTreeSet::new(),
            said: BTreeMap::new(),
            decider: None,
        }
    }

    /// When the first host is busy, the others are not waited for: of several verbs at once, one that cannot have the
    /// first host lets go of the rest at once, for the one that has it.
    pub(super) fn let_first_decide(&mut self) {
        self.decider = self.hosts.first().cloned();
    }

    /// Tells a host something.
    pub(super) fn tell(&self, host: &NodeId, order: &impl Serialize) {
        if let Ok(line) = serde_json::to_string(order) {
            self.session.say(host, &line);
        }
    }

    /// As [`hear`](Self::hear), for a step that all take or none: after the first failure the others have a moment left to
    /// say why they fail too, and then no more is heard.
    pub(super) fn hear_all_or_none<T: DeserializeOwned>(
        &mut self,
        from: &[NodeId],
        patience: Duration,
    ) -> Outcomes<T> {
        let mut answers: Outcomes<T> = BTreeMap::new();
        let begun = Instant::now();
        let mut last_word = None;
        while answers.len() < from.len() {
            let left = patience.saturating_sub(begun.elapsed());
            let left = last_word.map_or(left, |word: Instant| {
                left.min(word.saturating_duration_since(Instant::now()))
            });
            let waiting: Vec<NodeId> =
                from.iter().filter(|host| !answers.contains_key(*host)).cloned().collect();
            let is_over = left.is_zero();
            let heard = self.hear_next::<T>(&waiting, left);
            if heard.is_empty() && is_over {
                break;
            }
            if last_word.is_none() && heard.values().any(Result::is_err) {
                last_word = Some(Instant::now() + LAST_WORD);
            }
            answers.extend(heard);
        }
        if answers.values().all(Result::is_ok) {
            for host in
                from.iter().filter(|host| !answers.contains_key(*host)).cloned().collect::<Vec<_>>()
            {
                let why = format!("host {host}: no answer within {patience:?}, given up");
                answers.insert(host, Err(Failure::general(why)));
            }
        }
        answers
    }

    /// The next answer of one of these hosts, waited for no longer than `patience`; none then.
    fn hear_next<T: DeserializeOwned>(
        &mut self,
        from: &[NodeId],
        patience: Duration,
    ) -> Outcomes<T> {
        let gone = from.iter().find(|host| self.ended.contains(*host));
        if let Some(host) = gone {
            let failure = Failure::general(format!("host {host}: its agent has ended"));
            return [(host.clone(), Err(failure))].into();
        }
        let mut answers: Outcomes<T> = BTreeMap::new();
        let deadline = Instant::now() + patience;
        let mut deadlines: BTreeMap<NodeId, Instant> =
            from.iter().map(|host| (host.clone(), deadline)).collect();
        while answers.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(event) = self.session.next(left) else { break };
            match event {
                Event::Line { host, stream: Stream::Output, text } => {
                    match serde_json::from_str(&text) {
                        Ok(Saying::Doing(_)) => {}
                        Ok(Saying::Done(answer)) => {
                            self.settle(&mut deadlines, &mut answers, &host, Ok(answer));
                        }
                        Ok(Saying::Failed(failure)) => {
                            let failure = named(&host, failure);
                            self.settle(&mut deadlines, &mut answers, &host, Err(failure));
                        }
                        Err(_) => self.said.entry(host).or_default().push(text),
                    }
                }
                Event::Line { host, text, .. } => self.said.entry(host).or_default().push(text),
                Event::Ended { host, result } => {
                    self.ended.insert(host.clone());
                    let why = result.err().unwrap_or_else(|| format!("host {host}: no answer"));
                    self.settle(&mut deadlines, &mut answers, &host, Err(Failure::general(why)));
                }
            }
        }
        answers
    }

    /// The answers of these hosts, or why there is none. A host that shows nothing for `patience` is given up;
    /// `doing` hears what they do meanwhile.
    pub(super) fn hear<T: DeserializeOwned>(
        &mut self,
        from: &[NodeId],
        patience: Duration,
        mut doing: impl FnMut(&NodeId, &Value),
    ) -> Outcomes<T> {
        let mut answers: Outcomes<T> = BTreeMap::new();
        let mut deadlines: BTreeMap<NodeId, Instant> = BTreeMap::new();
        for host in from {
            if self.ended.contains(host) {
                let gone = Failure::general(format!("host {host}: its agent has ended"));
                answers.insert(host.clone(), Err(gone));
            } else {
                deadlines.insert(host.clone(), Instant::now() + patience);
            }
        }
        while let Some(deadline) = deadlines.values().min().copied() {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.session.next(left) {
                Some(Event::Line { host, stream: Stream::Error, text }) => {
                    self.said.entry(host).or_default().push(text);
                }
                Some(Event::Line { host, text, .. }) => match serde_json::from_str(&text) {
                    Ok(Saying::Doing(value)) => {
                        doing(&host, &value);
                        if let Some(deadline) = deadlines.get_mut(&host) {
                            *deadline = Instant::now() + patience;
                        }
                    }
                    Ok(Saying::Done(answer)) => {
                        self.settle(&mut deadlines, &mut answers, &host, Ok(answer));
                    }
                    Ok(Saying::Failed(failure)) => {
                        let failure = named(&host, failure);
                        let is_decided =
                            failure.exit == Exit::Busy && self.decider.as_ref() == Some(&host);
                        self.settle(&mut deadlines, &mut answers, &host, Err(failure));
                        if is_decided {
                            break;
                        }
                    }
                    // A launcher may have words of its own.
                    Err(_) => self.said.entry(host).or_default().push(text),
                },
                Some(Event::Ended { host, result }) => {
                    self.ended.insert(host.clone());
                    let why = result.err().unwrap_or_else(|| format!("host {host}: no answer"));
                    self.settle(&mut deadlines, &mut answers, &host, Err(Failure::general(why)));
                }
                None => {
                    let now = Instant::now();
                    let late = deadlines.iter().filter(|(_, deadline)| **deadline <= now);
                    let late: Vec<NodeId> = late.map(|(host, _)| host.clone()).collect();
                    if late.is_empty() && self.session.running() == 0 {
                        break;
                    }
                    for host in late {
                        let why = format!("host {host}: no answer within {patience:?}, given up");
                        let failure = Failure::general(why);
                        self.settle(&mut deadlines, &mut answers, &host, Err(failure));
                    }
                }
            }
        }
        answers
    }

    fn settle<T>(
        &mut self,
        deadlines: &mut BTreeMap<NodeId, Instant>,
        answers: &mut Outcomes<T>,
        host: &NodeId,
        answer: Result<T, Failure>,
    ) {
        if deadlines.remove(host).is_none() {
            return;
        }
        let said = self.said.remove(host).unwrap_or_default();
        if answer.is_ok() {
            said.iter().for_each(|line| output::message(&format!("{host}: {line}")));
        }
        answers.insert(host.clone(), answer);
    }

    /// Lets the agents end what they do, and waits for that no longer than `patience`.
    pub(super) fn end(&mut self, patience: Duration) {
        self.session.closer().close();
        self.wait_for_end(patience);
    }

    /// Passes on what hosts say, until all have ended or the time is up; whether all have.
    pub(super) fn wait_for_end(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while let Some(event) =
            self.session.next(deadline.saturating_duration_since(Instant::now()))
        {
            match event {
                Event::Line { host, stream: Stream::Error, text } => {
                    output::message(&format!("{host}: {text}"));
                }
                Event::Ended { result: Err(why), .. } => output::message(&why),
                Event::Line { .. } | Event::Ended { .. } => {}
            }
        }
        self.session.running() == 0
    }

    /// What closes the inputs of all agents, from any thread.
    pub(super) fn closer(&self) -> Closer {
        self.session.closer()
    }

    /// All hosts.
    pub(super) fn hosts(&self) -> &[NodeId] {
        &self.hosts
    }
}

fn named(host: &NodeId, failure: Failure) -> Failure {
    Failure { message: format!("host {host}: {}", failure.message), ..failure }
}
