//! What the lock master of a file decides: who has which lock, who waits, in which order. No I/O, no clock.

use std::collections::HashMap;

use intarsia_types::{Error, NodeId, Result};
use intarsia_wire::{LockAnswer, LockClaim, LockKind, LockQuestion, LockSpan};

use super::table::{Lock, LockTable};

/// Most locks of one host on one file: a report of them has to fit a message.
const LOCKS_MAX: usize = 1500;

/// One life of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    pub(crate) node: NodeId,
    pub(crate) life: u64,
}

/// Whose a lock is, in the whole deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    host: Host,
    /// The number that the host's kernel gave.
    number: u64,
}

/// A process whose host is to be told that its lock is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    pub(crate) host: Host,
    pub(crate) ticket: u64,
}

/// A place in the queue. A granted lock is in the table, and the place is kept until its host has learnt of it.
#[derive(Clone, Debug)]
struct Waiting {
    ticket: u64,
    kind: LockKind,
    lock: Lock<Owner>,
    is_granted: bool,
}

/// The locks of one file.
#[derive(Debug)]
pub(crate) struct Master {
    epoch: u64,
    records: LockTable<Owner>,
    wholes: LockTable<Owner>,
    queue: Vec<Waiting>,
    /// The number of the last question of each host that was answered.
    answered: HashMap<Host, u64>,
}

impl Master {
    /// Without any locks.
    pub(crate) fn new(epoch: u64) -> Self {
        Self {
            epoch,
            records: LockTable::default(),
            wholes: LockTable::default(),
            queue: Vec::new(),
            answered: HashMap::new(),
        }
    }

