//! Opening, reading, writing and closing regular files.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use intarsia_meta::{Extra, Inode};
use intarsia_policy::{IoMode, OpenRequest, choose_io_mode};
use intarsia_store::BackingFile;
use intarsia_types::{
    CacheHint, CloseMode, Durability, Error, FileKind, HintSet, InodeId, Integrity, Layout, Result,
};

use crate::body::integrity::checksum_extras;
use crate::body::remote::RemoteFile;
use crate::body::striped::{FarRead, StripedFile};
use crate::body::stripes::Wish;
use crate::body::{Body, LocalBody};
use crate::cache::far_pages::{Grant, Stamp};
use crate::clock::now;
use crate::inode::early_fold::EarlyFold;
use crate::inode::lease::{Attempt, Content};
pub use crate::inode::live::KernelBacking;
use crate::inode::live::{Forgotten, LiveState};
use crate::node::Node;
use crate::replication::replicate::{Moment, take_over_copies};

/// Some kernels keep times to a tick of at most so much: what follows within it does not show in them.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// What was looked at so lately is not looked at again to find the end of a file: as long as the kernel keeps attributes.
const RECENT: Duration = Duration::from_millis(20);

fn is_recent(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < RECENT)
}

/// Registers a backing file with the kernel for passthrough.
pub type Registrar<'a> = dyn Fn(BorrowedFd<'_>) -> std::io::Result<KernelBacking> + 'a;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Caller {
    /// Whether set-id bits survive what this caller writes. (CAP_FSETID is not visible to us; root has it.)
    pub(crate) const fn keeps_set_id(self) -> bool {
        self.uid == 0
    }

    /// The permission bits after this caller changed the content. Set-group-id without group execution stays for who is
    /// in the group, as far as his request shows.
    pub(crate) fn set_id_cleared(self, inode: &Inode) -> u16 {
        let strange = if self.uid == 0 || self.gid == inode.gid { 0 } else { 0o2000 };
        without_set_id(inode.perm) & !strange
    }
}

/// How an open file is to be served.
#[derive(Clone)]
pub struct Opened {
    /// The kernel's registration, for passthrough; else requests come to the process.
    pub passthrough: Option<KernelBacking>,
    /// Whether `close` has to tell us, because something must happen then.
    pub wants_flush: bool,
    /// All changes come through this kernel, so its pages stay true from one open to the next.
    pub keeps_cache: bool,
    /// Pages that the kernel cached at an earlier open may soon be stale: passthrough writes go past them.
    pub outdates_cache: bool,
    /// It is read here, and another host may change it at any moment.
    pub changes_elsewhere: bool,
    /// The bytes are at another host, and the kernel reads them through its pages.
    pub is_paged: bool,
    /// The pages that the kernel cached at an earlier open are to be dropped, and then
    /// [`begin_pages`](Node::begin_pages) is to be told.
    pub begins_pages: Option<Stamp>,
    /// Truncating it cleared set-id bits, which the kernel leaves to us and does not look at again.
    pub outdates_mode: bool,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("passthrough", &self.passthrough.is_some()).finish()
    }
}

/// What an open asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenFlags {
    pub(crate) write: bool,
    pub(crate) truncate: bool,
}

/// How far a read came without waiting for another host.
pub enum Reading {
    /// So many bytes are in the buffer.
    Done(usize),
    /// The bytes are on their way.
    Elsewhere(FarRead),
}

/// Where the bytes for a read are.
enum Source {
    /// So many are in the buffer already.
    Done(usize),
    File(Arc<BackingFile>),
    Remote(Arc<RemoteFile>),
    Striped(Arc<StripedFile>),
}

impl Node {
    /// Opens a regular file.
    ///
    /// # Errors
    /// As `open(2)`; [`Error::Io`] when the backing file is missing.
    pub fn open_file(
        &self,
        caller: Caller,
        ino: InodeId,
        write: bool,
        truncate: bool,
        registrar: &Registrar<'_>,
    ) -> Result<Opened> {
        let flags = OpenFlags { write: write || truncate, truncate };
        if flags.write {
            self.await_sure_membership()?;
        }
        let content = if truncate { Content::Dropped } else { Content::Kept };
        self.with_live(ino, |state| {
            if flags.write
                && let Some(retry) = self.recall_followers(ino, state)
            {
                return Ok(Attempt::Again(retry));
            }
            // Read under the entry's lock: nothing can fold or write the file from here on.
            let inode = match self.prepare(ino, state, flags.write.then_some(content))? {
                Attempt::Done(inode) => self.renewed(inode)?,
                Attempt::Again(retry) => return Ok(Attempt::Again(retry)),
            };
            Self::drop_stale_lower(state, &inode);
            if state.body.is_none() {
                state.hints = self.own_hints(&inode)?;
                state.is_orphan = inode.nlink == 0;
                self.load_body(state, &inode)?;
            }
            let inode = if truncate { self.spare_followers(inode, state, 0)? } else { inode };
            let was_lower = matches!(state.body, Some(Body::Lower(_)));
            let opened = self.open_loaded(caller, &inode, state, flags, registrar);
            if opened.is_err() && was_lower && state.local().is_none() {
                // Nothing has become of a truncation; the file is as it was.
                state.body = None;
            }
            if opened.is_err() && state.holds_lease && !state.is_open() {
                self.enqueue_settle(ino, state);
            }
            opened.map(Attempt::Done)
        })
    }

