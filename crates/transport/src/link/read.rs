//! Bytes from the socket become frames.

use std::io::{self, Read as _};
use std::sync::Arc;

use intarsia_wire::{Header, MAX_HEADER_BYTES, PREFIX_BYTES, Prefix, Protection, TAG_BYTES};
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::net::tcp::OwnedReadHalf;

use super::{LinkError, Open};
use crate::BufferPool;
use crate::frame::{Received, gap_bytes};

/// Room for the longest start of a frame. Small frames are taken from it many at a time.
const BUFFER_BYTES: usize = PREFIX_BYTES + TAG_BYTES + MAX_HEADER_BYTES;
/// Encrypted bytes taken from the socket at a time.
const CIPHER_BYTES: usize = 256 << 10;

/// The receiving half of a link.
pub(crate) struct FrameReader {
    source: Source,
    window: Window,
    buffers: BufferPool,
}

impl FrameReader {
    pub(super) fn new(socket: OwnedReadHalf, open: Open, buffers: BufferPool) -> Self {
        let cipher = match &open {
            Open::Tag(_) => Window::new(0),
            Open::Tls(_) => Window::new(CIPHER_BYTES),
        };
        Self { source: Source { socket, open, cipher }, window: Window::new(BUFFER_BYTES), buffers }
    }

    /// The next frame; none when the other side has closed between two frames.
    pub(crate) async fn next(&mut self) -> Result<Option<Received>, LinkError> {
        if !self.buffer(PREFIX_BYTES).await? {
            return match self.window.filled() {
                [] => Ok(None),
                _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            };
        }
        let Some(prefix_bytes) = self.window.filled().first_chunk() else { return Ok(None) };
        let prefix = Prefix::decode(*prefix_bytes)?;
        let header = self.header(prefix).await?;
        let payload_bytes = prefix.payload_bytes();
        let mut payload = self.buffers.take(payload_bytes);
        let mut have_bytes = self.window.take(&mut payload);
        while have_bytes < payload_bytes {
            let rest = payload.get_mut(have_bytes..).unwrap_or_default();
            match self.source.read(rest).await? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                n => have_bytes += n,
            }
        }
        Ok(Some(Received { body: header.body, payload, payload_sum: header.payload_sum }))
    }

    /// Whether the whole next frame is here already, so that it comes without waiting.
    pub(crate) fn has_frame(&self) -> bool {
        let filled = self.window.filled();
        let gap_bytes = gap_bytes(self.source.protection());
        filled.first_chunk().and_then(|bytes| Prefix::decode(*bytes).ok()).is_some_and(|prefix| {
            let len_bytes = prefix.header_bytes() + prefix.payload_bytes();
            filled.len() >= PREFIX_BYTES + gap_bytes + len_bytes
        })
    }

    /// Everything of a frame before its payload, with the tag compared.
    async fn header(&mut self, prefix: Prefix) -> Result<Header, LinkError> {
        let gap_bytes = gap_bytes(self.source.protection());
        let head_bytes = PREFIX_BYTES + gap_bytes + prefix.header_bytes();
        if !self.buffer(head_bytes).await? {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let head = self.window.filled().get(..head_bytes).unwrap_or_default();
        let (start, header) = head.split_at_checked(PREFIX_BYTES + gap_bytes).unwrap_or_default();
        if let Open::Tag(key) = &mut self.source.open {
            let (prefix, tag) = start.split_at_checked(PREFIX_BYTES).unwrap_or_default();
            if !tag.first_chunk().is_some_and(|tag| key.accepts(prefix, *tag, header)) {
                return Err(LinkError::Tag);
            }
        }
        let header = Header::decode(header)?;
        self.window.skip(head_bytes);
        Ok(header)
    }

    /// Buffers at least `bytes`; false when the other side closed before.
    async fn buffer(&mut self, bytes: usize) -> io::Result<bool> {
        while self.window.filled().len() < bytes {
            let n = self.source.read(self.window.space(bytes)).await?;
            if n == 0 {
                return Ok(false);
            }
            self.window.grow(n);
        }
        Ok(true)
    }
}

/// Plain bytes, wherever they come from.
struct Source {
    socket: OwnedReadHalf,
    open: Open,
    cipher: Window,
}

impl Source {
    const fn protection(&self) -> Protection {
        match self.open {
            Open::Tag(_) => Protection::Tagged,
            Open::Tls(_) => Protection::Encrypted,
        }
    }

    /// Some bytes, straight into their place; 0 when the other side has closed.
    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Open::Tls(connection) = &self.open else { return self.socket.read(into).await };
        loop {
            match decrypt(connection, &mut self.cipher, into) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let n = self.socket.read(self.cipher.space(1)).await?;
            if n == 0 {
                return Ok(0);
            }
            self.cipher.grow(n);
        }
    }
}

/// Plain bytes from what is buffered; `WouldBlock` when that is not a whole record.
fn decrypt(
    connection: &Arc<Mutex<rustls::Connection>>,
    cipher: &mut Window,
    into: &mut [u8],
) -> io::Result<usize> {
    let mut connection = connection.lock();
    let mut done = 0;
    loop {
        // An end that TLS announces is an end; the socket's own end is found where it is read.
        match connection.reader().read(into.get_mut(done..).unwrap_or_default()) {
            Ok(0) => return Ok(done),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let mut bytes = cipher.filled();
                if bytes.is_empty() {
                    return if done > 0 { Ok(done) } else { Err(e) };
                }
                let n = connection.read_tls(&mut bytes)?;
                cipher.skip(n);
                connection
                    .process_new_packets()
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {e}")))?;
            }
            Err(e) => return Err(e),
        }
    }
}

/// A buffer that is filled at its end and used up from its beginning.
struct Window {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    fn new(len_bytes: usize) -> Self {
        Self { bytes: vec![0; len_bytes], start: 0, end: 0 }
    }

    fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Free space behind what is filled, so much that `filled` can become `bytes` long.
    fn space(&mut self, bytes: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start + bytes > self.bytes.len() || self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    fn grow(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.bytes.len());
    }

    fn skip(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Moves as much as fits into `into`.
    fn take(&mut self, into: &mut [u8]) -> usize {
        let n = self.filled().len().min(into.len());
        if let (Some(into), Some(from)) = (into.get_mut(..n), self.filled().get(..n)) {
            into.copy_from_slice(from);
        }
        self.skip(n);
        n
    }
}
