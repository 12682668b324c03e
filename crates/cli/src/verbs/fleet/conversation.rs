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