    /// Opens an inode that was just created, with the backing file taken for it, if any.
    pub(crate) fn open_new(
        &self,
        caller: Caller,
        inode: &Inode,
        write: bool,
        fresh: (Option<LocalBody>, HintSet),
        registrar: &Registrar<'_>,
    ) -> Result<Opened> {
        let flags = OpenFlags { write, truncate: false };
        self.live.with(inode.ino, |state| {
            if state.body.is_none() {
                let (body, hints) = fresh;
                state.hints = hints;
                state.holds_lease = self.is_shared();
                state.is_unsettled = body.is_some();
                state.body = Some(body.map_or(Body::Inline(Vec::new()), Body::Local));
                state.record = Some(inode.clone());
                state.mark_seen();
            }
            self.open_loaded(caller, inode, state, flags, registrar)
        })
    }

    /// Opens an inode that was just created and is to be striped.
    pub(crate) fn open_new_striped(
        &self,
        caller: Caller,
        inode: &Inode,
        write: bool,
        (wish, hints): (Wish, HintSet),
    ) -> Result<Opened> {
        let Some(cluster) = &self.cluster else { return Err(Error::BadHandle) };
        let flags = OpenFlags { write, truncate: false };
        self.live.with(inode.ino, |state| {
            let inode = self.lay_stripes(cluster, inode, wish, &hints)?;
            self.write_stripes(&inode, state)?;
            state.hints = hints;
            self.open_loaded(caller, &inode, state, flags, &|_| {
                Err(std::io::ErrorKind::Unsupported.into())
            })
        })
    }

    fn open_loaded(
        &self,
        caller: Caller,
        inode: &Inode,
        state: &mut LiveState,
        flags: OpenFlags,
        registrar: &Registrar<'_>,
    ) -> Result<Opened> {
        if flags.write && self.is_shared() {
            self.let_go_for_room(inode, state, flags.truncate)?;
        }
        if flags.truncate && matches!(state.body, Some(Body::Lower(_))) {
            // What is dropped need not be copied first.
            state.body = Some(Body::Inline(Vec::new()));
        } else if flags.write {
            self.copy_up(inode.ino, state)?;
        }
        if state.handles == 0 {
            state.mode = self.choose_mode(caller, state, inode, flags);
        }
        if state.mode == IoMode::Passthrough {
            self.prepare_passthrough(inode.ino, state, flags, registrar)?;
        }
        if flags.write {
            self.mark_unsettled(inode.ino, state)?;
        }
        state.handles += 1;
        state.writers += u32::from(flags.write);
        if flags.truncate
            && let Err(e) = self.truncate_live(inode.ino, state, 0, caller)
        {
            state.handles -= 1;
            state.writers -= u32::from(flags.write);
            return Err(e);
        }
        let outdates_mode =
            flags.truncate && !caller.keeps_set_id() && caller.set_id_cleared(inode) != inode.perm;
        Ok(Opened { outdates_mode, ..self.opened(inode.ino, state, flags) })
    }

    fn choose_mode(
        &self,
        caller: Caller,
        state: &LiveState,
        inode: &Inode,
        flags: OpenFlags,
    ) -> IoMode {
        let tier = match state.local() {
            Some(local) => Some(local.backing.tier),
            None if state.kept().is_some() => state.kept().map(|copy| copy.backing.tier),
            None if state.remote().is_some() || state.striped().is_some() => None,
            None if flags.write => self.tier_for_new(&state.hints, inode.ino.0),
            None => None,
        };
        let tier = tier.and_then(|id| self.tiers.get(id).ok());
        choose_io_mode(&OpenRequest {
            mount_has_passthrough: self.has_passthrough.load(Ordering::Acquire),
            tier_is_stackable: tier.is_some_and(|t| t.file_system().is_stackable),
            tier_is_low: flags.write && tier.is_some_and(intarsia_store::Tier::is_low),
            is_strict: state.hints.integrity() == Integrity::Strict,
            has_backing: tier.is_some(),
            clears_set_id: flags.write && inode.perm & 0o6000 != 0 && !caller.keeps_set_id(),
        })
    }

    fn prepare_passthrough(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        flags: OpenFlags,
        registrar: &Registrar<'_>,
    ) -> Result<()> {
        if state.local().is_none() && flags.write {
            self.unfold_here(ino, state)?;
        }
        if state.kernel.is_some() {
            return Ok(());
        }
        let Some(local) = state.local().or(state.kept()) else { return Ok(()) };
        match registrar(local.ro.as_fd()) {
            Ok(kernel) => state.kernel = Some(kernel),
            Err(e) => {
                tracing::warn!(%ino, error = %e, "no passthrough for this file; served through the process");
                state.mode = IoMode::Cached;
            }
        }
        Ok(())
    }

