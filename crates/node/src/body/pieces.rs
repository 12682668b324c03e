//! Pieces of remote files that were fetched ahead of their readers, in bounded memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_policy::{PIECE_BYTES, Sequences, pieces_of};
use intarsia_sync::{Condvar, Instant, Mutex, MutexGuard};
use intarsia_transport::{Answer, Buffer, Pending};
use intarsia_wire::Response;

use crate::membership::cluster::memory::{Holder, PieceMemory, Room};

/// If a file was not read for this long, its pieces are dropped when other files need the memory.
const IDLE: Duration = Duration::from_secs(1);
/// An answer that takes longer than this has waited in a queue, so less is asked for ahead.
const SLOW: Duration = Duration::from_millis(250);

/// Some bytes of a file that were asked for ahead.
pub(crate) struct Piece {
    range: Range<u64>,
    /// The reader for which they were asked; none for those that came with the answer to the opening.
    sequence: Option<u64>,
    asked: Instant,
    unread_bytes: AtomicU64,
    state: Mutex<State>,
    landed: Condvar,
    /// Its share of the memory, given back with the piece; none for those that came with the opening.
    _room: Option<Room>,
}

/// What an answer brought.
pub(crate) struct Landed {
    /// The bytes from the start of the piece on; fewer than the piece has if the file has become shorter.
    pub(crate) payload: Buffer,
    /// The length of the file when the host answered.
    pub(crate) size_bytes: u64,
}

enum State {
    /// On its way.
    Flying(Pending),
    /// A thread waits for the answer, and will wake the others.
    Awaited,
    Here(Arc<Landed>),
    /// No usable answer came.
    Lost,
}

impl Piece {
    pub(crate) const fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// Whether [`wait`](Self::wait) returns at once.
    pub(crate) fn is_ready(&self) -> bool {
        self.state.try_lock().is_some_and(|state| match &*state {
            State::Flying(pending) => pending.is_ready(),
            State::Awaited => false,
            State::Here(_) | State::Lost => true,
        })
    }

    /// Waits for the answer, as long as a request may take; none if no usable one came.
    pub(crate) fn wait(&self) -> Option<Arc<Landed>> {
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut *state, State::Awaited) {
                State::Flying(pending) => {
                    let outcome = MutexGuard::unlocked(&mut state, || landed(pending));
                    *state = outcome.map_or(State::Lost, |landed| State::Here(Arc::new(landed)));
                    self.landed.notify_all();
                }
                // Without a time-out: the thread that waits for the answer does so for a bounded time.
                State::Awaited => self.landed.wait(&mut state),
                State::Here(landed) => {
                    *state = State::Here(Arc::clone(&landed));
                    return Some(landed);
                }
                State::Lost => {
                    *state = State::Lost;
                    return None;
                }
            }
        }
    }
}

fn landed(pending: Pending) -> Option<Landed> {
    match pending.wait() {
        Ok(Answer { response: Response::Data { size_bytes }, payload }) => {
            Some(Landed { payload, size_bytes })
        }
        // The reader asks for the bytes once more, and is told the error then.
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "bytes asked for ahead did not come");
            None
        }
    }
}

/// The pieces of one file, and its readers.
pub(crate) struct Pieces {
    memory: Arc<PieceMemory>,
    held: Mutex<Held>,
}

struct Held {
    sequences: Sequences,
    /// By their first byte.
    pieces: BTreeMap<u64, Arc<Piece>>,
    last_read: Instant,
    /// Whether the memory knows that these pieces can be dropped when others need room.
    is_enlisted: bool,
}

impl Pieces {
    /// No pieces yet, except `first` if it is given: the first bytes of the file, which came with the opening.
    pub(crate) fn new(memory: &Arc<PieceMemory>, first: Option<Landed>) -> Arc<Self> {
        let mut pieces = BTreeMap::new();
        if let Some(landed) = first {
            pieces.insert(0, Arc::new(Piece::here(landed)));
        }
        let sequences = Sequences::default();
        let held = Held { sequences, pieces, last_read: Instant::now(), is_enlisted: false };
        Arc::new(Self { memory: Arc::clone(memory), held: Mutex::new(held) })
    }

    /// The pieces that hold bytes of `range`, in order.
    pub(crate) fn covering(&self, range: &Range<u64>) -> Vec<Arc<Piece>> {
        self.held.lock().covering(range).cloned().collect()
    }

