//! Listings of directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fuser::{FileAttr, FileType, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use intarsia_node::OpTimer;
use intarsia_types::{InodeId, Result};

use super::Adapter;
use super::answers::GENERATION;
use crate::convert::{attribute_ttl, errno, file_type, ino, no_attributes, ttl};

/// Cookies of "." and ".."; the entries' own come after.
const COOKIE_DOT: u64 = 1;
const COOKIE_DOT_DOT: u64 = 2;

/// The kernel takes an entry of a listing without an inode for a name alone.
const NO_INODE: INodeNo = INodeNo(0);

impl Adapter {
    /// Names alone.
    pub(super) fn list(&self, timer: &OpTimer, n: INodeNo, offset: u64, mut reply: ReplyDirectory) {
        let dir = ino(n);
        let mut after = offset;
        if offset < COOKIE_DOT && reply.add(n, COOKIE_DOT, FileType::Directory, ".") {
            return reply.ok();
        }
        if offset < COOKIE_DOT_DOT {
            let parent = self.node.parent_of(dir).map_or(n, |p| INodeNo(p.0));
            if reply.add(parent, COOKIE_DOT_DOT, FileType::Directory, "..") {
                return reply.ok();
            }
            after = 0;
        }
        let mut added = 0;
        loop {
            let page = match self.node.list(dir, after, self.list_page.entries()) {
                Ok(page) => page,
                Err(e) => {
                    self.finish(timer, false);
                    return reply.error(errno(&e, "readdir"));
                }
            };
            let is_full = page.iter().any(|e| {
                after = e.cookie;
                added += 1;
                reply.add(INodeNo(e.ino.0), e.cookie, file_type(e.kind), OsStr::from_bytes(&e.name))
            });
            if is_full || page.is_empty() {
                self.list_page.note(is_full, added);
                self.finish(timer, true);
                return reply.ok();
            }
        }
    }

    /// Names with attributes.
    pub(super) fn list_plus(
        &self,
        timer: &OpTimer,
        n: INodeNo,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let dir = ino(n);
        let mut after = offset;
        if offset < COOKIE_DOT_DOT {
            if let Err(e) = self.add_dots(n, offset, &mut reply) {
                self.finish(timer, false);
                return reply.error(errno(&e, "readdirplus"));
            }
            after = 0;
        }
        if !self.node.is_listed_with_attributes(dir) {
            return self.add_names(timer, dir, after, reply);
        }
        let mut added = 0;
        loop {
            let page = match self.node.list_plus(dir, after, self.list_plus_page.entries()) {
                Ok(page) => page,
                Err(e) => {
                    self.finish(timer, false);
                    return reply.error(errno(&e, "readdirplus"));
                }
            };
            let telling = self.node.tell_kernel();
            let named = ttl(&telling, self.node.name_validity(dir, timer.started()));
            let is_full = page.iter().any(|(e, attr, validity)| {
                after = e.cookie;
                added += 1;
                let name = OsStr::from_bytes(&e.name);
                self.node.recorder().named(dir, &e.name, attr);
                // What is to be told with care is looked up by itself.
                let is_delicate = self.node.has_old_pages(attr.ino);
                let (attr, kept) = match is_delicate {
                    true => (FileAttr { ino: NO_INODE, ..self.file_attr(attr) }, Duration::ZERO),
                    false => {
                        let kept = attribute_ttl(&telling, attr.ino, *validity);
                        (self.told_attr(timer, attr), kept)
                    }
                };
                reply.add_with_ttls(attr.ino, e.cookie, name, &kept, &named, &attr, GENERATION)
            });
            // What the kernel may keep under a lease it is told at once.
            if is_full || page.is_empty() || telling.is_binding() {
                self.list_plus_page.note(is_full, added);
                self.finish(timer, true);
                return reply.ok();
            }
        }
    }

    /// Fills a listing with attributes where there are none to tell.
    fn add_names(&self, timer: &OpTimer, dir: InodeId, after: u64, mut reply: ReplyDirectoryPlus) {
        let page = match self.node.list(dir, after, self.list_page.entries()) {
            Ok(page) => page,
            Err(e) => {
                self.finish(timer, false);
                return reply.error(errno(&e, "readdirplus"));
            }
        };
        for entry in page {
            let (name, kind) = (OsStr::from_bytes(&entry.name), file_type(entry.kind));
            let attr = FileAttr { ino: INodeNo(entry.ino.0), kind, ..no_attributes() };
            if reply.add(NO_INODE, entry.cookie, name, &Duration::ZERO, &attr, GENERATION) {
                break;
            }
        }
        self.finish(timer, true);
        reply.ok();
    }

    fn add_dots(&self, n: INodeNo, offset: u64, reply: &mut ReplyDirectoryPlus) -> Result<()> {
        // The kernel keeps nothing of these two.
        let (attr, validity) = (self.file_attr(&self.node.attributes(ino(n))?.0), Duration::ZERO);
        if offset < COOKIE_DOT {
            // The buffer is empty, so both fit.
            let _ = reply.add(n, COOKIE_DOT, ".", &validity, &attr, GENERATION);
        }
        let parent = self.node.parent_of(ino(n)).map_or(n, |p| INodeNo(p.0));
        // The number that programs are shown is that of the attributes.
        let attr = FileAttr { ino: parent, ..attr };
        let _ = reply.add(parent, COOKIE_DOT_DOT, "..", &validity, &attr, GENERATION);
        Ok(())
    }
}
