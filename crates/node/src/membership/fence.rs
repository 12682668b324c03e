//! What a host does that the others have given up.
//!
//! Before it learns of that, it cannot do harm: each change of content is conditional on a lease that carries the host's epoch,
//! and a host that takes the lease over records itself as its owner. When it learns of it, it keeps calls waiting, claims its
//! leases for a new epoch, and becomes a member again. Files that others have *taken over* meanwhile stay lost to it: what was
//! written to them here since does not count, their handles give EIO, and nothing of them is published.

use std::time::Duration;

use intarsia_meta::{MemberTier, Owner, allowance};
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, Result};

use crate::membership::cluster::Cluster;
use crate::membership::{Pulse, Seen};

/// What a member needs of the rooms above: what it tells the others, and what happens here when it learns something.
pub(crate) trait MemberEvents {
    /// The tiers of this host, as the others are told of them.
    fn tier_reports(&self) -> Vec<MemberTier>;

    /// Called after each look at the other members, with what it found.
    fn has_looked(&self, seen: Seen);

    /// Called when the others have given this host up, before it comes back as `next`: claims for that life the leases that nobody
    /// has taken over, and gives up the others. Called again at each heartbeat until the host is back.
    ///
    /// # Errors
    /// Any; the host is not back then.
    fn claim_for(&self, next: &Owner) -> Result<()>;
}

/// How long a call waits for the host to be a member again.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a call waits at least, if others before it have used that time up.
const LEAST_PATIENCE: Duration = Duration::from_millis(300);
const EIO: i32 = 5;

/// What this host is for the others, as far as it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// It is a member.
    #[default]
    Member,
    /// It was given up, and is about to come back in this life.
    Lost(Owner),
    /// Another process has started under its name.
    Replaced,
}

/// Makes calls wait, or refuses them, while the host is no member.
#[derive(Default)]
pub(crate) struct Fence {
    standing: Mutex<Standing>,
    changed: Condvar,
    /// Since when calls have been waiting; none if none has waited since the last heartbeat that was recorded.
    waited_since: Mutex<Option<Instant>>,
}

impl Fence {
    pub(crate) fn is_up(&self) -> bool {
        *self.standing.lock() != Standing::Member
    }

    fn enter(&self, standing: Standing) {
        let mut present = self.standing.lock();
        if standing == Standing::Member {
            *self.waited_since.lock() = None;
        }
        *present = standing;
        self.changed.notify_all();
    }

    /// A heartbeat was recorded.
    fn note_beat(&self) {
        let _standing = self.standing.lock();
        *self.waited_since.lock() = None;
        self.changed.notify_all();
    }

    /// Until when a call waits. The first call waits for the full `patience`, those that come later for the rest of that time:
    /// otherwise calls that wait one after the other, each for its own time, would add up.
    fn deadline(&self, patience: Duration) -> Instant {
        let now = Instant::now();
        let since = *self.waited_since.lock().get_or_insert(now);
        let last = (since + patience).max(now + LEAST_PATIENCE);
        last.min(now + allowance::of(patience))
    }

    /// Returns once the host is a member and `is_sure` of it; waits for that at most for `patience`.
    ///
    /// # Errors
    /// EIO if it is not by then, and at once if another process has started under its name.
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

/// EIO with a reason.
pub(crate) fn refusal(why: &str) -> Error {
    Error::io(why, std::io::Error::from_raw_os_error(EIO))
}

impl Cluster {
    /// One heartbeat: tells the others that this host lives, and looks whether they do. If they have given this host up, it comes
    /// back.
    pub(crate) fn pulse(&self, events: &dyn MemberEvents) {
        let outcome = self.beat_or_return(events).and_then(|()| self.look());
        if let Ok(seen) = outcome {
            events.has_looked(seen);
        }
        self.note_pulse(outcome.map(|_| ()));
    }

    fn beat_or_return(&self, events: &dyn MemberEvents) -> Result<()> {
        if self.fence.is_up() {
            return self.come_back(events);
        }
        match self.beat(&events.tier_reports())? {
            Pulse::Alive => {
                self.fence.note_beat();
                Ok(())
            }
            Pulse::Lost => self.come_back(events),
            Pulse::Replaced => {
                self.stand_down();
                Ok(())
            }
        }
    }

    /// Another process has started under this host's name: from now on this one refuses all calls.
    fn stand_down(&self) {
        if *self.fence.standing.lock() != Standing::Replaced {
            tracing::error!(
                host = %self.me(),
                "another process has started under this host's name; this one does nothing any more"
            );
            self.fence.enter(Standing::Replaced);
        }
    }

