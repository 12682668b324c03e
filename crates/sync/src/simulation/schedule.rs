//! Whose turn it is, and what time.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Settings;
use super::task::Place;

/// Time that a look at the clock takes, so that who looks until a time has come sees it come.
const LOOK_NS: u64 = 100;
/// For ever.
const NEVER_NS: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Waiting(Place, Option<u64>),
    Done,
    Dead,
}

struct Thread {
    name: String,
    group: usize,
    state: State,
    was_woken: bool,
}

struct Group {
    name: String,
    /// No turns before.
    frozen_until_ns: u64,
}

/// All threads of a simulation.
pub(super) struct Schedule {
    now_ns: u64,
    end_ns: u64,
    switch_one_in: u32,
    random: Xoshiro256PlusPlus,
    threads: Vec<Thread>,
    groups: Vec<Group>,
    ready: Vec<usize>,
    timers: BTreeSet<(u64, usize)>,
    waiting: BTreeMap<Place, Vec<usize>>,
    running: usize,
    switches: u64,
    fingerprint: u64,
}

impl Schedule {
    /// With one thread, which runs.
    pub(super) fn new(settings: &Settings) -> Self {
        let mut schedule = Self {
            now_ns: 0,
            end_ns: nanos(settings.end),
            switch_one_in: settings.switch_one_in,
            random: Xoshiro256PlusPlus::seed_from_u64(settings.seed),
            threads: Vec::new(),
            groups: Vec::new(),
            ready: Vec::new(),
            timers: BTreeSet::new(),
            waiting: BTreeMap::new(),
            running: 0,
            switches: 0,
            fingerprint: settings.seed,
        };
        let group = schedule.add_group("world");
        schedule.add("world", Some(group));
        schedule.ready.clear();
        schedule
    }

    pub(super) fn add_group(&mut self, name: &str) -> usize {
        self.groups.push(Group { name: name.to_owned(), frozen_until_ns: 0 });
        self.groups.len() - 1
    }

    /// A new thread, by default of the group of the one that runs.
    pub(super) fn add(&mut self, name: &str, group: Option<usize>) -> usize {
        let group = group.or_else(|| Some(self.threads.get(self.running)?.group)).unwrap_or(0);
        let (name, state) = (name.to_owned(), State::Ready);
        self.threads.push(Thread { name, group, state, was_woken: false });
        self.ready.push(self.threads.len() - 1);
        self.threads.len() - 1
    }

    pub(super) const fn running(&self) -> usize {
        self.running
    }

    pub(super) const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub(super) const fn switches(&self) -> u64 {
        self.switches
    }

    pub(super) const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(super) fn look_ns(&mut self) -> u64 {
        self.now_ns += LOOK_NS;
        self.now_ns
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        if bound < 2 { 0 } else { self.random.random_range(0..bound) }
    }

    /// Whether another thread's turn is to come here.
    pub(super) fn is_switch(&mut self) -> bool {
        self.switch_one_in > 0 && self.below(u64::from(self.switch_one_in)) == 0
    }

    pub(super) fn whereabouts(&self, id: usize) -> (String, String) {
        let thread = self.threads.get(id);
        let group = thread.and_then(|thread| self.groups.get(thread.group));
        (
            group.map_or_else(String::new, |group| group.name.clone()),
            thread.map_or_else(String::new, |thread| thread.name.clone()),
        )
    }

    /// The thread that runs is ready to go on, or waits, or is at its end.
    pub(super) fn set_ready(&mut self) {
        self.ready.push(self.running);
    }

    pub(super) fn set_waiting(&mut self, place: Place, deadline_ns: Option<u64>) {
        let id = self.running;
        if let Some(thread) = self.threads.get_mut(id) {
            thread.state = State::Waiting(place, deadline_ns);
            thread.was_woken = false;
        }
        self.timers.extend(deadline_ns.map(|deadline| (deadline, id)));
        self.waiting.entry(place).or_default().push(id);
    }

    pub(super) fn set_done(&mut self) {
        if let Some(thread) = self.threads.get_mut(self.running) {
            thread.state = State::Done;
        }
    }

    pub(super) fn is_done(&self, id: usize) -> bool {
        self.threads.get(id).is_none_or(|thread| thread.state == State::Done)
    }

    pub(super) fn is_dead(&self, id: usize) -> bool {
        self.threads.get(id).is_some_and(|thread| thread.state == State::Dead)
    }

    /// Whether what the thread waited for last came before its deadline.
    pub(super) fn was_woken(&self, id: usize) -> bool {
        self.threads.get(id).is_some_and(|thread| thread.was_woken)
    }

