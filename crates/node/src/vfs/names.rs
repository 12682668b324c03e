//! Names: looking up, creating, linking, removing, renaming, listing.

use std::cell::Cell;
use std::sync::Arc;

use intarsia_meta::{FreeFile, Inode, Namespace, NewInode, RenameMode};
use intarsia_policy::{Home, IoMode, Plan, Wish};
use intarsia_types::{Attr, Error, FileKind, HintSet, InodeId, Layout, Result};

use crate::background::queue::Queue;
use crate::body::{Bodies, LocalBody};
use crate::cache::remote_cache::RemoteCache;
use crate::clock::now;
use crate::directory::directory_lease::DirectoryLeases;
use crate::directory::promises::Promises;
use crate::inode::creations::Creations;
use crate::inode::elsewhere::Elsewhere;
use crate::inode::live::{Forgotten, LiveTable};
use crate::inode::passed::Passed;
use crate::inode::removal::Removal;
use crate::inode::settling::Settler;
use crate::locks::Locks;
use crate::members::Members;
use crate::space::ledger::Ledger;
use crate::space::placing::Placing;
use crate::space::tiers::{Tiers, full};
use crate::vfs::acl::{self, Acl};
use crate::vfs::attributes::{Attributes, Validity};
use crate::vfs::caller::Caller;
use crate::vfs::hints::{Hinting, hint_xattrs};
use crate::vfs::open::{Opened, Opener, Registrar};
use crate::vfs::recollection::Recollections;
use crate::vfs::recording::Recording;

/// What a new entry is to be.
#[derive(Clone, Debug)]
pub struct NewName {
    /// Kind of file.
    pub kind: FileKind,
    /// Permission bits as asked for.
    pub perm: u16,
    /// Bits that the caller's umask takes away.
    pub umask: u16,
    /// Device number of a device file.
    pub rdev: u32,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
}

/// Finds, makes, removes and lists names.
pub(crate) struct Names {
    pub(crate) attributes: Arc<Attributes>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) recollections: Arc<Recollections>,
    pub(crate) locks: Option<Arc<Locks>>,
    pub(crate) directory_leases: Arc<DirectoryLeases>,
    pub(crate) hinting: Arc<Hinting>,
    pub(crate) members: Members,
    pub(crate) settler: Arc<Settler>,
    pub(crate) defers_creates: bool,
    pub(crate) creations: Arc<Creations>,
    pub(crate) promises: Promises,
    pub(crate) passed: Arc<Passed>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) recording: Arc<Recording>,
    pub(crate) placing: Arc<Placing>,
    pub(crate) remote_cache: Arc<RemoteCache>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) elsewhere: Arc<Elsewhere>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) removal: Arc<Removal>,
    pub(crate) live: Arc<LiveTable>,
}

impl Names {
    /// The entry `name` of a directory; of any inode "." is itself.
    ///
    /// # Errors
    /// [`Error::NotFound`] and its like.
    pub(crate) fn lookup(&self, parent: InodeId, name: &[u8]) -> Result<(Attr, Validity)> {
        if name == b"." {
            let before = self.attributes.before_reading();
            let inode = self.bodies.lower.renewed(self.namespace.get(parent)?)?;
            return self.attributes.overlaid(&inode, before);
        }
        self.recollections.go_on_in(parent);
        let before = self.attributes.before_reading();
        let inode = self.find(parent, name)?;
        self.recollections.note_found(&inode, before);
        if let Some(locks) = &self.locks {
            locks.note_lockable(name, inode.ino);
        }
        self.attributes.overlaid(&inode, before)
    }

    /// The record of what a name in a directory means; a name that only the lower file system has is adopted.
    pub(crate) fn find(&self, dir: InodeId, name: &[u8]) -> Result<Inode> {
        self.directory_leases.use_directory(dir);
        // `dir` is a directory: the kernel looks up in nothing else.
        match self.namespace.lookup_in_directory(dir, name) {
            Err(Error::NotFound) if self.bodies.lower.adopt_name(dir, name)? => {
                self.namespace.lookup(dir, name)
            }
            found => self.bodies.lower.renewed(found?),
        }
    }

