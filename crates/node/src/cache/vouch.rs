//! Vouching for the content of a file, so that other hosts keep what they read of it: the home's side. The readers' is
//! [`crate::cache::far_pages`].
//!
//! A reader that opens a file here is given a *stamp*, if nobody can write to the file now, mappings included. The stamp
//! stays the same while the content does, whatever becomes of the record, so a reader that comes again with the same
//! stamp has true pages still. Whoever wants to write takes the stamp back first, for ever, and those who have the file
//! open, its *followers*, are told to drop what they keep before the writer is granted. A file that is cut while it has
//! followers moves to a new backing file first: their handles go on with the old one, whole, until they look at the record.
//!
//! What if …
//! - *an opening comes while stamps are being taken back*: it gets none, for a moment after the recall too, longer each
//!   time, so that a file that many hosts read while it is rewritten is soon read past the kernel's pages by all.
//! - *a recall is lost, or a follower does not answer*: the writer waits [`PATIENCE`] and goes on, and the follower is
//!   told again until it answers, is lost, or [`REMINDED`] is over. Until then programs there that had the file open can
//!   see old pages; whoever opens it, or has no page of it yet, sees the present, because each opening asks the record, and
//!   its home for the stamp, which is another one now.
//! - *the reader's host dies or is cut off*: as before; its session ends, and with it its following.
//! - *this host dies*: stamps are of one life of it. A reader finds its handle gone, counts the stamp as taken back, and
//!   reads on at another copy or here after the return.
//! - *the file moves to another home*: by a writer there, which recalls the bytes from here, or after this host was given
//!   up. A stamp names its home and is of one backing file, so none of the old ones is taken for one of the new home's.
//!
//! Nothing is waited for with the file's entry locked: a follower answers only when its kernel's reads have been answered,
//! and these may need the entry.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use intarsia_meta::Inode;
use intarsia_store::{BackingFile, is_unwritten};
use intarsia_sync::thread::ScopedJoinHandle;
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{BackingRef, Error, InodeId, Integrity, NodeId, Result};
use intarsia_wire::{RecallKind, Request, Response};

use crate::inode::lease::{Content, Retry, Source};
use crate::inode::live::LiveState;
use crate::membership::cluster::Cluster;
use crate::membership::cluster::unexpected;
use crate::node::Node;
use crate::space::hints::own_hints;

/// How long a writer waits for followers.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often, and how long, a follower that did not answer is told again.
const AGAIN: Duration = Duration::from_millis(500);
const REMINDED: Duration = Duration::from_secs(30);
/// A writer that waits looks so often whether it may go on.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a file is not vouched for after a recall; doubles each time.
const REST_MIN: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_secs(10);
/// A file that was left alone for so many rests has calmed down.
const CALM: u32 = 8;
/// A file that is cut is copied for its followers up to this length.
const COPIED_MAX: u64 = 64 << 20;
/// Most files that are remembered. Forgetting one costs its readers the pages that they have.
const FILES_MAX: usize = 1 << 16;

/// What one file is vouched for with.
#[derive(Clone, Copy, Debug)]
struct Vouch {
    /// The file that the stamp is of.
    stamp: Option<(BackingRef, u64)>,
    rests_until: Option<Instant>,
    rest: Duration,
}

/// What this host vouches for.
pub(crate) struct Vouches {
    files: Mutex<HashMap<InodeId, Vouch>>,
    next: AtomicU64,
}

impl Vouches {
    /// Stamps go on from the time, so that one of an earlier life of this host is none of this one's.
    pub(crate) fn new() -> Self {
        let since_1970 = intarsia_sync::system_now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let next = u64::try_from(since_1970.as_nanos()).unwrap_or(1).max(1);
        Self { files: Mutex::default(), next: AtomicU64::new(next) }
    }

    /// The stamp of a file's content; 0 for none. To be asked with the entry locked, and nobody writing.
    fn stamp(&self, ino: InodeId, backing: BackingRef) -> u64 {
        let now = Instant::now();
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX && !files.contains_key(&ino) {
            files.clear();
        }
        let fresh = Vouch { stamp: None, rests_until: None, rest: REST_MIN };
        let vouch = files.entry(ino).or_insert(fresh);
        if vouch.rests_until.is_some_and(|until| now < until) {
            return 0;
        }
        match vouch.stamp {
            Some((of, stamp)) if of == backing => stamp,
            _ => {
                let stamp = self.next.fetch_add(1, Ordering::Relaxed);
                vouch.stamp = Some((backing, stamp));
                stamp
            }
        }
    }

    /// Whether the content is still that of a stamp.
    pub(crate) fn is_current(&self, ino: InodeId, stamp: u64) -> bool {
        let files = self.files.lock();
        let current = files.get(&ino).and_then(|vouch| vouch.stamp);
        current.is_some_and(|(_, current)| current == stamp)
    }

