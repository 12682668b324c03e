//! Files that are dealt over hosts, in a store whose clients open their part at each of these before the first byte.

use intarsia_des::Agenda;

use super::{Event, What, World};
use crate::workload::{FileId, Operation};

impl World<'_> {
    /// The manager has answered: asks the other hosts that have parts of the file, all at once, or goes on.
    pub(super) fn open_parts(
        &mut self,
        run: u32,
        file: FileId,
        operation: Operation,
        agenda: &mut Agenda<Event>,
    ) {
        let host = self.running[run as usize].host;
        let place = self.places.of(file).filter(|place| place.is_dealt());
        let asked = place.filter(|_| self.profile.client.opens_parts);
        let others: Vec<u32> = asked.into_iter().flat_map(|place| place.others(host)).collect();
        if others.is_empty() {
            return self.opened(run, operation, agenda);
        }
        self.running[run as usize].outstanding = super::tasks::number(others.len());
        let bytes = self.profile.network.control_bytes;
        for other in others {
            self.tell(run, file, other, bytes, What::OpenPart, agenda);
        }
    }

    /// One host has answered.
    pub(super) fn part_opened(
        &mut self,
        run: u32,
        operation: Operation,
        agenda: &mut Agenda<Event>,
    ) {
        let state = &mut self.running[run as usize];
        state.outstanding -= 1;
        if state.outstanding == 0 {
            self.opened(run, operation, agenda);
        }
    }

    fn opened(&mut self, run: u32, operation: Operation, agenda: &mut Agenda<Event>) {
        match operation {
            Operation::Write(extent) => self.store_more(run, extent, agenda),
            _ => self.operation_ended(run, agenda),
        }
    }
}
