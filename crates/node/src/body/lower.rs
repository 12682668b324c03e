//! The lower file system in the namespace: its names get inodes when they are first used, its files are read where they are,
//! and nothing there is ever changed.
//!
//! ```text
//! lookup   name not here → name there, not hidden → an inode with its attributes (layout lower)
//! list     names there that are neither here nor hidden → inodes; then the listing of what is here
//! remove   hide the name, then remove it
//! open     to read: the file there, attributes renewed if it changed; to write: copied to a tier first
//! ```
//! A directory that was adopted from the lower file system keeps its layout `lower` with its path there, even if it is renamed
//! in the store: further names in it are looked for under that path.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use intarsia_meta::{Inode, Namespace, NewInode, Origin};
use intarsia_store::{BackingFile, LowerEntry, LowerTree};
use intarsia_sync::Mutex;
use intarsia_types::{Error, FileKind, InodeId, Layout, LowerStamp, Result};

use crate::clock::now;

/// The directory at the lower root that holds the overflow of stores: files for which no tier has room. It shows in no store.
pub const OVERFLOW_NAME: &str = ".intarsia-overflow";
/// How many of a directory's names in the store are read at a time when its names are adopted.
const PAGE: usize = 1000;
/// A listing that begins below this position begins at the start of the directory.
const FIRST_COOKIE: u64 = 3;
/// A directory that changed less than this ago may change again without its time changing: times are coarse there.
const COARSE: Duration = Duration::from_secs(2);

/// Is told of files that have changed in the lower file system.
pub(crate) trait LowerEvents: Send + Sync {
    /// A file has changed there: what was read of it is outdated.
    fn note_changed(&self, ino: InodeId);
}

/// The lower file system of a store, if it lies over one.
pub(crate) struct Lower {
    namespace: Arc<Namespace>,
    events: Arc<dyn LowerEvents>,
    tree: Option<LowerTree>,
    /// Directories all of whose names were adopted, with their lower stamps of then.
    complete: Mutex<HashMap<InodeId, LowerStamp>>,
    /// Files that have changed there, so that pages of them that the kernel has cached are outdated.
    outdated: Mutex<HashSet<InodeId>>,
}

/// An open file of the lower file system.
pub(crate) struct LowerBody {
    pub(crate) file: Arc<BackingFile>,
    pub(super) stamp: LowerStamp,
}

impl LowerBody {
    /// The state of the file when it was opened.
    pub(crate) const fn stamp(&self) -> LowerStamp {
        self.stamp
    }
}

/// Opens the lower file system that is asked for, or that the store was made with. It stays the same for the life of the store,
/// because records name paths in it.
///
/// # Errors
/// [`Error::Invalid`] when the store was made with another one; the system's own, naming the path.
pub(crate) fn open_tree(wanted: Option<&Path>, namespace: &Namespace) -> Result<Option<LowerTree>> {
    let root = namespace.get(InodeId::ROOT)?;
    let recorded = match &root.layout {
        Layout::Lower { path, .. } => Some(Path::new(std::ffi::OsStr::from_bytes(path))),
        _ => None,
    };
    let path = match (wanted, recorded) {
        (None, None) => return Ok(None),
        (Some(wanted), Some(recorded)) if wanted != recorded => {
            return Err(Error::Invalid(format!(
                "the store lies over the lower file system {}, not {}; name the first with --lower",
                recorded.display(),
                wanted.display()
            )));
        }
        (Some(path), _) | (None, Some(path)) => path.to_owned(),
    };
    let tree = LowerTree::open(&path)?;
    if recorded.is_none() {
        let path = path.as_os_str().as_bytes().to_vec();
        namespace.update(InodeId::ROOT, |root| {
            root.layout = Layout::Lower { path: path.clone(), stamp: LowerStamp::default() };
            Ok(())
        })?;
    }
    Ok(Some(tree))
}

impl Lower {
    /// Over the lower file system `tree`, or over none.
    pub(crate) fn new(
        tree: Option<LowerTree>,
        namespace: &Arc<Namespace>,
        events: Arc<dyn LowerEvents>,
    ) -> Self {
        Self {
            namespace: Arc::clone(namespace),
            events,
            tree,
            complete: Mutex::default(),
            outdated: Mutex::default(),
        }
    }

    /// The path of the lower file system; none when the store lies over none.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.tree.as_ref().map(LowerTree::path)
    }
}

/// The new inode for an entry of the lower file system.
fn describe(tree: &LowerTree, path: Vec<u8>, entry: &LowerEntry) -> Result<NewInode> {
    let mut new = NewInode::new(entry.kind, entry.perm, entry.uid, entry.gid);
    new.rdev = entry.rdev;
    new.origin = Some(origin_of(entry));
    match entry.kind {
        FileKind::Symlink => new.target = Some(tree.read_link(&path)?),
        FileKind::Regular | FileKind::Directory => {
            let acceptable = |(name, value): &(Vec<u8>, Vec<u8>)| {
                // Hints of an earlier store are taken over; a malformed one is left out, since hints are only advice.
                let name = std::str::from_utf8(name).unwrap_or_default();
                !matches!(crate::space::hints::parse_attribute(name, value), Some(Err(_)))
            };
            new.xattrs = tree.xattrs(&path)?.into_iter().filter(acceptable).collect();
            new.layout = Layout::Lower { path, stamp: entry.stamp };
        }
        _ => {}
    }
    Ok(new)
}