    /// Notes a read, and asks for what will be wanted next. `is_late` tells that the read has to wait for some of its bytes. `ask`
    /// must not wait; it returns none if it would have to.
    pub(crate) fn read_ahead(
        self: &Arc<Self>,
        read: &Range<u64>,
        size_bytes: u64,
        is_late: bool,
        mut ask: impl FnMut(&Range<u64>) -> Option<Pending>,
    ) {
        let mut held = self.held.lock();
        held.last_read = Instant::now();
        let Some(ahead) = held.sequences.follow(read, size_bytes, is_late) else { return };
        held.drop_passed();
        for range in pieces_of(ahead.range) {
            let (bytes, end) = (range.end - range.start, range.end);
            if held.overlaps(&range) {
                // These bytes were asked for already, for another reader.
                held.sequences.asked_to(ahead.sequence, end);
                continue;
            }
            let Some(room) = self.memory.take(bytes) else {
                MutexGuard::unlocked(&mut held, || self.memory.reclaim());
                break;
            };
            let Some(pending) = ask(&range) else { break };
            let piece = Piece::flying(range, ahead.sequence, pending, room);
            held.pieces.insert(piece.range.start, Arc::new(piece));
            held.sequences.asked_to(ahead.sequence, end);
        }
        if !std::mem::replace(&mut held.is_enlisted, true) {
            MutexGuard::unlocked(&mut held, || {
                self.memory.enlist(Arc::downgrade(self) as Weak<dyn Holder>);
            });
        }
    }

    /// Notes that so many bytes of a piece were read. A piece that was read wholly is dropped: the kernel has its bytes in the page
    /// cache.
    pub(crate) fn consumed(&self, piece: &Arc<Piece>, bytes: u64) {
        let before = piece.unread_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            Some(left.saturating_sub(bytes))
        });
        if before.is_ok_and(|left| left <= bytes) {
            self.held.lock().pieces.remove(&piece.range.start);
        }
    }

    /// Notes that a reader had to wait for a piece until now.
    pub(crate) fn waited_for(&self, piece: &Piece) {
        if let Some(sequence) = piece.sequence
            && piece.asked.elapsed() > SLOW
        {
            self.held.lock().sequences.slow_down(sequence);
        }
    }

    /// Drops what was fetched, because the file may have changed since.
    pub(crate) fn forget(&self) {
        let mut held = self.held.lock();
        held.pieces.clear();
        held.sequences.begin_anew();
    }
}

impl Holder for Pieces {
    fn clear_if_idle(&self) {
        // If another thread holds the lock, the file is being read.
        if let Some(mut held) = self.held.try_lock()
            && held.last_read.elapsed() > IDLE
        {
            held.pieces.clear();
            held.sequences.begin_anew();
        }
    }
}

impl Held {
    fn covering(&self, range: &Range<u64>) -> impl Iterator<Item = &Arc<Piece>> {
        let before = self.pieces.range(..range.start).next_back().map(|(_, piece)| piece);
        let first = before.filter(|piece| piece.range.end > range.start);
        first.into_iter().chain(self.pieces.range(range.clone()).map(|(_, piece)| piece))
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.covering(range).next().is_some()
    }

    /// Drops the pieces that their readers have skipped.
    fn drop_passed(&mut self) {
        let sequences = &self.sequences;
        self.pieces.retain(|_, piece| {
            let Some(sequence) = piece.sequence else { return true };
            sequences
                .position(sequence)
                .is_some_and(|position| piece.range.end + PIECE_BYTES > position)
        });
    }
}

impl Piece {
    fn here(landed: Landed) -> Self {
        let bytes = landed.payload.len() as u64;
        Self {
            range: 0..bytes,
            sequence: None,
            asked: Instant::now(),
            unread_bytes: AtomicU64::new(bytes),
            state: Mutex::new(State::Here(Arc::new(landed))),
            landed: Condvar::new(),
            _room: None,
        }
    }

    fn flying(range: Range<u64>, sequence: u64, pending: Pending, room: Room) -> Self {
        Self {
            unread_bytes: AtomicU64::new(range.end - range.start),
            range,
            sequence: Some(sequence),
            asked: Instant::now(),
            state: Mutex::new(State::Flying(pending)),
            landed: Condvar::new(),
            _room: Some(room),
        }
    }
}
