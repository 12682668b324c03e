//! A host that the others have given up: what it does when it finds out.
//!
//! Until it knows, nothing that it records can do harm: each change of content is conditional on a lease that
//! carries the host's epoch, and whoever takes the lease over puts another owner there. When it knows, it
//! lets nobody in, claims its leases for a new epoch, and is a member again. Files that others took over
//! meanwhile are *quarantined*: what was written to them here since does not count, their handles give EIO,
//! and nothing of them is published ever again.

use std::time::Duration;

use intarsia_meta::{Extra, Inode, MemberTier, Owner, WriteLease, allowance};
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, InodeId, Result};

use crate::body::Body;
use crate::inode::live::LiveState;
use crate::membership::cluster::Cluster;
use crate::membership::{Pulse, Seen};
use crate::node::Node;

/// How long a call waits for the host to be a member again.
const PATIENCE: Duration = Duration::from_secs(5);
const LEAST_PATIENCE: Duration = Duration::from_millis(300);
const EIO: i32 = 5;

/// Where the host stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// It is a member.
    #[default]
    Member,
    /// It was given up, and is about to come back as this.
    Lost(Owner),
    /// Another process has its name.
    Replaced,
}

/// Keeps out what must not be done while the host is no member.
#[derive(Default)]
pub(crate) struct Fence {
    standing: Mutex<Standing>,
    changed: Condvar,
    /// Since when calls have waited for the next beat to arrive.
    waited_since: Mutex<Option<Instant>>,
}

impl Fence {
    pub(crate) fn is_up(&self) -> bool {
        *self.standing.lock() != Standing::Member
    }

    fn enter(&self, standing: Standing) {
        *self.standing.lock() = standing;
        self.changed.notify_all();
    }

    /// A beat has arrived.
    fn note_beat(&self) {
        let _standing = self.standing.lock();
        *self.waited_since.lock() = None;
        self.changed.notify_all();
    }

    /// Until when a call waits. The first waits as long as it may, those that come after it for the rest of that time:
    /// many may stand in line behind each other.
    fn deadline(&self, patience: Duration) -> Instant {
        let now = Instant::now();
        let since = *self.waited_since.lock().get_or_insert(now);
        let last = (since + patience).max(now + LEAST_PATIENCE);
        last.min(now + allowance::of(patience))
    }

    /// Returns once the host is a member, and is sure of it; waits for that, for a bounded time.
    fn pass(&self, is_sure: impl Fn() -> bool, patience: Duration) -> Result<()> {
        let mut standing = self.standing.lock();
        let is_in_doubt = |standing: &Standing| match standing {
            Standing::Member => !is_sure(),
            Standing::Lost(_) => true,
            Standing::Replaced => false,
        };
        let mut deadline = None;
        while is_in_doubt(&standing) {
            let deadline = *deadline.get_or_insert_with(|| self.deadline(patience));
            if self.changed.wait_until(&mut standing, deadline).timed_out() {
                break;
            }
        }
        match *standing {
            Standing::Member if is_sure() => Ok(()),
            Standing::Member => Err(refusal("the other hosts may have given this one up")),
            Standing::Lost(_) => Err(refusal("this host was declared lost and is not back yet")),
            Standing::Replaced => Err(refusal(
                "another process has started under this host's name; take this one down",
            )),
        }
    }
}

fn refusal(why: &str) -> Error {
    Error::io(why, std::io::Error::from_raw_os_error(EIO))
}

impl Node {
    /// One beat: tells the others that this host lives, looks whether they do, and comes back when they had
    /// given it up.
    pub(crate) fn pulse(&self) {
        let Some(cluster) = &self.cluster else { return };
        let outcome = self.beat(cluster).and_then(|()| cluster.look());
        match outcome {
            Ok(Seen::Loss) => {
                // Copies that were there are to be made anew.
                self.copy_queue.survey_in(Duration::ZERO);
                self.copy_queue.hurry();
            }
            // What could not be done for want of a host may be possible now.
            Ok(Seen::Arrival) => self.copy_queue.hurry(),
            Ok(Seen::Calm) | Err(_) => {}
        }
        cluster.note_pulse(outcome.map(|_| ()));
    }

    fn beat(&self, cluster: &Cluster) -> Result<()> {
        if cluster.fence.is_up() {
            return self.come_back(cluster);
        }
        match cluster.beat(&self.tier_reports())? {
            Pulse::Alive => {
                cluster.fence.note_beat();
                Ok(())
            }
            Pulse::Lost => self.come_back(cluster),
            Pulse::Replaced => {
                self.stand_down(cluster);
                Ok(())
            }
        }
    }

