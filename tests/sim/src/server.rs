//! The server of one partition of the metadata, and what its replica has of it.
//!
//! As with Redis a commit shows to all who read as soon as the primary has made it, and whoever made it is answered once the replica
//! has it as well, and with it all that the primary did before. What the replica lacks when it takes over is gone, also if
//! somebody has seen it; whoever made it, and has no answer, sends it again.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use intarsia_meta::engines::Undo;
use intarsia_sync::Instant;

/// How far a replica is behind its primary at most, as long as it hears of it.
const LAG: Duration = Duration::from_millis(1);

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is known to the replica only if it hears of the primary again.
    Open,
    /// The replica has it: it stays.
    Replicated,
    /// A fail-over took it back.
    TakenBack,
}

/// A commit that the replica may lack.
#[derive(Debug)]
struct Made {
    number: u64,
    at: Instant,
    undo: Undo,
    /// When somebody was shown what it changed.
    shown: Vec<Instant>,
}

/// What a replica that takes over never heard of.
#[derive(Debug, Default)]
pub struct Lost {
    /// In the order of the commits.
    pub undos: Vec<Undo>,
    /// When somebody was shown what they changed.
    pub shown: Vec<Instant>,
}

/// A primary, and what is known of its replica.
#[derive(Debug, Default)]
pub struct Server {
    /// No answers before.
    down_until: Option<Instant>,
    /// Since when the replica hears nothing of the primary.
    apart_since: Option<Instant>,
    /// Commits so far.
    count: u64,
    /// Those that the replica may lack, the oldest first.
    tail: VecDeque<Made>,
    /// Those that were taken back, until who made them asks.
    taken_back: BTreeSet<u64>,
}

impl Server {
    /// Whether it answers.
    pub fn answers(&self, now: Instant) -> bool {
        self.down_until.is_none_or(|until| now >= until)
    }

    /// A commit was made; its number.
    pub fn note(&mut self, now: Instant, undo: Undo) -> u64 {
        self.forget_replicated(now);
        self.count += 1;
        self.tail.push_back(Made { number: self.count, at: now, undo, shown: Vec::new() });
        self.count
    }

    /// Somebody is shown keys of which `is` holds.
    pub fn show(&mut self, now: Instant, is: impl Fn(&[u8]) -> bool) {
        self.forget_replicated(now);
        for made in self.tail.iter_mut().filter(|made| made.undo.changes(&is)) {
            made.shown.push(now);
        }
    }

    /// What became of a commit; who asks was gone long enough for the replica to hear of it.
    pub fn fate(&mut self, now: Instant, number: u64) -> Fate {
        if self.taken_back.remove(&number) {
            return Fate::TakenBack;
        }
        self.forget_replicated(now);
        if self.apart_since.is_none() {
            // And all before.
            self.tail.retain(|made| made.number > number);
        }
        match self.tail.iter().any(|made| made.number == number) {
            true => Fate::Open,
            false => Fate::Replicated,
        }
    }

    fn forget_replicated(&mut self, now: Instant) {
        let heard_until = self.apart_since.unwrap_or(now);
        let is_old = |made: &Made| made.at + LAG < heard_until;
        let old = self.tail.iter().take_while(|made| is_old(made)).count();
        self.tail.drain(..old);
    }

    /// The replica hears nothing of the primary from now on.
    pub fn part(&mut self, now: Instant) {
        self.apart_since.get_or_insert(now);
    }

    /// The replica takes over, and answers from `until` on. Of so many commits that it may lack it has as many as `keep` says.
    pub fn fail_over(
        &mut self,
        now: Instant,
        until: Instant,
        keep: impl FnOnce(usize) -> usize,
    ) -> Lost {
        self.forget_replicated(now);
        let kept = keep(self.tail.len()).min(self.tail.len());
        let tail = self.tail.split_off(kept);
        self.tail.clear();
        (self.down_until, self.apart_since) = (Some(until), None);
        let mut lost = Lost::default();
        for Made { number, undo, shown, .. } in tail {
            self.taken_back.insert(number);
            lost.undos.push(undo);
            lost.shown.extend(shown);
        }
        lost
    }

    /// It answers, and its replica hears of it.
    pub fn mend(&mut self) {
        (self.down_until, self.apart_since) = (None, None);
    }
}