    /// The number of this mastership, larger than that of every earlier one of the file.
    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether nobody has or wants anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.records.is_empty() && self.wholes.is_empty() && self.queue.is_empty()
    }

    /// Refuses a question of `host` that a later one has overtaken on its way. The host no longer waits for its answer, and has
    /// said in the later one which locks it has: if the question were answered, master and host would differ.
    ///
    /// # Errors
    /// [`Error::Busy`], which nobody waits for.
    pub(crate) fn admit(&mut self, host: &Host, number: u64) -> Result<()> {
        let last = self.answered.entry(host.clone()).or_default();
        if number <= *last {
            return Err(Error::Busy("a later question about the locks was answered before".into()));
        }
        *last = number;
        Ok(())
    }

    /// Answers `host`, and says who is to be woken.
    ///
    /// # Errors
    /// A question that is not for a master, an empty range, too many locks.
    pub(crate) fn answer(
        &mut self,
        host: &Host,
        question: &LockQuestion,
    ) -> Result<(LockAnswer, Vec<Wake>)> {
        let answer = match question {
            LockQuestion::Take { claim, ticket } => self.take(host, claim, *ticket)?,
            LockQuestion::Release { kind, owner, span } => {
                self.table(*kind).clear(&own(host, *owner), checked(*span)?);
                LockAnswer::Done
            }
            LockQuestion::Test { claim } => self.test(host, claim)?,
            LockQuestion::Cancel { ticket } => self.cancel(host, *ticket),
            LockQuestion::Assert { claims, tickets } => {
                self.queue.retain(|w| w.lock.owner.host != *host || tickets.contains(&w.ticket));
                self.adopt(host, claims)?;
                LockAnswer::Done
            }
            LockQuestion::Report | LockQuestion::Wake { .. } => {
                return Err(Error::Invalid("a lock master is not asked this".into()));
            }
        };
        Ok((answer, self.grant_waiting()))
    }

    /// Takes over all the locks of a host as it says that they are, in the place of what was known.
    pub(crate) fn adopt(&mut self, host: &Host, claims: &[LockClaim]) -> Result<()> {
        for table in [&mut self.records, &mut self.wholes] {
            table.retain_owners(|owner| owner.host != *host);
        }
        for waiting in self.queue.iter_mut().filter(|w| w.lock.owner.host == *host) {
            waiting.is_granted = false;
        }
        for claim in claims {
            self.table(claim.kind).set(lock_of(host, claim)?);
        }
        Ok(())
    }

    /// Drops the locks and places of all hosts but those that `stays` says; says who is to be woken.
    pub(crate) fn retain_hosts(&mut self, stays: impl Fn(&Host) -> bool) -> Vec<Wake> {
        for table in [&mut self.records, &mut self.wholes] {
            table.retain_owners(|owner| stays(&owner.host));
        }
        self.queue.retain(|w| stays(&w.lock.owner.host));
        self.answered.retain(|host, _| stays(host));
        self.grant_waiting()
    }

    /// All hosts that have or want something.
    pub(crate) fn hosts(&self) -> Vec<Host> {
        let held = self.records.iter().chain(self.wholes.iter()).map(|lock| &lock.owner.host);
        let mut hosts: Vec<Host> = Vec::new();
        for host in held.chain(self.queue.iter().map(|w| &w.lock.owner.host)) {
            if !hosts.contains(host) {
                hosts.push(host.clone());
            }
        }
        hosts
    }

    fn take(&mut self, host: &Host, claim: &LockClaim, ticket: Option<u64>) -> Result<LockAnswer> {
        let (kind, lock) = (claim.kind, lock_of(host, claim)?);
        let place = ticket.and_then(|ticket| self.place(host, ticket));
        if !self.is_blocked(kind, &lock) {
            self.require_room(host)?;
            if let Some(place) = place {
                self.queue.remove(place);
            }
            self.table(kind).set(lock);
            return Ok(LockAnswer::Granted);
        }
        if kind == LockKind::Whole {
            // As on Linux, changing a lock of flock(2) gives up the old one first, so that two owners of a shared lock who
            // both ask for an exclusive one do not wait for each other.
            self.wholes.clear(&lock.owner, LockSpan::ALL);
        }
        let Some(ticket) = ticket else { return Ok(LockAnswer::Denied) };
        if let Some(place) = place {
            self.queue[place].is_granted = false;
            return Ok(LockAnswer::Queued);
        }
        if kind == LockKind::Record && self.would_wait_for_ever(&lock) {
            return Ok(LockAnswer::Deadlock);
        }
        self.queue.push(Waiting { ticket, kind, lock, is_granted: false });
        Ok(LockAnswer::Queued)
    }

    fn test(&self, host: &Host, claim: &LockClaim) -> Result<LockAnswer> {
        let wanted = lock_of(host, claim)?;
        let table = if claim.kind == LockKind::Record { &self.records } else { &self.wholes };
        Ok(match table.conflicts(&wanted).min_by_key(|lock| lock.span.first) {
            None => LockAnswer::Done,
            Some(lock) => LockAnswer::Held {
                node: lock.owner.host.node.clone(),
                claim: LockClaim {
                    kind: claim.kind,
                    owner: lock.owner.number,
                    pid: lock.pid,
                    mode: lock.mode,
                    span: lock.span,
                },
            },
        })
    }

    fn cancel(&mut self, host: &Host, ticket: u64) -> LockAnswer {
        match self.place(host, ticket).map(|place| self.queue.remove(place)) {
            Some(waiting) if waiting.is_granted => LockAnswer::Granted,
            _ => LockAnswer::Done,
        }
    }

    fn place(&self, host: &Host, ticket: u64) -> Option<usize> {
        self.queue.iter().position(|w| w.ticket == ticket && w.lock.owner.host == *host)
    }

    const fn table(&mut self, kind: LockKind) -> &mut LockTable<Owner> {
        match kind {
            LockKind::Record => &mut self.records,
            LockKind::Whole => &mut self.wholes,
        }
    }

    fn blockers<'a>(
        &'a self,
        kind: LockKind,
        wanted: &'a Lock<Owner>,
    ) -> impl Iterator<Item = &'a Lock<Owner>> {
        match kind {
            LockKind::Record => self.records.conflicts(wanted),
            LockKind::Whole => self.wholes.conflicts(wanted),
        }
    }

    fn is_blocked(&self, kind: LockKind, wanted: &Lock<Owner>) -> bool {
        self.blockers(kind, wanted).next().is_some()
    }

    fn require_room(&self, host: &Host) -> Result<()> {
        let all = self.records.iter().chain(self.wholes.iter());
        if all.filter(|lock| lock.owner.host == *host).count() < LOCKS_MAX {
            return Ok(());
        }
        Err(Error::NoSpace(format!("{} has {LOCKS_MAX} locks on one file", host.node)))
    }

    /// Gives those who wait what has become free, in the order in which they came.
    fn grant_waiting(&mut self) -> Vec<Wake> {
        let mut wakes = Vec::new();
        for at in 0..self.queue.len() {
            let waiting = &self.queue[at];
            if waiting.is_granted || self.is_blocked(waiting.kind, &waiting.lock) {
                continue;
            }
            let (kind, lock, ticket) = (waiting.kind, waiting.lock.clone(), waiting.ticket);
            wakes.push(Wake { host: lock.owner.host.clone(), ticket });
            self.table(kind).set(lock);
            self.queue[at].is_granted = true;
        }
        wakes
    }

    /// Whether those in the way of `wanted` wait, directly or not, for its owner.
    fn would_wait_for_ever(&self, wanted: &Lock<Owner>) -> bool {
        let mut reached: Vec<&Owner> = Vec::new();
        let mut next: Vec<&Lock<Owner>> = vec![wanted];
        while let Some(lock) = next.pop() {
            for blocker in self.records.conflicts(lock) {
                if blocker.owner == wanted.owner {
                    return true;
                }
                if !reached.contains(&&blocker.owner) {
                    reached.push(&blocker.owner);
                    next.extend(self.record_waits(&blocker.owner));
                }
            }
        }
        false
    }

    fn record_waits<'a>(&'a self, owner: &'a Owner) -> impl Iterator<Item = &'a Lock<Owner>> {
        let waits = self
            .queue
            .iter()
            .filter(move |w| w.kind == LockKind::Record && !w.is_granted && w.lock.owner == *owner);
        waits.map(|w| &w.lock)
    }
}