    fn opened(&self, ino: InodeId, state: &mut LiveState, flags: OpenFlags) -> Opened {
        let is_passthrough = state.mode == IoMode::Passthrough;
        let counter = if is_passthrough {
            &self.metrics.opens_passthrough
        } else {
            &self.metrics.opens_cached
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let syncs_at_close = flags.write && self.syncs_at_close(state);
        let is_far = !flags.write && !is_passthrough && self.changes_elsewhere(state);
        let grant = if is_far { self.grant_pages(ino, state) } else { Grant::Refused };
        let is_paged = grant != Grant::Refused;
        if is_paged {
            state.paged.get_or_insert_default();
        }
        Opened {
            passthrough: state.kernel.clone().filter(|_| is_passthrough),
            // Other hosts see at their next open what was closed here.
            wants_flush: (flags.write && (!is_passthrough || self.is_shared())) || syncs_at_close,
            keeps_cache: (!self.is_shared() && !self.take_outdated(ino)) || is_paged,
            outdates_cache: is_passthrough && flags.write,
            changes_elsewhere: is_far && !is_paged,
            is_paged,
            begins_pages: grant.begins(),
            outdates_mode: false,
        }
    }

    fn changes_elsewhere(&self, state: &LiveState) -> bool {
        let is_elsewhere = match &state.body {
            Some(Body::Remote(_) | Body::Striped(_)) => true,
            Some(Body::Inline(_)) => !state.holds_lease,
            Some(Body::Local(_) | Body::Kept(_) | Body::Lower(_)) | None => false,
        };
        self.is_shared() && is_elsewhere
    }

    fn syncs_at_close(&self, state: &LiveState) -> bool {
        self.options.durability == Durability::Sync && state.hints.close() == CloseMode::Safe
    }

    /// Reads into `buffer`; fewer bytes only at the end of the file. May wait for another host.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when a checksum does not match, else the system's own.
    pub fn read(&self, ino: InodeId, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        match self.source_of(ino, offset_bytes, buffer)? {
            Source::Done(n) => Ok(self.count_read(n)),
            Source::File(file) => Ok(self.count_read(file.read_at(buffer, offset_bytes)?)),
            // With no lock held: the other host may have something to ask of us meanwhile.
            Source::Remote(remote) => Ok(self.count_read(remote.read_at(buffer, offset_bytes)?)),
            Source::Striped(striped) => Ok(self.count_read(striped.read_at(buffer, offset_bytes)?)),
        }
    }

    /// Reads into `buffer` what is on this host, or begins to fetch it from another one.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn begin_read(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<Reading> {
        let n = match self.source_of(ino, offset_bytes, buffer)? {
            Source::Done(n) => n,
            Source::File(file) => file.read_at(buffer, offset_bytes)?,
            Source::Remote(remote) => {
                let read = remote.begin_read(offset_bytes, buffer.len());
                return Ok(Reading::Elsewhere(FarRead::Remote(read)));
            }
            Source::Striped(striped) => {
                let read = striped.begin_read(offset_bytes, buffer.len());
                return Ok(Reading::Elsewhere(FarRead::Striped(read)));
            }
        };
        Ok(Reading::Done(self.count_read(n)))
    }

    /// Counts bytes that were read through the process.
    pub fn count_read(&self, bytes: usize) -> usize {
        self.metrics.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        bytes
    }

    fn source_of(&self, ino: InodeId, offset_bytes: u64, buffer: &mut [u8]) -> Result<Source> {
        self.live.with(ino, |state| {
            state.require_ours()?;
            let end = offset_bytes.saturating_add(buffer.len() as u64);
            let ends_before = self.known_end(state).filter(|known| end > *known);
            if ends_before.is_some_and(|_| !is_recent(state.followed_at)) {
                self.follow_present(ino, state)?;
            } else if ends_before.is_some_and(|known| offset_bytes >= known) {
                return Ok(Source::Done(0));
            }
            if state.body.is_none() {
                self.load_present(ino, state)?;
            }
            if let Some(striped) = state.striped()
                && offset_bytes.saturating_add(buffer.len() as u64) > striped.size_bytes()
            {
                // Another host may have written on.
                let renewed =
                    self.namespace.get(ino).and_then(|inode| self.renew_body(state, &inode));
                match renewed {
                    // Removed or changed again meanwhile: what is open stays readable as it was.
                    Err(Error::NotFound | Error::Busy(_)) if state.body.is_some() => {}
                    outcome => outcome?,
                }
            }
            if state.paged.is_some()
                && self.changes_elsewhere(state)
                && !self.has_true_pages(ino, state)
            {
                self.note_brief_pages(ino, state);
            }
            self.load_sums(ino, state)?;
            match &state.body {
                Some(Body::Striped(striped)) => Ok(Source::Striped(Arc::clone(striped))),
                Some(Body::Remote(remote)) => Ok(Source::Remote(Arc::clone(remote))),
                Some(Body::Inline(bytes)) => {
                    let from = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
                    let rest = bytes.get(from..).unwrap_or(&[]);
                    let n = rest.len().min(buffer.len());
                    buffer[..n].copy_from_slice(&rest[..n]);
                    Ok(Source::Done(n))
                }
                Some(Body::Local(local) | Body::Kept(local)) => match &state.sums {
                    // Under the lock, so that no write comes between the bytes and their sums.
                    Some(sums) => self
                        .read_verified(ino, sums, &local.ro, offset_bytes, buffer)
                        .map(Source::Done),
                    None => Ok(Source::File(Arc::clone(&local.ro))),
                },
                Some(Body::Lower(lower)) => Ok(Source::File(Arc::clone(&lower.file))),
                None => Err(Error::BadHandle),
            }
        })
    }