    /// The content may change from now on. `is_followed` if others had to be told.
    fn withdraw(&self, ino: InodeId, is_followed: bool) {
        let now = Instant::now();
        let mut files = self.files.lock();
        let Some(vouch) = files.get_mut(&ino) else { return };
        vouch.stamp = None;
        if is_followed {
            let is_calm = vouch.rests_until.is_none_or(|until| now > until + vouch.rest * CALM);
            vouch.rest = if is_calm { REST_MIN } else { (vouch.rest * 2).min(REST_MAX) };
            vouch.rests_until = Some(now + vouch.rest);
        }
    }
}

/// A host that has a file open here and may keep what it reads; once for each handle.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    node: NodeId,
    /// Under which it keeps it; 0 for none.
    stamp: u64,
    /// It knows that the stamp is no more.
    is_told: bool,
}

/// Followers being told; whether all have answered, or nobody waits for them any more.
#[derive(Default)]
pub(crate) struct Round(AtomicBool);

impl Node {
    /// Takes note of another host that has opened a file here to read, and vouches for what it reads if that can be done.
    /// The stamp, or 0, and the file that it reads, also when the inode gets another one.
    pub(crate) fn follow_up(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        reader: &NodeId,
    ) -> (u64, Option<Arc<BackingFile>>) {
        let Some(local) = state.local() else { return (0, None) };
        if state.hints.integrity() == Integrity::Strict {
            // All that is read of it is verified, by its present sums.
            return (0, None);
        }
        let pinned = Arc::clone(&local.ro);
        let stamp = if self.can_vouch(state) { self.vouches.stamp(ino, local.backing) } else { 0 };
        state.followers.push(Follower { node: reader.clone(), stamp, is_told: stamp == 0 });
        (stamp, Some(pinned))
    }

    /// Whether nobody can change the file before this host allows it.
    fn can_vouch(&self, state: &LiveState) -> bool {
        let Some(local) = state.local() else { return false };
        let is_home = |record: &Inode| record.layout.backing() == Some(local.backing);
        let may_be_written = state.is_unsettled || state.holds_lease() || state.is_foreign;
        state.record.as_ref().is_some_and(is_home)
            && state.writers == 0
            && state.recall.as_ref().is_none_or(|round| round.0.load(Ordering::Acquire))
            && (!may_be_written || is_unwritten(local.ro.file()).unwrap_or(false))
    }

    /// A follower has closed a handle that it had under `stamp`.
    pub(crate) fn end_following(&self, ino: InodeId, node: &NodeId, stamp: u64) {
        self.live.with_existing(ino, |state| {
            let is_it = |follower: &Follower| follower.stamp == stamp && follower.node == *node;
            if let Some(at) = state.followers.iter().position(is_it) {
                state.followers.swap_remove(at);
            }
        });
    }

    /// To be asked before somebody may write to the file: no follower keeps what it has read of it when this is `None`.
    /// Else the entry is to be let go of, and it is to be asked again.
    pub(crate) fn recall_followers(&self, ino: InodeId, state: &mut LiveState) -> Option<Retry> {
        let cluster = self.cluster.as_ref()?;
        let again = || Some(Retry::after(PAUSE, "other hosts are being told of a writer"));
        if let Some(round) = &state.recall {
            if !round.0.load(Ordering::Acquire) {
                return again();
            }
            state.recall = None;
        }
        let is_needed = state.followers.iter().any(|follower| !follower.is_told);
        self.vouches.withdraw(ino, is_needed);
        if !is_needed {
            return None;
        }
        let mut told: Vec<(NodeId, u64)> = Vec::new();
        for follower in state.followers.iter_mut().filter(|follower| !follower.is_told) {
            follower.is_told = true;
            match told.iter_mut().find(|(node, _)| *node == follower.node) {
                Some((_, stamp)) => *stamp = follower.stamp.max(*stamp),
                None => told.push((follower.node.clone(), follower.stamp)),
            }
        }
        let round = Arc::new(Round::default());
        state.recall = Some(Arc::clone(&round));
        let cluster = Arc::clone(cluster);
        let tell = move || tell_all(&cluster, ino, told, &round);
        match intarsia_sync::thread::Builder::new().name("followers".into()).spawn(tell) {
            Ok(_) => again(),
            Err(error) => {
                tracing::warn!(%ino, %error, "readers on other hosts were not told of a writer");
                state.recall = None;
                None
            }
        }
    }
}

