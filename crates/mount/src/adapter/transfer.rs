//! Reads and writes.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fuser::{FileHandle, INodeNo, ReplyData, ReplyWrite, Request, WriteFlags};
use intarsia_node::{Direction, FarRead, Node, Op, OpTimer, Reading};
use intarsia_types::{Error, InodeId, Result};

use super::Adapter;
use super::opening::is_paged;
use crate::calls;
use crate::convert::{errno, ino};

thread_local! {
    /// One buffer per event loop: fresh memory costs several times the copy.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A file, and the bytes of it that a program reads: the first, and how many.
type Place = (InodeId, u64, usize);

impl Adapter {
    pub(super) fn answer_read(
        &self,
        req: &Request,
        n: INodeNo,
        fh: FileHandle,
        (offset, size): (u64, u32),
        reply: ReplyData,
    ) {
        let timer = Self::start(req, Op::Read);
        let place = (ino(n), offset, size as usize);
        READ_BUFFER.with_borrow_mut(|buffer| match self.begin_read(fh, place, buffer) {
            Ok(Reading::Done(len)) => {
                self.record_moved(fh, Direction::Read, (offset, len), &timer);
                answer_read(&self.node, &timer, Ok(&buffer[..len]), reply);
            }
            Ok(Reading::Elsewhere(read)) => {
                self.record_moved(fh, Direction::Read, (offset, place.2), &timer);
                if read.is_ready() {
                    self.deliver(read, buffer, place, timer, reply);
                } else {
                    // This thread has other requests to take meanwhile.
                    self.wait_for_peer(read, place, timer, reply);
                }
            }
            Err(e) => answer_read(&self.node, &timer, Err(e), reply),
        });
    }

    fn begin_read(
        &self,
        fh: FileHandle,
        (ino, offset, size): Place,
        buffer: &mut Vec<u8>,
    ) -> Result<Reading> {
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        self.node.require_locks(ino)?;
        match is_paged(fh) {
            true => self.node.begin_page_read(ino, offset, &mut buffer[..size]),
            false => self.node.begin_read(ino, offset, &mut buffer[..size]),
        }
    }

    /// Answers a read whose bytes have come from another host.
    fn deliver(
        &self,
        read: FarRead,
        buffer: &mut Vec<u8>,
        place: Place,
        timer: OpTimer,
        reply: ReplyData,
    ) {
        read.finish(buffer, |bytes| match bytes {
            Ok(bytes) => answer_remote_read(&self.node, &timer, Ok(bytes), reply),
            Err(error) => {
                let node = Arc::clone(&self.node);
                let look = move || read_moved(&node, place, error, &timer, reply);
                self.lanes.run_far_read(look);
            }
        });
    }

    fn wait_for_peer(&self, read: FarRead, place: Place, timer: OpTimer, reply: ReplyData) {
        let node = Arc::clone(&self.node);
        self.lanes.run_far_read(move || {
            READ_BUFFER.with_borrow_mut(|buffer| {
                read.finish(buffer, |bytes| match bytes {
                    Ok(bytes) => answer_remote_read(&node, &timer, Ok(bytes), reply),
                    Err(error) => read_moved(&node, place, error, &timer, reply),
                });
            });
        });
    }

    pub(super) fn answer_write(
        &self,
        req: &Request,
        (n, fh): (INodeNo, FileHandle),
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        reply: ReplyWrite,
    ) {
        let timer = Self::start(req, Op::Write);
        let is_write_back = self.has_write_back.load(Ordering::Relaxed)
            && write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let kills = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let result = self
            .node
            .require_locks(ino(n))
            .and_then(|()| self.node.write(ino(n), offset, data, is_write_back, kills));
        if result.is_ok() {
            self.record_moved(fh, Direction::Write, (offset, data.len()), &timer);
        }
        self.finish(&timer, result.is_ok());
        match result {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(e) => reply.error(errno(&e, "write")),
        }
    }
}

/// The bytes could not be had from the host that they were asked of; they may be at another one by now.
fn read_moved(node: &Node, place: Place, error: Error, timer: &OpTimer, reply: ReplyData) {
    let (ino, offset, size) = place;
    let mut bytes = vec![0; size];
    match node.read_moved(ino, offset, &mut bytes).unwrap_or(Err(error)) {
        Ok(len) => answer_read(node, timer, Ok(&bytes[..len]), reply),
        Err(error) => answer_remote_read(node, timer, Err(error), reply),
    }
}

fn answer_remote_read(node: &Node, timer: &OpTimer, bytes: Result<&[u8]>, reply: ReplyData) {
    node.count_read(bytes.as_ref().map_or(0, |bytes| bytes.len()));
    answer_read(node, timer, bytes, reply);
}

fn answer_read(node: &Node, timer: &OpTimer, bytes: Result<&[u8]>, reply: ReplyData) {
    node.counters().finish(timer, bytes.is_ok());
    calls::end(bytes.is_ok());
    match bytes {
        Ok(bytes) => reply.data(bytes),
        Err(e) => reply.error(errno(&e, "read")),
    }
}
