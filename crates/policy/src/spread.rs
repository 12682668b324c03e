//! Who takes which piece of a broadcast file from whom, while it spreads over its readers.
//!
//! The home of the file gives each piece away once, to different readers, and they take the rest from each other. So the
//! file leaves every link about once, and the time is nearly that of one reader, however many there are. Readers may
//! come at any moment: whoever has pieces serves them.

use std::collections::BTreeMap;

/// Pieces that are on their way from the home at a time: enough to keep its link busy while readers ask for more.
const HOME_BUSY_MAX: usize = 4;
/// The same from each reader.
const READER_BUSY_MAX: usize = 3;
/// And to each reader. More would bind pieces to links before it is known which of them is free first.
const TAKING_MAX: usize = 3;
/// A file is cut into about so many pieces: few are quick to hand out, many are soon at all readers.
const PIECES: u64 = 96;
/// Shortest and longest piece.
const PIECE_MIN_BYTES: u64 = 256 << 10;
const PIECE_MAX_BYTES: u64 = 4 << 20;
/// Lengths of pieces are multiples of it.
const PIECE_GRAIN_BYTES: u64 = 64 << 10;

/// Who gives a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Giver {
    /// The home of the file.
    Home,
    /// The reader of this number.
    Reader(usize),
}

/// A piece that a reader is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Take {
    /// The piece, from 0.
    pub piece: u32,
    /// Who gives it.
    pub giver: Giver,
}

#[derive(Debug, Default)]
struct Reader {
    /// Pieces that it asked for, and from whom.
    taking: BTreeMap<u32, Giver>,
    /// Which it has.
    has: Vec<bool>,
    /// Pieces that it is giving now, and that it gave so far.
    busy: usize,
    given: usize,
    is_gone: bool,
}

/// A file that spreads over its readers, as its home keeps track of it.
#[derive(Debug)]
pub struct Spread {
    pieces: usize,
    readers: Vec<Reader>,
    home_busy: usize,
    /// How often the home has given each piece or is giving it.
    from_home: Vec<u32>,
    /// Readers that have each piece.
    holders: Vec<Vec<usize>>,
}

/// The length of the pieces of a file of `size_bytes`.
#[must_use]
pub fn piece_bytes(size_bytes: u64) -> u64 {
    let whole = size_bytes.div_ceil(PIECES).next_multiple_of(PIECE_GRAIN_BYTES);
    whole.clamp(PIECE_MIN_BYTES, PIECE_MAX_BYTES)
}

/// How many readers' copies are to serve others, beside the file itself: where n readers take S bytes at the rate B from
/// the file and c copies, and each copy costs the time a to set up, S n / (B (1 + c)) + a c is least for
/// c = √(S n / (B a)) − 1.
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, clamped to the number of readers"
)]
pub fn copies_to_serve(
    size_bytes: u64,
    readers: usize,
    bytes_per_second: f64,
    copy_seconds: f64,
) -> usize {
    let most = readers.saturating_sub(1);
    let at_once = size_bytes as f64 * readers as f64 / (bytes_per_second * copy_seconds);
    if !at_once.is_finite() {
        return most;
    }
    ((at_once.sqrt() - 1.0).round().max(0.0) as usize).min(most)
}

impl Spread {
    /// Of a file in so many pieces, which nobody has but its home.
    #[must_use]
    pub fn new(pieces: u32) -> Self {
        let pieces = pieces as usize;
        let holders = vec![Vec::new(); pieces];
        Self { pieces, readers: Vec::new(), home_busy: 0, from_home: vec![0; pieces], holders }
    }

    /// A reader comes; its number.
    pub fn join(&mut self) -> usize {
        self.readers.push(Reader { has: vec![false; self.pieces], ..Reader::default() });
        self.readers.len() - 1
    }

