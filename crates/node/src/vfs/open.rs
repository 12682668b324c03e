//! Opening regular files: the I/O mode of each, and what the kernel is told to keep.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use intarsia_meta::{Inode, Namespace};
use intarsia_policy::{IoMode, OpenRequest};
use intarsia_types::{Error, HintSet, InodeId, Result};

use crate::body::changing::KernelReach;
use crate::body::stripes::Wish;
use crate::body::{Bodies, Body, LocalBody};
use crate::cache::far_pages::{FarPages, Grant, Paged};
use crate::inode::attempt::Attempt;
use crate::inode::elsewhere::Elsewhere;
use crate::inode::followers::Followers;
use crate::inode::lease::{Content, Leases};
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::paging::{Outdated, Paging};
use crate::inode::rights::Rights;
use crate::members::Members;
use crate::membership::cluster::Cluster;
use crate::metrics::Metrics;
use crate::space::hints::own_hints;
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;
use crate::vfs::attributes::Attributes;
use crate::vfs::caller::Caller;
use crate::vfs::executed::Executed;
use crate::vfs::recollection::Recollections;
use crate::vfs::recording::Recording;
use crate::vfs::sync::Syncer;
use crate::vfs::write::Writer;

pub use crate::inode::live::KernelBacking;

/// Registers a backing file with the kernel for passthrough.
pub type Registrar<'a> = dyn Fn(BorrowedFd<'_>) -> std::io::Result<KernelBacking> + 'a;

/// What the kernel may do with its pages of a file that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Keep them from one open to the next, because all changes come through this kernel.
    Kept,
    /// Keep them as long as the home, another host, vouches for them. Reads for these pages have to be
    /// [`begin_page_read`](crate::Node::begin_page_read).
    Vouched,
    /// Use them while the file is open, and drop them before the next open.
    Renewed,
    /// Use none, because another host may change the file at any moment.
    Bypassed,
}

/// How the kernel serves a file that was opened; it has dropped what it had of the file that was outdated.
#[derive(Clone)]
pub struct Opened {
    /// The kernel's registration, for passthrough; else requests come to the process.
    pub passthrough: Option<KernelBacking>,
    /// Whether the kernel has to send us a flush at each close.
    pub wants_flush: bool,
    /// Its pages.
    pub pages: Pages,
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

/// Opens files.
pub(crate) struct Opener {
    pub(crate) members: Members,
    pub(crate) leases: Arc<Leases>,
    pub(crate) followers: Arc<Followers>,
    pub(crate) recollections: Arc<Recollections>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) attributes: Arc<Attributes>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) elsewhere: Arc<Elsewhere>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) placing: Arc<Placing>,
    pub(crate) recording: Arc<Recording>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) syncer: Arc<Syncer>,
    pub(crate) paging: Arc<Paging>,
    pub(crate) far_pages: Arc<FarPages>,
    pub(crate) executed: Executed,
}

