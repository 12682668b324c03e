//! Inodes that are open, or that somebody may still be writing to.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use intarsia_meta::Inode;
use intarsia_policy::IoMode;
use intarsia_sync::{Instant, Mutex, MutexGuard};
use intarsia_types::{BackingRef, Error, HintSet, InodeId, Result, Timestamp};

use crate::body::Body;
use crate::body::sums::Sums;
use crate::cache::far_pages::Paged;
use crate::cache::vouch::{Follower, Round};
use crate::inode::ahead::Ahead;
use crate::inode::backing_state::BackingState;
use crate::inode::early_fold::EarlyFold;
use crate::inode::entry::Entry;
use crate::inode::mark::Mark;
use crate::inode::names_left::NamesLeft;
use crate::inode::naming::Naming;
use crate::inode::publishing::Publishing;
use crate::inode::write_right::WriteRight;
use crate::ranks::{LIVE_INODE, LIVE_SHARD};
use crate::replication::replicate::Copied;
use crate::space::ledger::is_uncertain;

const SHARDS: usize = 32;
/// How long a call waits for another call that has the entry locked. An `fsync` on a slow disk may take that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the mount got from the kernel for a backing file; dropping it unregisters the file.
pub type KernelBacking = Arc<dyn Any + Send + Sync>;

/// Length and times that the record does not have yet. Only for files served through the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overlay {
    pub(crate) size_bytes: u64,
    pub(crate) mtime: Option<Timestamp>,
    pub(crate) ctime: Option<Timestamp>,
    pub(crate) is_dirty: bool,
    /// The process has written to the file since the latest publication with copies began, be that over or under way.
    pub(crate) is_newer: bool,
}

impl Overlay {
    /// The content has changed, which the record does not have yet.
    pub(crate) const fn note_written(&mut self) {
        self.is_dirty = true;
        self.is_newer = true;
    }
}

/// The changing part of a live inode.
pub(crate) struct LiveState {
    /// Open handles.
    pub(crate) handles: u32,
    /// Open handles that may write, other hosts' included.
    pub(crate) writers: u32,
    /// Handles that other hosts have open here.
    pub(crate) remote_handles: u32,
    /// Hosts that keep what they read of it (see [`crate::cache::vouch`]).
    pub(crate) followers: Vec<Follower>,
    /// The followers are being told, or have just been told, that the file is about to change.
    pub(crate) recall: Option<Arc<Round>>,
    /// What is known of the kernel's pages of the file: none unless a program here, which may have the file open still,
    /// opened it to read it through them while its bytes were at another host.
    pub(crate) paged: Option<Paged>,
    /// Whether this host may write to the file. A store of one host does not look at this.
    pub(crate) right: WriteRight,
    /// How the kernel serves it; fixed from the first open to the last release.
    pub(crate) mode: IoMode,
    /// Where the bytes are; `None` until somebody needs them.
    pub(crate) body: Option<Body>,
    /// The kernel's registration of the backing file, one for all handles.
    pub(crate) kernel: Option<KernelBacking>,
    pub(crate) overlay: Overlay,
    /// The record as it was when it was last read for this entry.
    pub(crate) record: Option<Inode>,
    /// The record that the program that is opening the file has looked up: a guess at which host may write.
    pub(crate) looked_up: Option<Inode>,
    /// What the call that has the entry locked has fetched of the content, in order to write it.
    pub(crate) ahead: Ahead,
    /// When the entry was last compared with the record, which other hosts may have changed.
    pub(crate) followed_at: Option<Instant>,
    /// The hints in force when the file was opened.
    pub(crate) hints: HintSet,
    /// Whether the namespace says that somebody may be writing to the file.
    pub(crate) mark: Mark,
    /// Whether the inode has a name left.
    pub(crate) names: NamesLeft,
    /// Sums that reads are checked against.
    pub(crate) sums: Sums,
    /// The backing file's change time after our own last touch; a later one means that the kernel wrote.
    pub(crate) seen_ctime: Timestamp,
    /// The modification time in the record when the backing file was taken up that a crash had left unsettled.
    pub(crate) found_mtime: Option<Timestamp>,
    /// What the copies on other hosts hold, since this host made them.
    pub(crate) copied: Option<Copied>,
    /// Whether a record names the backing file.
    pub(crate) naming: Naming,
    /// The content that a commit was to put beside the inode, if the answer to that commit has not come, or was lost:
    /// the record may have it or not.
    pub(crate) attempted: Option<EarlyFold>,
    /// Whether other hosts see an older content, because copies of what was written here could not be made.
    pub(crate) publishing: Publishing,
    /// What is known of the owner of the backing file.
    pub(crate) backing: BackingState,
    /// Blocks that the tier's accounting knows of.
    pub(crate) accounted_512: u64,
    /// Where this entry is.
    pub(crate) entry: Entry,
}

