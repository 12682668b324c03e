//! A file whose bytes another host serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use intarsia_types::{Error, InodeId, NodeId, Result};
use intarsia_wire::{Handle, MAX_PAYLOAD_BYTES, Request, Response, Target};

use crate::cluster::Cluster;

/// An open file on another host; closed there when the last reference goes.
pub(crate) struct RemoteFile {
    cluster: Arc<Cluster>,
    /// The host that serves it.
    home: NodeId,
    handle: Handle,
    may_write: bool,
    /// The length at the last answer.
    size_bytes: AtomicU64,
    /// Something was written that the host has not been told to publish.
    is_dirty: AtomicBool,
}

impl RemoteFile {
    /// Opens the file at `home`.
    ///
    /// # Errors
    /// What the host answers, or that it does not answer.
    pub(crate) fn open(
        cluster: &Arc<Cluster>,
        home: NodeId,
        ino: InodeId,
        may_write: bool,
    ) -> Result<Self> {
        match cluster.call(&home, &Request::Open { ino, may_write }, None)? {
            Response::Opened { handle, size_bytes } => Ok(Self {
                cluster: Arc::clone(cluster),
                home,
                handle,
                may_write,
                size_bytes: AtomicU64::new(size_bytes),
                is_dirty: AtomicBool::new(false),
            }),
            other => Err(unexpected(&home, &other)),
        }
    }

    pub(crate) const fn may_write(&self) -> bool {
        self.may_write
    }

    pub(crate) const fn home(&self) -> &NodeId {
        &self.home
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// Reads into `buffer`; fewer bytes only at the end of the file.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let end = buffer.len().min(done + MAX_PAYLOAD_BYTES);
            let part = &mut buffer[done..end];
            let at = offset_bytes + done as u64;
            let n = self.read_part(part, at)?;
            done += n;
            if n == 0 || at + (n as u64) >= self.size_bytes() {
                break;
            }
        }
        Ok(done)
    }

    fn read_part(&self, part: &mut [u8], offset_bytes: u64) -> Result<usize> {
        let request = Request::Read {
            handle: self.handle,
            offset_bytes,
            len_bytes: u32::try_from(part.len()).unwrap_or(u32::MAX),
            read_ahead_bytes: 0,
        };
        match self.cluster.call_into(&self.home, &request, part)? {
            (Response::Data { size_bytes }, len) => {
                self.size_bytes.store(size_bytes, Ordering::Relaxed);
                Ok(len)
            }
            (other, _) => Err(unexpected(&self.home, &other)),
        }
    }

    /// Writes all of `data`.
    pub(crate) fn write_all_at(&self, data: &[u8], offset_bytes: u64) -> Result<()> {
        let mut at = offset_bytes;
        for part in data.chunks(MAX_PAYLOAD_BYTES) {
            let request = Request::Write { target: Target::Handle(self.handle), offset_bytes: at };
            self.change(&request, Some(part))?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Cuts or grows the file.
    pub(crate) fn set_len(&self, size_bytes: u64) -> Result<()> {
        self.change(&Request::Truncate { target: Target::Handle(self.handle), size_bytes }, None)
    }

    fn change(&self, request: &Request, payload: Option<&[u8]>) -> Result<()> {
        self.is_dirty.store(true, Ordering::Relaxed);
        match self.cluster.call(&self.home, request, payload)? {
            Response::Written { size_bytes } => {
                self.size_bytes.store(size_bytes, Ordering::Relaxed);
                Ok(())
            }
            other => Err(unexpected(&self.home, &other)),
        }
    }

    /// Has what was written published, as a close does.
    pub(crate) fn flush(&self) -> Result<()> {
        if !self.is_dirty.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        match self.cluster.call(&self.home, &Request::Flush { handle: self.handle }, None)? {
            Response::Done => Ok(()),
            other => Err(unexpected(&self.home, &other)),
        }
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        let close = Request::Close { handle: self.handle };
        if let Err(error) = self.cluster.tell(&self.home, &close) {
            // It goes with the connection.
            tracing::debug!(home = %self.home, %error, "a file stays open at its home for a while");
        }
    }
}

pub(crate) fn unexpected(home: &NodeId, response: &Response) -> Error {
    Error::Engine(format!("{home} gave an answer that does not fit: {response:?}"))
}
