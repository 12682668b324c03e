//! What a prediction says.

use intarsia_des::{Span, Time};
use serde::Serialize;

use super::services::Counter;
use super::{Energy, Mishaps, World};

/// A predicted run. Times are in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// From the first task's start to the last one's end.
    pub makespan_seconds: f64,
    /// What it costs: hosts times makespan.
    pub host_seconds: f64,
    /// By stage, in the order of the workload.
    pub stages: Vec<StageTimes>,
    /// By task, in the order of the workload.
    pub tasks: Vec<TaskTimes>,
    /// Bytes that programs wrote and read, by the way they took.
    pub bytes: Bytes,
    /// What the workflow engine did, if the profile says what a task takes there.
    pub engine: Option<Service>,
    /// What services did.
    pub manager: Service,
    /// Reads of tiers.
    pub storage_reads: Service,
    /// Writes to tiers, copies included.
    pub storage_writes: Service,
    /// What was busiest, busiest first.
    pub usage: Vec<Usage>,
    /// What the hosts draw, if the profile says what they do in each state.
    pub energy: Option<Energy>,
    /// What the run costs at the prices of the profile, in their currency, if it has any.
    pub money: Option<f64>,
    /// What went wrong, if the profile says that something does.
    pub mishaps: Option<Mishaps>,
    /// Events of the simulation.
    pub events: u64,
}

/// The tasks of a stage together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StageTimes {
    /// Its name.
    pub name: String,
    /// How many tasks.
    pub tasks: u64,
    /// The first one starts.
    pub start_seconds: f64,
    /// The last one ends.
    pub end_seconds: f64,
    /// In all tasks: opening files.
    pub metadata_seconds: f64,
    /// In all tasks: reading.
    pub read_seconds: f64,
    /// In all tasks: computing.
    pub compute_seconds: f64,
    /// In all tasks: writing, allocation and commit included.
    pub write_seconds: f64,
}

/// One task.
#[derive(Clone, Debug, Serialize)]
pub struct TaskTimes {
    /// Its stage, a place in [`Prediction::stages`].
    pub stage: usize,
    /// The host that runs it.
    pub host: u32,
    /// It starts.
    pub start_seconds: f64,
    /// It ends.
    pub end_seconds: f64,
}

/// Bytes that programs wrote and read, each time counted, copies not.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bytes {
    /// On the same host.
    pub local: u64,
    /// On another one.
    pub remote: u64,
    /// In memory of the same host.
    pub from_memory: u64,
    /// All that crossed links: copies and messages without data included.
    pub on_links: u64,
}

/// What the services of a kind did together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Service {
    /// Requests.
    pub requests: u64,
    /// Time at work.
    pub busy_seconds: f64,
    /// Time that requests waited before.
    pub waited_seconds: f64,
}

/// How busy a kind of resource was, as a share of the makespan.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Usage {
    /// What.
    pub resource: &'static str,
    /// The busiest one.
    pub busiest: f64,
    /// The mean of all.
    pub mean: f64,
}

/// What all tasks together did, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TaskSeconds {
    /// Opening files.
    pub metadata: f64,
    /// Reading.
    pub read: f64,
    /// Computing.
    pub compute: f64,
    /// Writing.
    pub write: f64,
}

impl Prediction {
    /// What all tasks together did.
    #[must_use]
    pub fn task_seconds(&self) -> TaskSeconds {
        self.stages.iter().fold(TaskSeconds::default(), |sum, stage| TaskSeconds {
            metadata: sum.metadata + stage.metadata_seconds,
            read: sum.read + stage.read_seconds,
            compute: sum.compute + stage.compute_seconds,
            write: sum.write + stage.write_seconds,
        })
    }
}

impl Bytes {
    /// The part that did not leave its host; 1 when nothing was moved.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn local_share(&self) -> f64 {
        let here = self.local + self.from_memory;
        let all = here + self.remote;
        if all == 0 { 1.0 } else { here as f64 / all as f64 }
    }
}

impl From<Counter> for Service {
    fn from(counter: Counter) -> Self {
        Self {
            requests: counter.requests,
            busy_seconds: counter.busy.as_secs_f64(),
            waited_seconds: counter.waited.as_secs_f64(),
        }
    }
}

