//! Frames become bytes on the socket, as far as the socket takes them.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write as _};
use std::sync::Arc;

use intarsia_wire::{PREFIX_BYTES, TAG_BYTES};
use tokio::net::tcp::OwnedWriteHalf;

use super::Seal;
use super::handshake::Try;
use crate::frame::Frame;

/// Slices handed to the system in one call; the system takes at most 1024.
const MOST_SLICES: usize = 64;
/// Plain bytes that are encrypted before the result is handed to the system.
const ENCRYPT_BYTES: usize = 256 << 10;

/// How far a flush came.
pub(crate) enum Progress {
    /// Everything is with the system.
    Done,
    /// The socket takes no more at the moment.
    Blocked,
}

/// The sending half of a link.
pub(crate) struct FrameWriter {
    socket: Arc<OwnedWriteHalf>,
    seal: Seal,
    frames: VecDeque<Frame>,
    /// Bytes of the first frame that are with the system (or with TLS) already.
    taken_bytes: usize,
}

impl FrameWriter {
    pub(super) fn new(socket: Arc<OwnedWriteHalf>, seal: Seal) -> Self {
        Self { socket, seal, frames: VecDeque::new(), taken_bytes: 0 }
    }

    /// The socket, to wait for and to close.
    pub(crate) fn socket(&self) -> &Arc<OwnedWriteHalf> {
        &self.socket
    }

    /// Adds a frame at the end. Its place in the order, and so its tag, is settled here.
    pub(crate) fn push(&mut self, mut frame: Frame) {
        if let Seal::Tag(key) = &mut self.seal
            && let Some((prefix, rest)) = frame.head.split_first_chunk_mut::<PREFIX_BYTES>()
            && let Some((tag, header)) = rest.split_first_chunk_mut::<TAG_BYTES>()
        {
            *tag = *key.next(prefix, header).as_bytes();
        }
        self.frames.push_back(frame);
    }

    /// Drops what was not written.
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
    }

    /// Writes what the socket takes without waiting.
    pub(crate) fn flush(&mut self) -> io::Result<Progress> {
        let outcome = match &self.seal {
            Seal::Tag(_) => self.flush_plain(),
            Seal::Tls(connection) => {
                let connection = Arc::clone(connection);
                self.flush_tls(&connection)
            }
        };
        match outcome {
            Ok(()) => Ok(Progress::Done),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Progress::Blocked),
            Err(e) => Err(e),
        }
    }

    fn flush_plain(&mut self) -> io::Result<()> {
        while !self.frames.is_empty() {
            let written = self.socket.try_write_vectored(&self.slices(usize::MAX))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.advance(written);
        }
        Ok(())
    }

    fn flush_tls(&mut self, connection: &parking_lot::Mutex<rustls::Connection>) -> io::Result<()> {
        loop {
            let mut connection = connection.lock();
            while connection.wants_write() {
                if connection.write_tls(&mut Try((*self.socket).as_ref()))? == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
            }
            if self.frames.is_empty() {
                return Ok(());
            }
            let taken = connection.writer().write_vectored(&self.slices(ENCRYPT_BYTES))?;
            drop(connection);
            self.advance(taken);
        }
    }

    /// What comes next, in pieces, about `most_bytes` of it.
    fn slices(&self, most_bytes: usize) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity((2 * self.frames.len()).min(MOST_SLICES));
        let (mut skip_bytes, mut left_bytes) = (self.taken_bytes, most_bytes);
        for part in self.frames.iter().flat_map(|frame| [&frame.head[..], &frame.payload[..]]) {
            if left_bytes == 0 || slices.len() == MOST_SLICES {
                break;
            }
            let skipped = skip_bytes.min(part.len());
            skip_bytes -= skipped;
            let part = part.get(skipped..).unwrap_or_default();
            let part = part.get(..left_bytes).unwrap_or(part);
            left_bytes -= part.len();
            if !part.is_empty() {
                slices.push(IoSlice::new(part));
            }
        }
        slices
    }

    fn advance(&mut self, bytes: usize) {
        self.taken_bytes += bytes;
        while let Some(first) = self.frames.front()
            && self.taken_bytes >= first.len_bytes()
        {
            self.taken_bytes -= first.len_bytes();
            self.frames.pop_front();
        }
    }
}
