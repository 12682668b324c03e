//! Extended attributes, and the space of the store.

use fuser::{ReplyStatfs, ReplyXattr, Request};
use intarsia_node::{Op, SetMode};
use intarsia_types::{Error, Result};

use super::Adapter;
use crate::convert::errno;

pub(super) const fn set_mode(flags: i32) -> SetMode {
    match flags {
        libc::XATTR_CREATE => SetMode::Create,
        libc::XATTR_REPLACE => SetMode::Replace,
        _ => SetMode::Either,
    }
}

/// Names as `listxattr(2)` gives them: each ends with a zero.
pub(super) fn joined(names: Vec<Vec<u8>>) -> Vec<u8> {
    names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect()
}

impl Adapter {
    pub(super) fn xattr_reply(
        &self,
        req: &Request,
        result: Result<Vec<u8>>,
        size: u32,
        op: &'static str,
        reply: ReplyXattr,
    ) {
        match result {
            Err(e) => reply.error(self.inode_errno(req, &e, op)),
            Ok(value) => match (u32::try_from(value.len()), size) {
                (Ok(len), 0) => reply.size(len),
                (Ok(len), size) if len <= size => reply.data(&value),
                _ => reply.error(errno(&Error::Range, op)),
            },
        }
    }

    pub(super) fn answer_statfs(&self, req: &Request, reply: ReplyStatfs) {
        const BLOCK: u32 = 4096;
        let timer = Self::start(req, Op::StatFs);
        let result = self.node.space();
        self.finish(&timer, result.is_ok());
        match result {
            Ok((space, inodes)) => {
                let blocks = |bytes: u64| bytes / u64::from(BLOCK);
                let free = blocks(space.free_bytes);
                // A file needs a block at most, so free blocks bound free inodes.
                reply.statfs(
                    blocks(space.used_bytes + space.free_bytes),
                    free,
                    free,
                    inodes + free,
                    free,
                    BLOCK,
                    255,
                    BLOCK,
                );
            }
            Err(e) => reply.error(errno(&e, "statfs")),
        }
    }
}
