//! Tasks that wait, and the slots of the hosts that are to run them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::nearest::Nearest;
use super::waiting::Waiting;
use crate::as_float;

/// A task that runs: since when, and how long it reads from the disk of `source`, if it does.
#[derive(Clone, Copy, Debug)]
struct Run {
    began_s: f64,
    slots: u32,
    source: Option<u32>,
    moves_s: f64,
}

/// Binds tasks to hosts as slots come free, by least cost.
///
/// A host that is free takes the task of whose input it has the largest share, if that costs it least; tasks of which no
/// free host has anything go in the order in which they came, those first that have least to do with what other hosts
/// hold. What a host costs a task is how long it is busy, and how long what is not there takes over the link; the host of
/// least cost has it, and it waits where that is busy.
///
/// How long a host is busy counts the tasks that were left to wait for it, and how long tasks take: as those that have
/// ended, but for what moved; what has run for longer is taken to run for as long again. A link carries what is left of
/// the one of the host that has most of the input, beside the tasks that read from there.
#[derive(Debug)]
pub(crate) struct TaskQueue {
    /// By host; one that is closed has none.
    slots: Vec<u32>,
    free: Vec<u32>,
    link_bytes_per_s: f64,
    waiting: HashMap<u32, (Waiting, u64)>,
    /// Those that wait, in the order in which they go where no free host has anything of them.
    in_turn: BTreeSet<(bool, u64, u64, u32)>,
    turn: u64,
    nearest: Nearest,
    runs: HashMap<(u32, u32), Run>,
    /// By host: when runs began there, as the bits of a number that is not negative.
    began: Vec<BTreeSet<(u64, u32)>>,
    /// By host: how many runs read from there; also of hosts that run no tasks.
    readers: HashMap<u32, u32>,
    mean_s: f64,
    /// When a task that was left to wait for a busy host may be better off elsewhere, though nothing happens until then.
    look_s: Option<f64>,
}

/// A task that begins now on a host, and from where it moves what is not there, for how long.
#[derive(Clone, Copy, Debug)]
struct Begun {
    task: u32,
    host: u32,
    moves: Option<(u32, f64)>,
}

/// Tasks that were left to wait while one was looked for that begins.
#[derive(Debug, Default)]
struct Left {
    /// By the host that has most of their input: the slots that they take.
    slots: HashMap<u32, u32>,
    /// When one of them may be better off elsewhere, though nothing happens until then.
    look_s: Option<f64>,
}

/// A host that a task may go to: least cost first, then most free slots, then the first.
type Choice = (f64, Reverse<u32>, u32);

#[derive(Debug, Default)]
struct LeastCosts {
    of_all: Option<Choice>,
    with_room: Option<Choice>,
}

impl TaskQueue {
    /// Hosts with so many slots each, and tasks of numbers below `tasks`.
    pub(crate) fn new(slots: Vec<u32>, tasks: usize, link_bytes_per_s: f64) -> Self {
        Self {
            free: slots.clone(),
            link_bytes_per_s,
            waiting: HashMap::new(),
            in_turn: BTreeSet::new(),
            turn: 0,
            nearest: Nearest::new(slots.len(), tasks),
            runs: HashMap::new(),
            began: vec![BTreeSet::new(); slots.len()],
            readers: HashMap::new(),
            slots,
            mean_s: 0.0,
            look_s: None,
        }
    }

    /// A task waits, or what is known of one that does has changed; then it keeps its turn.
    pub(crate) fn add(&mut self, task: u32, waiting: Waiting) {
        let turn = match self.waiting.get(&task) {
            Some((before, turn)) => {
                self.in_turn.remove(&rank(before, *turn, task));
                self.nearest.discard(task, before);
                *turn
            }
            None => {
                self.turn += 1;
                self.turn
            }
        };
        self.in_turn.insert(rank(&waiting, turn, task));
        self.nearest.add(task, turn, &waiting);
        self.waiting.insert(task, (waiting, turn));
    }

    /// A host has more of the input of a task, if that waits.
    pub(crate) fn gains(&mut self, task: u32, host: u32, bytes: u64) {
        let Some((waiting, turn)) = self.waiting.get_mut(&task) else { return };
        self.in_turn.remove(&rank(waiting, *turn, task));
        waiting.gains(host, bytes);
        self.in_turn.insert(rank(waiting, *turn, task));
        self.nearest.count(task, *turn, host, waiting);
    }

    /// Whether a task waits.
    pub(crate) fn waits(&self, task: u32) -> bool {
        self.waiting.contains_key(&task)
    }

