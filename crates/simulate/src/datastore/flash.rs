//! A flash drive: pages written out of place, blocks erased as a whole, garbage collected in between.
//!
//! The drive starts as one in use: every page was written in order, then pages at random again, half
//! as many as it has. Service times are known at arrival, so a request costs one event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use intarsia_des::{Streams, Time};
use rand::RngExt;

use super::array::at_once;
use super::rig::Request;
use super::settings::FlashSettings;

const NOWHERE: u32 = u32::MAX;

/// A unit of the drive that does one thing at a time.
#[derive(Debug)]
struct Die {
    free_blocks: Vec<u32>,
    /// The block that is written, and its next page.
    active: u32,
    next_page: u32,
    busy_until: Time,
}

/// A drive and its page map.
#[derive(Debug)]
pub(super) struct Flash {
    settings: FlashSettings,
    pages: u64,
    /// Where a page lies, by its address.
    place_of: Vec<u32>,
    /// Whose page lies at a place.
    owner_of: Vec<u32>,
    valid: Vec<u32>,
    blocks_per_die: u32,
    dies: Vec<Die>,
    turn: usize,
    /// When the places of the write buffer are free again.
    buffer: BinaryHeap<Reverse<u64>>,
    link_free: Time,
    moved: u64,
    written: u64,
}

impl Flash {
    pub(super) fn new(settings: FlashSettings, streams: Streams) -> Self {
        let pages = settings.capacity_bytes / settings.page_bytes;
        let in_block = u64::from(settings.pages_per_block);
        let blocks = (pages as f64 * (1.0 + settings.spare) / in_block as f64).ceil();
        let per_die = whole(blocks / f64::from(settings.dies)).max(4) + 2;
        let places = u64::from(per_die) * u64::from(settings.dies) * in_block;
        let dies = (0..settings.dies)
            .map(|die| {
                let mut free_blocks: Vec<u32> =
                    (die * per_die..(die + 1) * per_die).rev().collect();
                let active = free_blocks.pop().unwrap_or(0);
                Die { free_blocks, active, next_page: 0, busy_until: Time::ZERO }
            })
            .collect();
        let mut made = Self {
            pages,
            place_of: vec![NOWHERE; index(pages)],
            owner_of: vec![NOWHERE; index(places)],
            valid: vec![0; index(places / in_block)],
            blocks_per_die: per_die,
            dies,
            turn: 0,
            buffer: BinaryHeap::new(),
            link_free: Time::ZERO,
            moved: 0,
            written: 0,
            settings,
        };
        made.age(streams);
        made
    }

    /// Pages moved by the collection for each page written, plus one.
    pub(super) fn write_amplification(&self) -> f64 {
        if self.written == 0 {
            return 1.0;
        }
        1.0 + self.moved as f64 / self.written as f64
    }

    fn age(&mut self, streams: Streams) {
        for page in 0..self.pages {
            self.program(page, Time::ZERO);
        }
        let mut random = streams.stream("age", 0);
        for _ in 0..self.pages / 2 {
            let page = random.random_range(0..self.pages);
            self.program(page, Time::ZERO);
        }
        for die in &mut self.dies {
            die.busy_until = Time::ZERO;
        }
        (self.moved, self.written) = (0, 0);
    }

    /// When a request that comes now is answered.
    pub(super) fn answer(&mut self, request: &Request, now: Time) -> Time {
        let link = request.bytes as f64 / self.settings.link_bytes_per_second;
        let (first, last) = self.span_of(request);
        let mut ready = at_once(now, self.settings.overhead_us / 1e6);
        for page in first..=last {
            let page = page % self.pages;
            let done = if request.is_write { self.write(page, now) } else { self.read(page, now) };
            ready = ready.max(done);
        }
        self.link_free = at_once(self.link_free.max(now), link);
        at_once(ready, link).max(self.link_free)
    }

    fn span_of(&self, request: &Request) -> (u64, u64) {
        let size = self.settings.page_bytes;
        (request.start / size, (request.start + request.bytes - 1) / size)
    }

    fn read(&mut self, page: u64, now: Time) -> Time {
        let place = self.place_of[index(page)];
        let die = place / self.settings.pages_per_block / self.blocks_per_die;
        let die = &mut self.dies[die as usize];
        die.busy_until = at_once(die.busy_until.max(now), self.settings.read_us / 1e6);
        die.busy_until
    }

    /// When a page is in the buffer.
    fn write(&mut self, page: u64, now: Time) -> Time {
        let slots = index(self.settings.buffer_bytes / self.settings.page_bytes);
        let mut accepted = now;
        if self.buffer.len() >= slots.max(1)
            && let Some(Reverse(free)) = self.buffer.pop()
        {
            accepted = accepted.max(Time::from_nanos(free));
        }
        let done = self.program(page, accepted);
        self.buffer.push(Reverse(done.as_nanos()));
        if slots == 0 { done } else { accepted }
    }

    /// Writes a page on the next die; gives the time at which it is there.
    fn program(&mut self, page: u64, now: Time) -> Time {
        let die = self.turn;
        self.turn = (self.turn + 1) % self.dies.len();
        self.dies[die].busy_until = self.dies[die].busy_until.max(now);
        self.place(die, page);
        self.written += 1;
        if self.dies[die].free_blocks.len() < 2 {
            self.collect(die);
        }
        let die = &mut self.dies[die];
        die.busy_until = at_once(die.busy_until, self.settings.program_us / 1e6);
        die.busy_until
    }

    /// Gives a page its new place.
    fn place(&mut self, die: usize, page: u64) {
        let in_block = self.settings.pages_per_block;
        let old = self.place_of[index(page)];
        if old != NOWHERE {
            self.owner_of[old as usize] = NOWHERE;
            self.valid[(old / in_block) as usize] -= 1;
        }
        let unit = &mut self.dies[die];
        if unit.next_page == in_block {
            unit.active = unit.free_blocks.pop().unwrap_or(unit.active);
            unit.next_page = 0;
        }
        let place = unit.active * in_block + unit.next_page;
        unit.next_page += 1;
        self.place_of[index(page)] = place;
        self.owner_of[place as usize] = u32::try_from(page).unwrap_or(NOWHERE);
        self.valid[(place / in_block) as usize] += 1;
    }

    /// Empties the block of a die that has least in it.
    fn collect(&mut self, die: usize) {
        let in_block = self.settings.pages_per_block;
        let first = u32::try_from(die).unwrap_or(0) * self.blocks_per_die;
        let unit = &self.dies[die];
        let full = (first..first + self.blocks_per_die)
            .filter(|block| *block != unit.active && !unit.free_blocks.contains(block));
        let Some(victim) = full.min_by_key(|block| self.valid[*block as usize]) else { return };
        let mut secs = self.settings.erase_ms / 1e3;
        for place in victim * in_block..(victim + 1) * in_block {
            let owner = self.owner_of[place as usize];
            if owner != NOWHERE {
                self.place(die, u64::from(owner));
                self.moved += 1;
                secs += (self.settings.read_us + self.settings.program_us) / 1e6;
            }
        }
        let unit = &mut self.dies[die];
        unit.free_blocks.insert(0, victim);
        unit.busy_until = at_once(unit.busy_until, secs);
    }
}

/// Fits: a drive has fewer than 2^29 pages, spare ones included.
fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float to integer cast saturates, and the settings were checked"
)]
fn whole(value: f64) -> u32 {
    value.ceil() as u32
}
