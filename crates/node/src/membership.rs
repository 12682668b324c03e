//! Which hosts of the store are alive, whether this one still counts as a member, and how the others are asked.
//!
//! Owns the record of this host, what was read of the others' records, and the connections to them.
//! Asks the metadata engine for the records, and the other hosts.
//! Promises that a host whose heartbeats arrive is not given up, that one that was given up changes nothing until it
//! has joined anew, and that no question takes longer than its caller's deadline allows, except where bytes are moved: a host
//! with slow disks is waited for while its heartbeats arrive, for a minute at most.
//!
//! Each host renews its record in the metadata about once a second (its heartbeat) and reads the records of all others. A
//! host whose record has stayed the same for [`Pace::lost_after`] is marked lost, on condition that its record has not
//! changed meanwhile. Silence counts only for the time in which the reader's own heartbeats succeeded, and at most one and a half
//! intervals for each: so no host whose heartbeats arrive is given up, whatever the clocks say, and a host that was cut off or
//! suspended listens first before it gives up others. A host that finds itself marked lost is fenced (see
//! [`crate::membership::fence`]).

pub(crate) mod cluster;
pub(crate) mod description;
mod detector;
pub(crate) mod fence;
pub(crate) mod gate;
pub(crate) mod heartbeat;
pub(crate) mod homes;
pub(crate) mod sight;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use intarsia_meta::{MemberRecord, MemberState, MemberTier, Namespace, Owner};
use intarsia_sync::{Instant, Mutex, RwLock};
use intarsia_types::{Error, NodeId, Result};

use crate::clock::now;
use crate::ranks::OWN_RECORD;

/// Attempts to change a record; others are needed only if another host changes it at the same time, which is rare.
const ATTEMPTS: usize = 16;

/// The interval of heartbeats, and the silence after which a member is given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The time between two heartbeats.
    pub(crate) interval: Duration,
    /// A host without a heartbeat for this time is marked lost.
    pub(crate) lost_after: Duration,
}

impl Pace {
    /// The most silence that one look at the others can add. If two looks were further apart, this host itself did not run
    /// meanwhile, and the others need not have been silent.
    fn most_silence(self) -> Duration {
        self.interval * 3 / 2
    }
}

/// What this host learns when it renews its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// It is a member.
    Alive,
    /// The others have given it up, or removed it.
    Lost,
    /// Another process has started under its name.
    Replaced,
}

/// What a look of the failure detector at the other members found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing that concerns where files are.
    Calm,
    /// A host is lost that was not lost at the look before.
    Loss,
    /// A host takes files that did not take any at the look before.
    Arrival,
}

/// How long the record of a member has not changed, and the heartbeat that it shows.
#[derive(Clone, Copy)]
struct Silence {
    epoch: u64,
    beat: u64,
    lasts: Duration,
}

/// The silences of all members, and when they were measured last.
#[derive(Default)]
struct Watch {
    silences: HashMap<NodeId, Silence>,
    last_look: Option<Instant>,
}

/// The members of the store as this host sees them.
pub(crate) struct Membership {
    me: NodeId,
    pace: Pace,
    /// Held while the record of this host is changed, which asks the metadata. `mine` is not held that long.
    turn: Mutex<()>,
    /// The record of this host, as far as it knows. Every call of a program looks at it.
    mine: Mutex<MemberRecord>,
    /// The records of all members, as they were read last.
    seen: RwLock<BTreeMap<NodeId, MemberRecord>>,
    watch: Mutex<Watch>,
    /// The lost hosts, as of the last look. Not taken from `seen`, which is refreshed between looks as well.
    known_lost: Mutex<BTreeSet<NodeId>>,
    /// The hosts that take files, as of the last look.
    known_serving: Mutex<BTreeSet<NodeId>>,
    /// When the last heartbeat that was recorded began.
    last_beat: Mutex<Instant>,
}