    /// Creates an entry that is not opened: directory, symbolic link, special or empty regular file.
    ///
    /// # Errors
    /// As `mkdir(2)`, `mknod(2)`, `symlink(2)`.
    pub(crate) fn make(
        &self,
        caller: Caller,
        parent: InodeId,
        name: &[u8],
        new: &NewName,
    ) -> Result<(Attr, Validity)> {
        self.directory_leases.use_directory(parent);
        let before = self.attributes.before_reading();
        self.bodies.lower.adopt_for_change(parent, name)?;
        let directory = self.recollections.parent_record(parent)?;
        let hints = self.hinting.hints_for_new(&directory, name, new.kind)?;
        let record = self.new_inode(caller, &directory, new, &hints)?;
        let inode = self.namespace.create(parent, name, record, now())?;
        Ok(self.attributes.settled_attributes(&inode, before))
    }

    /// Creates a regular file and opens it.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoSpace`] and the others of `open(2)` with `O_CREAT`.
    pub(crate) fn create_file(
        &self,
        caller: Caller,
        parent: InodeId,
        name: &[u8],
        new: &NewName,
        write: bool,
        registrar: &Registrar<'_>,
    ) -> Result<(Attr, Opened)> {
        self.members.await_sure_membership()?;
        self.settler.help_settling();
        self.directory_leases.use_directory(parent);
        self.bodies.lower.adopt_for_change(parent, name)?;
        let directory = self.recollections.parent_record(parent)?;
        let hints = self.hinting.hints_for_new(&directory, name, FileKind::Regular)?;
        let stripes = self.bodies.stripes.wanted(&hints)?;
        // Before a backing file is taken, which would be left over if this failed.
        let mut record = self.new_inode(caller, &directory, new, &hints)?;
        let fresh = match stripes {
            Some(_) => None,
            None => self.take_for_passthrough(&hints)?,
        };
        if let Some(local) = &fresh {
            record.layout = Layout::Local(local.backing);
        }
        record.mark_writable = fresh.is_some() || self.members.is_shared();
        // Only for writers: their close commits the create if nothing did before.
        record.may_wait = write && stripes.is_none() && self.defers_creates;
        // Held until the file is open, so that other hosts are not told that it is unknown here.
        let _creation = self.members.is_shared().then(|| self.creations.begin());
        let inode = match self.namespace.create(parent, name, record, now()) {
            Ok(inode) => {
                if self.namespace.has_promises() {
                    self.promises.look();
                }
                inode
            }
            Err(e) => {
                self.untake(fresh, &e);
                self.passed.doubt_new(parent, name, &e);
                return Err(e);
            }
        };
        let opened = match stripes {
            Some(wish) => self
                .opener
                .open_new_striped(caller, &inode, write, (wish, hints))
                .inspect_err(|_| self.unmake(parent, name, inode.ino))?,
            None => self.opener.open_new(caller, &inode, write, (fresh, hints), registrar)?,
        };
        if let Some(locks) = &self.locks {
            locks.note_lockable(name, inode.ino);
        }
        Ok((inode.attr(), opened))
    }

    /// A backing file for a new file, if the kernel will serve it by passthrough.
    fn take_for_passthrough(&self, hints: &HintSet) -> Result<Option<LocalBody>> {
        // A file that `pattern=distribute` deals over the hosts is noted under its number, and it has none yet.
        if !self.recording.does_passthrough() || self.placing.wish_of(hints) == Wish::Spread {
            return Ok(None);
        }
        self.remote_cache.make_room();
        let Plan { home, reason, io_mode, .. } = self.placing.plan_for_new(hints, 0);
        let id = match home {
            Home::Here(_) if io_mode != IoMode::Passthrough => return Ok(None),
            Home::Here(id) => id,
            // A small file needs no tier, and when it grows another host may have room.
            _ if self.members.is_shared() => return Ok(None),
            _ => return Err(full()),
        };
        let (backing, file) = self.tiers.take_file(id, &self.namespace)?;
        self.elsewhere.note_placed(
            hints,
            self.elsewhere.is_as_wished(hints, reason),
            reason.as_str(),
        );
        if self.tiers.is_short() {
            self.queue.set_pool_short(true);
        }
        Ok(Some(LocalBody::new(backing, file)))
    }

