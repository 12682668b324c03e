//! Where files of a directory lie, and hints for them, for a caller who asks for many at once.

use std::sync::Arc;

use intarsia_meta::{Inode, Namespace, SetMode};
use intarsia_types::{Error, FileKind, Hint, InodeId, Layout, NodeId, Result};

use crate::replication::copies::Copies;
use crate::vfs::acl;
use crate::vfs::attributes::Attributes;
use crate::vfs::caller::Caller;
use crate::vfs::names::Names;
use crate::vfs::xattrs::Xattrs;

/// Where one regular file lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Its length at this moment.
    pub size_bytes: u64,
    /// How its bytes are kept: a word of the attribute `user.intarsia.layout`.
    pub layout: &'static str,
    /// The length of the chunks that are dealt over `hosts` in turn; none where each host has the whole file.
    pub chunk_bytes: Option<u64>,
    /// As the attribute `user.intarsia.layout` has it.
    pub description: String,
    /// Who has its bytes, the first copy first; of a striped file one for each part.
    pub hosts: Vec<NodeId>,
}

/// Says where many files lie, and sets hints on them.
pub(crate) struct Locator {
    pub(crate) names: Arc<Names>,
    pub(crate) attributes: Arc<Attributes>,
    pub(crate) copies: Arc<Copies>,
    pub(crate) xattrs: Arc<Xattrs>,
    pub(crate) namespace: Arc<Namespace>,
}

impl Locator {
    /// Says where the file `name` of the directory `dir` lies.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`] for what is no regular file.
    pub(crate) fn locate_in(&self, dir: InodeId, name: &[u8]) -> Result<Located> {
        let inode = self.names.find(dir, name)?;
        if inode.kind != FileKind::Regular {
            return Err(Error::Invalid("no regular file".into()));
        }
        let size_bytes = self.attributes.length_now(inode.ino)?;
        let chunk_bytes = match &inode.layout {
            Layout::Striped { chunk_bytes, .. } => Some(*chunk_bytes),
            _ => None,
        };
        let hosts = self.copies.hosts_of(&inode)?;
        let description = self.xattrs.describe_layout(&inode);
        Ok(Located { size_bytes, layout: inode.layout.name(), chunk_bytes, description, hosts })
    }

    /// The directory at a path below the root, its names separated by `/`.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NotDirectory`].
    pub(crate) fn directory_at(&self, path: &[u8]) -> Result<InodeId> {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let mut dir = InodeId::ROOT;
        for name in names {
            let inode = self.names.find(dir, name)?;
            if inode.kind != FileKind::Directory {
                return Err(Error::NotDirectory);
            }
            dir = inode.ino;
        }
        Ok(dir)
    }

    /// Sets hints on the entry `name` of `dir`, or on `dir` itself where `name` is empty. With a `caller` only for who
    /// owns the entry; others need what a call for each file finds out.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::AccessDenied`]; [`Error::Invalid`] for what is neither file nor directory, or a hint
    /// that does not go with others.
    pub(crate) fn tag_in(
        &self,
        dir: InodeId,
        name: &[u8],
        hints: &[Hint],
        caller: Option<Caller>,
    ) -> Result<()> {
        let inode =
            if name.is_empty() { self.namespace.get(dir)? } else { self.names.find(dir, name)? };
        if !matches!(inode.kind, FileKind::Regular | FileKind::Directory) {
            return Err(Error::Invalid("neither a file nor a directory".into()));
        }
        if caller.is_some_and(|caller| caller.uid != 0 && caller.uid != inode.uid) {
            return Err(Error::AccessDenied);
        }
        for hint in hints {
            let (name, value) = (hint.key().attribute(), hint.value());
            self.xattrs.set_xattr(inode.ino, name.as_bytes(), value.as_bytes(), SetMode::Either)?;
        }
        Ok(())
    }

    /// Whether `caller` may look names of a directory up, as far as can be told without knowing all of his groups: who is
    /// let in by one of these only is not let in here.
    ///
    /// # Errors
    /// The engine's own.
    pub(crate) fn may_search(&self, caller: Caller, dir: InodeId) -> Result<bool> {
        let inode = self.namespace.get(dir)?;
        if caller.uid == 0 || caller.uid == inode.uid {
            return Ok(caller.uid == 0 || inode.perm & 0o100 != 0);
        }
        let has_acl = match self.namespace.get_xattr(dir, acl::ACCESS_NAME) {
            Ok(_) => true,
            Err(Error::NoAttribute) => false,
            Err(error) => return Err(error),
        };
        Ok(!has_acl && lets_in(&inode, caller))
    }
}

/// Whether the permission bits let one in who is not the owner, whatever other groups he is in.
const fn lets_in(inode: &Inode, caller: Caller) -> bool {
    let (group, other) = (inode.perm & 0o010 != 0, inode.perm & 0o001 != 0);
    group && (other || caller.gid == inode.gid)
}
