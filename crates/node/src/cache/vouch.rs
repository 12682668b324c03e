//! Vouching for the content of a file, so that other hosts keep what they read of it: the home's side. The readers' is
//! [`crate::cache::far_pages`].
//!
//! A reader that opens a file here is given a *stamp*, if nobody can write to the file now, mappings included. The stamp
//! stays the same as long as the content does, whatever else changes in the record: a reader that comes again and gets the
//! same stamp still has valid pages. Before a writer may write, the stamp is taken back for good, and the hosts that have the
//! file open, its *followers*, drop what they keep. A file that is cut while it has followers moves to a new backing file
//! first: their handles go on with the old one, complete, until they look at the record.
//!
//! What if …
//! - *an open arrives while stamps are being taken back*: it gets none, nor for a while after the recall, longer each time.
//!   So a file that many hosts read while it is rewritten is soon read past the kernel's pages by all of them.
//! - *a recall is lost, or a follower does not answer*: the writer waits [`PATIENCE`] and goes on, and the follower is asked
//!   again until it answers, is given up, or [`REMINDED`] is over. Until then programs there that had the file open can see
//!   outdated pages; a new open, or a read of a page that is not cached, sees the present, because each open asks the record,
//!   and the home for the stamp, which has changed.
//! - *the reader's host dies or is cut off*: the same; its session ends, and it is no follower any more.
//! - *this host dies*: stamps are of one life of it. A reader finds its handle gone, counts the stamp as taken back, and
//!   reads on at a replica, or here after the restart.
//! - *the file moves to another home*: because of a writer there, which recalls the bytes, or after this host was given up. A
//!   stamp names its home and one backing file, so no old stamp is taken for one of the new home.
//!
//! Nothing is waited for with the file's entry locked: a follower answers only when its kernel's reads have been answered,
//! and these may need the entry.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use intarsia_store::BackingFile;
use intarsia_sync::thread::ScopedJoinHandle;
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{BackingRef, Error, InodeId, NodeId, Result};
use intarsia_wire::{RecallKind, Request, Response};

use crate::membership::cluster::Cluster;
use crate::membership::cluster::unexpected;

/// How long a writer waits for followers.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often, and how long, a follower that did not answer is asked again to drop what it keeps.
const AGAIN: Duration = Duration::from_millis(500);
const REMINDED: Duration = Duration::from_secs(30);
/// How long a file is not vouched for after a recall; doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// If a file was not written for this many times its last pause, it begins again with the shortest pause.
const CALM: u32 = 8;
/// Most files that are remembered. Forgetting one costs its readers the pages that they have.
const FILES_MAX: usize = 1 << 16;

/// What is known of one file for which this host vouches, or did.
#[derive(Clone, Copy, Debug)]
struct Vouch {
    /// The present stamp, and the backing file with the content; `None` after a recall.
    stamp: Option<(BackingRef, u64)>,
    /// No stamp is given before this moment.
    pauses_until: Option<Instant>,
    /// How long the last pause after a recall was.
    pause: Duration,
}

/// The files for which this host vouches.
pub(crate) struct Vouches {
    files: Mutex<HashMap<InodeId, Vouch>>,
    /// The next new stamp.
    next: AtomicU64,
}

impl Vouches {
    /// The first stamp is taken from the clock, so that no stamp of an earlier life of this host is one of this life.
    pub(crate) fn new() -> Self {
        let since_1970 = intarsia_sync::system_now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let next = u64::try_from(since_1970.as_nanos()).unwrap_or(1).max(1);
        Self { files: Mutex::default(), next: AtomicU64::new(next) }
    }

