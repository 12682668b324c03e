//! Reads of a striped file: a request to each host with a part of the range, all at once.

use std::ops::Range;
use std::sync::Arc;

use intarsia_policy::Span;
use intarsia_types::Result;
use intarsia_wire::MAX_PAYLOAD_BYTES;

use crate::body::parts::PartFile;
use crate::body::remote::read::RemoteRead;

use super::{Part, StripedFile, extent, place_of, to_len};

/// A read of a striped file that has begun.
pub struct StripedRead {
    file: Arc<StripedFile>,
    /// The bytes to read, cut at the end of the file.
    range: Range<u64>,
    parts: Vec<PartRead>,
}

/// A read of one part.
struct PartRead {
    spans: Vec<Span>,
    source: Source,
}

enum Source {
    Here(Arc<PartFile>),
    There(RemoteRead),
}

impl StripedFile {
    /// Begins to read at most [`MAX_PAYLOAD_BYTES`] from all hosts that have some of it.
    pub(crate) fn begin_read(self: &Arc<Self>, offset_bytes: u64, len: usize) -> StripedRead {
        self.settle();
        let end = (offset_bytes.saturating_add(len as u64)).min(self.size_bytes());
        let range = offset_bytes..end.max(offset_bytes);
        let begin = |(part, spans): (usize, Vec<Span>)| {
            let (first, len) = extent(&spans);
            let source = match self.parts.get(part)? {
                Part::Here(file) => Source::Here(Arc::clone(file)),
                Part::There(remote) => Source::There(remote.begin_read(first, len)),
            };
            Some(PartRead { spans, source })
        };
        let parts = self.by_part(range.clone()).into_iter().filter_map(begin).collect();
        StripedRead { file: Arc::clone(self), range, parts }
    }

    /// Reads into `buffer`; fewer bytes only at the end of the file.
    pub(crate) fn read_at(self: &Arc<Self>, buffer: &mut [u8], offset_bytes: u64) -> Result<usize> {
        let mut done = 0;
        for part in buffer.chunks_mut(MAX_PAYLOAD_BYTES) {
            let n = self.begin_read(offset_bytes + done as u64, part.len()).finish_into(part)?;
            done += n;
            if n < part.len() {
                break;
            }
        }
        Ok(done)
    }
}

impl StripedRead {
    fn len(&self) -> usize {
        to_len(self.range.end - self.range.start)
    }

    /// Whether no other host has to be waited for.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.parts.iter().all(|part| match &part.source {
            Source::Here(_) => true,
            Source::There(read) => read.is_ready(),
        })
    }

    /// As [`RemoteRead::finish`].
    pub fn finish<T>(
        mut self,
        scratch: &mut Vec<u8>,
        deliver: impl FnOnce(Result<&[u8]>) -> T,
    ) -> T {
        let len = self.len();
        let is_one_span = matches!(
            self.parts.as_slice(),
            [PartRead { spans, source: Source::There(_) }] if spans.len() == 1
        );
        if is_one_span && let Some(PartRead { source: Source::There(read), .. }) = self.parts.pop()
        {
            return finish_one(read, len, scratch, deliver);
        }
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        match self.finish_into(&mut scratch[..len]) {
            Ok(n) => deliver(Ok(&scratch[..n])),
            Err(error) => deliver(Err(error)),
        }
    }

    /// Waits for the bytes and copies them into `buffer`; returns how many there are.
    fn finish_into(self, buffer: &mut [u8]) -> Result<usize> {
        let (len, start) = (self.len(), self.range.start);
        for part in self.parts {
            let (first, part_len) = extent(&part.spans);
            if let [only] = part.spans.as_slice() {
                part.source.read(&mut buffer[place_of(only, start)], first)?;
                continue;
            }
            let mut bytes = vec![0; part_len];
            part.source.read(&mut bytes, first)?;
            let mut rest = bytes.as_slice();
            for span in &part.spans {
                let (here, later) = rest.split_at(to_len(span.len_bytes));
                buffer[place_of(span, start)].copy_from_slice(here);
                rest = later;
            }
        }
        drop(self.file);
        Ok(len)
    }
}

impl Source {
    /// Fills `buffer`; with zeros behind the end of the part: the file is longer than that, and nothing was written there.
    fn read(self, buffer: &mut [u8], offset_bytes: u64) -> Result<()> {
        let n = match self {
            Self::Here(file) => file.read_at(buffer, offset_bytes)?,
            Self::There(read) => read.finish_into(buffer)?,
        };
        buffer[n..].fill(0);
        Ok(())
    }
}

/// Hands the bytes of a single span to `deliver` as they came, or with zeros behind the end of the part.
fn finish_one<T>(
    read: RemoteRead,
    len: usize,
    scratch: &mut Vec<u8>,
    deliver: impl FnOnce(Result<&[u8]>) -> T,
) -> T {
    let mut own = Vec::new();
    read.finish(scratch, |bytes| match bytes {
        Ok(bytes) if bytes.len() < len => {
            own.extend_from_slice(bytes);
            own.resize(len, 0);
            deliver(Ok(&own))
        }
        other => deliver(other),
    })
}

/// A read that other hosts take part in, and that has begun.
pub enum FarRead {
    /// A read of a file that one other host serves.
    Remote(RemoteRead),
    /// A read of a striped file.
    Striped(StripedRead),
}

impl FarRead {
    /// Whether no other host has to be waited for.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Remote(read) => read.is_ready(),
            Self::Striped(read) => read.is_ready(),
        }
    }

    /// Waits for what is missing and hands the bytes to `deliver`; fewer than asked for only at the end of the file. `scratch` is
    /// used where they come in several parts.
    pub fn finish<T>(self, scratch: &mut Vec<u8>, deliver: impl FnOnce(Result<&[u8]>) -> T) -> T {
        match self {
            Self::Remote(read) => read.finish(scratch, deliver),
            Self::Striped(read) => read.finish(scratch, deliver),
        }
    }
}
