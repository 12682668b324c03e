//! Who takes which piece of a broadcast file from whom, while it spreads over its readers.
//!
//! The home of the file gives each piece away once, to different readers, and they take the rest from each other. So the
//! file leaves every link about once, and the time is nearly that of one reader, however many there are. Readers may
//! come at any moment: whoever has pieces serves them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Pieces that the home is to give at a time, and each reader. Who asks what to take hears it only after what is queued on both
/// links, so what is agreed upon has to keep them busy for longer than that.
const HOME_BUSY_MAX: usize = 16;
const READER_BUSY_MAX: usize = 24;
/// A shorter file is soon read from its home by many.
pub const SPREAD_MIN_BYTES: u64 = 512 << 10;
/// When there is nothing to take now, the home is asked again so soon.
pub const ASK_AGAIN: Duration = Duration::from_millis(3);
/// Bytes on their way to a reader at a time, beside one piece: more would wait on the links, and questions behind them.
const FLYING_BYTES: u64 = 1 << 20;
/// The home is told of pieces once so many have come, or there is nothing else to do.
const TOLD_AT_ONCE: usize = 4;
/// What it costs, about, that one reader more serves others: the questions of its setting up.
const COPY_SECONDS: f64 = 0.005;
/// The link is judged once so many pieces have left it.
const JUDGED_PIECES: u64 = 4;
/// Pieces that each reader is to take at a time.
const TAKING_MAX: usize = 24;
/// A file is cut into about so many pieces: few are quick to hand out, many are soon at all readers. With half as many the last
/// pieces take a third of the whole time to come to 19 readers.
const PIECES: u64 = 640;
/// Shortest and longest piece.
const PIECE_MIN_BYTES: u64 = 16 << 10;
const PIECE_MAX_BYTES: u64 = 4 << 20;
/// Lengths of pieces are multiples of it.
const PIECE_GRAIN_BYTES: u64 = 16 << 10;

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
    /// Which it has, all before `lacks_from` among them.
    has: Vec<bool>,
    lacks_from: usize,
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
    /// How often the home has given each piece or is giving it; all before `not_given_from` it has.
    from_home: Vec<u32>,
    not_given_from: usize,
    /// Readers that have each piece.
    holders: Vec<Vec<usize>>,
}

/// The length of the pieces of a file of `size_bytes`.
#[must_use]
pub fn piece_bytes(size_bytes: u64) -> u64 {
    let whole = size_bytes.div_ceil(PIECES).next_multiple_of(PIECE_GRAIN_BYTES);
    whole.clamp(PIECE_MIN_BYTES, PIECE_MAX_BYTES)
}

/// Whether a reader with so many pieces on their way takes another one.
#[must_use]
pub const fn has_room_to_take(flying: usize, piece_bytes: u64) -> bool {
    flying as u64 * piece_bytes <= FLYING_BYTES
}

/// Whether a reader that lacks pieces tells the home what has come, and asks what to take next: `news` are pieces of which the
/// home does not know yet, `under_way` those that are planned or on their way.
#[must_use]
pub const fn is_to_ask(news: usize, under_way: usize) -> bool {
    news >= TOLD_AT_ONCE || under_way < TAKING_MAX / 2 && news > 0 || under_way == 0
}

