//! Calls that may wait for a device or for other hosts: they are handed to threads that do nothing else.

use std::sync::Arc;

use fuser::{INodeNo, LockOwner, ReplyEmpty, ReplyLseek, ReplyWrite};
use intarsia_node::{Node, OpTimer, Wait};
use intarsia_types::{Error, InodeId, Result};

use super::Adapter;
use super::answers::finish_empty;
use crate::convert::{errno, ino};

impl Adapter {
    pub(super) fn answer_flush(
        &self,
        n: INodeNo,
        owner: LockOwner,
        timer: OpTimer,
        reply: ReplyEmpty,
    ) {
        let (node, n) = (Arc::clone(&self.node), ino(n));
        if node.has_locks(n) {
            let counted = Arc::clone(&node);
            return node.close_by_owner(n, owner.0, move |result| {
                finish_empty(&counted, &timer, "flush", result, reply);
            });
        }
        self.lanes.run(node.flush_waits_for(n), move || {
            finish_empty(&node, &timer, "flush", node.flush(n), reply);
        });
    }

    pub(super) fn answer_fsync(
        &self,
        n: INodeNo,
        is_data: bool,
        timer: OpTimer,
        reply: ReplyEmpty,
    ) {
        let (node, n) = (Arc::clone(&self.node), ino(n));
        self.lanes.run(node.fsync_waits_for(n), move || {
            finish_empty(&node, &timer, "fsync", node.fsync(n, is_data), reply);
        });
    }

    /// Counts a reader of a file that goes with its last one.
    pub(super) fn count_reader(&self, n: InodeId) {
        let node = Arc::clone(&self.node);
        self.lanes.run(Wait::Device, move || {
            if let Err(error) = node.reader_left(n) {
                tracing::warn!(ino = %n, %error, "a reader is not counted; the file stays for longer");
            }
        });
    }

    pub(super) fn answer_allocate(
        &self,
        n: INodeNo,
        (offset, length): (u64, u64),
        mode: i32,
        timer: OpTimer,
        reply: ReplyEmpty,
    ) {
        let (node, n) = (Arc::clone(&self.node), ino(n));
        self.lanes.run(Wait::Device, move || {
            let result = node.allocate(n, offset, length, mode.cast_unsigned());
            finish_empty(&node, &timer, "fallocate", result, reply);
        });
    }

    pub(super) fn answer_seek(
        &self,
        n: INodeNo,
        offset: i64,
        whence: i32,
        timer: OpTimer,
        reply: ReplyLseek,
    ) {
        let (node, n) = (Arc::clone(&self.node), ino(n));
        self.lanes.run(node.seek_waits_for(n), move || {
            answer_seek(&node, &timer, seek(&node, n, offset, whence), reply);
        });
    }

    pub(super) fn answer_copy(
        &self,
        (from, offset_in): (INodeNo, u64),
        (to, offset_out): (INodeNo, u64),
        len: u64,
        timer: OpTimer,
        reply: ReplyWrite,
    ) {
        let (node, from, to) = (Arc::clone(&self.node), ino(from), ino(to));
        self.lanes.run(Wait::Device, move || {
            // The reply counts in 32 bits.
            let len = len.min(1 << 30);
            let result = node.copy_range(from, offset_in, to, offset_out, len);
            node.counters().finish(&timer, result.is_ok());
            match result {
                Ok(n) => reply.written(u32::try_from(n).unwrap_or(u32::MAX)),
                Err(e) => reply.error(errno(&e, "copy_file_range")),
            }
        });
    }
}

fn seek(node: &Node, n: InodeId, offset: i64, whence: i32) -> Result<u64> {
    match (u64::try_from(offset), whence) {
        (Ok(offset), libc::SEEK_DATA) => node.seek(n, offset, false),
        (Ok(offset), libc::SEEK_HOLE) => node.seek(n, offset, true),
        (Err(_), _) => Err(Error::NoData),
        _ => Err(Error::Invalid(format!("lseek whence {whence}"))),
    }
}

fn answer_seek(node: &Node, timer: &OpTimer, result: Result<u64>, reply: ReplyLseek) {
    node.counters().finish(timer, matches!(result, Ok(_) | Err(Error::NoData)));
    match result {
        Ok(at) => reply.offset(at.cast_signed()),
        Err(e) => reply.error(errno(&e, "lseek")),
    }
}