    /// Tasks that wait, those first that came first.
    pub(crate) fn first_waiting(&self, most: usize) -> Vec<u32> {
        let mut tasks: Vec<(u64, u32)> =
            self.waiting.iter().map(|(task, (_, turn))| (*turn, *task)).collect();
        tasks.sort_unstable();
        tasks.into_iter().take(most).map(|(_, task)| task).collect()
    }

    /// Forgets a task that waits; false if it does not.
    pub(crate) fn discard(&mut self, task: u32) -> bool {
        let Some((waiting, turn)) = self.waiting.remove(&task) else { return false };
        self.in_turn.remove(&rank(&waiting, turn, task));
        self.nearest.discard(task, &waiting);
        true
    }

    /// A host has so many slots from now on.
    pub(crate) fn set_slots(&mut self, host: u32, slots: u32) {
        let at = host as usize;
        let used = self.slots[at].saturating_sub(self.free[at]);
        self.slots[at] = slots;
        self.free[at] = slots.saturating_sub(used);
    }

    /// The task that begins next, and where.
    pub(crate) fn next(&mut self, now_s: f64) -> Option<(u32, u32)> {
        let begun = self.choose(now_s);
        self.nearest.put_back();
        let Begun { task, host, moves } = begun?;
        if let Some((waiting, turn)) = self.waiting.remove(&task) {
            self.in_turn.remove(&rank(&waiting, turn, task));
            self.nearest.discard(task, &waiting);
            self.begin(task, host, waiting.slots, now_s, moves);
        }
        Some((task, host))
    }

    /// When to ask for the next task again if nothing happens until then.
    pub(crate) const fn look_s(&self) -> Option<f64> {
        self.look_s
    }

    /// A task begins on any host but one, if another has room.
    pub(crate) fn begin_besides(
        &mut self,
        task: u32,
        slots: u32,
        host: u32,
        now_s: f64,
    ) -> Option<u32> {
        let has_room = |(other, free): &(u32, &u32)| *other != host && **free >= slots;
        let (other, _) = (0..).zip(&self.free).find(has_room)?;
        self.begin(task, other, slots, now_s, None);
        Some(other)
    }

    /// A run has ended.
    pub(crate) fn finish(&mut self, task: u32, host: u32, now_s: f64) {
        let Some(run) = self.runs.remove(&(task, host)) else { return };
        let at = host as usize;
        self.free[at] = self.slots[at].min(self.free[at] + run.slots);
        self.began[at].remove(&(run.began_s.to_bits(), task));
        if let Some(source) = run.source {
            self.readers.entry(source).and_modify(|readers| *readers -= 1);
        }
        let took_s = (now_s - run.began_s - run.moves_s).max(0.0);
        // A mean that follows the stages of a workflow.
        self.mean_s = if self.mean_s == 0.0 { took_s } else { 0.75 * self.mean_s + 0.25 * took_s };
    }

    fn begin(&mut self, task: u32, host: u32, slots: u32, now_s: f64, moves: Option<(u32, f64)>) {
        let at = host as usize;
        self.free[at] -= slots;
        self.began[at].insert((now_s.to_bits(), task));
        let (source, moves_s) = moves.unzip();
        if let Some(source) = source {
            *self.readers.entry(source).or_default() += 1;
        }
        let run = Run { began_s: now_s, slots, source, moves_s: moves_s.unwrap_or(0.0) };
        self.runs.insert((task, host), run);
    }

    /// What begins next, and still waits.
    fn choose(&mut self, now_s: f64) -> Option<Begun> {
        let mut left = Left::default();
        let begun =
            self.choose_near(now_s, &mut left).or_else(|| self.choose_any(now_s, &mut left));
        self.look_s = left.look_s.filter(|_| begun.is_none());
        begun
    }

    /// Among tasks of which a free host has something.
    fn choose_near(&mut self, now_s: f64, left: &mut Left) -> Option<Begun> {
        let free: Vec<u32> =
            (0..).zip(&self.free).filter(|(_, f)| **f > 0).map(|(h, _)| h).collect();
        while let Some(task) = self.nearest.take(free.iter().copied()) {
            if let Some(begun) = self.place(task, now_s, left) {
                return Some(begun);
            }
        }
        None
    }

    /// Among the others.
    fn choose_any(&self, now_s: f64, left: &mut Left) -> Option<Begun> {
        if self.free.iter().all(|free| *free == 0) {
            return None;
        }
        let rest = self.in_turn.iter().map(|(.., task)| *task);
        let mut rest = rest.filter(|task| !self.nearest.is_taken(*task));
        rest.find_map(|task| self.place(task, now_s, left))
    }