impl Opener {
    /// Opens a regular file.
    ///
    /// # Errors
    /// As `open(2)`; [`Error::Io`] when the backing file is missing.
    pub(crate) fn open_file(
        &self,
        caller: Caller,
        ino: InodeId,
        write: bool,
        truncate: bool,
        registrar: &Registrar<'_>,
    ) -> Result<Opened> {
        let flags = OpenFlags { write: write || truncate, truncate };
        if flags.write {
            self.members.await_sure_membership()?;
        }
        if truncate && !write {
            self.executed.refuse(ino)?;
        }
        let content = if truncate { Content::Dropped } else { Content::Kept };
        let (opened, outdated) = self.leases.with_live(ino, |state| {
            if flags.write
                && let Some(retry) = self.followers.recall_followers(ino, state)
            {
                return Ok(Attempt::Again(retry));
            }
            state.looked_up =
                if flags.write { self.recollections.just_looked_up(ino) } else { None };
            // Read with the entry locked, so that nobody folds or writes the file from here on.
            let inode = match self.leases.prepare(ino, state, flags.write.then_some(content))? {
                Attempt::Done(inode) => self.bodies.lower.renewed(inode)?,
                Attempt::Again(retry) => return Ok(Attempt::Again(retry)),
            };
            state.drop_stale_lower(&inode);
            if state.body.is_none() || !state.is_open() {
                // Another host may have set hints since they were last read.
                state.hints = own_hints(&self.namespace, &inode)?;
            }
            if state.body.is_none() {
                match inode.nlink {
                    0 => state.names.lose(),
                    _ => state.names.regain(),
                }
                state.load_body(&self.bodies, &inode)?;
            }
            if flags.write
                && !truncate
                && let Some(retry) = self.leases.after_lower_copy(ino, state)?
            {
                return Ok(Attempt::Again(retry));
            }
            let inode =
                if truncate { self.followers.spare_followers(inode, state, 0)? } else { inode };
            let inode = if flags.write { self.moved_as_hinted(inode, state)? } else { inode };
            let was_dropped = state.body.as_ref().is_some_and(Body::is_dropped_when_cut);
            let opened = self.open_loaded(caller, &inode, state, flags, registrar);
            if opened.is_err() && was_dropped && state.own_backing().is_none() {
                // The open failed, so the file is not truncated after all.
                state.body = None;
            }
            if flags.write && opened.is_ok() {
                self.recollections.note_told(&inode, self.attributes.before_reading());
            }
            opened.map(Attempt::Done)
        })?;
        self.paging.drop_outdated(ino, &outdated);
        Ok(opened)
    }