impl LiveState {
    fn new() -> Self {
        Self {
            handles: 0,
            writers: 0,
            remote_handles: 0,
            followers: Vec::new(),
            recall: None,
            paged: None,
            right: WriteRight::None,
            mode: IoMode::Cached,
            body: None,
            kernel: None,
            overlay: Overlay::default(),
            record: None,
            looked_up: None,
            ahead: Ahead::default(),
            followed_at: None,
            hints: HintSet::default(),
            mark: Mark::default(),
            names: NamesLeft::default(),
            sums: Sums::default(),
            seen_ctime: Timestamp::default(),
            found_mtime: None,
            copied: None,
            naming: Naming::default(),
            attempted: None,
            publishing: Publishing::default(),
            backing: BackingState::default(),
            accounted_512: 0,
            entry: Entry::default(),
        }
    }

    /// Whether this host may write, or could until others took the file over (see [`WriteRight::is_writers`]).
    pub(crate) const fn holds_lease(&self) -> bool {
        self.right.is_writers()
    }

    /// Notes the outcome of a change of the record: without an answer, nobody knows what the record says.
    pub(crate) fn note_change<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if outcome.as_ref().is_err_and(is_uncertain) {
            self.doubt_own();
        }
        outcome
    }

    /// This host has changed attributes: `inode` is the record after that. If nobody else changed it in between, the entry
    /// keeps it, so that the next change need not read it.
    pub(crate) fn note_own_change(&mut self, inode: &Inode) {
        let follows = |known: &Inode| known.version.wrapping_add(1) == inode.version;
        if self.record.as_ref().is_some_and(follows) {
            self.record = Some(inode.clone());
        }
    }

    /// Whether the published content is kept apart from the file that is written to here: in copies, or beside the inode.
    /// Then it outlives this host until other content is published.
    pub(crate) fn has_published_elsewhere(&self) -> bool {
        let has_copies = |record: &Inode| record.layout.copies().len() > 1;
        self.unnamed().is_some()
            || (self.holds_lease() && self.record.as_ref().is_some_and(has_copies))
    }

    /// Lets go of the bytes of an inode that is being removed.
    pub(crate) fn forget_body(&mut self) -> Forgotten {
        let forgotten = Forgotten {
            accounted_512: self.own_backing().map(|_| self.accounted_512),
            size_bytes: self.body.as_ref().and_then(|_| self.size_bytes().ok()),
            unnamed: self.unnamed(),
            doubtful: self.doubtful(),
        };
        self.body = None;
        self.sums.unload();
        self.mark.clear();
        self.right.forget();
        self.overlay.is_dirty = false;
        self.copied = None;
        self.naming.forget();
        self.attempted = None;
        self.publishing.publish();
        self.backing.resolve();
        self.accounted_512 = 0;
        forgotten
    }

    /// Whether nothing is known here that the record does not say.
    pub(crate) const fn is_idle(&self) -> bool {
        !self.is_open()
            && !self.mark.is_unsettled()
            && !self.holds_lease()
            && !self.overlay.is_dirty
    }

    /// Whether it is certain that the record says all that is known here, so that the right to write can be given back now.
    pub(crate) const fn is_recorded(&self) -> bool {
        !self.mark.is_unsettled() && !self.overlay.is_dirty && !self.backing.is_doubtful()
    }

    /// Whether it is open here and the process serves its reads, except those that the kernel answers from its pages.
    pub(crate) fn is_served_by_us(&self) -> bool {
        self.handles > 0 && self.mode == IoMode::Cached
    }

    /// Whether the kernel reads a backing file past the process; it cannot be given another one while the file is open.
    pub(crate) fn is_passed(&self) -> bool {
        self.handles > 0 && self.mode == IoMode::Passthrough
    }

    /// Whether anybody has it open, here or on another host, or may be just about to.
    pub(crate) const fn is_open(&self) -> bool {
        self.handles > 0 || self.remote_handles > 0 || self.names.is_lingering()
    }
}

/// What the entry knew of the bytes of an inode that is being removed; the record may not say it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forgotten {
    /// The blocks accounted for its backing file.
    pub(crate) accounted_512: Option<u64>,
    /// Its last length.
    pub(crate) size_bytes: Option<u64>,
    /// A backing file that no record names.
    pub(crate) unnamed: Option<BackingRef>,
    /// A backing file of which nobody knows whether the record names it.
    pub(crate) doubtful: Option<BackingRef>,
}

/// A live inode.
pub(crate) struct Live {
    pub(crate) ino: InodeId,
    state: Mutex<LiveState>,
}

impl Live {
    pub(crate) fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, LiveState>> {
        self.state.try_lock()
    }

    pub(crate) fn try_lock_until(&self, deadline: Instant) -> Option<MutexGuard<'_, LiveState>> {
        self.state.try_lock_until(deadline)
    }
}

/// The table of live inodes.
///
/// Lock order: an entry's state, then its shard. Nobody takes a state while holding a shard.
pub(crate) struct LiveTable {
    shards: Vec<Mutex<HashMap<InodeId, Arc<Live>>>>,
    drops: AtomicU64,
}

impl LiveTable {
    pub(crate) fn new() -> Self {
        let shard = |_| Mutex::ranked(LIVE_SHARD, HashMap::new());
        let shards = (0..SHARDS).map(shard).collect();
        Self { shards, drops: AtomicU64::new(0) }
    }