    /// Where a file ends that another host may change, as far as is known here.
    fn known_end(&self, state: &LiveState) -> Option<u64> {
        match &state.body {
            _ if !self.is_shared() => None,
            Some(Body::Remote(remote)) if !remote.may_write() => Some(remote.size_bytes()),
            Some(Body::Inline(bytes)) if !state.holds_lease => Some(bytes.len() as u64),
            _ => None,
        }
    }

    /// As [`follow`](Self::follow), what the record says now; a file that was removed is as it was.
    fn follow_present(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        match self.namespace.get(ino) {
            Ok(inode) => self.follow(state, &inode),
            Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes all of `data`. `is_write_back` means that the kernel flushes pages whose times it keeps
    /// itself; `kills_set_id` that it leaves clearing the set-id bits to us.
    ///
    /// # Errors
    /// [`Error::NoSpace`], else the system's own. Nothing is half-written within a tier's capacity.
    pub fn write(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        data: &[u8],
        is_write_back: bool,
        kills_set_id: bool,
    ) -> Result<()> {
        if kills_set_id {
            self.clear_set_id(ino)?;
        }
        self.await_membership()?;
        let elsewhere = self.live.with_existing(ino, |state| match &state.body {
            Some(Body::Remote(remote)) => Some(Source::Remote(Arc::clone(remote))),
            Some(Body::Striped(striped)) => Some(Source::Striped(Arc::clone(striped))),
            _ => None,
        });
        let elsewhere = elsewhere.flatten();
        if elsewhere.is_some() {
            // With no lock held, as for reading.
            match elsewhere {
                Some(Source::Remote(remote)) => remote.write_all_at(data, offset_bytes)?,
                Some(Source::Striped(striped)) => striped.write_all_at(data, offset_bytes)?,
                _ => {}
            }
            self.metrics.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            return Ok(());
        }
        let target = self.live.with(ino, |state| -> Result<Source> {
            state.require_ours()?;
            self.ensure_loaded(ino, state)?;
            if self.write_inline(ino, state, offset_bytes, data)? {
                note_write(state, offset_bytes + data.len() as u64, is_write_back);
                return Ok(Source::Done(data.len()));
            }
            if let Some(remote) = state.remote() {
                return Ok(Source::Remote(Arc::clone(remote)));
            }
            self.mark_unsettled(ino, state)?;
            self.require_room(state, data.len() as u64)?;
            let file = self.writable(state)?;
            if state.sums.is_none() {
                return Ok(Source::File(file));
            }
            let old_size_bytes = state.size_bytes()?;
            file.write_all_at(data, offset_bytes)?;
            Self::renew_sums(state, &file, offset_bytes, data.len() as u64, old_size_bytes)?;
            note_write(state, offset_bytes + data.len() as u64, is_write_back);
            Ok(Source::Done(data.len()))
        })?;
        match target {
            Source::File(file) => {
                file.write_all_at(data, offset_bytes)?;
                let end = offset_bytes + data.len() as u64;
                self.live.with_existing(ino, |state| note_write(state, end, is_write_back));
            }
            // It has just gone to another host.
            Source::Remote(remote) => remote.write_all_at(data, offset_bytes)?,
            Source::Striped(_) | Source::Done(_) => {}
        }
        self.metrics.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn ensure_loaded(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if state.body.is_some() {
            return Ok(());
        }
        let inode = self.namespace.get(ino)?;
        if inode.kind != FileKind::Regular {
            return Err(Error::Invalid("not a regular file".into()));
        }
        state.hints = self.own_hints(&inode)?;
        self.load_body(state, &inode)
    }

    /// Writes into an inline body if it stays small enough; else moves it to a backing file first.
    fn write_inline(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool> {
        let Some(Body::Inline(bytes)) = &mut state.body else {
            self.copy_up(ino, state)?;
            return Ok(false);
        };
        let end = offset_bytes + data.len() as u64;
        if end > self.options.inline_bytes.0 || state.mode == IoMode::Passthrough {
            self.unfold(ino, state)?;
            return Ok(false);
        }
        let from = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        if bytes.len() < from + data.len() {
            bytes.resize(from + data.len(), 0);
        }
        bytes[from..from + data.len()].copy_from_slice(data);
        Ok(true)
    }

    /// Below the watermark every byte is accounted before it is written, so that a capacity holds.
    fn require_room(&self, state: &mut LiveState, bytes: u64) -> Result<()> {
        let Some(local) = state.local() else { return Ok(()) };
        let tier = self.tiers.get(local.backing.tier)?;
        if !tier.is_low() {
            return Ok(());
        }
        self.account(state)?;
        self.remote_cache.make_room();
        let Some(local) = state.local() else { return Ok(()) };
        let tier = self.tiers.get(local.backing.tier)?;
        if tier.fits(bytes) {
            Ok(())
        } else {
            Err(self.refuse_for_room(&format!("tier {} is full", tier.dir().display())))
        }
    }

    /// Brings the tier's accounting up to date with one live file.
    pub(crate) fn account(&self, state: &mut LiveState) -> Result<()> {
        let Some(local) = state.local() else { return Ok(()) };
        let blocks = local.ro.stat()?.blocks_512;
        self.tiers.get(local.backing.tier)?.account(state.accounted_512, blocks);
        state.accounted_512 = blocks;
        Ok(())
    }

    /// A close: what was written becomes part of the record, and durable where that was promised.
    ///
    /// # Errors
    /// What went wrong with the data since the last flush, so that `close` reports it.
    pub fn flush(&self, ino: InodeId) -> Result<()> {
        self.await_membership_to_publish(ino)?;
        if let Some(striped) = self.striped(ino) {
            self.publish_stripes(&striped, ino)?;
            let syncs = self.live.with_existing(ino, |state| self.syncs_at_close(state));
            return if syncs == Some(true) { self.sync_stripes(&striped, true) } else { Ok(()) };
        }
        let has_copies = self.publishes_copies(ino, Moment::Close);
        if has_copies {
            self.publish_copies(ino)?;
        }
        let syncs = self.live.with_existing(ino, |state| {
            if !has_copies {
                self.publish(ino, state)?;
            }
            Ok::<_, Error>(
                self.syncs_at_close(state).then(|| state.local().map(|l| Arc::clone(&l.ro))),
            )
        });
        let syncs = syncs.transpose()?.flatten();
        self.keep_creation(ino)?;
        match syncs {
            Some(file) => self.sync_file(file.as_deref(), true),
            None => Ok(()),
        }
    }

    /// `fsync`: durable as the deployment promises. With `durability=interval` that is the page cache,
    /// which survives the death of any process; the background flush follows within the interval.
    ///
    /// # Errors
    /// The system's own; a failed flush is final.
    pub fn fsync(&self, ino: InodeId, data_only: bool) -> Result<()> {
        self.await_membership_to_publish(ino)?;
        if let Some(striped) = self.striped(ino) {
            self.publish_stripes(&striped, ino)?;
            return self.sync_stripes(&striped, data_only);
        }
        let has_copies = self.publishes_copies(ino, Moment::Sync);
        if has_copies {
            self.publish_copies(ino)?;
        }
        let file = self.live.with_existing(ino, |state| {
            if !has_copies {
                self.publish(ino, state)?;
            }
            Ok::<_, Error>(state.local().map(|l| Arc::clone(&l.ro)))
        });
        let file = file.transpose()?.flatten();
        self.keep_creation(ino)?;
        if self.options.durability == Durability::Sync {
            self.sync_file(file.as_deref(), data_only)?;
        }
        Ok(())
    }

    /// A file that was made here is there for all hosts from now on, if nothing was published that says so.
    fn keep_creation(&self, ino: InodeId) -> Result<()> {
        self.namespace.keep_promise(ino).inspect_err(|_| {
            self.live.with_existing(ino, |state| {
                state.is_orphan = true;
                state.is_doubtful |= state.local().is_some();
                state.overlay.is_dirty = false;
            });
        })
    }

    /// Nobody has the file open any more. If it was promised and could not be recorded, nobody else knows of its bytes.
    pub(crate) fn note_broken_promise(&self, ino: InodeId, state: &mut LiveState) {
        state.is_doubtful |= self.namespace.forget_promise(ino) && state.local().is_some();
    }

    /// The file, if it is live and striped.
    pub(crate) fn striped(&self, ino: InodeId) -> Option<Arc<StripedFile>> {
        self.live.with_existing(ino, |state| state.striped().map(Arc::clone)).flatten()
    }

    fn sync_file(&self, file: Option<&BackingFile>, data_only: bool) -> Result<()> {
        file.map_or(Ok(()), |f| f.sync(data_only))?;
        self.namespace.sync()
    }

    /// Publishes what was written to an inode, if it is live.
    pub(crate) fn publish_now(&self, ino: InodeId) -> Result<()> {
        self.live.with_existing(ino, |state| self.publish(ino, state)).unwrap_or(Ok(()))
    }

    /// Makes what was written known to other hosts, which is more than the record has to have here.
    fn publish(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        state.require_ours()?;
        if let Some(remote) = state.remote() {
            return remote.flush();
        }
        if let Some(striped) = state.striped() {
            return self.publish_stripes(striped, ino);
        }
        if self.is_shared() && state.writers > 0 && self.has_changed_unseen(state)? {
            state.overlay.is_dirty = true;
        }
        match self.persist(ino, state) {
            // Another host removed the file, which is open here still.
            Err(Error::NotFound) if self.is_shared() => {
                state.is_orphan = true;
                state.overlay.is_dirty = false;
                Ok(())
            }
            other => other,
        }
    }

    /// Whether the backing file is not what the record says, as far as the file system can tell.
    pub(crate) fn has_changed_unseen(&self, state: &LiveState) -> Result<bool> {
        let Some(local) = state.local() else { return Ok(false) };
        let stat = local.ro.stat()?;
        if state.copied.is_some_and(|copied| copied.is_of(&stat)) {
            return Ok(false);
        }
        let is_recorded = state
            .record
            .as_ref()
            .is_some_and(|r| r.size_bytes == stat.size_bytes && r.mtime == stat.mtime);
        if is_recorded && self.is_as_folded(state)? {
            return Ok(false);
        }
        let age = SystemTime::now().duration_since(stat.ctime.into()).unwrap_or_default();
        Ok(!is_recorded || age < TICK || stat.ctime > state.seen_ctime)
    }

    /// Writes what the overlay knows into the record.
    pub(crate) fn persist(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if let Some(striped) = state.striped() {
            return self.publish_stripes(striped, ino);
        }
        if !state.overlay.is_dirty {
            return Ok(());
        }
        self.notice_writes(state)?;
        let mut extras = self.lease_extras(state);
        let size_bytes = state.size_bytes()?;
        let layout = match &state.body {
            Some(Body::Inline(bytes)) if bytes.is_empty() => {
                extras.push(Extra::DeleteBody);
                Some(Layout::Empty)
            }
            Some(Body::Inline(bytes)) => {
                extras.push(Extra::PutBody(bytes.as_slice().into()));
                Some(Layout::Inline)
            }
            _ => None,
        };
        let folded = if state.keeps_name { None } else { self.foldable(state)? };
        let was_folded = state.early_fold.is_some();
        if let (Some(sums), true) = (&state.sums, state.hints.integrity() == Integrity::Strict) {
            extras.extend(checksum_extras(sums));
            state.is_checksummed = true;
        }
        self.account(state)?;
        let (overlay, blocks_512) = (state.overlay, state.accounted_512);
        let home = state.local().map(|local| local.backing);
        let known = state.record.clone();
        let keeps_copies = self.is_copied(ino, state)?;
        let mut dropped = Vec::new();
        let change = |inode: &mut Inode, more: &mut Vec<Extra>| {
            more.extend_from_slice(&extras);
            inode.size_bytes = size_bytes;
            inode.blocks_512 = blocks_512;
            match (home, &folded) {
                (Some(home), Some(content)) => {
                    dropped = inode.layout.copies().to_vec();
                    dropped.retain(|copy| *copy != home);
                    more.extend(dropped.iter().map(|copy| Extra::PutFree(*copy)));
                    Self::fold_record(inode, content, more);
                }
                (Some(home), None) if was_folded => Self::unfold_record(inode, home, more),
                // The copies on other hosts are of what was published before.
                (Some(home), None) if !keeps_copies => {
                    dropped = take_over_copies(inode, home, &[], more)?;
                }
                _ => {}
            }
            inode.mtime = overlay.mtime.unwrap_or(inode.mtime);
            inode.ctime = overlay.ctime.unwrap_or(inode.ctime);
            if let Some(layout) = &layout {
                inode.layout = layout.clone();
            }
            Ok(())
        };
        let changed = match &known {
            Some(known) => self.namespace.change_known(known, change),
            None => self.namespace.change(ino, change),
        };
        let inode = state.note_change(changed)?;
        self.note_dropped(&dropped);
        state.early_fold = folded.as_deref().map(EarlyFold::of);
        state.copied = state.copied.filter(|_| keeps_copies);
        state.is_withheld = false;
        state.overlay.is_dirty = false;
        state.overlay.mtime = None;
        state.overlay.ctime = None;
        state.record = Some(inode);
        state.mark_seen();
        Ok(())
    }

    /// What makes a change of content conditional on the right to write, where others may take it.
    pub(crate) fn lease_extras(&self, state: &LiveState) -> Vec<Extra> {
        let is_bound = state.holds_lease || state.is_quarantined;
        if self.is_shared() && is_bound { vec![Extra::HoldWritable] } else { Vec::new() }
    }

    /// Takes over the times of what was written past the process after its own last touch.
    pub(crate) fn notice_writes(&self, state: &mut LiveState) -> Result<()> {
        let Some(local) = state.local() else { return Ok(()) };
        let stat = local.ro.stat()?;
        if stat.ctime > state.seen_ctime && self.trusts_backing_times(state) {
            state.overlay.mtime = Some(stat.mtime);
            state.overlay.ctime = state.overlay.ctime.max(Some(stat.ctime));
        }
        Ok(())
    }

    /// The last reference to an open handle is gone.
    pub fn release(&self, ino: InodeId, was_writer: bool) {
        self.release_handle(ino, was_writer, |state| {
            state.handles = state.handles.saturating_sub(1);
        });
    }

    /// Another host has closed a file that it had open here.
    pub(crate) fn release_remote(&self, ino: InodeId, was_writer: bool) {
        self.release_handle(ino, was_writer, |state| {
            state.remote_handles = state.remote_handles.saturating_sub(1);
        });
    }

    /// Nobody opens a replaced file any more by the name that it had.
    pub(crate) fn end_lingering(&self, ino: InodeId) {
        self.release_handle(ino, false, |state| state.is_lingering = false);
    }

    fn release_handle(&self, ino: InodeId, was_writer: bool, let_go: fn(&mut LiveState)) {
        let departed = self.live.with_existing(ino, |state| {
            let_go(state);
            state.writers = state.writers.saturating_sub(u32::from(was_writer));
            if state.writers == 0
                && let Some(Body::Local(local)) = &mut state.body
            {
                local.rw = None;
            }
            if state.handles == 0 {
                state.kernel = None;
                state.paged = None;
                self.old_pages.forget(ino);
                self.far_pages.closed(ino);
            }
            if state.is_open() {
                return None;
            }
            self.note_broken_promise(ino, state);
            if std::mem::take(&mut state.is_spared) {
                self.settler_queue.collect();
            }
            if state.is_quarantined {
                let forgotten = state.forget_body();
                self.discard_unnamed(ino, &forgotten);
                return None;
            }
            if state.is_orphan {
                return Some(state.forget_body());
            }
            self.last_release(ino, state);
            None
        });
        if let Some(Some(forgotten)) = departed {
            self.reap(ino, forgotten);
        }
    }

    fn last_release(&self, ino: InodeId, state: &mut LiveState) {
        if !state.is_withheld
            && let Err(e) = self.persist(ino, state)
        {
            tracing::error!(%ino, error = %e, "the last changes of a closed file could not be recorded");
        }
        if state.is_unsettled
            && let Err(e) = self.account(state)
        {
            tracing::warn!(%ino, error = %e, "the space of a closed file is not accounted");
        }
        if state.hints.cache() == Some(CacheHint::None)
            && let Some(local) = state.local()
        {
            local.ro.drop_cache();
        }
        if state.is_unsettled || state.holds_lease {
            self.enqueue_settle(ino, state);
        } else {
            let has_own = state.record.as_ref().is_some_and(|inode| self.own_copy(inode).is_some());
            let is_double = has_own && state.kept().is_some();
            self.drop_body(ino, state);
            state.sums = None;
            if is_double {
                self.remote_cache.forget(ino);
            }
        }
    }

    /// Removes an orphan for good; `blocks_512` is what was accounted for it, if that is known.
    pub(crate) fn reap(&self, ino: InodeId, forgotten: Forgotten) {
        match self.namespace.reap(ino) {
            Ok(inode) => self.dispose(&inode, forgotten),
            Err(Error::NotFound) => self.discard_unnamed(ino, &forgotten),
            Err(e) if self.is_shared() => {
                tracing::warn!(%ino, error = %e, "an unlinked file stays for now");
                self.discard_unnamed(ino, &forgotten);
                self.doubt_orphan(ino);
            }
            Err(e) => {
                tracing::error!(%ino, error = %e, "an unlinked file stays until the next start");
            }
        }
    }

    /// Clears set-id bits after somebody without privilege wrote.
    pub(crate) fn clear_set_id(&self, ino: InodeId) -> Result<()> {
        self.change_perm(ino, |inode| without_set_id(inode.perm))
    }

    /// As [`clear_set_id`](Self::clear_set_id), with all that is known of who wrote.
    pub(crate) fn clear_set_id_for(&self, caller: Caller, ino: InodeId) -> Result<()> {
        self.change_perm(ino, |inode| caller.set_id_cleared(inode))
    }

    /// Clears the set-group-id bit, whoever asks.
    ///
    /// # Errors
    /// The engine's own.
    pub fn clear_set_group_id(&self, ino: InodeId) -> Result<()> {
        self.change_perm(ino, |inode| inode.perm & !0o2000)
    }

    fn change_perm(&self, ino: InodeId, perm: impl Fn(&Inode) -> u16) -> Result<()> {
        self.namespace
            .update(ino, |inode| {
                inode.perm = perm(inode);
                Ok(())
            })
            .map(|_| ())
    }

    /// `fallocate(2)`: allocate, punch or zero a range.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or EOPNOTSUPP from the file system below.
    pub fn allocate(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        len_bytes: u64,
        mode: u32,
    ) -> Result<()> {
        const KEEP_SIZE: u32 = 1;
        const PUNCH_HOLE: u32 = 2;
        if let Some(striped) = self.striped(ino) {
            let end = offset_bytes.checked_add(len_bytes).ok_or(Error::FileTooLarge)?;
            return striped.allocate(mode, offset_bytes..end);
        }
        let elsewhere = self.live.with(ino, |state| {
            self.ensure_loaded(ino, state)?;
            self.unfold(ino, state)?;
            if let Some(remote) = state.remote() {
                return Ok(Some(Arc::clone(remote)));
            }
            self.mark_unsettled(ino, state)?;
            if mode & PUNCH_HOLE == 0 {
                self.require_room(state, len_bytes)?;
            }
            let file = self.writable(state)?;
            let old_size_bytes = state.size_bytes()?;
            file.allocate(mode, offset_bytes, len_bytes)?;
            let new_size_bytes = state.size_bytes()?;
            let end = (offset_bytes + len_bytes).min(new_size_bytes);
            if end > offset_bytes {
                let len = end - offset_bytes;
                Self::renew_sums(state, &file, offset_bytes, len, old_size_bytes)?;
            }
            if mode & KEEP_SIZE == 0 || mode & PUNCH_HOLE != 0 {
                note_write(state, new_size_bytes, false);
            }
            self.account(state)?;
            self.after_idle_write(ino, state)?;
            Ok::<_, Error>(None)
        })?;
        // With no lock held, as for writing.
        elsewhere.map_or(Ok(()), |remote| remote.allocate(mode, offset_bytes, len_bytes))
    }

    /// A file changed while nobody has it open: record it and let it settle.
    pub(crate) fn after_idle_write(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if state.is_open() {
            return Ok(());
        }
        if let Some(Body::Local(local)) = &mut state.body {
            local.rw = None;
        }
        if let Some(remote) = state.remote() {
            remote.flush()?;
        }
        self.persist(ino, state)?;
        if state.is_unsettled || state.holds_lease {
            self.enqueue_settle(ino, state);
        } else {
            state.body = None;
        }
        Ok(())
    }

    /// The next data or hole at or after an offset.
    ///
    /// # Errors
    /// [`Error::NoData`] past the end.
    pub fn seek(&self, ino: InodeId, offset_bytes: u64, hole: bool) -> Result<u64> {
        self.live.with(ino, |state| {
            self.ensure_loaded(ino, state)?;
            match &state.body {
                Some(Body::Local(local)) => local.ro.seek(offset_bytes, hole),
                Some(Body::Lower(lower)) => lower.file.seek(offset_bytes, hole),
                _ => {
                    let size = state.size_bytes()?;
                    match offset_bytes {
                        at if at >= size => Err(Error::NoData),
                        _ if hole => Ok(size),
                        at => Ok(at),
                    }
                }
            }
        })
    }

    /// Copies a range between two files without bringing it to user space, sharing blocks where the
    /// file system below can. May copy less than asked.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::NotSupported`] to make the kernel fall back to read and write.
    pub fn copy_range(
        &self,
        from: InodeId,
        from_offset_bytes: u64,
        to: InodeId,
        to_offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<usize> {
        let source = self.live.with(from, |state| {
            self.ensure_loaded(from, state)?;
            self.load_sums(from, state)?;
            let is_verified = state.sums.is_some();
            Ok::<_, Error>(state.local().filter(|_| !is_verified).map(|l| Arc::clone(&l.ro)))
        })?;
        let Some(source) = source else {
            return self.copy_through_memory(
                from,
                from_offset_bytes,
                to,
                to_offset_bytes,
                len_bytes,
            );
        };
        let copied = self.live.with(to, |state| {
            self.ensure_loaded(to, state)?;
            self.unfold(to, state)?;
            if state.local().is_none() {
                return Ok(None);
            }
            self.mark_unsettled(to, state)?;
            self.require_room(state, len_bytes)?;
            let target = self.writable(state)?;
            let old_size_bytes = state.size_bytes()?;
            let len = usize::try_from(len_bytes.min(1 << 30)).unwrap_or(usize::MAX);
            let n = source.copy_to(from_offset_bytes, &target, to_offset_bytes, len)?;
            Self::renew_sums(state, &target, to_offset_bytes, n as u64, old_size_bytes)?;
            note_write(state, to_offset_bytes + n as u64, false);
            self.after_idle_write(to, state)?;
            Ok::<_, Error>(Some(n))
        })?;
        match copied {
            Some(n) => Ok(n),
            // Its bytes are at another host.
            None => {
                self.copy_through_memory(from, from_offset_bytes, to, to_offset_bytes, len_bytes)
            }
        }
    }

    /// Copies at most 1 MiB of a small or verified file.
    fn copy_through_memory(
        &self,
        from: InodeId,
        from_offset_bytes: u64,
        to: InodeId,
        to_offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<usize> {
        let mut buffer = vec![0; usize::try_from(len_bytes.min(1 << 20)).unwrap_or(0)];
        let n = self.read(from, from_offset_bytes, &mut buffer)?;
        self.write(to, to_offset_bytes, &buffer[..n], false, false)?;
        Ok(n)
    }
}

/// The permission bits after somebody without privilege changed the content (see `inode(7)`).
pub(crate) const fn without_set_id(perm: u16) -> u16 {
    let perm = perm & !0o4000;
    // Set-group-id without group execution once meant mandatory locking; it stays.
    if perm & 0o010 != 0 { perm & !0o2000 } else { perm }
}

fn note_write(state: &mut LiveState, end_bytes: u64, is_write_back: bool) {
    state.overlay.size_bytes = state.overlay.size_bytes.max(end_bytes);
    state.overlay.is_dirty = true;
    if !is_write_back {
        let now = now();
        state.overlay.mtime = Some(now);
        state.overlay.ctime = Some(now);
    }
    state.mark_seen();
}

impl Node {
    /// Whether somebody may write to the file through the process now.
    #[must_use]
    pub fn is_written_through_us(&self, ino: InodeId) -> bool {
        self.live.with_existing(ino, |s| s.writers > 0 && s.mode == IoMode::Cached).unwrap_or(false)
    }

    /// Whether closing the file, or `fsync` if `is_sync`, waits until copies of it are made on other hosts, which may
    /// take as long as the network needs for its bytes.
    #[must_use]
    pub fn waits_for_copies(&self, ino: InodeId, is_sync: bool) -> bool {
        self.publishes_copies(ino, if is_sync { Moment::Sync } else { Moment::Close })
    }

    /// Whether a flush may wait for a device or for other hosts, so that it should not hold up an event loop.
    #[must_use]
    pub fn flush_may_block(&self, ino: InodeId) -> bool {
        self.options.durability == Durability::Sync
            || self.publishes_copies(ino, Moment::Close)
            || self.striped(ino).is_some()
    }
}