    /// What the others are told about the tiers here.
    pub(crate) fn tier_reports(&self) -> Vec<MemberTier> {
        let report = |tier: &intarsia_store::Tier| {
            let space = tier.space();
            let free_bytes = space.free_bytes + self.remote_cache.bytes_in(tier.id());
            MemberTier {
                id: tier.id(),
                class: tier.class(),
                capacity_bytes: space.capacity_bytes,
                free_bytes: free_bytes.min(space.capacity_bytes),
                is_low: tier.is_low(),
            }
        };
        self.tiers.iter().map(report).collect()
    }

    fn stand_down(&self, cluster: &Cluster) {
        if *cluster.fence.standing.lock() != Standing::Replaced {
            tracing::error!(
                host = %self.options.name,
                "another process has started under this host's name; this one does nothing any more"
            );
            cluster.fence.enter(Standing::Replaced);
        }
    }

    /// Becomes a member again, in a new life, with the leases that nobody has taken over. After a failure the
    /// next beat goes on with it.
    fn come_back(&self, cluster: &Cluster) -> Result<()> {
        let standing = cluster.fence.standing.lock().clone();
        let next = match standing {
            Standing::Lost(next) => next,
            Standing::Replaced => return Ok(()),
            Standing::Member => match cluster.next_epoch()? {
                Ok(epoch) => Owner::new(self.options.name.0.clone(), epoch),
                Err(_) => {
                    self.stand_down(cluster);
                    return Ok(());
                }
            },
        };
        tracing::error!(host = %self.options.name, "the other hosts have given this one up; coming back");
        cluster.fence.enter(Standing::Lost(next.clone()));
        self.namespace.break_promises();
        let before = self.namespace.owner();
        let mut contested = Vec::new();
        for live in self.live.entries() {
            let claimed = self.live.with_existing(live.ino, |state| {
                if !state.holds_lease {
                    return Ok(true);
                }
                self.namespace.hand_over_write(live.ino, &before, &next)
            });
            if !claimed.transpose()?.unwrap_or(true) {
                contested.push(live.ino);
            }
        }
        self.namespace.set_owner(next.clone());
        self.lose_directories();
        for ino in contested {
            self.live.with_existing(ino, |state| self.reconcile(ino, state)).transpose()?;
        }
        if cluster.revive(next.epoch)? {
            tracing::warn!(host = %self.options.name, "this host is a member again");
            cluster.fence.enter(Standing::Member);
        }
        Ok(())
    }

