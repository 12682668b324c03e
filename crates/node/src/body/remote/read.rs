//! Reads of another host's file: from pieces that were fetched ahead, and by requests for what is missing between them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use intarsia_transport::{Buffer, Pending};
use intarsia_types::Result;
use intarsia_wire::MAX_PAYLOAD_BYTES;

use crate::body::beside::{FillsUp, Piecewise};
use crate::body::pieces::{Landed, Piece};

use super::{AHEAD_PATIENCE, RemoteFile};

/// A read of a remote file that has begun: its requests are on their way while its owner does other things.
pub struct RemoteRead {
    file: Arc<RemoteFile>,
    range: Range<u64>,
    parts: Vec<Part>,
    /// Fills up what is missing at the end.
    rest: Option<Box<dyn FillsUp>>,
}

/// Where some of the bytes come from.
struct Part {
    range: Range<u64>,
    source: Source,
}

enum Source {
    /// A piece that was asked for ahead.
    Piece(Arc<Piece>),
    /// A cached copy here, which has the bytes or will have them soon.
    Spread(Arc<dyn Piecewise>),
    /// A request for these bytes; none when it could not be sent without waiting.
    Request(Option<Pending>),
}

/// Bytes in the buffer in which they came, so that they can be handed on without a copy.
enum Bytes {
    Piece(Arc<Landed>, Range<usize>),
    Answer(Buffer),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Piece(landed, range) => landed.payload.get(range.clone()).unwrap_or_default(),
            Self::Answer(buffer) => buffer,
        }
    }
}

impl RemoteRead {
    /// Has `rest` fill up what is missing at the end.
    pub(crate) fn or_from(self, rest: Box<dyn FillsUp>) -> Self {
        Self { rest: Some(rest), ..self }
    }

    /// Whether all bytes are here, so that [`finish`](Self::finish) does not wait.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.parts.iter().all(|part| match &part.source {
            Source::Piece(piece) => piece.is_ready(),
            Source::Spread(copy) => copy.has(&part.range),
            Source::Request(Some(pending)) => pending.is_ready(),
            Source::Request(None) => false,
        })
    }

    /// Waits for what is missing and hands the bytes to `deliver`, fewer than asked for only at the end of the
    /// file. `scratch` is used where they come in several parts.
    pub fn finish<T>(
        mut self,
        scratch: &mut Vec<u8>,
        deliver: impl FnOnce(Result<&[u8]>) -> T,
    ) -> T {
        if self.rest.is_none()
            && let [_] = self.parts.as_slice()
            && let Some(only) = self.parts.pop()
        {
            return match self.file.bytes_of(only) {
                Ok(bytes) => {
                    let outcome = deliver(Ok(&bytes));
                    self.file.keep(self.range.start, &bytes);
                    outcome
                }
                Err(error) => deliver(Err(error)),
            };
        }
        // Bytes that the former content filled up are not the file's present ones, so a cached copy must not get them.
        let file = self.rest.is_none().then(|| Arc::clone(&self.file));
        let start = self.range.start;
        let len = usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX);
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        match self.finish_into(&mut scratch[..len]) {
            Ok(n) => {
                let outcome = deliver(Ok(&scratch[..n]));
                if let Some(file) = file {
                    file.keep(start, &scratch[..n]);
                }
                outcome
            }
            Err(error) => deliver(Err(error)),
        }
    }

    /// As [`finish`](Self::finish), but copies the bytes into `buffer`; returns how many there are.
    pub(crate) fn finish_into(mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        for part in std::mem::take(&mut self.parts) {
            let wanted = part.range.end - part.range.start;
            let bytes = self.file.bytes_of(part)?;
            let n = bytes.len().min(buffer.len() - done);
            buffer[done..done + n].copy_from_slice(&bytes[..n]);
            done += n;
            if (n as u64) < wanted {
                break;
            }
        }
        Ok(match &self.rest {
            Some(rest) => rest.complete(buffer, done, self.range.start),
            None => done,
        })
    }
}

