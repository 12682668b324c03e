//! The thread that fetches the pieces of a broadcast file for this host, and then stays to serve other readers' hosts (see
//! [`crate::cache::spread`]).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_policy::{ASK_AGAIN, has_room_to_take, is_to_ask, piece_bytes};
use intarsia_sync::Instant;
use intarsia_transport::{Answer, Pending};
use intarsia_types::{Error, NodeId, Result};
use intarsia_wire::{Request, Response};

use crate::body::beside::Piecewise;
use crate::body::remote::RemoteFile;
use crate::cache::spread::Spreads;
use crate::cache::spreading::{LOOK, Spreading};
use crate::membership::cluster::{Cluster, unexpected};

/// How long one piece may take.
const PIECE_PATIENCE: Duration = Duration::from_secs(5);
/// How long the home may take to say which pieces to take next.
const ASK_PATIENCE: Duration = Duration::from_secs(2);
/// A copy that is wanted here and got no piece for this long is given up.
const STALLED: Duration = Duration::from_secs(10);
/// A whole copy serves others until no program here has the file open, and no other host has read from it for this long.
const LINGERS: Duration = Duration::from_secs(5);
/// How often this host reports to the home while it takes pieces or serves: well before the home takes it for dead (see
/// [`crate::cache::spread`]).
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The file as it is open at its home.
pub(crate) trait Source: Send + Sync {
    /// The host that serves the file.
    fn home(&self) -> NodeId;
    /// The request for a range of its bytes, to be sent to that host.
    fn request(&self, range: &Range<u64>) -> Request;
}

impl Source for RemoteFile {
    fn home(&self) -> NodeId {
        self.home()
    }

    fn request(&self, range: &Range<u64>) -> Request {
        self.request(range)
    }
}

/// A piece on its way.
struct Flying {
    piece: u32,
    range: Range<u64>,
    giver: Option<NodeId>,
    answer: Pending,
}

/// The thread that fills a copy.
pub(crate) struct Taker {
    cluster: Arc<Cluster>,
    spreads: Arc<Spreads>,
    copy: Arc<Spreading>,
    /// The length of a piece, as the home says it.
    piece_bytes: u64,
    /// Pieces to take next, and the host to take each from: another reader's, or the home for `None`.
    planned: VecDeque<(u32, Option<NodeId>)>,
    /// Pieces that were asked for and have not come.
    flying: Vec<Flying>,
    /// Pieces that have come, or could not be fetched, of which the home does not know yet.
    landed: Vec<u32>,
    failed: Vec<u32>,
}

impl Taker {
    pub(crate) fn new(cluster: Arc<Cluster>, spreads: Arc<Spreads>, copy: Arc<Spreading>) -> Self {
        Self {
            cluster,
            spreads,
            piece_bytes: piece_bytes(copy.size_bytes()),
            copy,
            planned: VecDeque::new(),
            flying: Vec::new(),
            landed: Vec::new(),
            failed: Vec::new(),
        }
    }

    pub(crate) fn work(mut self, source: Arc<impl Source>) {
        let spreads = Arc::clone(&self.spreads);
        let copy = Arc::clone(&self.copy);
        let outcome = self.take_all(&source);
        // From here on only programs here keep the file open at its home.
        drop(source);
        let outcome = outcome.and_then(|is_whole| if is_whole { self.serve() } else { Ok(()) });
        if let Err(error) = outcome {
            tracing::info!(ino = %copy.ino(), %error, "a broadcast file is read from its home alone");
        }
        self.take_leave();
        spreads.remove(&copy);
    }

    /// Tells the home that this host takes and serves nothing more. If the message is lost, the home notices the silence later.
    fn take_leave(&self) {
        let request = Request::Spread {
            ino: self.copy.ino(),
            stamp: self.copy.stamp().number,
            landed: Vec::new(),
            failed: Vec::new(),
            from: 0,
            until: 0,
            is_leaving: true,
        };
        if let Err(error) = self.cluster.tell(&self.copy.stamp().home, &request) {
            tracing::debug!(ino = %self.copy.ino(), %error, "the home is not told that no more is taken");
        }
    }

    /// Takes pieces until all are here. False if the copy was ended, or no program here has the file open any more.
    fn take_all(&mut self, source: &Arc<impl Source>) -> Result<bool> {
        let mut last_landed = Instant::now();
        let mut last_told = Instant::now();
        while !self.copy.is_whole() {
            if !self.copy.is_alive() || !self.is_wanted(source) {
                return Ok(false);
            }
            if last_landed.elapsed() > STALLED {
                return Err(Error::Busy("no piece came for a while".into()));
            }
            let lacks = !self.copy.lacking().is_empty();
            if !lacks && self.planned.is_empty() && self.flying.is_empty() {
                self.copy.wait_for_readers();
                last_landed = Instant::now();
            }
            if lacks && self.is_to_ask() || last_told.elapsed() >= TOLD_EVERY {
                let takes = self.tell()?;
                self.planned.extend(takes);
                last_told = Instant::now();
            }
            self.begin(source)?;
            if self.collect(source)? {
                last_landed = Instant::now();
            }
        }
        tracing::debug!(ino = %self.copy.ino(), "a broadcast file is here");
        Ok(true)
    }

    /// Whether a program here has the file open. Without one the source is held once, by this thread, and the copy four times: by
    /// the table of copies, by the source, and twice by this thread.
    fn is_wanted(&self, source: &Arc<impl Source>) -> bool {
        Arc::strong_count(source) > 1 || Arc::strong_count(&self.copy) > 4
    }

    /// Whether it is time to report to the home, and to ask what to take next.
    fn is_to_ask(&self) -> bool {
        let news = self.landed.len() + self.failed.len();
        is_to_ask(news, self.planned.len() + self.flying.len())
    }