    /// The lease of a live file could not be claimed as it was. It still counts if nobody has changed what
    /// the file is.
    fn reconcile(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        let me = self.namespace.owner();
        match self.acquire_write(ino) {
            Ok(WriteLease::Held(inode)) if is_as_left(&inode, state) => Ok(()),
            Ok(WriteLease::Held(_)) => {
                let extras = [Extra::HoldWritable, Extra::ClearWritable];
                self.namespace.update_with(ino, &extras, |_| Ok(()))?;
                quarantine(self, ino, state);
                Ok(())
            }
            // Of this process, before it came back.
            Ok(WriteLease::HeldBy(before))
                if (&before.node, before.epoch < me.epoch) == (&me.node, true)
                    && self.namespace.hand_over_write(ino, &before, &me)? =>
            {
                self.reconcile(ino, state)
            }
            Ok(WriteLease::HeldBy(_) | WriteLease::Unneeded(_)) => {
                quarantine(self, ino, state);
                Ok(())
            }
            Err(Error::NotFound) => {
                // Removed by another host: whoever has it open here keeps what there is.
                if state.is_open() {
                    state.is_orphan = true;
                    state.holds_lease = false;
                    state.overlay.is_dirty = false;
                } else {
                    self.note_broken_promise(ino, state);
                    let forgotten = state.forget_body();
                    self.discard_unnamed(ino, &forgotten);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Gets back the lease on a file that this host held and does not any more: that went with a change that had no
    /// answer. `false`, and the file is given up, if another host has it, or had it meanwhile; `false` too if nothing
    /// was amiss.
    pub(crate) fn reconcile_if_taken(&self, ino: InodeId) -> Result<bool> {
        let taken = |state: &mut LiveState| {
            let is_mine = |holder: Owner| holder == self.namespace.owner();
            if !state.holds_lease {
                return Ok(false);
            }
            if self.namespace.writer(ino)?.is_some_and(is_mine) {
                // With the right to write goes what is not published, also when it has come back since.
                let named = state.local().filter(|_| state.unnamed().is_none());
                let Some(backing) = named.map(|local| local.backing) else { return Ok(false) };
                if self.namespace.get(ino)?.layout.copies().contains(&backing) {
                    return Ok(false);
                }
            }
            self.reconcile(ino, state)?;
            Ok(state.holds_lease && !state.is_quarantined)
        };
        self.live.with_existing(ino, taken).unwrap_or(Ok(false))
    }

    /// Finds out whether this host still holds the lease on a file that is about to be written, after a change that
    /// had no answer: it may have given the lease back, and put the content beside the inode. No such change is made
    /// any more afterwards.
    pub(crate) fn confirm_lease(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if !state.holds_lease || !state.is_doubtful || state.writers > 0 {
            return Ok(());
        }
        if let WriteLease::Held(_) = self.acquire_write(ino)? {
            // The record is another one now, on which no earlier change is conditional.
            let inode = self.namespace.update_with(ino, &[Extra::HoldWritable], |_| Ok(()))?;
            if is_as_left(&inode, state) {
                state.record = Some(inode);
                state.is_doubtful = false;
                return Ok(());
            }
        }
        if state.is_open() {
            return self.reconcile(ino, state);
        }
        let forgotten = state.forget_body();
        self.discard_unnamed(ino, &forgotten);
        Ok(())
    }

    /// Waits, for a bounded time, until this host is a member of its store as far as it knows.
    pub(crate) fn await_membership(&self) -> Result<()> {
        self.cluster.as_ref().map_or(Ok(()), |cluster| cluster.fence.pass(|| true, PATIENCE))
    }

    /// Waits, for a bounded time, until no other host can have given this one up: what is acknowledged from
    /// then on, others can read at once.
    pub(crate) fn await_sure_membership(&self) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        cluster.fence.pass(|| cluster.is_current(), PATIENCE)
    }

    /// As [`await_sure_membership`](Self::await_sure_membership), where a change of the file's content is to be
    /// acknowledged.
    pub(crate) fn await_membership_to_publish(&self, ino: InodeId) -> Result<()> {
        let is_writer = |state: &mut LiveState| {
            state.holds_lease || state.writes_remotely() || state.writes_stripes()
        };
        match self.live.with_existing(ino, is_writer) {
            Some(true) => self.await_sure_membership(),
            _ => self.await_membership(),
        }
    }

    /// Whether this host has been given up by the others.
    pub(crate) fn is_fenced(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.fence.is_up())
    }
}

/// Whether the record says of the content what this host last knew.
fn is_as_left(inode: &Inode, state: &LiveState) -> bool {
    match &state.body {
        Some(Body::Local(local)) if state.unnamed().is_none() => {
            inode.layout.backing() == Some(local.backing)
        }
        Some(Body::Local(_) | Body::Inline(_)) => state.record.as_ref().is_some_and(|known| {
            (&known.layout, known.size_bytes, known.mtime)
                == (&inode.layout, inode.size_bytes, inode.mtime)
        }),
        Some(Body::Remote(_) | Body::Kept(_) | Body::Striped(_) | Body::Lower(_)) => false,
        None => !state.overlay.is_dirty,
    }
}

/// Keeps what was written here to a file that is another host's now from ever being published.
fn quarantine(node: &Node, ino: InodeId, state: &mut LiveState) {
    tracing::error!(
        %ino,
        "another host has taken over the file; what was written to it here since its last close is not kept, and its open handles give EIO"
    );
    let is_open = state.is_open();
    if !is_open {
        let forgotten = state.forget_body();
        node.discard_unnamed(ino, &forgotten);
    }
    state.is_quarantined = is_open;
    state.overlay.is_dirty = false;
}

impl LiveState {
    /// Refuses what is asked of a file that another host has taken over.
    pub(crate) fn require_ours(&self) -> Result<()> {
        if self.is_quarantined {
            return Err(refusal(
                "another host has taken over the file while this one was lost; close it and open it again",
            ));
        }
        Ok(())
    }
}

impl Node {
    /// Holds this host's beats, as if it slept, or lets them go on; for tests of such.
    pub fn hold_beats(&self, is_held: bool) {
        if let Some(cluster) = &self.cluster {
            cluster.hold_beats(is_held);
        }
    }
}