fn own(host: &Host, number: u64) -> Owner {
    Owner { host: host.clone(), number }
}

fn lock_of(host: &Host, claim: &LockClaim) -> Result<Lock<Owner>> {
    Ok(Lock {
        owner: own(host, claim.owner),
        pid: claim.pid,
        mode: claim.mode,
        span: checked(claim.span)?,
    })
}

fn checked(span: LockSpan) -> Result<LockSpan> {
    if span.first <= span.last {
        return Ok(span);
    }
    Err(Error::Invalid(format!("a lock from byte {} to byte {}", span.first, span.last)))
}

#[cfg(test)]
mod tests {
    use intarsia_wire::LockMode::{self, Exclusive, Shared};

    use super::*;

    fn host(name: &str) -> Host {
        Host { node: NodeId(name.into()), life: 1 }
    }

    fn claim(kind: LockKind, owner: u64, mode: LockMode, first: u64, last: u64) -> LockClaim {
        LockClaim { kind, owner, pid: 7, mode, span: LockSpan { first, last } }
    }

    fn record(owner: u64, mode: LockMode, first: u64, last: u64) -> LockClaim {
        claim(LockKind::Record, owner, mode, first, last)
    }

    fn whole(owner: u64, mode: LockMode) -> LockClaim {
        claim(LockKind::Whole, owner, mode, 0, u64::MAX)
    }

    fn ask(master: &mut Master, host: &Host, question: &LockQuestion) -> (LockAnswer, Vec<u64>) {
        let (answer, wakes) = master.answer(host, question).unwrap();
        (answer, wakes.into_iter().map(|wake| wake.ticket).collect())
    }

    fn take(
        master: &mut Master,
        host: &Host,
        claim: LockClaim,
        ticket: impl Into<Option<u64>>,
    ) -> LockAnswer {
        ask(master, host, &LockQuestion::Take { claim, ticket: ticket.into() }).0
    }

    fn release(master: &mut Master, host: &Host, claim: LockClaim) -> Vec<u64> {
        let LockClaim { kind, owner, span, .. } = claim;
        ask(master, host, &LockQuestion::Release { kind, owner, span }).1
    }

    #[test]
    fn equal_numbers_of_two_hosts_are_two_owners_and_families_do_not_meet() {
        let (mut master, a, b) = (Master::new(1), host("a"), host("b"));
        assert_eq!(take(&mut master, &a, record(5, Exclusive, 0, 9), None), LockAnswer::Granted);
        assert_eq!(take(&mut master, &b, record(5, Shared, 9, 20), None), LockAnswer::Denied);
        assert_eq!(take(&mut master, &b, whole(5, Exclusive), None), LockAnswer::Granted);
        let (answer, _) =
            ask(&mut master, &b, &LockQuestion::Test { claim: record(5, Shared, 0, 9) });
        let LockAnswer::Held { node, claim } = answer else { panic!("{answer:?}") };
        assert_eq!((node, claim), (NodeId("a".into()), record(5, Exclusive, 0, 9)));
    }

    #[test]
    fn those_who_wait_get_it_in_their_order_and_learn_of_it_by_asking_again() {
        let (mut master, a, b) = (Master::new(1), host("a"), host("b"));
        let wanted = |owner| record(owner, Exclusive, 0, 0);
        assert_eq!(take(&mut master, &a, wanted(1), None), LockAnswer::Granted);
        assert_eq!(take(&mut master, &b, wanted(2), 20), LockAnswer::Queued);
        assert_eq!(take(&mut master, &a, wanted(3), 30), LockAnswer::Queued);
        assert_eq!(take(&mut master, &b, wanted(2), 20), LockAnswer::Queued, "still in its place");
        assert_eq!(release(&mut master, &a, wanted(1)), [20]);
        assert_eq!(
            take(&mut master, &a, wanted(4), None),
            LockAnswer::Denied,
            "granted is granted"
        );
        assert_eq!(take(&mut master, &b, wanted(2), 20), LockAnswer::Granted);
        assert_eq!(release(&mut master, &b, wanted(2)), [30]);
        let cancel = LockQuestion::Cancel { ticket: 30 };
        assert_eq!(ask(&mut master, &a, &cancel).0, LockAnswer::Granted, "it came too late");
        release(&mut master, &a, wanted(3));
        assert!(master.is_idle());
        assert_eq!(ask(&mut master, &a, &cancel).0, LockAnswer::Done);
    }