fn origin_of(entry: &LowerEntry) -> Origin {
    let has_length = matches!(entry.kind, FileKind::Regular | FileKind::Symlink);
    Origin {
        size_bytes: if has_length { entry.stamp.size_bytes } else { 0 },
        blocks_512: if has_length { entry.blocks_512 } else { 0 },
        atime: entry.atime,
        mtime: entry.stamp.mtime,
        ctime: entry.stamp.ctime,
    }
}

/// The path of a directory in the lower file system, if it is a merged directory.
fn path_below(dir: &Inode) -> Option<&[u8]> {
    match &dir.layout {
        _ if !dir.is_directory() => None,
        Layout::Lower { .. } if dir.ino == InodeId::ROOT => Some(b""),
        Layout::Lower { path, .. } => Some(path),
        _ => None,
    }
}

/// Whether a name is that of the overflow, in the directory with the lower path `dir`.
fn is_overflow(dir: &[u8], name: &[u8]) -> bool {
    dir.is_empty() && name == OVERFLOW_NAME.as_bytes()
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

/// Names: adopting and hiding.
impl Lower {
    /// Adopts `name` if the lower file system has it in this directory and it is not hidden. Returns whether it exists in the
    /// store then.
    pub(crate) fn adopt_name(&self, parent: InodeId, name: &[u8]) -> Result<bool> {
        let Some(tree) = &self.tree else { return Ok(false) };
        let dir = self.namespace.get(parent)?;
        let Some(path) = path_below(&dir) else { return Ok(false) };
        let is_special = matches!(name, b"." | b".." | b"") || is_overflow(path, name);
        if is_special || self.namespace.is_hidden(parent, name)? {
            return Ok(false);
        }
        self.adopt(tree, &dir, &join(path, name), name)
    }

    fn adopt(&self, tree: &LowerTree, dir: &Inode, path: &[u8], name: &[u8]) -> Result<bool> {
        let described = tree.entry(path).and_then(|entry| describe(tree, path.to_vec(), &entry));
        let new = match described {
            Ok(new) => new,
            Err(Error::NotFound) => return Ok(false),
            Err(e) => return Err(e),
        };
        match self.namespace.adopt_lower(dir, name, new, now()) {
            Ok(_) | Err(Error::Exists) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// As [`adopt_name`](Self::adopt_name), called before a name is changed that nobody has looked up; does nothing for a name that
    /// is in the store already.
    pub(crate) fn adopt_for_change(&self, parent: InodeId, name: &[u8]) -> Result<()> {
        if self.tree.is_none() {
            return Ok(());
        }
        match self.namespace.lookup(parent, name) {
            Err(Error::NotFound) => self.adopt_name(parent, name).map(|_| ()),
            // If the name cannot be looked up, the change will fail with the same error.
            _ => Ok(()),
        }
    }

    /// Called before a name is removed or renamed: hides the name of the lower file system, if it has one there, so that it does
    /// not show again.
    pub(crate) fn hide_name(&self, parent: InodeId, name: &[u8]) -> Result<()> {
        let Some(tree) = &self.tree else { return Ok(()) };
        self.adopt_for_change(parent, name)?;
        let dir = self.namespace.get(parent)?;
        let Some(path) = path_below(&dir) else { return Ok(()) };
        match tree.entry(&join(path, name)) {
            Ok(_) if self.namespace.is_hidden(parent, name)? => Ok(()),
            Ok(_) => self.namespace.hide_lower(parent, name),
            Err(Error::NotFound) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Called before a directory is removed or replaced: adopts all names in it, because the store alone decides whether it is
    /// empty.
    pub(crate) fn complete_named(&self, parent: InodeId, name: &[u8]) -> Result<()> {
        if self.tree.is_none() {
            return Ok(());
        }
        match self.namespace.lookup(parent, name) {
            Ok(inode) if inode.is_directory() => self.complete(inode.ino, 0),
            _ => Ok(()),
        }
    }

    /// Adopts all names of the lower file system that show in a directory, at the start of a listing of it.
    pub(crate) fn complete(&self, dir: InodeId, after_cookie: u64) -> Result<()> {
        let Some(tree) = self.tree.as_ref().filter(|_| after_cookie < FIRST_COOKIE) else {
            return Ok(());
        };
        let dir = self.namespace.get(dir)?;
        let Some(path) = path_below(&dir) else { return Ok(()) };
        let before = match tree.entry(path) {
            Ok(entry) => entry.stamp,
            // The directory was removed there, so there are no names to adopt.
            Err(Error::NotFound) => return Ok(()),
            Err(e) => return Err(e),
        };
        if self.complete.lock().get(&dir.ino) == Some(&before) {
            return Ok(());
        }
        let names = match tree.names(path) {
            Err(Error::NotFound) => return Ok(()),
            other => other?,
        };
        let mut known = self.namespace.hidden_names(dir.ino)?;
        self.names_here(dir.ino, &mut known)?;
        let is_new = |name: &Vec<u8>| !known.contains(name) && !is_overflow(path, name);
        for name in names.into_iter().filter(is_new) {
            self.adopt(tree, &dir, &join(path, &name), &name)?;
        }
        let changed: SystemTime = before.ctime.into();
        if intarsia_sync::system_now().duration_since(changed).is_ok_and(|age| age > COARSE) {
            self.complete.lock().insert(dir.ino, before);
        }
        Ok(())
    }

    /// Adds the names that a directory has in the store to `names`.
    fn names_here(&self, dir: InodeId, names: &mut HashSet<Vec<u8>>) -> Result<()> {
        let mut after = 0;
        loop {
            let page = self.namespace.list(dir, after, PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.cookie;
            names.extend(page.into_iter().map(|entry| entry.name));
        }
    }
}

/// Files: attributes, bytes, and the copy before the first write.
impl Lower {
    /// The record of a file; if the file has changed in the lower file system, with its present attributes. If the file is gone or
    /// its attributes cannot be read, the record stays as it is, and the next open fails.
    pub(crate) fn renewed(&self, inode: Inode) -> Result<Inode> {
        let (Some(tree), Layout::Lower { path, stamp }) = (&self.tree, &inode.layout) else {
            return Ok(inode);
        };
        if inode.kind != FileKind::Regular {
            return Ok(inode);
        }
        match tree.entry(path) {
            Ok(entry) if entry.kind == FileKind::Regular && entry.stamp != *stamp => {
                self.take_over(&inode, &entry)
            }
            _ => Ok(inode),
        }
    }

    /// Records the present attributes of a file that has changed in the lower file system. They replace attributes that were
    /// changed in the store.
    fn take_over(&self, inode: &Inode, entry: &LowerEntry) -> Result<Inode> {
        self.outdated.lock().insert(inode.ino);
        self.events.note_changed(inode.ino);
        self.namespace.update(inode.ino, |now| {
            // The file may have been copied up, renewed or truncated meanwhile.
            if now.layout != inode.layout {
                return Ok(());
            }
            if let Layout::Lower { stamp, .. } = &mut now.layout {
                *stamp = entry.stamp;
            }
            let origin = origin_of(entry);
            (now.size_bytes, now.blocks_512) = (origin.size_bytes, origin.blocks_512);
            (now.mtime, now.ctime) = (origin.mtime, origin.ctime);
            (now.perm, now.uid, now.gid) = (entry.perm, entry.uid, entry.gid);
            Ok(())
        })
    }

    /// Whether the file has changed in the lower file system, so that pages that the kernel cached at an earlier open are outdated.
    /// True only once for each change.
    pub(crate) fn take_outdated(&self, ino: InodeId) -> bool {
        self.tree.is_some() && self.outdated.lock().remove(&ino)
    }

    /// Opens a file of the lower file system. Returns the record that fits what was opened with it.
    ///
    /// # Errors
    /// ESTALE if the file was removed there; the system's own.
    pub(crate) fn open(&self, inode: &Inode) -> Result<(LowerBody, Inode)> {
        let Layout::Lower { path, stamp } = &inode.layout else { return Err(Error::BadHandle) };
        let Some(tree) = &self.tree else {
            return Err(Error::io(
                format!("inode {} is in a lower file system, and none was opened", inode.ino),
                std::io::Error::from_raw_os_error(EIO),
            ));
        };
        let (file, entry) = tree.open_file(path).map_err(|e| match e {
            Error::NotFound => Error::io(
                format!(
                    "{} was removed from the lower file system",
                    tree.path().join(String::from_utf8_lossy(path).as_ref()).display()
                ),
                std::io::Error::from_raw_os_error(ESTALE),
            ),
            other => other,
        })?;
        let inode =
            if entry.stamp == *stamp { inode.clone() } else { self.take_over(inode, &entry)? };
        Ok((LowerBody { file: Arc::new(file), stamp: entry.stamp }, inode))
    }
}

/// Linux errno values (asm-generic).
const EIO: i32 = 5;
const ESTALE: i32 = 116;

/// The error for a copy of a file that changes meanwhile in the lower file system.
pub(super) fn changing() -> Error {
    Error::Busy("the file is being changed in the lower file system".into())
}

/// Copies all bytes of a file of the lower file system.
///
/// # Errors
/// [`Error::Busy`] if the file is no longer as its `stamp` says, so that the copy may be a mixture; the system's own.
pub(crate) fn copy_unchanged(
    source: &BackingFile,
    target: &BackingFile,
    stamp: LowerStamp,
) -> Result<()> {
    let copied = source.copy_data_to(target)?;
    let after = source.stat()?;
    if copied == stamp.size_bytes && after.mtime == stamp.mtime && after.size_bytes == copied {
        Ok(())
    } else {
        Err(changing())
    }
}