impl RemoteFile {
    /// Reads into `buffer`; fewer bytes only at the end of the file.
    pub(crate) fn read_at(self: &Arc<Self>, buffer: &mut [u8], offset_bytes: u64) -> Result<usize> {
        let mut done = 0;
        for part in buffer.chunks_mut(MAX_PAYLOAD_BYTES) {
            let at = offset_bytes + done as u64;
            let n = self.begin_read(at, part.len()).finish_into(part)?;
            self.keep(at, &part[..n]);
            done += n;
            if n < part.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Begins to read at most [`MAX_PAYLOAD_BYTES`]: whatever is not here yet is asked for, if that needs no waiting.
    pub(crate) fn begin_read(self: &Arc<Self>, offset_bytes: u64, len: usize) -> RemoteRead {
        let range = offset_bytes..offset_bytes + len as u64;
        if let Some(part) = self.spread_part(&range) {
            return RemoteRead { file: Arc::clone(self), range, parts: vec![part], rest: None };
        }
        let parts = self.parts_of(&range);
        let read = RemoteRead { file: Arc::clone(self), range, parts, rest: None };
        if !self.may_write {
            let ask = |range: &Range<u64>| self.ask_now(range, AHEAD_PATIENCE);
            self.pieces.read_ahead(&read.range, self.size_bytes(), !read.is_ready(), ask);
        }
        read
    }

    /// The read as one part, cut at the end of the file, if the cached copy here answers it.
    fn spread_part(&self, range: &Range<u64>) -> Option<Part> {
        let copy = self.spread.as_ref().filter(|copy| copy.is_alive())?;
        let range = range.start..range.end.min(copy.size_bytes());
        if range.is_empty() || !copy.comes(&range) {
            return None;
        }
        Some(Part { range, source: Source::Spread(Arc::clone(copy)) })
    }

    /// Divides a range into pieces that were fetched ahead and gaps between them, which are asked for now.
    fn parts_of(&self, range: &Range<u64>) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut at = range.start;
        for piece in self.pieces.covering(range) {
            let here = at.max(piece.range().start)..range.end.min(piece.range().end);
            parts.extend(self.gap(at..here.start, range));
            at = here.end;
            parts.push(Part { range: here, source: Source::Piece(piece) });
        }
        parts.extend(self.gap(at..range.end, range));
        parts
    }

    /// Asks for a part that was not asked for ahead. The kernel reads whole pages, so a gap behind the end of the file is asked for
    /// only if it is the whole read.
    fn gap(&self, gap: Range<u64>, read: &Range<u64>) -> Option<Part> {
        let is_past_end = gap.start >= self.size_bytes() && gap.start > read.start;
        if gap.is_empty() || is_past_end {
            return None;
        }
        let source = Source::Request(self.ask_now(&gap, self.patience()));
        Some(Part { range: gap, source })
    }

    /// Adds bytes to the cached copy that is made here, if there is one; called after the reader has them.
    fn keep(&self, offset_bytes: u64, bytes: &[u8]) {
        if let Some(copy) = &self.copy {
            copy.add(offset_bytes, bytes);
        }
    }

    /// The bytes of a part.
    fn bytes_of(&self, part: Part) -> Result<Bytes> {
        let Part { range, source } = part;
        let piece = match source {
            Source::Request(begun) => {
                return self.fetch(&range, begun).map(Bytes::Answer);
            }
            Source::Spread(copy) => {
                let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                let mut buffer = self.cluster.buffer(len);
                let is_read = copy.wait_and_read(range.start, &mut buffer);
                let bytes = if is_read { Ok(buffer) } else { self.fetch(&range, None) };
                return bytes.map(Bytes::Answer);
            }
            Source::Piece(piece) => piece,
        };
        let was_ready = piece.is_ready();
        let landed = piece.wait();
        if !was_ready {
            self.pieces.waited_for(&piece);
        }
        self.pieces.consumed(&piece, range.end - range.start);
        let offset = |at: u64| usize::try_from(at - piece.range().start).unwrap_or(usize::MAX);
        let within = offset(range.start)..offset(range.end);
        match landed {
            Some(landed) if landed.payload.len() >= within.end => {
                self.size_bytes.store(landed.size_bytes, Ordering::Relaxed);
                Ok(Bytes::Piece(landed, within))
            }
            // The piece did not come, or is shorter than expected because the file was cut: the host is asked for the bytes.
            _ => self.fetch(&range, None).map(Bytes::Answer),
        }
    }
}
