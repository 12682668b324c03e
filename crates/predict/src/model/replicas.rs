//! Metadata that several servers keep: what one decides is decided when a majority has it.

use std::collections::HashMap;

use intarsia_des::Agenda;

use super::tasks::number;
use super::{Event, Message, Request, What, World};

/// What waits for a majority.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    given: u64,
    /// By ticket: the request that waits, and how many servers must still have it.
    waiting: HashMap<u64, (u32, u32)>,
}

impl World<'_> {
    /// Sends what a request changes to the servers that keep copies; false if there is nothing to send.
    pub(super) fn replicates(&mut self, id: u32, agenda: &mut Agenda<Event>) -> bool {
        let message = self.messages[id as usize];
        let servers = number(self.roles.managers.len());
        let copies = self.configuration.manager_copies.min(servers);
        let is_change =
            matches!(message.what, What::Ask(Request::Allocate | Request::Name | Request::Commit));
        if !is_change || copies < 2 {
            return false;
        }
        let ticket = self.replicas.given;
        self.replicas.given += 1;
        // The server itself has it.
        self.replicas.waiting.insert(ticket, (id, copies / 2));
        let first = self.roles.managers.start;
        let bytes = self.profile.network.control_bytes;
        for next in 1..copies {
            let to = first + (message.to - first + next) % servers;
            let what = What::Replicate { ticket };
            self.send(Message { from: message.to, to, bytes, what, ..message }, agenda);
        }
        true
    }

    /// A server has its copy. Gives the request that a majority has by that.
    pub(super) fn replicated(&mut self, ticket: u64) -> Option<u32> {
        let (id, missing) = self.replicas.waiting.get_mut(&ticket)?;
        *missing -= 1;
        let (id, is_decided) = (*id, *missing == 0);
        if !is_decided {
            return None;
        }
        self.replicas.waiting.remove(&ticket);
        Some(id)
    }
}
