//! Where files of a directory lie, for a caller who asks for many at once.

use intarsia_meta::Inode;
use intarsia_types::{Error, FileKind, InodeId, Layout, NodeId, Result};

use crate::node::Node;
use crate::vfs::acl;
use crate::vfs::caller::Caller;

/// Where one regular file lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Its length at this moment.
    pub size_bytes: u64,
    /// How its bytes are kept: a word of the attribute `user.intarsia.layout`.
    pub layout: &'static str,
    /// The length of the chunks that are dealt over `hosts` in turn; none where each host has the whole file.
    pub chunk_bytes: Option<u64>,
    /// Who has its bytes, the first copy first; of a striped file one for each part.
    pub hosts: Vec<NodeId>,
}

impl Node {
    /// Says where the file `name` of the directory `dir` lies.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`] for what is no regular file.
    pub fn locate_in(&self, dir: InodeId, name: &[u8]) -> Result<Located> {
        let inode = self.find(dir, name)?;
        if inode.kind != FileKind::Regular {
            return Err(Error::Invalid("no regular file".into()));
        }
        let size_bytes = self.length_now(inode.ino)?;
        let chunk_bytes = match &inode.layout {
            Layout::Striped { chunk_bytes, .. } => Some(*chunk_bytes),
            _ => None,
        };
        let hosts = self.hosts_of(&inode)?;
        Ok(Located { size_bytes, layout: inode.layout.name(), chunk_bytes, hosts })
    }

    /// Whether `caller` may look names of a directory up, as far as can be told without knowing all of his groups: who is
    /// let in by one of these only is not let in here.
    ///
    /// # Errors
    /// The engine's own.
    pub fn may_search(&self, caller: Caller, dir: InodeId) -> Result<bool> {
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