    /// Moves an empty file that is about to be written to where its present hints wish it. Returns its record.
    fn moved_as_hinted(&self, inode: Inode, state: &mut LiveState) -> Result<Inode> {
        let Some(cluster) = &self.cluster else { return Ok(inode) };
        match self.elsewhere.let_go_as_wished(&inode, state)? {
            Some(emptied) => {
                Ok(self.leases.stripe_new(cluster, &emptied, state)?.unwrap_or(emptied))
            }
            None => Ok(inode),
        }
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
            let (body, hints) = fresh;
            // Another program here may have made the entry, by opening the file to read, without knowing of this right.
            if self.members.is_shared() && !state.right.is_taken_over() {
                state.right.acquire();
            }
            if body.is_some() {
                state.mark.set();
            }
            if state.body.is_none() {
                state.hints = hints;
                state.body = Some(body.map_or(Body::empty(), Body::local));
                state.record = Some(inode.clone());
                state.mark_seen();
            }
            let opened = self.open_loaded(caller, inode, state, flags, registrar);
            let opened = opened.inspect_err(|_| self.rights.leave_right(inode.ino, state));
            opened.map(|(opened, _)| opened)
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
            let inode = self.bodies.stripes.lay(cluster, inode, wish, &hints)?;
            state.write_stripes(&self.bodies.stripes, &inode)?;
            state.hints = hints;
            let opened = self.open_loaded(caller, &inode, state, flags, &|_| {
                Err(std::io::ErrorKind::Unsupported.into())
            });
            opened.map(|(opened, _)| opened)
        })
    }

    fn open_loaded(
        &self,
        caller: Caller,
        inode: &Inode,
        state: &mut LiveState,
        flags: OpenFlags,
        registrar: &Registrar<'_>,
    ) -> Result<(Opened, Outdated)> {
        if flags.write && self.members.is_shared() {
            self.elsewhere.let_go_for_room(inode, state, flags.truncate)?;
        }
        if flags.truncate {
            // The content is dropped, so it need not be copied to a backing file first.
            state.drop_lower();
        }
        if flags.write {
            state.copy_up(&self.bodies, inode.ino)?;
        }
        if state.handles == 0 {
            state.mode = self.choose_mode(caller, state, inode, flags);
        }
        if state.mode == IoMode::Passthrough {
            self.prepare_passthrough(inode.ino, state, flags, registrar)?;
        }
        if flags.write {
            state.mark_unsettled(&self.bodies, inode.ino)?;
        }
        state.handles += 1;
        state.writers += u32::from(flags.write);
        if flags.truncate
            && let Err(e) = self.writer.truncate_live(inode.ino, state, 0, caller)
        {
            state.handles -= 1;
            state.writers -= u32::from(flags.write);
            return Err(e);
        }
        let has_cleared_set_id =
            flags.truncate && !caller.keeps_set_id() && caller.set_id_cleared(inode) != inode.perm;
        let (opened, mut outdated) = self.opened(inode.ino, state, flags);
        outdated.attributes |= has_cleared_set_id;
        Ok((opened, outdated))
    }

    fn choose_mode(
        &self,
        caller: Caller,
        state: &LiveState,
        inode: &Inode,
        flags: OpenFlags,
    ) -> IoMode {
        let tier = match state.kernel_reach() {
            Some(KernelReach::Tier(tier)) => Some(tier),
            Some(KernelReach::Far) => None,
            _ if flags.write => self.elsewhere.tier_for_new(&state.hints, inode.ino.0),
            _ => None,
        };
        let tier = tier.and_then(|id| self.tiers.get(id).ok());
        let clears_set_id = flags.write && inode.perm & 0o6000 != 0 && !caller.keeps_set_id();
        let access = OpenRequest {
            tier: None,
            is_written: flags.write,
            is_encoded: !inode.encoding.is_plain(),
            clears_set_id,
        };
        self.placing
            .plan_opened(&state.hints, tier, access, self.recording.does_passthrough())
            .io_mode
    }

    fn prepare_passthrough(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        flags: OpenFlags,
        registrar: &Registrar<'_>,
    ) -> Result<()> {
        if flags.write {
            state.unfold_here(&self.bodies, ino)?;
        }
        if state.kernel.is_some() {
            return Ok(());
        }
        let Some(file) = state.kernels_file() else { return Ok(()) };
        match registrar(file.as_fd()) {
            Ok(kernel) => state.kernel = Some(kernel),
            Err(e) => {
                tracing::warn!(%ino, error = %e, "no passthrough for this file; served through the process");
                state.mode = IoMode::Cached;
            }
        }
        Ok(())
    }

    fn opened(&self, ino: InodeId, state: &mut LiveState, flags: OpenFlags) -> (Opened, Outdated) {
        let is_passthrough = state.mode == IoMode::Passthrough;
        let counter = if is_passthrough {
            &self.metrics.opens_passthrough
        } else {
            &self.metrics.opens_cached
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let syncs_at_close = flags.write && self.syncer.syncs_at_close(state);
        let is_far = !flags.write
            && !is_passthrough
            && self.members.is_shared()
            && state.may_change_elsewhere();
        let grant = if is_far { self.paging.grant(ino, state) } else { Grant::Refused };
        let pages = match grant {
            Grant::Refused if is_far => Pages::Bypassed,
            Grant::Refused if self.keeps_pages(ino) => Pages::Kept,
            Grant::Refused => Pages::Renewed,
            _ => Pages::Vouched,
        };
        if pages == Pages::Vouched && state.paged.is_none() {
            state.paged = Some(Paged::new(state.size_bytes().ok()));
        }
        let opened = Opened {
            passthrough: state.kernel.clone().filter(|_| is_passthrough),
            // With several hosts each close publishes, so that other hosts see it at their next open.
            wants_flush: (flags.write && (!is_passthrough || self.members.is_shared()))
                || syncs_at_close,
            pages,
        };
        let outdated = Outdated {
            pages: is_passthrough && flags.write,
            begins: grant.begins(),
            attributes: pages == Pages::Bypassed && self.far_pages.has_doubtful_length(ino),
        };
        (opened, outdated)
    }

    /// Whether all changes of a file come through this kernel, as far as is known.
    fn keeps_pages(&self, ino: InodeId) -> bool {
        // Asked in a store of several hosts, too, so that what is noted there is forgotten.
        let is_outdated = self.bodies.lower.take_outdated(ino);
        !self.members.is_shared() && !is_outdated
    }
}
