//! The namespace in memory: inodes by number and the operations that change names.
//!
//! Only one inode is locked at a time, except that a listing locks children under their parent.
//! That is enough because the kernel holds the directories of every change itself: nothing else
//! looks at a name while it is created, removed or moved.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuser::{Errno, FileAttr, FileType, INodeNo, RenameFlags};
use parking_lot::RwLock;

use crate::directory::{Directory, Entry};
use crate::inode::{Birth, Body, Inode, State};

const SHARDS: usize = 16;
const NAME_MAX_BYTES: usize = 255;

type Shard = RwLock<HashMap<u64, Arc<Inode>>>;

#[derive(Debug)]
pub(crate) struct Tree {
    shards: [Shard; SHARDS],
    next_ino: AtomicU64,
    capacity_bytes: u64,
    used_bytes: AtomicU64,
}

/// A place in the namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) parent: u64,
    pub(crate) name: &'a OsStr,
}

/// Numbers for `statfs`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) capacity_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) inodes: u64,
}

impl Tree {
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let tree = Self {
            shards: std::array::from_fn(|_| RwLock::default()),
            next_ino: AtomicU64::new(INodeNo::ROOT.0),
            capacity_bytes,
            used_bytes: AtomicU64::new(0),
        };
        let birth = Birth {
            mode: 0o755,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
        };
        tree.adopt(birth, Body::Directory(Directory::new(INodeNo::ROOT.0)));
        tree
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            capacity_bytes: self.capacity_bytes,
            used_bytes: self.used_bytes.load(Ordering::Relaxed),
            inodes: self.shards.iter().map(|shard| shard.read().len() as u64).sum(),
        }
    }

    pub(crate) fn inode(&self, ino: u64) -> Result<Arc<Inode>, Errno> {
        self.shard(ino).read().get(&ino).cloned().ok_or(Errno::ENOENT)
    }

    pub(crate) fn attr(&self, ino: u64) -> Result<FileAttr, Errno> {
        Ok(self.inode(ino)?.state.read().attr)
    }

    /// Looks a name up and counts the reference that the kernel gets with the answer.
    pub(crate) fn lookup(&self, place: Place<'_>) -> Result<FileAttr, Errno> {
        let entry = self.entry(place)?;
        self.reference(entry.ino)
    }

    /// The attributes of an inode that is handed to the kernel once more.
    pub(crate) fn reference(&self, ino: u64) -> Result<FileAttr, Errno> {
        let inode = self.inode(ino)?;
        inode.add_lookup();
        let attr = inode.state.read().attr;
        Ok(attr)
    }

    pub(crate) fn forget(&self, ino: u64, lookups: u64) {
        if let Ok(inode) = self.inode(ino) {
            inode.drop_lookups(lookups);
            self.bury(ino, &inode);
        }
    }

    pub(crate) fn create(&self, place: Place<'_>, birth: Birth) -> Result<FileAttr, Errno> {
        let body = match birth.mode & libc::S_IFMT {
            libc::S_IFREG | 0 => Body::File(Vec::new()),
            _ => Body::Special,
        };
        self.add(place, birth, body)
    }

    pub(crate) fn make_directory(&self, place: Place<'_>, birth: Birth) -> Result<FileAttr, Errno> {
        self.add(place, birth, Body::Directory(Directory::new(place.parent)))
    }

    pub(crate) fn symlink(
        &self,
        place: Place<'_>,
        target: &Path,
        birth: Birth,
    ) -> Result<FileAttr, Errno> {
        self.add(place, birth, Body::Symlink(target.to_path_buf()))
    }

    pub(crate) fn read_link(&self, ino: u64) -> Result<PathBuf, Errno> {
        match &self.inode(ino)?.state.read().body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn link(&self, ino: u64, place: Place<'_>) -> Result<FileAttr, Errno> {
        let inode = self.inode(ino)?;
        let kind = inode.state.read().attr.kind;
        self.attach(place, ino, kind)?;
        {
            let mut state = inode.state.write();
            state.attr.nlink += 1;
            state.touch_attr();
        }
        self.reference(ino)
    }

    pub(crate) fn unlink(&self, place: Place<'_>) -> Result<(), Errno> {
        let entry = self.entry(place)?;
        if entry.kind == FileType::Directory {
            return Err(Errno::EISDIR);
        }
        self.detach(place)?;
        self.unname(&entry)
    }

    pub(crate) fn remove_directory(&self, place: Place<'_>) -> Result<(), Errno> {
        let entry = self.entry(place)?;
        self.check_empty(&entry)?;
        self.detach(place)?;
        self.unname(&entry)
    }

    pub(crate) fn rename(
        &self,
        from: Place<'_>,
        to: Place<'_>,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let source = self.entry(from)?;
        let target = self.entry(to).ok();
        match target {
            Some(_) if flags == RenameFlags::RENAME_NOREPLACE => Err(Errno::EEXIST),
            Some(target) if flags == RenameFlags::RENAME_EXCHANGE => {
                self.exchange(from, &source, to, &target)
            }
            None if flags == RenameFlags::RENAME_EXCHANGE => Err(Errno::ENOENT),
            _ if flags.contains(RenameFlags::RENAME_WHITEOUT) => Err(Errno::EINVAL),
            // Two names of one file: POSIX leaves both.
            Some(target) if target.ino == source.ino => Ok(()),
            Some(target) => self.replace(from, &source, to, &target),
            None => self.move_entry(from, &source, to),
        }
    }

    /// Counts the change of a file's length, or refuses it when the capacity is used up.
    pub(crate) fn claim(&self, old_bytes: u64, new_bytes: u64) -> Result<(), Errno> {
        if new_bytes <= old_bytes {
            self.used_bytes.fetch_sub(old_bytes - new_bytes, Ordering::Relaxed);
            return Ok(());
        }
        let growth = new_bytes - old_bytes;
        let used = self.used_bytes.fetch_add(growth, Ordering::Relaxed);
        if used.saturating_add(growth) > self.capacity_bytes {
            self.used_bytes.fetch_sub(growth, Ordering::Relaxed);
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    pub(crate) fn write(&self, state: &mut State, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::EFBIG)?;
        if end > state.attr.size {
            self.claim(state.attr.size, end)?;
        }
        state.write(index(offset)?, data)
    }

    pub(crate) fn resize(&self, state: &mut State, length: u64) -> Result<(), Errno> {
        let old_bytes = state.bytes()?.len() as u64;
        self.claim(old_bytes, length)?;
        state.resize(index(length)?)
    }

    fn shard(&self, ino: u64) -> &Shard {
        // Numbers are handed out in sequence, so the remainder spreads them evenly.
        &self.shards[usize::try_from(ino % SHARDS as u64).unwrap_or(0)]
    }

    fn adopt(&self, birth: Birth, body: Body) -> (u64, Arc<Inode>) {
        let ino = self.next_ino.fetch_add(1, Ordering::Relaxed);
        let inode = Arc::new(Inode::new(ino, birth, body));
        self.shard(ino).write().insert(ino, Arc::clone(&inode));
        (ino, inode)
    }

    /// Drops the inode once neither a name nor the kernel holds it.
    fn bury(&self, ino: u64, inode: &Inode) {
        if inode.is_dead() && self.shard(ino).write().remove(&ino).is_some() {
            self.used_bytes.fetch_sub(file_bytes(inode), Ordering::Relaxed);
        }
    }

    fn entry(&self, place: Place<'_>) -> Result<Entry, Errno> {
        let parent = self.inode(place.parent)?;
        let state = parent.state.read();
        state.directory()?.get(place.name).cloned().ok_or(Errno::ENOENT)
    }

    fn add(&self, place: Place<'_>, birth: Birth, body: Body) -> Result<FileAttr, Errno> {
        if place.name.len() > NAME_MAX_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        let is_directory = matches!(body, Body::Directory(_));
        let parent = self.inode(place.parent)?;
        let mut state = parent.state.write();
        let birth = state.inherit(birth, is_directory);
        if state.attr.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        if state.directory()?.get(place.name).is_some() {
            return Err(Errno::EEXIST);
        }
        let (ino, inode) = self.adopt(birth, body);
        inode.add_lookup();
        let attr = inode.state.read().attr;
        state.directory_mut()?.insert(place.name, ino, attr.kind);
        state.attr.nlink += u32::from(is_directory);
        state.touch();
        Ok(attr)
    }

    /// Gives an inode one more name.
    fn attach(&self, place: Place<'_>, ino: u64, kind: FileType) -> Result<(), Errno> {
        if place.name.len() > NAME_MAX_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        let parent = self.inode(place.parent)?;
        let mut state = parent.state.write();
        if state.attr.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        let directory = state.directory_mut()?;
        if directory.get(place.name).is_some() {
            return Err(Errno::EEXIST);
        }
        directory.insert(place.name, ino, kind);
        state.attr.nlink += u32::from(kind == FileType::Directory);
        state.touch();
        Ok(())
    }

    /// Removes a name and leaves its inode alone.
    fn detach(&self, place: Place<'_>) -> Result<(), Errno> {
        let parent = self.inode(place.parent)?;
        let mut state = parent.state.write();
        let entry = state.directory_mut()?.remove(place.name).ok_or(Errno::ENOENT)?;
        state.attr.nlink -= u32::from(entry.kind == FileType::Directory);
        state.touch();
        Ok(())
    }

    /// Takes one name from the inode behind a removed entry.
    fn unname(&self, entry: &Entry) -> Result<(), Errno> {
        let inode = self.inode(entry.ino)?;
        {
            let mut state = inode.state.write();
            let is_directory = entry.kind == FileType::Directory;
            state.attr.nlink = if is_directory { 0 } else { state.attr.nlink - 1 };
            state.touch_attr();
        }
        self.bury(entry.ino, &inode);
        Ok(())
    }

    fn check_empty(&self, entry: &Entry) -> Result<(), Errno> {
        let is_empty = self.inode(entry.ino)?.state.read().directory()?.is_empty();
        if is_empty { Ok(()) } else { Err(Errno::ENOTEMPTY) }
    }

    fn replace(
        &self,
        from: Place<'_>,
        source: &Entry,
        to: Place<'_>,
        target: &Entry,
    ) -> Result<(), Errno> {
        if target.kind == FileType::Directory {
            self.check_empty(target)?;
        }
        self.detach(to)?;
        self.unname(target)?;
        self.move_entry(from, source, to)
    }

    fn exchange(
        &self,
        from: Place<'_>,
        source: &Entry,
        to: Place<'_>,
        target: &Entry,
    ) -> Result<(), Errno> {
        self.detach(from)?;
        self.detach(to)?;
        self.attach(to, source.ino, source.kind)?;
        self.attach(from, target.ino, target.kind)?;
        self.set_parent(source, to.parent)?;
        self.set_parent(target, from.parent)
    }

    fn move_entry(&self, from: Place<'_>, source: &Entry, to: Place<'_>) -> Result<(), Errno> {
        self.attach(to, source.ino, source.kind)?;
        self.detach(from)?;
        self.set_parent(source, to.parent)
    }

    fn set_parent(&self, entry: &Entry, parent: u64) -> Result<(), Errno> {
        let inode = self.inode(entry.ino)?;
        let mut state = inode.state.write();
        if let Body::Directory(directory) = &mut state.body {
            directory.parent = parent;
        }
        state.touch_attr();
        Ok(())
    }
}

/// A file offset as an index into memory.
pub(crate) fn index(offset: u64) -> Result<usize, Errno> {
    usize::try_from(offset).map_err(|_| Errno::EFBIG)
}

fn file_bytes(inode: &Inode) -> u64 {
    match &inode.state.read().body {
        Body::File(bytes) => bytes.len() as u64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIRTH: Birth = Birth { mode: 0o644, uid: 1, gid: 1, rdev: 0 };
    const ROOT: u64 = INodeNo::ROOT.0;

    fn at(parent: u64, name: &str) -> Place<'_> {
        Place { parent, name: OsStr::new(name) }
    }

    fn tree() -> Tree {
        Tree::new(1 << 20)
    }

    #[test]
    fn a_name_is_found_until_it_is_removed() {
        let tree = tree();
        let attr = tree.create(at(ROOT, "a"), BIRTH).unwrap();
        assert_eq!(tree.lookup(at(ROOT, "a")).unwrap().ino, attr.ino);
        assert_eq!(tree.create(at(ROOT, "a"), BIRTH), Err(Errno::EEXIST));
        tree.unlink(at(ROOT, "a")).unwrap();
        assert_eq!(tree.lookup(at(ROOT, "a")), Err(Errno::ENOENT));
    }

    #[test]
    fn an_unlinked_file_lives_until_the_kernel_forgets_it() {
        let tree = tree();
        let ino = tree.create(at(ROOT, "a"), BIRTH).unwrap().ino.0;
        tree.write(&mut tree.inode(ino).unwrap().state.write(), 0, b"abc").unwrap();
        tree.unlink(at(ROOT, "a")).unwrap();
        assert_eq!(tree.attr(ino).unwrap().nlink, 0);
        assert_eq!(tree.usage().used_bytes, 3);
        tree.forget(ino, 1);
        assert_eq!(tree.attr(ino), Err(Errno::ENOENT));
        assert_eq!(tree.usage().used_bytes, 0);
    }

    #[test]
    fn a_write_beyond_the_end_leaves_zeros() {
        let tree = tree();
        let inode = tree.inode(tree.create(at(ROOT, "a"), BIRTH).unwrap().ino.0).unwrap();
        let mut state = inode.state.write();
        tree.write(&mut state, 4, b"xy").unwrap();
        assert_eq!(state.bytes().unwrap().as_slice(), b"\0\0\0\0xy");
        tree.resize(&mut state, 5).unwrap();
        assert_eq!(state.attr.size, 5);
    }

    #[test]
    fn a_full_tree_refuses_growth_and_recovers() {
        let tree = tree();
        let inode = tree.inode(tree.create(at(ROOT, "a"), BIRTH).unwrap().ino.0).unwrap();
        let mut state = inode.state.write();
        assert_eq!(tree.resize(&mut state, (1 << 20) + 1), Err(Errno::ENOSPC));
        tree.resize(&mut state, 1 << 20).unwrap();
        tree.resize(&mut state, 0).unwrap();
        assert_eq!(tree.usage().used_bytes, 0);
    }

    #[test]
    fn rename_moves_replaces_and_exchanges() {
        let tree = tree();
        let directory = tree.make_directory(at(ROOT, "d"), BIRTH).unwrap().ino.0;
        let a = tree.create(at(ROOT, "a"), BIRTH).unwrap().ino;
        let b = tree.create(at(directory, "b"), BIRTH).unwrap().ino;
        let noreplace = RenameFlags::RENAME_NOREPLACE;
        let refused = tree.rename(at(ROOT, "a"), at(directory, "b"), noreplace);
        assert_eq!(refused, Err(Errno::EEXIST));
        let exchange = RenameFlags::RENAME_EXCHANGE;
        tree.rename(at(ROOT, "a"), at(directory, "b"), exchange).unwrap();
        assert_eq!(tree.lookup(at(ROOT, "a")).unwrap().ino, b);
        tree.rename(at(ROOT, "a"), at(directory, "b"), RenameFlags::empty()).unwrap();
        assert_eq!(tree.lookup(at(directory, "b")).unwrap().ino, b);
        assert_eq!(tree.attr(a.0).unwrap().nlink, 0);
        assert_eq!(tree.remove_directory(at(ROOT, "d")), Err(Errno::ENOTEMPTY));
    }

    #[test]
    fn directories_count_their_children() {
        let tree = tree();
        tree.make_directory(at(ROOT, "d"), BIRTH).unwrap();
        tree.make_directory(at(ROOT, "e"), BIRTH).unwrap();
        assert_eq!(tree.attr(ROOT).unwrap().nlink, 4);
        tree.rename(at(ROOT, "d"), at(ROOT, "e"), RenameFlags::empty()).unwrap();
        assert_eq!(tree.attr(ROOT).unwrap().nlink, 3);
    }
}
