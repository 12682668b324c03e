//! How a node is to end, and how far that is: shared by the one that closes the store and those that ask for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::exit::{Failure, Outcome};

/// What is to become of what the node works with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndOrder {
    /// The metadata servers of this host go on, for the hosts that have not finished yet.
    pub(crate) keep_servers: bool,
    /// The data is about to be deleted.
    pub(crate) discard: bool,
    /// It is not to stay after all: of the metadata servers those go on that ran before it.
    pub(crate) takes_back: bool,
}

impl EndOrder {
    /// That of a node which does not come to serve.
    pub(crate) const TAKEN_BACK: Self =
        Self { keep_servers: false, discard: false, takes_back: true };
}

#[derive(Default)]
enum Stage {
    #[default]
    Serving,
    /// The mount is gone or about to go. What the node does now, and how often it has said so.
    Closing(Value, u64),
    Closed(Result<(), Failure>),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Ending {
    state: Mutex<(EndOrder, Stage)>,
    changed: Condvar,
}

impl Ending {
    /// What was ordered; a node that ends by itself, or by a signal, stops its servers and keeps its data.
    pub(crate) fn order(&self) -> EndOrder {
        self.lock().0
    }

    /// The node is to end this way. False when it is ending already.
    pub(crate) fn begin(&self, order: EndOrder) -> bool {
        let mut state = self.lock();
        if !matches!(state.1, Stage::Serving) {
            return false;
        }
        *state = (order, Stage::Closing(Value::Null, 0));
        true
    }

    /// It is not to end after all.
    pub(crate) fn take_back(&self) {
        *self.lock() = Default::default();
        self.changed.notify_all();
    }

    /// Tells those who follow what the node is doing; nobody does unless it is ending.
    pub(crate) fn tell(&self, doing: Value) {
        let mut state = self.lock();
        if let Stage::Closing(done, said) = &mut state.1 {
            *done = doing;
            *said += 1;
            self.changed.notify_all();
        }
    }

    /// All is written, or it is known what is not.
    pub(crate) fn finish(&self, outcome: Outcome) {
        self.lock().1 = Stage::Closed(outcome);
        self.changed.notify_all();
    }

    /// Waits until the store is closed; `progress` hears what the node does meanwhile.
    pub(crate) fn follow(&self, progress: &mut dyn FnMut(Value)) -> Outcome {
        let mut state = self.lock();
        let mut heard = 0;
        loop {
            match &state.1 {
                Stage::Closed(outcome) => return outcome.clone(),
                Stage::Serving => {
                    return Err(Failure::busy("the mount is in use again; the node goes on"));
                }
                Stage::Closing(doing, said) if *said > heard => {
                    heard = *said;
                    progress(doing.clone());
                }
                Stage::Closing(..) => {}
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, (EndOrder, Stage)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn who_asks_again_follows_the_first_and_hears_the_same_end() {
        let ending = Arc::new(Ending::default());
        let order = EndOrder { keep_servers: true, ..EndOrder::default() };
        assert!(ending.begin(order));
        assert!(!ending.begin(EndOrder::default()), "it is ending already");
        assert_eq!(ending.order(), order);
        let follower = std::thread::spawn({
            let ending = Arc::clone(&ending);
            move || {
                let mut heard = Vec::new();
                (ending.follow(&mut |value| heard.push(value)), heard)
            }
        });
        ending.tell("summing".into());
        ending.finish(Err(Failure::general("no metadata")));
        ending.tell("too late".into());
        let (outcome, heard) = follower.join().unwrap();
        assert_eq!(outcome.unwrap_err().message, "no metadata");
        assert!(heard.iter().all(|value| value == "summing"));
    }

    #[test]
    fn a_busy_node_goes_on() {
        let ending = Ending::default();
        assert!(ending.begin(EndOrder { keep_servers: true, discard: true, takes_back: false }));
        ending.take_back();
        assert_eq!(ending.order(), EndOrder::default());
        assert!(ending.follow(&mut |_| {}).is_err());
        assert!(ending.begin(EndOrder::default()));
    }
}