    /// Removes a new file again whose parts could not be made.
    fn unmake(&self, parent: InodeId, name: &[u8], ino: InodeId) {
        let removed = match self.namespace.lookup(parent, name) {
            Ok(found) if found.ino == ino => self.unlink(parent, name),
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(%ino, %error, "an empty file stays behind");
            // The file was created with the right to write, which this host may still have.
            self.passed.doubt_right(ino, &self.queue);
        }
    }

    /// Gives back the backing file that was taken for an inode; that was not made, because of `error`.
    fn untake(&self, fresh: Option<LocalBody>, error: &Error) {
        if let Some(LocalBody { backing, ro, .. }) = fresh
            && let Ok(file) = std::sync::Arc::try_unwrap(ro)
        {
            self.ledger.untake_unrecorded(
                backing.tier,
                FreeFile::reserved(backing.file),
                file,
                error,
            );
        }
    }

    fn new_inode(
        &self,
        caller: Caller,
        directory: &Inode,
        new: &NewName,
        hints: &HintSet,
    ) -> Result<NewInode> {
        if directory.kind != FileKind::Directory {
            return Err(Error::NotDirectory);
        }
        let passes_group = directory.perm & 0o2000 != 0;
        let inherited = match new.kind {
            FileKind::Symlink => None,
            _ => self.default_acl(directory)?,
        };
        let mut xattrs = hint_xattrs(hints);
        let mut perm = match inherited {
            None if new.kind == FileKind::Symlink => 0o777,
            None => new.perm & 0o7777 & !(new.umask & 0o777),
            // The default list takes the umask's place.
            Some(acl) => inherit_acl(&acl, new, &mut xattrs),
        };
        if passes_group && new.kind == FileKind::Directory {
            perm |= 0o2000;
        }
        let gid = if passes_group { directory.gid } else { caller.gid };
        let mut record = NewInode::new(new.kind, perm, caller.uid, gid);
        record.rdev = new.rdev;
        record.target.clone_from(&new.target);
        record.xattrs = xattrs;
        Ok(record)
    }