impl Node {
    /// Before a file is cut: has the bytes in a backing file that is new, so that followers go on with the old one, which they
    /// have open, and find none of it missing. The kernels there fill up what is missing with zeros, and not all readers
    /// would see the file end before. Where the kernel reads the file past this process, or much of it would have to be
    /// copied, it stays where it is.
    pub(crate) fn spare_followers(
        &self,
        inode: Inode,
        state: &mut LiveState,
        size_bytes: u64,
    ) -> Result<Inode> {
        let Some(cluster) = self.cluster.as_ref().filter(|_| !state.followers.is_empty()) else {
            return Ok(inode);
        };
        let is_named =
            state.local().is_some_and(|local| inode.layout.backing() == Some(local.backing));
        if !is_named
            || !state.holds_lease()
            || state.is_passed()
            || state.size_bytes()? <= size_bytes
        {
            return Ok(inode);
        }
        // Copies on other hosts hold what is published, until something else is.
        let is_dropped = size_bytes == 0 && inode.layout.copies().len() == 1;
        let content = if is_dropped { Content::Dropped } else { Content::Kept };
        if content == Content::Kept && state.size_bytes()? > COPIED_MAX {
            return Ok(inode);
        }
        let hints = own_hints(&self.namespace, &inode);
        let moved = hints.and_then(|hints| {
            state.hints = hints;
            self.bring_home(cluster, Source::Here, &inode, state, content)
        });
        moved.or_else(|error| {
            tracing::warn!(ino = %inode.ino, %error, "readers on other hosts may see zeros where a file is cut");
            Ok(inode)
        })
    }

    /// Whether a file has left the backing file that it was in when another host opened it.
    pub(crate) fn has_left(&self, ino: InodeId, pinned: &Arc<BackingFile>) -> bool {
        let is_there = |state: &mut LiveState| {
            state.local().is_some_and(|local| Arc::ptr_eq(&local.ro, pinned))
        };
        !self.live.with_existing(ino, is_there).unwrap_or(false)
    }
}

/// Tells each of `hosts`, all at once.
fn tell_all(cluster: &Cluster, ino: InodeId, mut hosts: Vec<(NodeId, u64)>, round: &Round) {
    let deadline = Instant::now() + REMINDED;
    loop {
        hosts = match hosts.as_slice() {
            [one] => tell(cluster, ino, one).is_err().then(|| one.clone()).into_iter().collect(),
            all => intarsia_sync::thread::scope(|scope| {
                let asked: Vec<_> = all
                    .iter()
                    .map(|one| (one, scope.spawn(move || tell(cluster, ino, one))))
                    .collect();
                let is_told =
                    |asked: ScopedJoinHandle<'_, Result<()>>| matches!(asked.join(), Ok(Ok(())));
                asked
                    .into_iter()
                    .filter_map(|(one, asked)| (!is_told(asked)).then(|| one.clone()))
                    .collect()
            }),
        };
        round.0.store(true, Ordering::Release);
        hosts.retain(|(host, _)| !cluster.is_lost(host));
        if hosts.is_empty() || Instant::now() > deadline {
            break;
        }
        tracing::warn!(%ino, ?hosts, "readers on these hosts may see old pages of a file that is written here");
        intarsia_sync::thread::sleep(AGAIN);
    }
}

fn tell(cluster: &Cluster, ino: InodeId, (host, stamp): &(NodeId, u64)) -> Result<()> {
    let request = Request::Recall { ino, kind: RecallKind::Read, epoch: *stamp };
    match cluster.call_within(host, &request, PATIENCE)? {
        Response::Released => Ok(()),
        other => Err(unexpected(host, &other)),
    }
}

/// What a host that has opened a file here is to know of it.
pub(crate) struct PeerOpening {
    pub(crate) size_bytes: u64,
    /// Under which it may keep what it reads, or 0.
    pub(crate) stamp: u64,
    /// What it reads under that.
    pub(crate) pinned: Option<Arc<BackingFile>>,
}

/// What a host that wants to write is told while followers are.
pub(crate) fn being_told() -> Error {
    Error::Busy("readers of the file are being told".into())
}

#[cfg(test)]
mod tests {
    use intarsia_types::{BackingFileId, TierId};

    use super::*;

    #[test]
    fn a_stamp_is_of_one_content_and_rewriting_under_readers_makes_for_rests() {
        let vouches = Vouches::new();
        let (ino, other) = (InodeId(7), InodeId(8));
        let backing = |file| BackingRef { tier: TierId(1), file: BackingFileId(file) };
        let first = vouches.stamp(ino, backing(1));
        assert!(first != 0);
        assert_eq!(vouches.stamp(ino, backing(1)), first);
        assert_ne!(vouches.stamp(other, backing(2)), first);
        assert_ne!(vouches.stamp(ino, backing(3)), first, "it is another file now");
        let third = vouches.stamp(ino, backing(3));
        vouches.withdraw(ino, false);
        let fourth = vouches.stamp(ino, backing(3));
        assert!(fourth > third);
        vouches.withdraw(ino, true);
        assert_eq!(vouches.stamp(ino, backing(3)), 0, "it rests");
        intarsia_sync::thread::sleep(REST_MIN);
        assert!(vouches.stamp(ino, backing(3)) > fourth);
        assert!(Vouches::new().stamp(ino, backing(3)) > fourth, "another life");
    }
}
