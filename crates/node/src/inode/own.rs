//! The own file of a live inode: the backing file here that is written, published and settled (see [`crate::body::own`]).

use std::sync::Arc;

use intarsia_store::{BackingFile, BackingStat};
use intarsia_types::{BackingRef, Error, Result, TierId};

use crate::body::own::OwnFile;
use crate::body::{Body, LocalBody};
use crate::inode::live::LiveState;
use crate::space::tiers::Tiers;

impl LiveState {
    /// See [`Body::own_backing`].
    pub(crate) fn own_backing(&self) -> Option<BackingRef> {
        self.body.as_ref().and_then(Body::own_backing)
    }

    /// See [`Body::own_tier`].
    pub(crate) fn own_tier(&self) -> Option<TierId> {
        self.body.as_ref().and_then(Body::own_tier)
    }

    /// See [`Body::own_file`].
    pub(crate) fn own_file(&self) -> Option<Arc<BackingFile>> {
        self.body.as_ref().and_then(Body::own_file).map(Arc::clone)
    }

    /// See [`Body::own_stat`].
    pub(crate) fn own_stat(&self) -> Result<Option<BackingStat>> {
        self.body.as_ref().map_or(Ok(None), Body::own_stat)
    }

    /// See [`Body::own_now`].
    pub(crate) fn own_now(&self) -> Result<Option<OwnFile>> {
        self.body.as_ref().map_or(Ok(None), Body::own_now)
    }

    /// See [`Body::own_content`].
    pub(crate) fn own_content(&self, most_bytes: usize) -> Result<Option<Vec<u8>>> {
        self.body.as_ref().map_or(Ok(None), |body| body.own_content(most_bytes))
    }

    /// See [`Body::is_unwritten`].
    pub(crate) fn is_unwritten(&self) -> Result<bool> {
        self.body.as_ref().map_or(Ok(true), Body::is_unwritten)
    }

    /// See [`Body::may_be_held_by_others`].
    pub(crate) fn may_be_held_by_others(&self) -> bool {
        self.body.as_ref().is_some_and(Body::may_be_held_by_others)
    }

    /// The own file, if nobody knows whether the record names it.
    pub(crate) fn doubtful(&self) -> Option<BackingRef> {
        self.own_backing().filter(|_| self.backing.is_doubtful())
    }

    /// The own file, if no record names it.
    pub(crate) fn unnamed(&self) -> Option<BackingRef> {
        self.own_backing().filter(|_| self.naming.published().is_some())
    }

    /// From now on nobody knows whether the record names the own file, if there is one.
    pub(crate) fn doubt_own(&mut self) {
        if self.own_backing().is_some() {
            self.backing.doubt();
        }
    }

    /// The descriptor that the process writes through.
    pub(crate) fn writer(&mut self, tiers: &Tiers) -> Result<Arc<BackingFile>> {
        self.body.as_mut().ok_or(Error::BadHandle)?.writer(tiers)
    }

    /// Closes what the process writes through.
    pub(crate) fn close_writer(&mut self) {
        if let Some(body) = &mut self.body {
            body.close_writer();
        }
    }

    /// Notes that the own file's present change time is our own doing.
    pub(crate) fn mark_seen(&mut self) {
        if let Ok(Some(stat)) = self.own_stat() {
            self.seen_ctime = stat.ctime;
            self.found_mtime = None;
        }
    }

    /// Brings the tier's accounting up to date with the own file.
    pub(crate) fn account(&mut self, tiers: &Tiers) -> Result<()> {
        if let Some(body) = &self.body {
            self.accounted_512 = body.account(tiers, self.accounted_512)?;
        }
        Ok(())
    }

    /// Lets go of the body, and returns its own file.
    pub(crate) fn take_own(&mut self) -> Option<LocalBody> {
        self.body.take().and_then(Body::into_own)
    }

    /// As [`take_own`](Self::take_own), for a file that goes back to its tier, which has it in its accounting no more.
    pub(crate) fn release_own(&mut self, tiers: &Tiers) -> Result<Option<LocalBody>> {
        let Some(own) = self.take_own() else { return Ok(None) };
        tiers.get(own.backing.tier)?.account(self.accounted_512, 0);
        self.accounted_512 = 0;
        Ok(Some(own))
    }
}
