//! This host has the right to write a file, and the bytes come here, if they are elsewhere and do not stay there.

use std::sync::Arc;

use intarsia_meta::Inode;
use intarsia_types::{BackingRef, Error, HintSet, NodeId, Result};

use crate::inode::attempt::{Attempt, Retry};
use crate::inode::handed::Handed;
use crate::inode::lease::{Content, HOME_PATIENCE, Leases, require_here};
use crate::inode::live::LiveState;
use crate::inode::moving::Source;
use crate::membership::cluster::{Cluster, Recalled};
use crate::space::hints::own_hints;

/// A file that this host has the right to write, and whose home is another host.
struct FarFile<'a> {
    cluster: &'a Arc<Cluster>,
    inode: &'a Inode,
    content: Content,
    home: NodeId,
    /// The home's backing file.
    backing: BackingRef,
    hints: HintSet,
    /// What the home sent along with the right, if that passed it on.
    handed: Option<&'a Handed>,
}

impl Leases {
    /// This host holds the lease: brings the bytes here, if they are elsewhere.
    pub(super) fn settle_in(
        &self,
        cluster: &Arc<Cluster>,
        inode: &Inode,
        state: &mut LiveState,
        content: Content,
        handed: Option<&Handed>,
    ) -> Result<Attempt<Inode>> {
        let foreign = inode.layout.backing().filter(|backing| !self.tiers.has(backing.tier));
        let Some(backing) = foreign else {
            return self.settle_in_here(cluster, inode, state, content);
        };
        let home = cluster.home_of(backing.tier)?;
        if state.is_passed() {
            // The copy that the kernel reads by passthrough may not be the file's any more.
            self.following.renew_body(state, inode)?;
        }
        let hints = own_hints(&self.namespace, inode)?;
        let handed = handed.filter(|handed| handed.from == home);
        let far = FarFile { cluster, inode, content, home, backing, hints, handed };
        self.settle_in_from(far, state)
    }

    /// As [`settle_in`](Self::settle_in), for a file whose bytes are beside the inode or in a tier here.
    fn settle_in_here(
        &self,
        cluster: &Arc<Cluster>,
        inode: &Inode,
        state: &mut LiveState,
        content: Content,
    ) -> Result<Attempt<Inode>> {
        self.following.renew_body(state, inode)?;
        if state.passed_copy().is_some() {
            // The kernel reads a backing file here by passthrough, so that same file has to be the one that is written.
            state.hints = own_hints(&self.namespace, inode)?;
            let moved = self.moving.bring_home(cluster, Source::Here, inode, state, content);
            return moved.map(Attempt::Done);
        }
        require_here(state, inode)?;
        Ok(Attempt::Done(inode.clone()))
    }

    /// As [`settle_in`](Self::settle_in), for a file whose home is another host, which is asked whether programs there have it
    /// open.
    fn settle_in_from(&self, far: FarFile<'_>, state: &mut LiveState) -> Result<Attempt<Inode>> {
        let FarFile { cluster, inode, ref home, .. } = far;
        let recalled = match far.handed {
            // Nobody had the file open at its home when that passed the right on.
            Some(_) => Ok(Recalled::Released),
            None => cluster.recall(home, inode.ino, None, HOME_PATIENCE),
        };
        let unasked = match recalled {
            Ok(Recalled::Later(pause)) => return Ok(Attempt::Again(Retry::contended(pause))),
            // Programs there have the file open, so it is written there, where they read it.
            Ok(Recalled::InUse) => return self.leave_at_home(far, state),
            Ok(Recalled::Released) => None,
            Err(error) => Some(error),
        };
        let own = self.copies.own(inode).filter(|_| state.passed_copy().is_none());
        if let Some(own) = own {
            // If the old home could not be asked, it may hold more than it published: its copy is given up.
            let given_up = unasked.is_some().then_some(far.backing);
            return self.moving.become_home(inode, own, given_up, state).map(Attempt::Done);
        }
        match (far.content, unasked) {
            (Content::Dropped, _) => self.begin_anew(far, state),
            (Content::Kept, None) => self.bring_or_leave(far, state),
            (Content::Kept, Some(error)) => self.bring_from_others(far, state, error),
        }
    }

    /// The file stays at its home, and is written through it.
    fn leave_at_home(&self, far: FarFile<'_>, state: &mut LiveState) -> Result<Attempt<Inode>> {
        let FarFile { cluster, inode, home, .. } = far;
        self.rights.give_lease_back(inode.ino, state);
        self.write_through(cluster, home, inode.ino, state)
    }

    /// From here on the file counts as new, and is placed like one, unless it comes here.
    fn begin_anew(&self, far: FarFile<'_>, state: &mut LiveState) -> Result<Attempt<Inode>> {
        if self.placing.comes_here(&far.hints, &far.home, 0) {
            return self.bring_home(far, None, state);
        }
        state.hints = far.hints;
        self.elsewhere.drop_content(far.inode, state)?;
        self.regular(far.inode.ino).map(Attempt::Done)
    }

    /// Brings the file here from its home, unless it stays there.
    fn bring_or_leave(&self, far: FarFile<'_>, state: &mut LiveState) -> Result<Attempt<Inode>> {
        if self.placing.comes_here(&far.hints, &far.home, far.inode.size_bytes) {
            self.bring_home(far, None, state)
        } else {
            self.leave_at_home(far, state)
        }
    }

    /// Brings the file here from other hosts that have copies, since its home could not be asked because of `error`.
    fn bring_from_others(
        &self,
        far: FarFile<'_>,
        state: &mut LiveState,
        error: Error,
    ) -> Result<Attempt<Inode>> {
        match self.copies.hosts_of(far.inode)?.split_first() {
            Some((_, others @ [_, ..])) => self.bring_home(far, Some(others), state),
            _ => Err(error),
        }
    }

    /// Makes this host the home of a file, with what its home has, or those `others`; once its content was fetched, if that takes
    /// long.
    fn bring_home(
        &self,
        far: FarFile<'_>,
        others: Option<&[NodeId]>,
        state: &mut LiveState,
    ) -> Result<Attempt<Inode>> {
        let FarFile { cluster, inode, content, home, hints, handed, .. } = far;
        state.hints = hints;
        let source = match (others, handed.and_then(Handed::content)) {
            (Some(others), _) => Source::Hosts(others),
            (None, Some(sent)) => Source::Sent(sent),
            (None, None) => Source::Hosts(std::slice::from_ref(&home)),
        };
        if let (Content::Kept, Source::Hosts(hosts)) = (content, source)
            && let Some(wanted) = self.moving.wanted_ahead(cluster, inode, hosts, state)?
        {
            return Ok(Attempt::Again(Retry::Fetched(wanted)));
        }
        self.moving.bring_home(cluster, source, inode, state, content).map(Attempt::Done)
    }
}
