//! A host that the others have given up: what it does when it finds out.
//!
//! Until it knows, nothing that it records can do harm: each change of content is conditional on a lease that
//! carries the host's epoch, and whoever takes the lease over puts another owner there. When it knows, it
//! lets nobody in, claims its leases for a new epoch, and is a member again. Files that others took over
//! meanwhile are *quarantined*: what was written to them here since does not count, their handles give EIO,
//! and nothing of them is published ever again.

use std::time::Duration;

use intarsia_meta::{MemberTier, Owner, allowance};
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, Result};

use crate::membership::cluster::Cluster;
use crate::membership::{Pulse, Seen};

/// What a member needs of the rooms above: what it is to tell, and what they do when it learns something.
pub(crate) trait MemberEvents {
    /// What the others are told about the tiers here.
    fn tier_reports(&self) -> Vec<MemberTier>;

    /// What a look at the others brought.
    fn has_looked(&self, seen: Seen);

    /// The others have given this host up, and it is about to come back as `next`: claims for that life what nobody
    /// has taken over, and gives up the rest. Called again after a failure.
    ///
    /// # Errors
    /// Any, after which the host is not back.
    fn claim_for(&self, next: &Owner) -> Result<()>;
}

/// How long a call waits for the host to be a member again.
const PATIENCE: Duration = Duration::from_secs(5);
const LEAST_PATIENCE: Duration = Duration::from_millis(300);
const EIO: i32 = 5;

/// What this host is in the eyes of the others.
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

/// Makes calls wait, or refuses them, while the host is no member.
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

    /// A heartbeat was recorded.
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

pub(crate) fn refusal(why: &str) -> Error {
    Error::io(why, std::io::Error::from_raw_os_error(EIO))
}

impl Cluster {
    /// One beat: tells the others that this host lives, looks whether they do, and comes back when they had
    /// given it up.
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

    fn stand_down(&self) {
        if *self.fence.standing.lock() != Standing::Replaced {
            tracing::error!(
                host = %self.me(),
                "another process has started under this host's name; this one does nothing any more"
            );
            self.fence.enter(Standing::Replaced);
        }
    }

    /// Becomes a member again, in a new life, with the leases that nobody has taken over. After a failure the
    /// next beat goes on with it.
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
            // It was back without knowing, and was given up once more: the next beat begins another life.
            Pulse::Lost => {
                if let Some(another) = self.next_life()? {
                    self.fence.enter(Standing::Lost(another));
                }
            }
            Pulse::Replaced => self.stand_down(),
        }
        Ok(())
    }

    /// This host in the life that it begins now; none, and it stands down, if another process has its name.
    fn next_life(&self) -> Result<Option<Owner>> {
        let epoch = self.next_epoch()?.ok();
        if epoch.is_none() {
            self.stand_down();
        }
        Ok(epoch.map(|epoch| Owner::new(self.me().0.clone(), epoch)))
    }

    /// Whether this host has been given up by the others.
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

    /// The others give the first life up that the host comes back in, before it hears that it is back.
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
        cluster.pulse(&events);
        assert!(cluster.is_fenced(), "the life that it claimed its rights for is over");
        cluster.pulse(&events);
        assert!(!cluster.is_fenced());
        let claimed = events.claimed.lock().clone();
        assert!(claimed.len() == 2 && claimed[0] < claimed[1], "{claimed:?}");
        let found = events.names.member(cluster.me()).unwrap().unwrap();
        assert!(found.state.is_alive());
        assert_eq!((found.epoch, cluster.owner().epoch), (claimed[1], claimed[1]));
    }
}
