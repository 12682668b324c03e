//! The same question to several metadata servers at once, of which one answer is enough.
//!
//! A server that is not there refuses at once; a host that is dead says nothing for seconds, and must not keep the
//! others from being asked.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use intarsia_types::{Error, Result};

use crate::client::{Access, Connection};
use crate::deployment::ServerAddress;

/// Servers that are asked at the same time.
const AT_ONCE: usize = 8;

/// What waits to be asked.
type Waiting = Arc<Mutex<VecDeque<ServerAddress>>>;

/// The first answer that is something, of servers asked about in this order.
///
/// # Errors
/// When none gave one; the message is that of a server that did not.
pub(crate) fn first_answer<T: Send + 'static>(
    access: &Access,
    addresses: impl IntoIterator<Item = ServerAddress>,
    question: impl Fn(&mut Connection) -> Result<T> + Clone + Send + 'static,
) -> Result<T> {
    let addresses: VecDeque<ServerAddress> = addresses.into_iter().collect();
    let workers = addresses.len().min(AT_ONCE);
    let waiting: Waiting = Arc::new(Mutex::new(addresses));
    let (sender, answers) = mpsc::channel();
    for _ in 0..workers {
        let (access, question) = (access.clone(), question.clone());
        let (waiting, sender) = (Arc::clone(&waiting), sender.clone());
        std::thread::spawn(move || ask(&access, &waiting, question, &sender));
    }
    drop(sender);
    let mut last = Error::Engine("no metadata server is known".into());
    // Those that still wait for an answer end by themselves.
    for answer in answers {
        match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn ask<T>(
    access: &Access,
    waiting: &Waiting,
    question: impl Fn(&mut Connection) -> Result<T>,
    sender: &Sender<Result<T>>,
) {
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    while let Some(address) = next() {
        let answer = access.connect(&address).and_then(|mut connection| question(&mut connection));
        if sender.send(answer).is_err() {
            return;
        }
    }
}