    /// Wakes those who wait at `place`, as many as `most`, drawn from the seed.
    pub(super) fn wake(&mut self, place: Place, most: usize) {
        let Some(mut waiting) = self.waiting.remove(&place) else { return };
        let mut count = most;
        while count > 0 && !waiting.is_empty() {
            let index = usize::try_from(self.below(waiting.len() as u64)).unwrap_or(0);
            let id = waiting.swap_remove(index);
            self.rouse(id, true);
            count -= 1;
        }
        if !waiting.is_empty() {
            self.waiting.insert(place, waiting);
        }
    }

    fn rouse(&mut self, id: usize, by_another: bool) {
        let Some(thread) = self.threads.get_mut(id) else { return };
        if let State::Waiting(_, Some(deadline)) = thread.state {
            self.timers.remove(&(deadline, id));
        }
        thread.state = State::Ready;
        thread.was_woken = by_another;
        self.ready.push(id);
    }

    pub(super) fn freeze(&mut self, group: usize, until_ns: u64) {
        if let Some(group) = self.groups.get_mut(group) {
            group.frozen_until_ns = group.frozen_until_ns.max(until_ns);
        }
    }

    pub(super) fn kill(&mut self, group: usize) {
        self.freeze(group, NEVER_NS);
        for (id, thread) in self.threads.iter_mut().enumerate() {
            if thread.group != group || thread.state == State::Done {
                continue;
            }
            if let State::Waiting(place, deadline) = thread.state {
                if let Some(waiting) = self.waiting.get_mut(&place) {
                    waiting.retain(|other| *other != id);
                }
                if let Some(deadline) = deadline {
                    self.timers.remove(&(deadline, id));
                }
            }
            self.ready.retain(|other| *other != id);
            thread.state = State::Dead;
        }
    }

    fn is_frozen(&self, id: usize) -> bool {
        let group = self.threads.get(id).and_then(|thread| self.groups.get(thread.group));
        group.is_none_or(|group| group.frozen_until_ns > self.now_ns)
    }

    /// Whose turn it is next; `None` when all wait for ever.
    pub(super) fn next(&mut self) -> Result<usize, &'static str> {
        loop {
            let able: Vec<usize> =
                (0..self.ready.len()).filter(|at| !self.is_frozen(self.ready[*at])).collect();
            if let Some(&at) = able.get(usize::try_from(self.below(able.len() as u64)).unwrap_or(0))
            {
                let id = self.ready.swap_remove(at);
                self.turn(id);
                return Ok(id);
            }
            self.pass_time()?;
        }
    }

    fn turn(&mut self, id: usize) {
        if id != self.running {
            self.switches += 1;
        }
        self.running = id;
        let mixed = self.fingerprint ^ (id as u64) ^ self.now_ns.rotate_left(20);
        self.fingerprint = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    /// Moves the clock to the next moment at which somebody can go on.
    fn pass_time(&mut self) -> Result<(), &'static str> {
        let timer = self.timers.first().map(|(deadline, _)| *deadline);
        let thaws = self.ready.iter().filter_map(|id| self.threads.get(*id)).filter_map(|thread| {
            Some(self.groups.get(thread.group)?.frozen_until_ns).filter(|until| *until < NEVER_NS)
        });
        let next = timer.into_iter().chain(thaws).min().ok_or("all threads wait for ever")?;
        self.now_ns = self.now_ns.max(next);
        if self.now_ns > self.end_ns {
            return Err("it takes longer than it may");
        }
        while let Some(&(deadline, id)) = self.timers.first() {
            if deadline > self.now_ns {
                break;
            }
            if let Some(State::Waiting(place, _)) = self.threads.get(id).map(|thread| thread.state)
                && let Some(waiting) = self.waiting.get_mut(&place)
            {
                waiting.retain(|other| *other != id);
                if waiting.is_empty() {
                    self.waiting.remove(&place);
                }
            }
            self.rouse(id, false);
            self.timers.remove(&(deadline, id));
        }
        Ok(())
    }

    /// What all threads that are not at their end are at, a line each.
    pub(super) fn describe(&self) -> Vec<String> {
        let lines = self.threads.iter().enumerate().filter_map(|(id, thread)| {
            let at = match thread.state {
                State::Done | State::Dead => return None,
                State::Ready if id == self.running => "runs".to_owned(),
                State::Ready => "ready".to_owned(),
                State::Waiting(place, deadline) => {
                    let until = deadline.map(|ns| format!(" until {:.6} s", ns as f64 / 1e9));
                    format!("waits for {place:?}{}", until.unwrap_or_default())
                }
            };
            let group = self.groups.get(thread.group).map_or("", |group| group.name.as_str());
            Some(format!("{group}/{} ({id}): {at}", thread.name))
        });
        lines.collect()
    }
}

pub(super) fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER_NS)
}
