//! `agent`: the part of a verb over several hosts that runs on each of them.
//!
//! Its orders are the first line of its standard input; further lines tell it to go on. What it finds out and does it
//! writes to standard output, one line of JSON for each answer; nothing of it shows on a command line. When its input
//! ends or falls silent, whoever gave the orders is gone, and the agent takes back what nobody has confirmed.

mod down;
mod inspection;
mod up;

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use intarsia_cluster::watchdog::{self, SILENCE};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use down::{DownOrders, DownStep};
pub(crate) use inspection::Inspection;
pub(crate) use up::UpStep;

use crate::cli::{Agent, Duty};
use crate::exit::{Exit, Failure, Outcome};
use crate::{failpoint, output};

/// What an agent writes, a line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Saying<T> {
    /// What it does meanwhile; shows that it works.
    Doing(Value),
    /// The answer to what it was told last.
    Done(T),
    /// Why there is none.
    Failed(Failure),
}

pub(crate) fn run(arguments: &Agent) -> Outcome<Exit> {
    let mut orders = Orders::new();
    match arguments.duty {
        Duty::Inspect => inspection::run(&mut orders),
        Duty::Up => up::run(&mut orders),
        Duty::Keep => up::keep(&mut orders),
        Duty::Down => down::run(&mut orders),
        Duty::Points => output::data(&failpoint::POINTS.join("\n")).map(|()| Exit::Ok),
    }
}

/// What the launcher says.
struct Orders(Receiver<String>);

impl Orders {
    fn new() -> Self {
        Self(watchdog::lines(std::io::stdin(), Some(SILENCE)))
    }

    /// The next order; none when the launcher is gone.
    fn next<T: DeserializeOwned>(&mut self) -> Outcome<Option<T>> {
        let Ok(line) = self.0.recv() else { return Ok(None) };
        serde_json::from_str(&line).map(Some).map_err(|e| {
            Failure::usage(format!("an agent takes orders from 'up' and 'down' only: {e}"))
        })
    }

    /// The first order, without which there is nothing to do.
    fn first<T: DeserializeOwned>(&mut self) -> Outcome<T> {
        self.next()?
            .ok_or_else(|| Failure::usage("an agent takes orders from 'up' and 'down' only"))
    }

    /// Whether the launcher is gone. What it says meanwhile is nothing.
    fn is_gone(&self, wait: Duration) -> bool {
        matches!(self.0.recv_timeout(wait), Err(RecvTimeoutError::Disconnected))
    }
}

fn say<T: Serialize>(saying: &Saying<T>) -> Outcome {
    let line = serde_json::to_string(saying).map_err(|e| Failure::general(e.to_string()))?;
    output::data(&line)
}

/// Says what came of an order.
fn answer<T: Serialize + Clone>(outcome: &Outcome<T>) -> Outcome {
    say(&match outcome {
        Ok(done) => Saying::Done(done.clone()),
        Err(failure) => Saying::Failed(failure.clone()),
    })
}