    /// Readers that are still here.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.readers.iter().filter(|reader| !reader.is_gone).count()
    }

    /// A reader has a piece that it was to take.
    pub fn landed(&mut self, reader: usize, piece: u32) {
        self.end_taking(reader, piece);
        let Some(state) = self.readers.get_mut(reader) else { return };
        let Some(has) = state.has.get_mut(piece as usize) else { return };
        if !std::mem::replace(has, true) {
            self.holders[piece as usize].push(reader);
        }
    }

    /// A reader did not get a piece. Who was to give it is taken for one that does not have it.
    pub fn failed(&mut self, reader: usize, piece: u32) {
        if let Some(Giver::Reader(giver)) = self.end_taking(reader, piece) {
            self.lose(giver, piece as usize);
        }
    }

    /// A reader is gone, and with it what it had.
    pub fn leave(&mut self, reader: usize) {
        let Some(state) = self.readers.get_mut(reader) else { return };
        state.is_gone = true;
        let taking: Vec<_> = state.taking.keys().copied().collect();
        for piece in taking {
            self.end_taking(reader, piece);
        }
        for piece in 0..self.pieces {
            self.lose(reader, piece);
        }
    }

    /// The next pieces for a reader, those from piece `from` on first. Of the readers only the first `serving` give. None: it
    /// takes as many as it may, what it lacks is on its way to others, or all that have it are busy.
    pub fn next(&mut self, reader: usize, from: u32, serving: usize) -> Vec<Take> {
        let mut takes = Vec::new();
        while self.readers.get(reader).is_some_and(|state| state.taking.len() < TAKING_MAX)
            && let Some(take) = self.choose(reader, from as usize, serving)
        {
            self.begin_taking(reader, take);
            takes.push(take);
        }
        takes
    }

    fn choose(&self, reader: usize, from: usize, serving: usize) -> Option<Take> {
        let state = self.readers.get(reader).filter(|state| !state.is_gone)?;
        let lacks = |piece: &usize| {
            !state.has[*piece] && !state.taking.contains_key(&u32::try_from(*piece).unwrap_or(0))
        };
        let from = from.min(self.pieces);
        let wanted = || (from..self.pieces).chain(0..from).filter(lacks);
        let take =
            |piece: usize, giver| u32::try_from(piece).ok().map(|piece| Take { piece, giver });
        let share = HOME_BUSY_MAX.div_ceil(self.readers().max(1));
        let of_home = state.taking.values().filter(|giver| **giver == Giver::Home).count();
        let may_ask_home = self.home_busy < HOME_BUSY_MAX && of_home < share;
        if may_ask_home && let Some(piece) = wanted().find(|piece| self.from_home[*piece] == 0) {
            return take(piece, Giver::Home);
        }
        let from_reader = wanted().find_map(|piece| Some((piece, self.giver_of(piece, serving)?)));
        if let Some((piece, giver)) = from_reader {
            return take(piece, Giver::Reader(giver));
        }
        // What nobody else has any more, or may give.
        let is_nowhere = |piece: &usize| {
            !self.is_coming(*piece) && self.holders[*piece].iter().all(|holder| *holder >= serving)
        };
        let again = may_ask_home.then(|| wanted().find(is_nowhere)).flatten()?;
        take(again, Giver::Home)
    }

    /// The reader that is to give a piece: the least busy one, of these the one that gave least.
    fn giver_of(&self, piece: usize, serving: usize) -> Option<usize> {
        let may_give =
            |holder: &&usize| **holder < serving && self.readers[**holder].busy < READER_BUSY_MAX;
        let load = |holder: &&usize| (self.readers[**holder].busy, self.readers[**holder].given);
        self.holders[piece].iter().filter(may_give).min_by_key(load).copied()
    }

    /// Whether a reader that may give it later is about to have a piece.
    fn is_coming(&self, piece: usize) -> bool {
        let piece = u32::try_from(piece).unwrap_or(u32::MAX);
        self.readers.iter().any(|reader| reader.taking.contains_key(&piece))
    }

    fn begin_taking(&mut self, reader: usize, take: Take) {
        match take.giver {
            Giver::Home => {
                self.home_busy += 1;
                self.from_home[take.piece as usize] += 1;
            }
            Giver::Reader(giver) => {
                self.readers[giver].busy += 1;
                self.readers[giver].given += 1;
            }
        }
        self.readers[reader].taking.insert(take.piece, take.giver);
    }

    fn end_taking(&mut self, reader: usize, piece: u32) -> Option<Giver> {
        let giver = self.readers.get_mut(reader)?.taking.remove(&piece)?;
        match giver {
            Giver::Home => self.home_busy -= 1,
            Giver::Reader(giver) => self.readers[giver].busy -= 1,
        }
        Some(giver)
    }

    fn lose(&mut self, holder: usize, piece: usize) {
        self.holders[piece].retain(|other| *other != holder);
        if let Some(has) = self.readers[holder].has.get_mut(piece) {
            *has = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use proptest::prelude::*;

    use super::*;

    /// Readers that come one after the other, over links that carry one piece at a time each way. Of `loss` pieces one
    /// does not come, 0 for none. Ticks until all have all.
    fn ticks(pieces: u32, readers: usize, apart: usize, serving: usize, loss: usize) -> usize {
        let mut spread = Spread::new(pieces);
        let mut up: Vec<VecDeque<(usize, u32)>> = vec![VecDeque::new(); readers + 1];
        let mut down: Vec<VecDeque<u32>> = vec![VecDeque::new(); readers];
        let mut left: Vec<BTreeSet<u32>> = vec![(0..pieces).collect(); readers];
        let (mut taken, mut joined) = (0usize, 0);
        for tick in 0..200_000 {
            while joined < readers && joined * apart <= tick {
                spread.join();
                joined += 1;
            }
            for queue in &mut up {
                if let Some((reader, piece)) = queue.pop_front() {
                    down[reader].push_back(piece);
                }
            }
            for reader in 0..joined {
                let Some(piece) = down[reader].pop_front() else { continue };
                taken += 1;
                if loss > 0 && ((taken * 2_654_435_761) >> 7).is_multiple_of(loss) {
                    spread.failed(reader, piece);
                } else {
                    spread.landed(reader, piece);
                    left[reader].remove(&piece);
                }
            }
            if left.iter().all(BTreeSet::is_empty) {
                return tick;
            }
            for turn in 0..joined {
                let reader = (turn + tick) % joined;
                let from = left[reader].first().copied().unwrap_or(0);
                for take in spread.next(reader, from, serving) {
                    let giver = match take.giver {
                        Giver::Home => readers,
                        Giver::Reader(giver) => giver,
                    };
                    assert!(giver != reader);
                    up[giver].push_back((reader, take.piece));
                }
            }
        }
        panic!("readers wait for ever");
    }

    #[test]
    fn as_many_readers_as_one_likes_take_about_as_long_as_one() {
        let alone = ticks(80, 1, 0, 0, 0);
        for readers in [2, 4, 8, 19] {
            for apart in [0, 1, 3] {
                let all = ticks(80, readers, apart, usize::MAX, 0) - apart * (readers - 1);
                assert!(all * 4 <= alone * 5, "{readers} readers {apart} apart: {all} to {alone}");
            }
        }
        let unshared = ticks(80, 19, 0, 0, 0);
        assert!(unshared > 18 * alone, "nobody may give: {unshared} to {alone}");
    }

    #[test]
    fn a_reader_that_goes_takes_nothing_along() {
        let mut spread = Spread::new(3);
        let (a, b) = (spread.join(), spread.join());
        let [first] = spread.next(a, 0, 9)[..1] else { panic!("nothing for the first") };
        assert_eq!(first, Take { piece: 0, giver: Giver::Home });
        spread.landed(a, 0);
        let takes = spread.next(b, 0, 9);
        assert!(takes.contains(&Take { piece: 0, giver: Giver::Reader(a) }), "{takes:?}");
        spread.leave(a);
        spread.failed(b, 0);
        assert_eq!(spread.readers(), 1);
        for piece in [1, 2] {
            spread.failed(b, piece);
        }
        let takes = spread.next(b, 0, 9);
        assert_eq!(takes.len(), 3, "all from home again: {takes:?}");
        assert!(takes.iter().all(|take| take.giver == Giver::Home));
    }

    #[test]
    fn pieces_are_some_dozens_unless_that_were_too_short_or_too_long() {
        assert_eq!(piece_bytes(1), 256 << 10);
        assert_eq!(piece_bytes(20 << 20), 256 << 10);
        assert_eq!(piece_bytes(96 << 20), 1 << 20);
        assert_eq!(piece_bytes(10 << 30), 4 << 20);
    }

    #[test]
    fn many_copies_serve_a_large_file_of_many_readers_and_none_a_small_one() {
        let serve = |size, readers| copies_to_serve(size, readers, 100e6, 0.005);
        assert_eq!(serve(1_000_000_000, 19), 18);
        assert_eq!(serve(20_000_000, 19), 18);
        assert_eq!(serve(1_000_000, 19), 5);
        assert_eq!((serve(100_000, 4), serve(0, 19), serve(1 << 40, 1)), (0, 0, 0));
        assert_eq!(copies_to_serve(1 << 20, 5, 0.0, 0.005), 4, "nothing is known of the link");
    }

    proptest! {
        #[test]
        fn every_reader_gets_every_piece_in_the_end(
            pieces in 1u32..40,
            readers in 1usize..9,
            apart in 0usize..9,
            serving in 0usize..9,
            loss in prop::sample::select(vec![0usize, 2, 3, 7]),
        ) {
            ticks(pieces, readers, apart, serving, loss);
        }
    }
}