    fn shard(&self, ino: InodeId) -> &Mutex<HashMap<InodeId, Arc<Live>>> {
        // Sequence numbers are dealt in turn, so the low bits spread evenly.
        let index = usize::try_from(ino.0 % SHARDS as u64).unwrap_or(0);
        &self.shards[index]
    }

    /// The entry, if the inode is live.
    pub(crate) fn get(&self, ino: InodeId) -> Option<Arc<Live>> {
        self.shard(ino).lock().get(&ino).cloned()
    }

    /// Whether the inode is live.
    pub(crate) fn contains(&self, ino: InodeId) -> bool {
        self.shard(ino).lock().contains_key(&ino)
    }

    fn get_or_insert(&self, ino: InodeId) -> Arc<Live> {
        let fresh = || Arc::new(Live { ino, state: Mutex::ranked(LIVE_INODE, LiveState::new()) });
        Arc::clone(self.shard(ino).lock().entry(ino).or_insert_with(fresh))
    }

    /// Runs `f` on the locked entry, made if need be; an entry left idle is dropped afterwards.
    pub(crate) fn with<T>(&self, ino: InodeId, f: impl FnOnce(&mut LiveState) -> T) -> T {
        loop {
            let live = self.get_or_insert(ino);
            let mut state = live.lock();
            if state.entry.is_gone() {
                continue;
            }
            let result = f(&mut state);
            self.drop_if_idle(ino, &mut state);
            return result;
        }
    }

    /// Runs `f` on the locked entry if there is one.
    pub(crate) fn with_existing<T>(
        &self,
        ino: InodeId,
        f: impl FnOnce(&mut LiveState) -> T,
    ) -> Option<T> {
        let live = self.get(ino)?;
        let mut state = live.lock();
        if state.entry.is_gone() {
            return None;
        }
        let result = f(&mut state);
        self.drop_if_idle(ino, &mut state);
        Some(result)
    }

    /// As [`with`](Self::with), but gives up when somebody else has had the entry for so long.
    pub(crate) fn try_with<T>(
        &self,
        ino: InodeId,
        patience: Duration,
        f: impl FnOnce(&mut LiveState) -> T,
    ) -> Option<T> {
        let deadline = Instant::now() + patience;
        loop {
            let live = self.get_or_insert(ino);
            let mut state = live.state.try_lock_until(deadline)?;
            if state.entry.is_gone() {
                continue;
            }
            let result = f(&mut state);
            self.drop_if_idle(ino, &mut state);
            return Some(result);
        }
    }

    /// As [`with`](Self::with), for what may fail: it waits a minute at most for another call that has the entry.
    ///
    /// # Errors
    /// ETIMEDOUT; what `f` gives.
    pub(crate) fn reach<T>(
        &self,
        ino: InodeId,
        f: impl FnOnce(&mut LiveState) -> Result<T>,
    ) -> Result<T> {
        self.reach_for(ino, PATIENCE, f)
    }

    /// As [`reach`](Self::reach), for whoever waits no longer than this.
    pub(crate) fn reach_for<T>(
        &self,
        ino: InodeId,
        patience: Duration,
        f: impl FnOnce(&mut LiveState) -> Result<T>,
    ) -> Result<T> {
        const ETIMEDOUT: i32 = 110;
        let in_use = || {
            let what = format!("file {ino}, in use by another call for {} s", patience.as_secs());
            Err(Error::io(what, std::io::Error::from_raw_os_error(ETIMEDOUT)))
        };
        self.try_with(ino, patience, f).unwrap_or_else(in_use)
    }

    /// Drops a locked entry that was left idle.
    pub(crate) fn drop_if_idle(&self, ino: InodeId, state: &mut LiveState) {
        if state.is_idle() {
            state.entry.remove();
            self.drops.fetch_add(1, Ordering::AcqRel);
            self.shard(ino).lock().remove(&ino);
        }
    }

    /// How many entries have been dropped so far. While this stays the same, an inode that is not live now
    /// was not live before either, so its record had all that is known of it.
    pub(crate) fn drops(&self) -> u64 {
        self.drops.load(Ordering::Acquire)
    }

    /// Number of live inodes.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    /// The entries of all live inodes now.
    pub(crate) fn entries(&self) -> Vec<Arc<Live>> {
        self.shards.iter().flat_map(|s| s.lock().values().cloned().collect::<Vec<_>>()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on is to stop")]

    use super::*;

    #[test]
    fn who_waits_for_an_entry_in_vain_hears_it_and_leaves_nothing() {
        let table = LiveTable::new();
        let ino = InodeId(7);
        let soon = Duration::from_millis(10);
        let refused = table.with(ino, |state| {
            state.handles = 1;
            std::thread::scope(|scope| {
                scope.spawn(|| table.reach_for(ino, soon, |_| Ok(()))).join().unwrap()
            })
        });
        assert_eq!(refused.unwrap_err().errno(), 110);
        let handles = table.reach_for(ino, soon, |state| Ok(std::mem::take(&mut state.handles)));
        assert_eq!(handles.unwrap(), 1);
        assert_eq!(table.len(), 0, "an idle entry goes");
    }
}