impl Membership {
    /// Begins a new life of the host `me`, and records it as a host that serves nobody yet.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process keeps starting under that name; the engine's own.
    pub(crate) fn begin(directory: &Namespace, me: &NodeId, pace: Pace) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let begun = Instant::now();
            let old = directory.member(me)?;
            let fresh = MemberRecord::new(epoch_after(old.as_ref()), now());
            // An order to leave holds for later processes of the host too.
            let is_leaving = old.as_ref().is_some_and(|old| old.is_leaving);
            let mine = MemberRecord { is_leaving, ..fresh };
            if directory.put_member(me, old.as_ref(), &mine)? {
                return Ok(Self {
                    me: me.clone(),
                    pace,
                    turn: Mutex::ranked(OWN_RECORD, ()),
                    mine: Mutex::new(mine),
                    seen: RwLock::default(),
                    watch: Mutex::default(),
                    known_lost: Mutex::default(),
                    known_serving: Mutex::default(),
                    last_beat: Mutex::new(begun),
                });
            }
        }
        Err(Error::Busy(format!("another process is starting as {me}; give this one another name")))
    }

    /// Whether the last heartbeat that was recorded is so recent that no other host can have given this one up.
    pub(crate) fn is_current(&self) -> bool {
        self.last_beat.lock().elapsed() + self.pace.interval < self.pace.lost_after
    }

    /// This host in its present life.
    pub(crate) fn owner(&self) -> Owner {
        Owner::new(self.me.0.clone(), self.mine.lock().epoch)
    }

    /// The record of this host, as far as it knows.
    pub(crate) fn mine(&self) -> MemberRecord {
        self.mine.lock().clone()
    }

    /// Records that the host serves the others at `address` from now on.
    pub(crate) fn serve(&self, directory: &Namespace, address: SocketAddr) -> Result<Pulse> {
        self.change(directory, |mine| MemberRecord {
            address: Some(address),
            ..mine.entering(serving_state(mine), now())
        })
    }

    /// One heartbeat: renews the record of this host.
    pub(crate) fn beat(&self, directory: &Namespace, tiers: &[MemberTier]) -> Result<Pulse> {
        let begun = Instant::now();
        let pulse = self.change(directory, |mine| MemberRecord {
            beat: mine.beat + 1,
            tiers: tiers.to_vec(),
            ..mine.clone()
        });
        if matches!(pulse, Ok(Pulse::Alive)) {
            *self.last_beat.lock() = begun;
        } else {
            // While this host's heartbeats fail, it may not hear those of others either: their silence does not count.
            *self.watch.lock() = Watch::default();
        }
        pulse
    }

    /// Learns what others have recorded of this host since its last beat, such as an order to leave.
    ///
    /// # Errors
    /// The engine's own.
    pub(crate) fn hear_orders(&self, directory: &Namespace) -> Result<()> {
        let _turn = self.turn.lock();
        let found = directory.member(&self.me)?;
        let mut mine = self.mine.lock();
        if let Some(found) = found.filter(|found| found.epoch == mine.epoch) {
            *mine = found;
        }
        Ok(())
    }

    /// Whether this host was told to leave, as far as it knows.
    pub(crate) fn is_leaving(&self) -> bool {
        self.mine.lock().is_leaving
    }

    /// Removes the record of this host, which is a member no more then. False if the record has changed meanwhile.
    pub(crate) fn leave(&self, directory: &Namespace) -> Result<bool> {
        directory.remove_member(&self.me, &self.mine())
    }

    /// Records that this host has stopped regularly and is in `state`.
    pub(crate) fn stop(&self, directory: &Namespace, state: MemberState) -> Result<Pulse> {
        self.change(directory, |mine| MemberRecord { address: None, ..mine.entering(state, now()) })
    }

    /// Changes the record of this host. If other hosts have changed it meanwhile, `change` is applied to what they recorded.
    ///
    /// # Errors
    /// [`Error::Busy`] if the record keeps changing; the engine's own.
    pub(crate) fn change(
        &self,
        directory: &Namespace,
        change: impl Fn(&MemberRecord) -> MemberRecord,
    ) -> Result<Pulse> {
        let _turn = self.turn.lock();
        for _ in 0..ATTEMPTS {
            let mine = self.mine();
            let next = change(&mine);
            if directory.put_member(&self.me, Some(&mine), &next)? {
                *self.mine.lock() = next;
                return Ok(Pulse::Alive);
            }
            match directory.member(&self.me)? {
                Some(found) if found.epoch > mine.epoch => return Ok(Pulse::Replaced),
                // Another host has ordered this one to leave, or the answer to an earlier change of this one was lost.
                Some(found) if found.epoch == mine.epoch && found.state.is_alive() => {
                    *self.mine.lock() = found;
                }
                _ => return Ok(Pulse::Lost),
            }
        }
        Err(Error::Busy(format!("the record of {} kept changing", self.me)))
    }

    /// The epoch of the life that this host begins after it was lost; [`Pulse::Replaced`] when another process has its name.
    pub(crate) fn next_epoch(
        &self,
        directory: &Namespace,
    ) -> Result<std::result::Result<u64, Pulse>> {
        let mine = self.mine();
        let found = directory.member(&self.me)?;
        Ok(match found {
            Some(found) if found.epoch > mine.epoch => Err(Pulse::Replaced),
            _ => Ok(epoch_after(Some(&mine))),
        })
    }

    /// Records that the host is back, in the life `epoch`. [`Pulse::Lost`] if the others have given up that life as well: then an
    /// earlier attempt was recorded and its answer was lost, and another life has to begin.
    pub(crate) fn revive(&self, directory: &Namespace, epoch: u64) -> Result<Pulse> {
        let _turn = self.turn.lock();
        for _ in 0..ATTEMPTS {
            let begun = Instant::now();
            let mine = self.mine();
            let found = match directory.member(&self.me)? {
                // An earlier attempt recorded it, and its answer was lost.
                Some(found) if found.epoch == epoch => {
                    let is_alive = found.state.is_alive();
                    *self.mine.lock() = found;
                    return Ok(if is_alive { Pulse::Alive } else { Pulse::Lost });
                }
                Some(found) if found.epoch > mine.epoch => return Ok(Pulse::Replaced),
                found => found,
            };
            let next = MemberRecord {
                epoch,
                is_leaving: found.as_ref().is_some_and(|found| found.is_leaving),
                ..mine.entering(serving_state(found.as_ref().unwrap_or(&mine)), now())
            };
            if directory.put_member(&self.me, found.as_ref(), &next)? {
                *self.mine.lock() = next;
                *self.last_beat.lock() = begun;
                return Ok(Pulse::Alive);
            }
        }
        Err(Error::Busy(format!("the record of {} kept changing", self.me)))
    }

    /// Tells a host to leave, or that it may stay after all. Returns the state that it had; if it is not up, nothing is recorded.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown host, [`Error::Busy`] if its record keeps changing; the engine's own.
    pub(crate) fn order(
        &self,
        directory: &Namespace,
        node: &NodeId,
        is_leaving: bool,
    ) -> Result<MemberState> {
        for _ in 0..ATTEMPTS {
            let found = directory.member(node)?.ok_or_else(|| unknown(node))?;
            if !matches!(found.state, MemberState::Serving | MemberState::Leaving) {
                return Ok(found.state);
            }
            let state = if is_leaving { MemberState::Leaving } else { MemberState::Serving };
            let told = MemberRecord { is_leaving, ..found.entering(state, now()) };
            if found.state == state || directory.put_member(node, Some(&found), &told)? {
                self.refresh(directory)?;
                return Ok(found.state);
            }
        }
        Err(Error::Busy(format!("the record of {node} kept changing")))
    }

    /// Marks as lost a host that is known to be gone, without waiting until it has been silent for long enough.
    pub(crate) fn give_up(&self, directory: &Namespace, node: &NodeId) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let Some(found) = directory.member(node)? else { return Ok(()) };
            if found.state == MemberState::Lost {
                return Ok(());
            }
            let lost = found.entering(MemberState::Lost, now());
            if directory.put_member(node, Some(&found), &lost)? {
                tracing::error!(
                    host = %node,
                    "a host is not there; it is lost, and what it alone held gives EIO until it is back"
                );
                return Ok(());
            }
        }
        Err(Error::Busy(format!("the record of {node} kept changing")))
    }

    /// Removes the record of a host that is lost for good.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown host, [`Error::Busy`] for one that is not lost; the engine's own.
    pub(crate) fn forget(&self, directory: &Namespace, node: &NodeId) -> Result<()> {
        let found = directory.member(node)?.ok_or_else(|| unknown(node))?;
        if found.state != MemberState::Lost || !directory.remove_member(node, &found)? {
            return Err(Error::Busy(format!("{node} has just come back")));
        }
        self.refresh(directory)
    }
}