    /// Asks for planned pieces, as many as may be on their way at the same time.
    fn begin(&mut self, source: &Arc<impl Source>) -> Result<()> {
        while has_room_to_take(self.flying.len(), self.piece_bytes)
            && let Some((piece, giver)) = self.planned.pop_front()
        {
            let range = self.range(piece);
            if range.is_empty() {
                return Err(Error::Engine("the home named a piece past the end".into()));
            }
            if self.copy.has(&range) {
                self.landed.push(piece);
                continue;
            }
            self.cluster.note_asked(range.end - range.start);
            let (host, request) = match &giver {
                None => (source.home(), source.request(&range)),
                Some(giver) => (giver.clone(), self.request(&range)),
            };
            let begun = match self.cluster.start_now(&host, &request, PIECE_PATIENCE) {
                Some(answer) => Ok(answer),
                // There is no connection to that host yet.
                None => self.cluster.start(&host, request, None),
            };
            match begun {
                Ok(answer) => self.flying.push(Flying { piece, range, giver, answer }),
                Err(error) => {
                    tracing::debug!(ino = %self.copy.ino(), %host, piece, %error, "not asked for");
                    self.failed.push(piece);
                }
            }
        }
        Ok(())
    }

    /// Reports to the home what has come and failed. Returns the pieces to take next, and from whom.
    fn tell(&mut self) -> Result<Vec<(u32, Option<NodeId>)>> {
        let lacking = self.copy.lacking();
        let (from, until) =
            (lacking.start / self.piece_bytes, lacking.end.div_ceil(self.piece_bytes));
        let request = Request::Spread {
            ino: self.copy.ino(),
            stamp: self.copy.stamp().number,
            landed: std::mem::take(&mut self.landed),
            failed: std::mem::take(&mut self.failed),
            from: u32::try_from(from).unwrap_or(u32::MAX),
            until: u32::try_from(until).unwrap_or(u32::MAX),
            is_leaving: false,
        };
        match self.cluster.call_within(&self.copy.stamp().home, &request, ASK_PATIENCE)? {
            Response::Spread { piece_bytes, takes } if piece_bytes > 0 => {
                self.piece_bytes = piece_bytes;
                Ok(takes)
            }
            other => Err(unexpected(&self.copy.stamp().home, &other)),
        }
    }

    fn range(&self, piece: u32) -> Range<u64> {
        let start = u64::from(piece).saturating_mul(self.piece_bytes);
        start..start.saturating_add(self.piece_bytes).min(self.copy.size_bytes())
    }

    fn request(&self, range: &Range<u64>) -> Request {
        Request::ReadSpread {
            ino: self.copy.ino(),
            home: self.copy.stamp().home.clone(),
            stamp: self.copy.stamp().number,
            offset_bytes: range.start,
            len_bytes: u32::try_from(range.end - range.start).unwrap_or(0),
        }
    }

    /// Waits for a piece, and keeps all that have come; whether any did. If none is on its way because the home had none to give,
    /// waits a moment before the home is asked again.
    fn collect(&mut self, source: &Arc<impl Source>) -> Result<bool> {
        if self.flying.is_empty() {
            let waits = !self.copy.lacking().is_empty();
            if waits && self.landed.is_empty() && self.failed.is_empty() {
                intarsia_sync::thread::sleep(ASK_AGAIN);
            }
            return Ok(false);
        }
        let mut has_come = false;
        let mut is_first = !self.flying.iter().any(|flying| flying.answer.is_ready());
        for flying in std::mem::take(&mut self.flying) {
            if std::mem::take(&mut is_first) || flying.answer.is_ready() {
                has_come |= self.land(flying, source)?;
            } else {
                self.flying.push(flying);
            }
        }
        Ok(has_come)
    }

    fn land(&mut self, flying: Flying, source: &Arc<impl Source>) -> Result<bool> {
        let Flying { piece, range, giver, answer } = flying;
        let host = giver.clone().unwrap_or_else(|| source.home());
        let wanted = range.end - range.start;
        let bytes = match self.cluster.wait_for(&host, answer) {
            Ok(Answer { response: Response::Data { .. }, payload }) => Some(payload),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(ino = %self.copy.ino(), %host, piece, %error, "a piece did not come");
                if giver.is_none() {
                    return Err(error);
                }
                None
            }
        };
        let Some(bytes) = bytes.filter(|bytes| bytes.len() as u64 == wanted) else {
            self.failed.push(piece);
            return Ok(false);
        };
        if !self.copy.is_alive() {
            return Ok(false);
        }
        let metrics = &self.spreads.metrics;
        let counter = if giver.is_some() { &metrics.reader_bytes } else { &metrics.home_bytes };
        counter.fetch_add(wanted, Ordering::Relaxed);
        if !self.copy.add(range.start, &bytes) {
            return Err(Error::NoSpace("the copy could not be written".into()));
        }
        self.landed.push(piece);
        Ok(true)
    }

    /// Keeps the whole copy for other hosts to read from, until it is ended or no longer used.
    fn serve(&mut self) -> Result<()> {
        self.flying.clear();
        let mut told: Option<Instant> = None;
        loop {
            // Without a program the copy is held three times: by the table of copies, and twice by this thread.
            let is_open = Arc::strong_count(&self.copy) > 3;
            let is_used = self.copy.is_used_since(LINGERS);
            if !self.copy.is_alive() || self.spreads.is_closing() || !(is_open || is_used) {
                return Ok(());
            }
            if told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
                if self.tell().is_err() {
                    // The home will soon send no other host here; programs here that have the file open go on reading.
                    if !is_open {
                        return Ok(());
                    }
                }
                told = Some(Instant::now());
            }
            intarsia_sync::thread::sleep(LOOK);
        }
    }
}
