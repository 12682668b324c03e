//! Files that are dealt over hosts, in a store whose clients ask all hosts of their parts: to make these when the file is new, to
//! open them before the first byte, and how long they are before a length is published.

use intarsia_des::Agenda;

use super::{Event, Request, What, World};
use crate::workload::{FileId, Operation};

/// What the hosts of a file's parts are asked for, all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartsAsked {
    Make,
    Open,
    Measure,
}

impl World<'_> {
    /// The manager has said where a new file goes: its parts are made, if it has any.
    pub(super) fn is_allocated(&mut self, run: u32, file: FileId, agenda: &mut Agenda<Event>) {
        let asked = if self.has_parts(file) { PartsAsked::Make } else { PartsAsked::Open };
        self.ask_parts(run, file, asked, agenda);
    }

    fn has_parts(&self, file: FileId) -> bool {
        self.profile.client.opens_parts
            && self.places.of(file).is_some_and(|place| place.is_dealt())
    }

    /// Asks the other hosts that have parts of the file, or goes on where there are none.
    pub(super) fn ask_parts(
        &mut self,
        run: u32,
        file: FileId,
        asked: PartsAsked,
        agenda: &mut Agenda<Event>,
    ) {
        let host = self.running[run as usize].host;
        let place = self.places.of(file).filter(|_| self.has_parts(file));
        let others: Vec<u32> = place.into_iter().flat_map(|place| place.others(host)).collect();
        let state = &mut self.running[run as usize];
        (state.parts_asked, state.outstanding) = (asked, super::tasks::number(others.len()));
        if others.is_empty() {
            return self.parts_answered(run, file, agenda);
        }
        let bytes = self.profile.network.control_bytes;
        for other in others {
            self.tell(run, file, other, bytes, What::AskPart, agenda);
        }
    }

    /// One host has answered.
    pub(super) fn part_answered(&mut self, run: u32, file: FileId, agenda: &mut Agenda<Event>) {
        let state = &mut self.running[run as usize];
        state.outstanding -= 1;
        if state.outstanding == 0 {
            self.parts_answered(run, file, agenda);
        }
    }

    fn parts_answered(&mut self, run: u32, file: FileId, agenda: &mut Agenda<Event>) {
        let at = self.running[run as usize].at;
        let operation = self.task_of(run).operations.get(at).copied();
        match (self.running[run as usize].parts_asked, operation) {
            (PartsAsked::Make, _) => self.ask(run, file, Request::Name, agenda),
            (PartsAsked::Open, Some(Operation::Write(extent))) => {
                self.store_more(run, extent, agenda);
            }
            (PartsAsked::Open, _) => self.operation_ended(run, agenda),
            (PartsAsked::Measure, _) => self.ask(run, file, Request::Commit, agenda),
        }
    }
}
