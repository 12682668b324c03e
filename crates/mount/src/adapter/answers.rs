//! The answers to requests: what the kernel is told, and for how long it may keep that.

use std::time::Duration;

use fuser::{Errno, FileAttr, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry, Request};
use intarsia_node::{Node, OpTimer, Telling, Validity};
use intarsia_types::{Attr, Error, FileKind, InodeId, Result};

use super::Adapter;
use crate::calls;
use crate::convert::{attribute_ttl, errno, file_attr, ino, no_attributes, ttl};

/// Inode numbers are never reused, so one generation does for ever.
pub(super) const GENERATION: Generation = Generation(0);

/// What programs are told to read and write at a time; buffered ones do so.
const BLOCK_BYTES: u32 = 4096;
/// Of a file that may be read past the kernel's pages, where each read is a request.
const FAR_BLOCK_BYTES: u32 = 64 << 10;

/// How long the kernel may keep attributes.
type KeptFor = fn(&Telling<'_>, InodeId, Validity) -> Duration;

impl Adapter {
    pub(super) fn entry(
        &self,
        timer: &OpTimer,
        op: &'static str,
        (parent, name): (INodeNo, &[u8]),
        result: Result<(Attr, Validity)>,
        reply: ReplyEntry,
    ) {
        self.entry_kept(timer, op, (parent, name), result, attribute_ttl, reply);
    }

    /// As [`entry`](Self::entry); `kept` says how long the kernel may keep the attributes.
    pub(super) fn entry_kept(
        &self,
        timer: &OpTimer,
        op: &'static str,
        (parent, name): (INodeNo, &[u8]),
        result: Result<(Attr, Validity)>,
        kept: KeptFor,
        reply: ReplyEntry,
    ) {
        self.finish(timer, result.is_ok());
        match result {
            Ok((attr, validity)) => {
                self.node.drop_old_pages(attr.ino);
                self.node.recorder().named(ino(parent), name, &attr);
                let telling = self.node.tell_kernel();
                let named = ttl(&telling, self.node.name_validity(ino(parent), timer.started()));
                let kept = kept(&telling, attr.ino, validity);
                reply.entry_with_ttls(&kept, &named, &self.told_attr(timer, &attr), GENERATION);
            }
            Err(e) => reply.error(errno(&e, op)),
        }
    }

    /// There is no such name.
    pub(super) fn absent(&self, timer: &OpTimer, parent: INodeNo, reply: ReplyEntry) {
        self.finish(timer, true);
        let telling = self.node.tell_kernel();
        let absence = self.node.absence_validity(ino(parent), timer.started());
        reply.entry(&ttl(&telling, absence), &no_attributes(), GENERATION);
    }

    pub(super) fn attr(
        &self,
        req: &Request,
        timer: &OpTimer,
        op: &'static str,
        result: Result<(Attr, Validity)>,
        kept: KeptFor,
        reply: ReplyAttr,
    ) {
        self.finish(timer, result.is_ok());
        match result {
            Ok((attr, validity)) => {
                let telling = self.node.tell_kernel();
                let kept = kept(&telling, attr.ino, validity);
                reply.attr(&kept, &self.told_attr(timer, &attr));
            }
            Err(e) => reply.error(self.inode_errno(req, &e, op)),
        }
    }

    /// The errno of a call that names an inode, which may be gone by now.
    pub(super) fn inode_errno(&self, req: &Request, error: &Error, op: &'static str) -> Errno {
        match error {
            Error::NotFound => self.stale_calls.errno(req.pid()),
            other => errno(other, op),
        }
    }

    /// The attributes that the kernel is told in answer to a request, and keeps.
    pub(super) fn told_attr(&self, timer: &OpTimer, attr: &Attr) -> FileAttr {
        self.node.tell_length(attr, timer.started());
        self.file_attr(attr)
    }

    pub(super) fn file_attr(&self, attr: &Attr) -> FileAttr {
        let is_far = attr.kind == FileKind::Regular && self.node.is_shared();
        let blksize = if is_far { FAR_BLOCK_BYTES } else { BLOCK_BYTES };
        file_attr(attr, blksize)
    }

    pub(super) fn empty(
        &self,
        timer: &OpTimer,
        op: &'static str,
        result: Result<()>,
        reply: ReplyEmpty,
    ) {
        finish_empty(&self.node, timer, op, result, reply);
    }

    /// As [`empty`](Self::empty), of a call that names an inode.
    pub(super) fn inode_empty(
        &self,
        req: &Request,
        timer: &OpTimer,
        op: &'static str,
        result: Result<()>,
        reply: ReplyEmpty,
    ) {
        match result {
            Err(Error::NotFound) => {
                self.finish(timer, false);
                reply.error(self.stale_calls.errno(req.pid()));
            }
            result => self.empty(timer, op, result, reply),
        }
    }
}

pub(super) fn finish_empty(
    node: &Node,
    timer: &OpTimer,
    op: &'static str,
    result: Result<()>,
    reply: ReplyEmpty,
) {
    node.counters().finish(timer, result.is_ok());
    calls::end(result.is_ok());
    match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(errno(&e, op)),
    }
}

/// See [`KeptFor`]: where the kernel takes what it is told for the newest, whatever it was told to drop meanwhile.
pub(super) fn as_told(telling: &Telling<'_>, _ino: InodeId, validity: Validity) -> Duration {
    ttl(telling, validity)
}