pub(super) fn summarise(world: &World<'_>, end: Time, events: u64) -> Prediction {
    let makespan_seconds = end.as_secs_f64();
    let tasks: Vec<TaskTimes> = world
        .tasks
        .iter()
        .zip(&world.workload.tasks)
        .map(|(progress, task)| TaskTimes {
            stage: task.stage,
            host: progress.host,
            start_seconds: progress.started.as_secs_f64(),
            end_seconds: progress.ended.as_secs_f64(),
        })
        .collect();
    let energy = world.energy(makespan_seconds);
    let joules = energy.as_ref().map_or(0.0, |energy| energy.joules);
    let prices = world.profile.prices.as_ref();
    let goes_wrong = world.profile.failures.is_some() || world.profile.stragglers.is_some();
    Prediction {
        makespan_seconds,
        host_seconds: makespan_seconds * f64::from(world.configuration.hosts),
        stages: stages(world, &tasks),
        tasks,
        bytes: super::Bytes { on_links: world.network.remote_bytes, ..world.bytes },
        engine: world.profile.engine.as_ref().map(|_| world.engine.counter.into()),
        manager: world.services.manager.into(),
        storage_reads: world.services.reads.into(),
        storage_writes: world.services.writes.into(),
        usage: usage(world, makespan_seconds),
        money: prices.map(|prices| world.money(prices, makespan_seconds, joules)),
        energy,
        mishaps: goes_wrong.then_some(world.trouble.counts),
        events,
    }
}

fn stages(world: &World<'_>, tasks: &[TaskTimes]) -> Vec<StageTimes> {
    let mut stages = world.stages.clone();
    for (task, times) in world.workload.tasks.iter().zip(tasks) {
        let stage = &mut stages[task.stage];
        let is_first = stage.tasks == 0;
        stage.tasks += 1;
        let start = times.start_seconds;
        stage.start_seconds = if is_first { start } else { stage.start_seconds.min(start) };
        stage.end_seconds = stage.end_seconds.max(times.end_seconds);
    }
    stages
}

fn usage(world: &World<'_>, makespan: f64) -> Vec<Usage> {
    let hosts = 0..world.configuration.hosts;
    let cards: Vec<(Span, Span)> = hosts.map(|host| world.network.busy(host)).collect();
    let mut slots = vec![0.0; world.roles.app.len()];
    for (task, run) in world.workload.tasks.iter().zip(&world.tasks) {
        let busy = run.ended.since(run.started).as_secs_f64() * f64::from(task.slots);
        slots[run.host as usize] += busy / f64::from(world.profile.host(run.host).slots);
    }
    let mut usage = vec![
        share("slots", slots.into_iter(), makespan),
        share("links out", cards.iter().map(|(out, _)| out.as_secs_f64()), makespan),
        share("links in", cards.iter().map(|(_, into)| into.as_secs_f64()), makespan),
        share("metadata servers", world.services.manager_busy(), makespan),
        share("storage", world.services.tier_busy(), makespan),
    ];
    if world.services.crowd_busy().next().is_some() {
        usage.push(share("work of hosts", world.services.crowd_busy(), makespan));
    }
    if let Some(busy) = world.services.processors_busy() {
        usage.push(share("shared processors", [busy].into_iter(), makespan));
    }
    if world.profile.engine.is_some() {
        usage.push(share(
            "engine",
            [world.engine.counter.busy.as_secs_f64()].into_iter(),
            makespan,
        ));
    }
    usage.sort_by(|a, b| b.busiest.total_cmp(&a.busiest));
    usage
}

fn share(resource: &'static str, busy: impl Iterator<Item = f64>, makespan: f64) -> Usage {
    let (mut count, mut sum, mut busiest) = (0.0, 0.0, 0.0_f64);
    for seconds in busy {
        count += 1.0;
        sum += seconds;
        busiest = busiest.max(seconds);
    }
    if count == 0.0 || makespan == 0.0 {
        return Usage { resource, busiest: 0.0, mean: 0.0 };
    }
    Usage { resource, busiest: busiest / makespan, mean: sum / count / makespan }
}
