//! What directories hold, and how long that may be kept.

use std::time::{Duration, SystemTime};

use intarsia_meta::{DirEntry, Inode};
use intarsia_types::{Attr, Error, InodeId, Layout, Result};

use crate::clock::now;
use crate::vfs::attributes::Validity;
use crate::vfs::names::Names;

/// A directory that has not changed for so long is not just being changed.
const STILL: Duration = Duration::from_secs(1);

impl Names {
    /// The entries after a cookie, about `limit` of them.
    ///
    /// # Errors
    /// [`Error::NotDirectory`] and its like. The listing is complete or fails.
    pub(crate) fn list(
        &self,
        dir: InodeId,
        after_cookie: u64,
        limit: usize,
    ) -> Result<Vec<DirEntry>> {
        self.directory_leases.use_directory(dir);
        let listed = self
            .bodies
            .lower
            .complete(dir, after_cookie)
            .and_then(|()| self.namespace.list(dir, after_cookie, limit));
        match listed {
            Err(Error::NotFound) if self.removal.departed.get(dir).is_some() => Ok(Vec::new()),
            other => other,
        }
    }

    /// Whether a listing of a directory brings attributes that the kernel may keep. Of one that other hosts may change at
    /// any moment it brings none: each would be asked for again at once.
    pub(crate) fn is_listed_with_attributes(&self, dir: InodeId) -> bool {
        self.directory_leases.use_directory(dir);
        !self.members.is_shared() || self.namespace.holds_directory(dir)
    }

    /// As [`list`](Self::list), with attributes.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub(crate) fn list_plus(
        &self,
        dir: InodeId,
        after_cookie: u64,
        limit: usize,
    ) -> Result<Vec<(DirEntry, Attr, Validity)>> {
        let before = self.attributes.before_reading();
        // Asked before the records are read: what is not live now has all that is known in its record.
        let is_live = |entry: &DirEntry| self.live.contains(entry.ino);
        let listed = self
            .bodies
            .lower
            .complete(dir, after_cookie)
            .and_then(|()| self.namespace.list_plus(dir, after_cookie, limit, is_live));
        match listed {
            Err(Error::NotFound) if self.removal.departed.get(dir).is_some() => Ok(Vec::new()),
            Err(e) => Err(e),
            Ok(entries) => entries
                .into_iter()
                .map(|(entry, inode, was_live)| {
                    let (attr, validity) = match was_live {
                        true => self.attributes.overlaid(&inode, before)?,
                        false => self.attributes.settled_attributes(&inode, before),
                    };
                    Ok((entry, attr, validity))
                })
                .collect(),
        }
    }

    /// Whether the kernel may keep a listing of a directory, and use one that it kept.
    ///
    /// Not of one that is just changing: with several programs listing and changing a directory at once, a listing that the
    /// kernel kept (Linux 6.18) showed a removed name about once in 10,000 listings.
    pub(crate) fn may_cache_listing(&self, dir: InodeId) -> bool {
        let is_still = |inode: &Inode| {
            let now: SystemTime = now().into();
            let age = now.duration_since(inode.ctime.into());
            // The lower file system may bring names at any time.
            let is_merged = matches!(inode.layout, Layout::Lower { .. });
            !is_merged && age.is_ok_and(|age| age >= STILL)
        };
        !self.members.is_shared() && self.namespace.get(dir).is_ok_and(|inode| is_still(&inode))
    }

    /// The parent of a directory, for "..".
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub(crate) fn parent_of(&self, dir: InodeId) -> Result<InodeId> {
        Ok(self.namespace.get(dir)?.parent)
    }
}