/// How many readers' copies are to serve others, beside the file itself: where n readers take S bytes at the rate B from
/// the file and c copies, and each copy costs the time a to set up, S n / (B (1 + c)) + a c is least for
/// c = √(S n / (B a)) − 1.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, clamped to the number of readers"
)]
fn copies_to_serve(
    size_bytes: u64,
    readers: usize,
    bytes_per_second: f64,
    copy_seconds: f64,
) -> usize {
    // The last one serves too: what the home gave it first, nobody else would have.
    let most = readers;
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
        let from_home = vec![0; pieces];
        Self { pieces, readers: Vec::new(), home_busy: 0, from_home, not_given_from: 0, holders }
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

    /// How many readers are to serve others of a file of `size_bytes`, which has spread for so many seconds.
    #[must_use]
    pub fn serving(&self, size_bytes: u64, seconds: f64) -> usize {
        let given: u64 = self.from_home.iter().copied().map(u64::from).sum();
        if given < JUDGED_PIECES {
            return usize::MAX;
        }
        #[allow(clippy::cast_precision_loss, reason = "a rate")]
        let rate = (given * piece_bytes(size_bytes)) as f64 / seconds.max(1e-6);
        copies_to_serve(size_bytes, self.readers(), rate, COPY_SECONDS)
    }

    /// A reader has a piece that it was to take.
    pub fn landed(&mut self, reader: usize, piece: u32) {
        self.end_taking(reader, piece);
        let Some(state) = self.readers.get_mut(reader) else { return };
        let Some(has) = state.has.get_mut(piece as usize) else { return };
        if !std::mem::replace(has, true) {
            self.holders[piece as usize].push(reader);
        }
        while state.has.get(state.lacks_from) == Some(&true) {
            state.lacks_from += 1;
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

    /// The next pieces of those that a reader wants. Of the readers only the first `serving` give. None: it takes as many as it
    /// may, what it lacks is on its way to others, or all that have it are busy.
    pub fn next(&mut self, reader: usize, wanted: &Range<u32>, serving: usize) -> Vec<Take> {
        let mut takes = Vec::new();
        while self.readers.get(reader).is_some_and(|state| state.taking.len() < TAKING_MAX)
            && let Some(take) = self.choose(reader, wanted, serving)
        {
            self.begin_taking(reader, take);
            takes.push(take);
        }
        takes
    }

    fn choose(&self, reader: usize, wanted: &Range<u32>, serving: usize) -> Option<Take> {
        let state = self.readers.get(reader).filter(|state| !state.is_gone)?;
        let lacks = |piece: &usize| {
            !state.has[*piece] && !state.taking.contains_key(&u32::try_from(*piece).unwrap_or(0))
        };
        let until = (wanted.end as usize).min(self.pieces);
        let from = (wanted.start as usize).max(state.lacks_from);
        let wanted = || (from..until).filter(lacks);
        let take =
            |piece: usize, giver| u32::try_from(piece).ok().map(|piece| Take { piece, giver });
        let share = HOME_BUSY_MAX.div_ceil(self.readers().max(1));
        let of_home = state.taking.values().filter(|giver| **giver == Giver::Home).count();
        let may_ask_home = self.home_busy < HOME_BUSY_MAX && of_home < share;
        let first = || {
            let not_given = || (from.max(self.not_given_from)..until).filter(lacks);
            let piece = may_ask_home.then(|| not_given().find(|piece| self.from_home[*piece] == 0));
            Some((piece.flatten()?, Giver::Home))
        };
        let from_reader = || {
            let found = wanted().find_map(|piece| Some((piece, self.giver_of(piece, serving)?)));
            found.map(|(piece, giver)| (piece, Giver::Reader(giver)))
        };
        // What is given first to one who does not give has to be given again.
        let gives = reader < serving;
        let found = if gives { first().or_else(from_reader) } else { from_reader().or_else(first) };
        if let Some((piece, giver)) = found {
            return take(piece, giver);
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
                while self.from_home.get(self.not_given_from).is_some_and(|given| *given > 0) {
                    self.not_given_from += 1;
                }
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
        let state = &mut self.readers[holder];
        if let Some(has) = state.has.get_mut(piece) {
            *has = false;
            state.lacks_from = state.lacks_from.min(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use proptest::prelude::*;

    use super::*;

    /// Links that carry one piece at a time each way, in the order in which pieces were asked for. Questions wait behind up to
    /// `queue` pieces at the link of the one who asks, and answers at the home's.
    struct Model {
        pieces: u32,
        readers: usize,
        /// Ticks from one reader's coming to the next one's.
        apart: usize,
        serving: usize,
        /// Of so many pieces one does not come, 0 for none.
        loss: usize,
        queue: usize,
    }

    #[derive(Default)]
    struct ModelReader {
        down: VecDeque<u32>,
        left: BTreeSet<u32>,
        landed: Vec<u32>,
        failed: Vec<u32>,
        /// When its question is at the home, and when the answer is here.
        asks_at: Option<usize>,
        answer: Option<(usize, Vec<Take>)>,
    }

    impl Model {
        const fn quick(pieces: u32, readers: usize) -> Self {
            Self { pieces, readers, apart: 0, serving: usize::MAX, loss: 0, queue: 0 }
        }

        /// Ticks until all readers have all.
        fn ticks(&self) -> usize {
            let mut spread = Spread::new(self.pieces);
            // What each link sends, and from when on it is there to be sent.
            let mut up: Vec<VecDeque<(usize, usize, u32)>> =
                vec![VecDeque::new(); self.readers + 1];
            let mut all: Vec<ModelReader> = Vec::new();
            let mut taken = 0usize;
            for tick in 0..200_000 {
                while all.len() < self.readers && all.len() * self.apart <= tick {
                    spread.join();
                    let left = (0..self.pieces).collect();
                    all.push(ModelReader { left, ..ModelReader::default() });
                }
                for queue in &mut up {
                    let first = queue.iter().position(|sent| sent.0 <= tick);
                    if let Some((_, reader, piece)) = first.and_then(|at| queue.remove(at)) {
                        all[reader].down.push_back(piece);
                    }
                }
                for reader in &mut all {
                    let Some(piece) = reader.down.pop_front() else { continue };
                    taken += 1;
                    if self.loss > 0 && ((taken * 2_654_435_761) >> 7).is_multiple_of(self.loss) {
                        reader.failed.push(piece);
                    } else {
                        reader.landed.push(piece);
                        reader.left.remove(&piece);
                    }
                }
                if all.len() == self.readers && all.iter().all(|reader| reader.left.is_empty()) {
                    return tick;
                }
                for turn in 0..all.len() {
                    let number = (turn + tick) % all.len();
                    self.ask(tick, number, &mut spread, &mut all[number], &mut up);
                }
            }
            panic!("readers wait for ever");
        }

        fn queued(&self, tick: usize, link: &VecDeque<(usize, usize, u32)>) -> usize {
            link.iter().filter(|sent| sent.0 <= tick).count().min(self.queue)
        }

        fn ask(
            &self,
            tick: usize,
            number: usize,
            spread: &mut Spread,
            reader: &mut ModelReader,
            up: &mut [VecDeque<(usize, usize, u32)>],
        ) {
            if reader.asks_at.is_none() && reader.answer.is_none() {
                reader.asks_at = Some(tick + self.queued(tick, &up[number]));
            }
            if reader.asks_at.is_some_and(|at| at <= tick) {
                reader.asks_at = None;
                reader.landed.drain(..).for_each(|piece| spread.landed(number, piece));
                reader.failed.drain(..).for_each(|piece| spread.failed(number, piece));
                let from = reader.left.first().copied().unwrap_or(0);
                let takes = spread.next(number, &(from..self.pieces), self.serving);
                assert!(is_sound(spread));
                let at = tick + self.queued(tick, &up[self.readers]);
                reader.answer = Some((at, takes));
            }
            let Some((_, takes)) = reader.answer.take_if(|(at, _)| *at <= tick) else { return };
            for take in takes {
                let giver = match take.giver {
                    Giver::Home => self.readers,
                    Giver::Reader(giver) => giver,
                };
                assert!(giver != number);
                let at = tick + self.queued(tick, &up[number]);
                up[giver].push_back((at, number, take.piece));
            }
        }
    }

    /// Whether searches may begin where they do.
    fn is_sound(spread: &Spread) -> bool {
        let has_all = |reader: &Reader| reader.has[..reader.lacks_from].iter().all(|has| *has);
        let given = &spread.from_home[..spread.not_given_from];
        spread.readers.iter().all(has_all) && given.iter().all(|times| *times > 0)
    }

    #[test]
    fn as_many_readers_as_one_likes_take_about_as_long_as_one() {
        // What is queued on the links keeps questions waiting: with few pieces agreed upon at a time links would be idle.
        for (queue, pieces, percent) in [(0, 640, 110), (10, 640, 115), (48, 640, 115)] {
            let quick = |readers| Model { queue, ..Model::quick(pieces, readers) };
            let alone = quick(1).ticks();
            for readers in [2, 3, 4, 19] {
                for apart in [0, 3] {
                    let all = Model { apart, ..quick(readers) }.ticks() - apart * (readers - 1);
                    assert!(
                        all * 100 <= alone * percent,
                        "{readers} readers {apart} apart, queue {queue}: {all} to {alone}"
                    );
                }
            }
        }
        let alone = Model::quick(160, 1).ticks();
        for readers in [2, 4, 8] {
            let serving = copies_to_serve(20_000_000, readers, 12.5e6, 0.005);
            let all = Model { serving, ..Model::quick(160, readers) }.ticks();
            assert!(all * 100 <= alone * 130, "as many as are to serve, of {readers}: {all}");
        }
        let unshared = Model { serving: 0, ..Model::quick(160, 19) }.ticks();
        assert!(unshared > 18 * alone, "nobody may give: {unshared} to {alone}");
    }

    #[test]
    fn a_reader_that_goes_takes_nothing_along() {
        let mut spread = Spread::new(3);
        let (a, b) = (spread.join(), spread.join());
        let [first] = spread.next(a, &(0..3), 9)[..1] else { panic!("nothing for the first") };
        assert_eq!(first, Take { piece: 0, giver: Giver::Home });
        spread.landed(a, 0);
        let takes = spread.next(b, &(0..3), 9);
        assert!(takes.contains(&Take { piece: 0, giver: Giver::Reader(a) }), "{takes:?}");
        spread.leave(a);
        spread.failed(b, 0);
        assert_eq!(spread.readers(), 1);
        assert_eq!(spread.next(b, &(3..9), 9), [], "it wants no others");
        for piece in [1, 2] {
            spread.failed(b, piece);
        }
        let takes = spread.next(b, &(0..3), 9);
        assert_eq!(takes.len(), 3, "all from home again: {takes:?}");
        assert!(takes.iter().all(|take| take.giver == Giver::Home));
    }

    #[test]
    fn pieces_are_some_dozens_unless_that_were_too_short_or_too_long() {
        assert_eq!(piece_bytes(1), 16 << 10);
        assert_eq!(piece_bytes(20 << 20), 32 << 10);
        assert_eq!(piece_bytes(640 << 20), 1 << 20);
        assert_eq!(piece_bytes(10 << 30), 4 << 20);
    }

    #[test]
    fn many_copies_serve_a_large_file_of_many_readers_and_none_a_small_one() {
        let serve = |size, readers| copies_to_serve(size, readers, 100e6, 0.005);
        assert_eq!((serve(1_000_000_000, 19), serve(20_000_000, 2)), (19, 2));
        assert_eq!(serve(20_000_000, 19), 19);
        assert_eq!(serve(1_000_000, 19), 5);
        assert_eq!((serve(100_000, 4), serve(0, 19), serve(1 << 40, 1)), (0, 0, 1));
        assert_eq!(copies_to_serve(1 << 20, 5, 0.0, 0.005), 5, "nothing is known of the link");
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
            Model { pieces, readers, apart, serving, loss, queue: 0 }.ticks();
        }
    }
}
