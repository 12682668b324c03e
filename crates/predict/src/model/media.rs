//! What tiers do for a message: they store a piece, or read one that is not in memory.
//!
//! A piece that is being read from a medium is not read a second time for who asks meanwhile: that one waits, and gets it
//! from memory, as in a page cache.

use std::collections::hash_map::Entry;
use std::ops::Range;

use intarsia_des::{Agenda, Time};
use intarsia_types::TierClass;
use rustc_hash::FxHashMap;

use super::operations::key;
use super::place::{Piece, Spot};
use super::{Event, Message, World};
/// A host, a piece, and which bytes of it.
type Reading = (u32, u64, Range<u64>);

/// Pieces that are being read from media, with the messages that wait for them.
pub(super) type Readings = FxHashMap<Reading, Vec<u32>>;

/// Whether a tier reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
}

impl World<'_> {
    /// A piece comes to the tier that stores it.
    pub(super) fn write_piece(
        &mut self,
        id: u32,
        spot: Spot,
        offset: u64,
        agenda: &mut Agenda<Event>,
    ) {
        let message = self.messages[id as usize];
        let draw = self.draw(5, &message, offset);
        let is_first = self.is_first(&message, offset);
        let seconds =
            self.tier_seconds(Way::Write, spot, message.bytes, is_first, draw, agenda.now());
        self.services.write(spot, seconds, message.served(id), agenda);
    }

    /// A piece is asked for: it is in memory, or is read, or is being read for somebody else.
    pub(super) fn read_piece(
        &mut self,
        id: u32,
        spot: Spot,
        (offset, piece): (u64, Piece),
        agenda: &mut Agenda<Event>,
    ) {
        let message = self.messages[id as usize];
        let name = key(message.file as usize, piece);
        let held = self.services.caches[spot.host as usize].held(name, &piece.within());
        if held == piece.bytes {
            let seconds = self.copying(spot.host, piece.bytes);
            return self.services.copy(spot.host, seconds, message.served(id), agenda);
        }
        let is_medium = self.profile.tiers[usize::from(spot.tier)].class != TierClass::Memory;
        if is_medium && self.profile.host(spot.host).cache_bytes > 0 {
            match self.readings.entry((spot.host, name, piece.within())) {
                Entry::Occupied(mut waiting) => return waiting.get_mut().push(id),
                Entry::Vacant(first) => first.insert(Vec::new()),
            };
        }
        let draw = self.draw(6, &message, offset);
        let is_first = self.is_first(&message, offset);
        let seconds = self.tier_seconds(Way::Read, spot, piece.bytes, is_first, draw, agenda.now());
        self.services.read(spot, seconds, message.served(id), agenda);
    }

    /// A piece is read: who waited for it gets it from memory.
    pub(super) fn is_read(&mut self, message: &Message, piece: Piece, agenda: &mut Agenda<Event>) {
        let (host, name) = (message.to, key(message.file as usize, piece));
        for id in self.readings.remove(&(host, name, piece.within())).unwrap_or_default() {
            let seconds = self.copying(host, piece.bytes);
            let then = self.messages[id as usize].served(id);
            self.services.copy(host, seconds, then, agenda);
        }
    }

    /// How long a tier works for so many bytes; after a pause some may pass at once.
    pub(super) fn tier_seconds(
        &mut self,
        way: Way,
        spot: Spot,
        bytes: u64,
        is_first: bool,
        draw: u64,
        now: Time,
    ) -> f64 {
        let tier = &self.profile.tiers[usize::from(spot.tier)];
        let access = if way == Way::Read { &tier.read } else { &tier.write };
        let (seconds, usual_bytes) = match is_first {
            true => (access.first_seconds(bytes, draw), bytes - access.first_bytes(bytes)),
            false => (access.seconds(bytes, draw), bytes),
        };
        let bucket = self.services.bucket(way, spot);
        bucket.map_or(seconds, |bucket| bucket.works(bytes, usual_bytes, seconds, now))
    }
}