    /// Where a task begins now, if it does.
    fn place(&self, task: u32, now_s: f64, left: &mut Left) -> Option<Begun> {
        let (waiting, _) = self.waiting.get(&task)?;
        let source = waiting.nearest;
        let readers = source.and_then(|source| self.readers.get(&source)).copied().unwrap_or(0);
        let rate = self.link_bytes_per_s / f64::from(1 + readers);
        let costs = self.least_costs(waiting, rate, now_s, left);
        let (_, _, host) = costs.of_all?;
        if self.free[host as usize] < waiting.slots {
            let look_s = costs.with_room.map(|(cost_s, ..)| {
                let moves_s = as_float(waiting.far_bytes(host)) / rate;
                self.outlasts_s(host, cost_s - moves_s, self.turns(host, left), now_s)
            });
            left.look_s = left.look_s.into_iter().chain(look_s).reduce(f64::min);
            if let Some(source) = source {
                *left.slots.entry(source).or_default() += waiting.slots;
            }
            return None;
        }
        let remote = waiting.remote_bytes(host);
        let moves = source.filter(|source| *source != host && remote > 0);
        let moves = moves.map(|source| (source, as_float(remote) / rate));
        Some(Begun { task, host, moves })
    }

    /// The hosts of least cost, of all and of those with room.
    fn least_costs(&self, waiting: &Waiting, rate: f64, now_s: f64, left: &Left) -> LeastCosts {
        let has_room = |host: u32| self.free[host as usize] >= waiting.slots;
        let cost = |host: u32| -> Option<Choice> {
            self.slots.get(host as usize).filter(|slots| **slots >= waiting.slots)?;
            let turns = || self.turns(host, left);
            let wait_s = if has_room(host) { 0.0 } else { self.wait_s(host, now_s, turns()) };
            let cost_s = wait_s + as_float(waiting.far_bytes(host)) / rate;
            Some((cost_s, Reverse(self.free[host as usize]), host))
        };
        let all = 0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        // A host that has nothing of it costs the same as every other one, but for how long it is busy.
        let freest = all
            .clone()
            .filter(|host| has_room(*host) && !waiting.is_near(*host))
            .min_by_key(|host| (Reverse(self.free[*host as usize]), *host));
        let mut found = LeastCosts::default();
        match freest {
            Some(host) => waiting.near_hosts().chain([host]).filter_map(cost).for_each(|choice| {
                found.take(choice, has_room(choice.2));
            }),
            None => all.filter_map(cost).for_each(|choice| found.take(choice, has_room(choice.2))),
        }
        found
    }

    /// How many tasks a slot were left to wait for a host.
    fn turns(&self, host: u32, left: &Left) -> f64 {
        let slots = self.slots[host as usize].max(1);
        f64::from(left.slots.get(&host).copied().unwrap_or(0)) / f64::from(slots)
    }

    /// When a host has been busy for so long that it is taken to be for longer than `wait_s`, with so many tasks a slot.
    fn outlasts_s(&self, host: u32, wait_s: f64, turns: f64, now_s: f64) -> f64 {
        let ran_s = (wait_s / (1.0 + turns)).max(self.mean_s);
        self.first_began_s(host).unwrap_or(now_s) + ran_s
    }

    fn first_began_s(&self, host: u32) -> Option<f64> {
        self.began[host as usize].first().map(|(bits, _)| f64::from_bits(*bits))
    }

    /// How long a host is busy with what runs there, and with so many tasks a slot after it.
    fn wait_s(&self, host: u32, now_s: f64, turns: f64) -> f64 {
        let ran_s = now_s - self.first_began_s(host).unwrap_or(now_s);
        let remains_s = if ran_s < self.mean_s { self.mean_s - ran_s } else { ran_s };
        remains_s + turns * self.mean_s.max(ran_s)
    }
}

impl LeastCosts {
    fn take(&mut self, choice: Choice, has_room: bool) {
        let is_less = |best: &Choice| {
            let order = choice.0.total_cmp(&best.0);
            order.then_with(|| (choice.1, choice.2).cmp(&(best.1, best.2))).is_lt()
        };
        if self.of_all.as_ref().is_none_or(is_less) {
            self.of_all = Some(choice);
        }
        if has_room && self.with_room.as_ref().is_none_or(is_less) {
            self.with_room = Some(choice);
        }
    }
}

/// What lies nowhere goes last, what has much to do with other hosts after what has little.
fn rank(waiting: &Waiting, turn: u64, task: u32) -> (bool, u64, u64, u32) {
    (waiting.is_without_input(), waiting.affinity_bytes, turn, task)
}