fn unknown(node: &NodeId) -> Error {
    Error::Invalid(format!(
        "no host of this store has the name {node}; 'intarsia status' lists them"
    ))
}

/// The epoch of the life after the one recorded in `old`. It is taken from the clock, in milliseconds, so that it is also later
/// than the epoch of a life whose record was removed.
fn epoch_after(old: Option<&MemberRecord>) -> u64 {
    let since_1970 = intarsia_sync::system_now().duration_since(std::time::UNIX_EPOCH);
    let by_clock = u64::try_from(since_1970.unwrap_or_default().as_millis()).unwrap_or(0);
    by_clock.max(old.map_or(0, |old| old.epoch) + 1)
}

/// The state of a member that is up: a host that was told to leave goes on leaving.
const fn serving_state(member: &MemberRecord) -> MemberState {
    if member.is_leaving { MemberState::Leaving } else { MemberState::Serving }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use intarsia_meta::engines::MemoryEngine;
    use intarsia_meta::{MetaEngine, RootSpec};

    use super::*;

    const PACE: Pace =
        Pace { interval: Duration::from_millis(20), lost_after: Duration::from_millis(100) };

    fn host(engine: &Arc<dyn MetaEngine>, name: &str) -> (Namespace, Membership) {
        let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
        let directory = Namespace::open(Arc::clone(engine), root, now()).unwrap();
        let membership = Membership::begin(&directory, &NodeId(name.into()), PACE).unwrap();
        membership.serve(&directory, ([127, 0, 0, 1], 1).into()).unwrap();
        (directory, membership)
    }

    fn engine() -> Arc<dyn MetaEngine> {
        Arc::new(MemoryEngine::new(3))
    }

    fn is_lost(of: &Membership, name: &str) -> bool {
        of.lost_since(&NodeId(name.into())).is_some()
    }

    #[test]
    fn only_a_host_that_stops_beating_is_lost() {
        let engine = engine();
        let (a_dir, a) = host(&engine, "a");
        let (b_dir, b) = host(&engine, "b");
        let (_, c) = host(&engine, "c");
        let first = a.owner();
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut hears_b = false;
        while !is_lost(&a, "c") || !hears_b {
            assert!(Instant::now() < deadline, "c is never missed");
            for (directory, member) in [(&a_dir, &a), (&b_dir, &b)] {
                assert_eq!(member.beat(directory, &[]).unwrap(), Pulse::Alive);
                member.look(directory).unwrap();
            }
            hears_b |= a.hears(&NodeId("b".into()));
            intarsia_sync::thread::sleep(PACE.interval);
        }
        assert!(!is_lost(&a, "b") && !is_lost(&b, "a"), "whose beats arrive");
        assert!(!a.hears(&NodeId("c".into())) && !a.hears(&NodeId("stranger".into())));
        assert!(a.is_over(&c.owner()) && !a.is_over(&b.owner()));
        // c goes on and is told that it is lost; then it begins another life.
        let old = c.owner();
        assert_eq!(c.beat(&a_dir, &[]).unwrap(), Pulse::Lost);
        let epoch = c.next_epoch(&a_dir).unwrap().unwrap();
        assert_eq!(c.revive(&a_dir, epoch).unwrap(), Pulse::Alive);
        assert_eq!(c.beat(&a_dir, &[]).unwrap(), Pulse::Alive);
        a.look(&a_dir).unwrap();
        assert!(!is_lost(&a, "c") && a.is_over(&old) && !a.is_over(&c.owner()));
        assert_eq!(a.owner(), first);
    }

    #[test]
    fn who_slept_does_not_judge_those_he_did_not_listen_to() {
        let engine = engine();
        let (a_dir, a) = host(&engine, "a");
        let (b_dir, b) = host(&engine, "b");
        for _ in 0..3 {
            // Both stand still for long, as on an overloaded machine; a is the first to go on.
            a.beat(&a_dir, &[]).unwrap();
            a.look(&a_dir).unwrap();
            intarsia_sync::thread::sleep(PACE.lost_after * 2);
            a.beat(&a_dir, &[]).unwrap();
            a.look(&a_dir).unwrap();
            assert!(!is_lost(&a, "b"));
            assert_eq!(b.beat(&b_dir, &[]).unwrap(), Pulse::Alive);
        }
    }

    #[test]
    fn who_is_given_up_again_before_he_knows_that_he_is_back_begins_another_life() {
        let engine = engine();
        let (a_dir, a) = host(&engine, "a");
        let (b_dir, b) = host(&engine, "b");
        let me = NodeId("b".into());
        a.give_up(&a_dir, &me).unwrap();
        assert_eq!(b.beat(&b_dir, &[]).unwrap(), Pulse::Lost);
        let first = b.next_epoch(&b_dir).unwrap().unwrap();
        // That life is recorded, but the answer does not reach b; then a gives it up.
        let found = a_dir.member(&me).unwrap().unwrap();
        let begun = MemberRecord { epoch: first, ..found.entering(MemberState::Serving, now()) };
        assert!(a_dir.put_member(&me, Some(&found), &begun).unwrap());
        a.give_up(&a_dir, &me).unwrap();
        assert_eq!(b.revive(&b_dir, first).unwrap(), Pulse::Lost);
        let second = b.next_epoch(&b_dir).unwrap().unwrap();
        assert!(second > first);
        assert_eq!(b.revive(&b_dir, second).unwrap(), Pulse::Alive);
        assert_eq!(b.beat(&b_dir, &[]).unwrap(), Pulse::Alive);
        a.look(&a_dir).unwrap();
        assert!(!is_lost(&a, "b") && !a.is_over(&b.owner()));
    }

    #[test]
    fn the_later_of_two_processes_of_one_name_stays() {
        let engine = engine();
        let (directory, old) = host(&engine, "a");
        let (_, new) = host(&engine, "a");
        assert!(new.owner().epoch > old.owner().epoch);
        assert_eq!(old.beat(&directory, &[]).unwrap(), Pulse::Replaced);
        assert_eq!(old.next_epoch(&directory).unwrap(), Err(Pulse::Replaced));
        assert_eq!(new.beat(&directory, &[]).unwrap(), Pulse::Alive);
    }

    #[test]
    fn an_order_to_leave_reaches_the_host_and_outlives_it() {
        let engine = engine();
        let (directory, a) = host(&engine, "a");
        let found = directory.member(&NodeId("a".into())).unwrap().unwrap();
        let told = MemberRecord { is_leaving: true, ..found.entering(MemberState::Leaving, now()) };
        assert!(directory.put_member(&NodeId("a".into()), Some(&found), &told).unwrap());
        assert!(!a.mine().is_leaving, "it has not beaten since");
        a.hear_orders(&directory).unwrap();
        assert!(a.mine().is_leaving);
        assert_eq!(a.beat(&directory, &[]).unwrap(), Pulse::Alive);
        assert_eq!(a.mine().state, MemberState::Leaving);
        let (_, again) = host(&engine, "a");
        assert_eq!(again.mine().state, MemberState::Leaving);
    }
}