    /// Becomes a member again, in a new life, with the leases that nobody has taken over. After a failure the next heartbeat tries
    /// again.
    fn come_back(&self, events: &dyn MemberEvents) -> Result<()> {
        let standing = self.fence.standing.lock().clone();
        let next = match standing {
            Standing::Lost(next) => next,
            Standing::Replaced => return Ok(()),
            Standing::Member => match self.next_life()? {
                Some(next) => next,
                None => return Ok(()),
            },
        };
        tracing::error!(host = %self.me(), "the other hosts have given this one up; coming back");
        self.fence.enter(Standing::Lost(next.clone()));
        events.claim_for(&next)?;
        match self.revive(next.epoch)? {
            Pulse::Alive => {
                tracing::warn!(host = %self.me(), "this host is a member again");
                self.fence.enter(Standing::Member);
            }
            // It was back without learning of it, and was given up once more: the next heartbeat begins another life.
            Pulse::Lost => {
                if let Some(another) = self.next_life()? {
                    self.fence.enter(Standing::Lost(another));
                }
            }
            Pulse::Replaced => self.stand_down(),
        }
        Ok(())
    }

    /// This host in its next life. None if another process has its name; then this one stands down.
    fn next_life(&self) -> Result<Option<Owner>> {
        let epoch = self.next_epoch()?.ok();
        if epoch.is_none() {
            self.stand_down();
        }
        Ok(epoch.map(|epoch| Owner::new(self.me().0.clone(), epoch)))
    }

    /// Whether the others have given this host up, as far as it knows, or another process has its name.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fence.is_up()
    }

    /// Waits, for a bounded time, until this host is a member of its store as far as it knows.
    pub(crate) fn await_membership(&self) -> Result<()> {
        self.fence.pass(|| true, PATIENCE)
    }

    /// Waits, for a bounded time, until no other host can have given this one up: what is acknowledged from
    /// then on, others can read at once.
    pub(crate) fn await_sure_membership(&self) -> Result<()> {
        self.fence.pass(|| self.is_current(), PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use intarsia_meta::{MemberRecord, MemberState, Namespace};

    use super::*;
    use crate::clock::now;
    use crate::membership::cluster::lone::lone;

    /// The others give the host up once more: in the first life in which it comes back, before it learns that it is back.
    struct GivenUpAgain {
        names: Namespace,
        claimed: Mutex<Vec<u64>>,
    }

    fn change(names: &Namespace, node: &Owner, epoch: u64, state: MemberState) {
        let found = names.member(&node.node).unwrap().unwrap();
        let changed = MemberRecord { epoch, ..found.entering(state, now()) };
        assert!(names.put_member(&node.node, Some(&found), &changed).unwrap());
    }

    impl MemberEvents for GivenUpAgain {
        fn tier_reports(&self) -> Vec<MemberTier> {
            Vec::new()
        }

        fn has_looked(&self, _: Seen) {}

        fn claim_for(&self, next: &Owner) -> Result<()> {
            self.claimed.lock().push(next.epoch);
            if self.claimed.lock().len() == 1 {
                for state in [MemberState::Serving, MemberState::Lost] {
                    change(&self.names, next, next.epoch, state);
                }
            }
            Ok(())
        }
    }

    #[test]
    fn a_host_that_was_given_up_again_claims_its_rights_for_another_life() {
        let (cluster, names) = lone();
        let first = cluster.owner();
        change(&names, &first, first.epoch, MemberState::Lost);
        let events = GivenUpAgain { names, claimed: Mutex::default() };
        *cluster.fence.waited_since.lock() = Some(Instant::now());
        cluster.pulse(&events);
        assert!(cluster.is_fenced(), "the life that it claimed its rights for is over");
        cluster.pulse(&events);
        assert!(!cluster.is_fenced());
        let waited_since = *cluster.fence.waited_since.lock();
        assert_eq!(waited_since, None, "calls that wait later have all their time");
        let claimed = events.claimed.lock().clone();
        assert!(claimed.len() == 2 && claimed[0] < claimed[1], "{claimed:?}");
        let found = events.names.member(cluster.me()).unwrap().unwrap();
        assert!(found.state.is_alive());
        assert_eq!((found.epoch, cluster.owner().epoch), (claimed[1], claimed[1]));
    }
}
