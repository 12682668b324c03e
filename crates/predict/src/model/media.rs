//! What tiers do for a message: they store a piece, or read one that is not in memory.
//!
//! A piece that is being read from a medium is not read a second time for who asks meanwhile: that one waits, and gets it
//! from memory, as in a page cache.

use std::collections::HashMap;
use std::ops::Range;

use intarsia_des::{Agenda, Time};
use intarsia_types::TierClass;

use super::operations::key;
use super::place::{Piece, Spot};
use super::{Event, Message, World};
use crate::profile::Access;

/// A host, a piece, and which bytes of it.
type Reading = (u32, u64, Range<u64>);

/// Pieces that are being read from media, with the messages that wait for them.
pub(super) type Readings = HashMap<Reading, Vec<u32>>;

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
        self.services.write(spot, seconds, Event::Served(id), agenda);
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
            return self.services.copy(spot.host, seconds, Event::Served(id), agenda);
        }
        let is_medium = self.profile.tiers[usize::from(spot.tier)].class != TierClass::Memory;
        if is_medium && self.profile.host(spot.host).cache_bytes > 0 {
            if let Some(waiting) = self.readings.get_mut(&(spot.host, name, piece.within())) {
                return waiting.push(id);
            }
            self.readings.insert((spot.host, name, piece.within()), Vec::new());
        }
        let draw = self.draw(6, &message, offset);
        let is_first = self.is_first(&message, offset);
        let seconds = self.tier_seconds(Way::Read, spot, piece.bytes, is_first, draw, agenda.now());
        self.services.read(spot, seconds, Event::Served(id), agenda);
    }

    /// A piece is read: who waited for it gets it from memory.
    pub(super) fn is_read(&mut self, message: &Message, piece: Piece, agenda: &mut Agenda<Event>) {
        let (host, name) = (message.to, key(message.file as usize, piece));
        for id in self.readings.remove(&(host, name, piece.within())).unwrap_or_default() {
            let seconds = self.copying(host, piece.bytes);
            self.services.copy(host, seconds, Event::Served(id), agenda);
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
        self.after_burst(way, spot, access, (bytes, usual_bytes), seconds, now)
    }

    /// The seconds of a request without those that it is done sooner, of whose bytes so many are to pass at the usual rate.
    fn after_burst(
        &mut self,
        way: Way,
        spot: Spot,
        access: &Access,
        (bytes, usual_bytes): (u64, u64),
        seconds: f64,
        now: Time,
    ) -> f64 {
        let Some(bucket) = self.services.bucket(way, spot) else { return seconds };
        let at_once = bucket.take(bytes, now).min(as_float(usual_bytes));
        let seconds = seconds - access.sooner_seconds(at_once);
        bucket.works(seconds, now);
        seconds
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 bytes")]
const fn as_float(number: u64) -> f64 {
    number as f64
}