    fn default_acl(&self, directory: &Inode) -> Result<Option<Acl>> {
        if !directory.has_xattrs {
            return Ok(None);
        }
        match self.namespace.get_xattr(directory.ino, acl::DEFAULT_NAME) {
            Ok(value) => Ok(Acl::parse(&value)),
            Err(Error::NoAttribute) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything else.
    pub(crate) fn read_link(&self, ino: InodeId) -> Result<Vec<u8>> {
        self.namespace.get(ino)?.target.ok_or_else(|| Error::Invalid("not a symbolic link".into()))
    }

    /// Gives an inode another name.
    ///
    /// # Errors
    /// As `link(2)`.
    pub(crate) fn link(
        &self,
        ino: InodeId,
        parent: InodeId,
        name: &[u8],
    ) -> Result<(Attr, Validity)> {
        let before = self.attributes.before_reading();
        self.bodies.lower.adopt_for_change(parent, name)?;
        let inode = self.namespace.link(ino, parent, name, now())?;
        self.attributes.overlaid(&inode, before)
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// As `unlink(2)`.
    pub(crate) fn unlink(&self, parent: InodeId, name: &[u8]) -> Result<()> {
        self.directory_leases.use_directory(parent);
        self.bodies.lower.hide_name(parent, name)?;
        let kept = Cell::new(None);
        let unlinked = self.namespace.unlink(parent, name, self.keeps_orphan(&kept), now());
        let inode = self.removal.or_doubt(kept.get(), unlinked)?;
        self.after_unlink(&inode, kept.get().is_some());
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As `rmdir(2)`.
    pub(crate) fn rmdir(&self, parent: InodeId, name: &[u8]) -> Result<()> {
        self.bodies.lower.hide_name(parent, name)?;
        self.bodies.lower.complete_named(parent, name)?;
        let inode = self.namespace.rmdir(parent, name, now())?;
        self.directory_leases.told.forget(inode.ino);
        self.removal.departed.add(&inode, inode.size_bytes);
        Ok(())
    }

    /// Renames, replacing, refusing to replace, or exchanging.
    ///
    /// # Errors
    /// As `renameat2(2)`.
    pub(crate) fn rename(
        &self,
        parent: InodeId,
        name: &[u8],
        new_parent: InodeId,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.bodies.lower.adopt_for_change(new_parent, new_name)?;
        if mode == RenameMode::Exchange {
            self.bodies.lower.adopt_for_change(parent, name)?;
        } else {
            self.bodies.lower.hide_name(parent, name)?;
            self.bodies.lower.complete_named(new_parent, new_name)?;
        }
        // A name that is replaced exists throughout, so an open of it on any host has to give the old file or the new one. The
        // kernel first looks the inode up and then opens it, and tries only twice: so a replaced inode lingers.
        let kept = Cell::new(None);
        let keeps = |ino| {
            kept.set(Some(ino));
            true
        };
        let replaced =
            self.namespace.rename(parent, name, new_parent, new_name, mode, keeps, now());
        match self.removal.or_doubt(kept.get(), replaced)? {
            Some(inode) if inode.kind != FileKind::Directory => self.linger(&inode),
            Some(inode) => self.after_unlink(&inode, false),
            None => {}
        }
        Ok(())
    }

    /// A file was replaced: keeps it for a moment, so that it can still be opened.
    fn linger(&self, inode: &Inode) {
        if inode.nlink > 0 {
            return;
        }
        self.live.with(inode.ino, |state| {
            state.names.linger();
        });
        self.queue.linger(inode.ino);
    }

    /// Tells the namespace to keep the record of an inode that is open, and notes that it did.
    fn keeps_orphan<'a>(
        &'a self,
        kept: &'a Cell<Option<InodeId>>,
    ) -> impl Fn(InodeId) -> bool + 'a {
        move |ino| {
            let is_open = self.live.with_existing(ino, |s| s.is_open()).unwrap_or(false);
            kept.set(is_open.then_some(ino));
            is_open
        }
    }

    /// What becomes of an inode that lost a name: nothing while it has others; while it is open it waits
    /// for its last release; else its bytes go.
    fn after_unlink(&self, inode: &Inode, is_kept: bool) {
        if inode.nlink > 0 {
            return;
        }
        self.directory_leases.told.forget(inode.ino);
        let mut forgotten = Forgotten::default();
        let still_open = self.live.with_existing(inode.ino, |state| {
            if state.is_open() {
                state.names.lose();
            } else {
                state.names.regain();
                forgotten = state.forget_body();
                // With the entry locked, so that the length is always either in the entry or among the departed.
                self.remote_cache.forget(inode.ino);
                self.removal.departed.add(inode, forgotten.size_bytes.unwrap_or(inode.size_bytes));
            }
            state.names.is_orphan()
        });
        if still_open == Some(true) {
            return;
        }
        if is_kept {
            // Its last handle was closed after the namespace had asked whether it is open.
            self.removal.reap(inode.ino, forgotten);
        } else {
            self.removal.dispose(inode, forgotten);
        }
    }
}

fn inherit_acl(default: &Acl, new: &NewName, xattrs: &mut Vec<(Vec<u8>, Vec<u8>)>) -> u16 {
    let mut own = default.clone();
    own.restrict(new.perm);
    if !own.is_minimal() {
        xattrs.push((acl::ACCESS_NAME.to_vec(), own.encode()));
    }
    if new.kind == FileKind::Directory {
        xattrs.push((acl::DEFAULT_NAME.to_vec(), default.encode()));
    }
    new.perm & 0o7000 | own.mode_bits()
}