    #[test]
    fn who_waits_no_longer_stands_in_nobodys_way() {
        let (mut master, a, b) = (Master::new(1), host("a"), host("b"));
        take(&mut master, &a, record(1, Shared, 0, 0), None);
        assert_eq!(take(&mut master, &b, record(2, Exclusive, 0, 0), 20), LockAnswer::Queued);
        assert_eq!(ask(&mut master, &b, &LockQuestion::Cancel { ticket: 20 }).0, LockAnswer::Done);
        assert_eq!(release(&mut master, &a, record(1, Shared, 0, 0)), [0; 0]);
        assert!(master.is_idle());
    }

    #[test]
    fn two_shared_flocks_that_both_become_exclusive_do_not_wait_for_each_other() {
        let (mut master, a, b) = (Master::new(1), host("a"), host("b"));
        take(&mut master, &a, whole(1, Shared), None);
        take(&mut master, &b, whole(2, Shared), None);
        assert_eq!(take(&mut master, &a, whole(1, Exclusive), 10), LockAnswer::Queued);
        assert_eq!(take(&mut master, &b, whole(2, Exclusive), 20), LockAnswer::Granted);
        assert_eq!(release(&mut master, &b, whole(2, Exclusive)), [10]);
    }

    #[test]
    fn a_ring_of_waiting_owners_is_refused() {
        let (mut master, a, b) = (Master::new(1), host("a"), host("b"));
        for (host, owner) in [(&a, 1), (&b, 2), (&a, 3)] {
            let own = record(owner, Exclusive, owner, owner);
            assert_eq!(take(&mut master, host, own, None), LockAnswer::Granted);
        }
        assert_eq!(take(&mut master, &a, record(1, Shared, 2, 2), 12), LockAnswer::Queued);
        assert_eq!(take(&mut master, &b, record(2, Shared, 3, 3), 23), LockAnswer::Queued);
        let closing = record(3, Exclusive, 1, 1);
        assert_eq!(take(&mut master, &a, closing, 31), LockAnswer::Deadlock);
        assert_eq!(take(&mut master, &a, closing, None), LockAnswer::Denied);
        // A wait that closes no ring goes on.
        assert_eq!(take(&mut master, &b, record(4, Shared, 1, 3), 41), LockAnswer::Queued);
    }

    #[test]
    fn the_locks_and_places_of_a_dead_host_vanish() {
        let (mut master, a, b) = (Master::new(1), host("a"), host("b"));
        take(&mut master, &a, record(1, Exclusive, 0, 9), None);
        take(&mut master, &a, record(2, Exclusive, 5, 5), 2);
        take(&mut master, &b, record(1, Exclusive, 5, 9), 9);
        assert_eq!(master.hosts(), [a.clone(), b.clone()]);
        let wakes = master.retain_hosts(|host| *host != a);
        assert_eq!(wakes, [Wake { host: b.clone(), ticket: 9 }]);
        assert_eq!(master.hosts(), [b]);
    }

    #[test]
    fn what_a_host_says_of_itself_replaces_what_was_known() {
        let (mut master, a, b) = (Master::new(1), host("a"), host("b"));
        take(&mut master, &a, record(1, Exclusive, 0, 9), None);
        take(&mut master, &b, record(2, Exclusive, 0, 0), 20);
        take(&mut master, &a, record(3, Exclusive, 4, 4), 30);
        let says =
            LockQuestion::Assert { claims: vec![record(1, Exclusive, 4, 4)], tickets: vec![] };
        let (_, woken) = ask(&mut master, &a, &says);
        assert_eq!(woken, [20], "byte 0 is free, and ticket 30 is not waited for any more");
        assert_eq!(release(&mut master, &a, record(1, Exclusive, 0, 9)), [0; 0]);
    }

    #[test]
    fn nonsense_is_refused() {
        let (mut master, a) = (Master::new(1), host("a"));
        let reversed = LockQuestion::Take { claim: record(1, Shared, 9, 3), ticket: None };
        assert!(matches!(master.answer(&a, &reversed), Err(Error::Invalid(_))));
        assert!(matches!(master.answer(&a, &LockQuestion::Report), Err(Error::Invalid(_))));
        for at in 0..LOCKS_MAX as u64 {
            take(&mut master, &a, record(1, Shared, 2 * at, 2 * at), None);
        }
        let one_more = LockQuestion::Take { claim: record(2, Shared, 0, 0), ticket: None };
        assert!(matches!(master.answer(&a, &one_more), Err(Error::NoSpace(_))));
    }
}
