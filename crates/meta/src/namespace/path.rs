//! Paths, for commands and rules; no operation of the kernel needs one.

use intarsia_types::{Error, InodeId, Result};

use super::Namespace;
use crate::Inode;

/// More levels than any path of the kernel can have; a longer way up is a loop.
pub(super) const DEPTH_MAX: usize = 1 << 20;

impl Namespace {
    /// The inode at a path from the root. Symbolic links are not followed.
    pub fn resolve(&self, path: &[u8]) -> Result<Inode> {
        let mut inode = self.get(InodeId::ROOT)?;
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            inode = self.lookup(inode.ino, name)?;
        }
        Ok(inode)
    }

    /// The name of a directory in its parent; empty for the root.
    pub fn name_of(&self, dir: InodeId) -> Result<Vec<u8>> {
        Ok(self.directory(dir)?.name)
    }

    /// The path of a directory from the root, which is "/".
    pub fn path_of(&self, dir: InodeId) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        let mut at = self.directory(dir)?;
        while at.ino != InodeId::ROOT {
            let parent = at.parent;
            names.push(at.name);
            check_depth(dir, names.len())?;
            at = self.directory(parent)?;
        }
        names.push(Vec::new());
        names.reverse();
        let path = names.join(&b'/');
        Ok(if path.is_empty() { b"/".to_vec() } else { path })
    }

    /// Whether `dir` is `ancestor` or lies below it; `None` if a directory on the way up was removed meanwhile.
    pub(super) fn is_within(&self, dir: InodeId, ancestor: InodeId) -> Result<Option<bool>> {
        let mut at = dir;
        for depth in 0.. {
            if at == ancestor {
                return Ok(Some(true));
            }
            if at == InodeId::ROOT {
                return Ok(Some(false));
            }
            check_depth(dir, depth)?;
            at = match self.directory(at) {
                Ok(inode) => inode.parent,
                Err(Error::NotFound) if depth > 0 => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        Ok(Some(false))
    }
}

fn check_depth(dir: InodeId, depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(Error::Corrupt { ino: dir, what: "a loop of parent directories".into() });
    }
    Ok(())
}
