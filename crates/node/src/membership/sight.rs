//! What a host still knows of the others while the metadata does not answer: what was recorded last, and which hosts accept
//! connections.

use std::time::Duration;

use intarsia_meta::allowance;
use intarsia_sync::{Instant, thread};
use intarsia_types::{Error, NodeId, Result};

use crate::membership::cluster::Cluster;

/// How long the metadata may take to answer a question about the state of the store. A verb waits for a node for ten seconds; the
/// rest is for connections to the hosts to be tried, and for a busy machine.
const METADATA: Duration = Duration::from_secs(6);
/// How long a host may take to accept a connection.
const CONNECT: Duration = Duration::from_millis(700);

/// Runs `ask`, which asks the metadata something for a report, with a deadline of a few seconds.
pub(crate) fn ask_for_report<T>(ask: impl FnOnce() -> Result<T>) -> Result<T> {
    let _limit = allowance::limit(Instant::now() + METADATA);
    ask()
}

impl Cluster {
    /// Fails if the metadata does not answer, so that a report of what is lost would be wrong. The error says which hosts accept no
    /// connections.
    ///
    /// # Errors
    /// [`Error::Engine`] if the metadata does not answer, or the other hosts may have given this one up.
    pub(crate) fn require_metadata(&self) -> Result<()> {
        let trouble = match ask_for_report(|| self.meet()) {
            Ok(()) if self.is_sure_member() => return Ok(()),
            Ok(()) => "the other hosts may have given this one up".to_owned(),
            Err(error) => error.to_string(),
        };
        let silent = self.silent_hosts();
        let silent: Vec<&str> = silent.iter().map(|host| host.0.as_str()).collect();
        let hosts = if silent.is_empty() {
            "all hosts take connections".to_owned()
        } else {
            format!("these hosts do not answer: {}", silent.join(", "))
        };
        Err(Error::Engine(format!(
            "the metadata does not answer, so nobody knows now what is lost; {hosts} ({trouble})"
        )))
    }

    /// The other hosts that are up by their records as they were read last, but accept no connection now.
    pub(crate) fn silent_hosts(&self) -> Vec<NodeId> {
        let others = self.members().into_iter();
        let others = others.filter(|(node, m)| node != self.me() && m.state.is_alive());
        let asked = others.filter_map(|(node, member)| Some((node, member.address?)));
        thread::scope(|scope| {
            let asked: Vec<_> = asked
                .map(|(node, address)| {
                    let of = node.clone();
                    (node, scope.spawn(move || self.takes_connection(&of, address, CONNECT)))
                })
                .collect();
            let silent = asked.into_iter().filter_map(|(node, asked)| {
                let answers = asked.join().unwrap_or(false);
                (!answers).then_some(node)
            });
            silent.collect()
        })
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_leaves_metadata_on_a_busy_machine_more_than_half_of_what_a_verb_waits() {
        /// How long a verb waits for a node, see `TIMEOUT` of the control socket.
        const VERB: Duration = Duration::from_secs(10);
        let asked = ask_for_report(|| Ok(allowance::of(Duration::MAX))).unwrap();
        assert!(asked > VERB / 2 && asked + 2 * CONNECT < VERB, "{asked:?}");
    }
}