    /// The stamp of a file's content; 0 while a pause after a recall lasts. To be called with the entry locked, while nobody can
    /// write to the file.
    pub(crate) fn stamp(&self, ino: InodeId, backing: BackingRef) -> u64 {
        let now = Instant::now();
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX && !files.contains_key(&ino) {
            files.clear();
        }
        let fresh = Vouch { stamp: None, pauses_until: None, pause: PAUSE_MIN };
        let vouch = files.entry(ino).or_insert(fresh);
        if vouch.pauses_until.is_some_and(|until| now < until) {
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

    /// Whether this host still vouches for the content under `stamp`.
    pub(crate) fn is_current(&self, ino: InodeId, stamp: u64) -> bool {
        let files = self.files.lock();
        let current = files.get(&ino).and_then(|vouch| vouch.stamp);
        current.is_some_and(|(_, current)| current == stamp)
    }

    /// Takes the stamp back: the content may change from now on. `is_followed` tells that followers have to be told; then no new
    /// stamp is given for a while.
    fn withdraw(&self, ino: InodeId, is_followed: bool) {
        let now = Instant::now();
        let mut files = self.files.lock();
        let Some(vouch) = files.get_mut(&ino) else { return };
        vouch.stamp = None;
        if is_followed {
            let is_calm = vouch.pauses_until.is_none_or(|until| now > until + vouch.pause * CALM);
            vouch.pause = if is_calm { PAUSE_MIN } else { (vouch.pause * 2).min(PAUSE_MAX) };
            vouch.pauses_until = Some(now + vouch.pause);
        }
    }
}

/// A host that has a file open here and may keep what it reads; once for each handle.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    node: NodeId,
    /// The stamp under which it keeps what it reads; 0 if it keeps nothing.
    stamp: u64,
    /// It need not be told any more: a message that the stamp is taken back was sent or is about to be, or it has no stamp.
    is_told: bool,
}

/// One round of messages to the followers of a file. True once each has answered, or could not be waited for any longer
/// ([`PATIENCE`]).
#[derive(Default)]
pub(crate) struct Round(AtomicBool);

impl Follower {
    /// A host that keeps what it reads under `stamp`, or nothing if that is 0.
    pub(crate) const fn new(node: NodeId, stamp: u64) -> Self {
        Self { node, stamp, is_told: stamp == 0 }
    }

    /// Whether this is the host `node`, with this stamp.
    pub(crate) fn is_of(&self, node: &NodeId, stamp: u64) -> bool {
        self.stamp == stamp && self.node == *node
    }
}

impl Round {
    /// Whether a writer need not wait for this round any longer.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Whether a writer may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recalling {
    /// No follower keeps what it has read.
    Over,
    /// They are being asked to drop it: the caller has to unlock the file's entry, and ask again.
    UnderWay,
}

impl Vouches {
    /// Called before somebody writes to a file: takes its stamp back, and has a thread tell its followers. The file's entry keeps
    /// the round of messages in `recall`.
    pub(crate) fn recall(
        &self,
        cluster: &Arc<Cluster>,
        ino: InodeId,
        followers: &mut [Follower],
        recall: &mut Option<Arc<Round>>,
    ) -> Recalling {
        if let Some(round) = recall {
            if !round.is_over() {
                return Recalling::UnderWay;
            }
            *recall = None;
        }
        let is_needed = followers.iter().any(|follower| !follower.is_told);
        self.withdraw(ino, is_needed);
        if !is_needed {
            return Recalling::Over;
        }
        let mut told: Vec<(NodeId, u64)> = Vec::new();
        for follower in followers.iter_mut().filter(|follower| !follower.is_told) {
            follower.is_told = true;
            match told.iter_mut().find(|(node, _)| *node == follower.node) {
                Some((_, stamp)) => *stamp = follower.stamp.max(*stamp),
                None => told.push((follower.node.clone(), follower.stamp)),
            }
        }
        let round = Arc::new(Round::default());
        *recall = Some(Arc::clone(&round));
        let cluster = Arc::clone(cluster);
        let tell = move || tell_all(&cluster, ino, told, &round);
        match intarsia_sync::thread::Builder::new().name("followers".into()).spawn(tell) {
            Ok(_) => Recalling::UnderWay,
            Err(error) => {
                tracing::warn!(%ino, %error, "readers on other hosts were not told of a writer");
                *recall = None;
                Recalling::Over
            }
        }
    }
}

/// Tells all `hosts` at the same time that the stamp given with each is taken back. The round is over after the first attempt;
/// hosts that did not answer are told again in the background (see [`REMINDED`]).
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

/// A file that another host has opened here.
pub(crate) struct PeerOpening {
    pub(crate) size_bytes: u64,
    /// The stamp under which that host may keep what it reads, or 0.
    pub(crate) stamp: u64,
    /// The backing file that it reads, also after a cut has moved the inode to another one; none if its reads go by the inode.
    pub(crate) pinned: Option<Arc<BackingFile>>,
}

/// The answer to a host that wants to write while followers are being asked to drop what they keep.
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
        assert_eq!(vouches.stamp(ino, backing(3)), 0, "it pauses");
        intarsia_sync::thread::sleep(PAUSE_MIN);
        assert!(vouches.stamp(ino, backing(3)) > fourth);
        assert!(Vouches::new().stamp(ino, backing(3)) > fourth, "another life");
    }
}
