//! Who runs a task that is ready.
//!
//! ```text
//! idle       workqueue and location: a task never waits for a busy host
//! cheapest   local and wow: waiting for the host of the data is weighed against moving them, as by `schedule`
//! ```

mod cheapest;
mod idle;

use intarsia_des::Time;

use crate::Problem;
use crate::configuration::{Configuration, Roles, Scheduler};
use crate::profile::Profile;
use crate::workload::Workload;

pub(super) use cheapest::Cheapest;
pub(super) use idle::Idle;

/// Tasks that are ready, and hosts that have slots.
#[derive(Debug)]
pub(super) enum Ready {
    /// Any idle host takes the task that waits longest.
    Anywhere(Idle),
    /// An idle host takes the first task of which it holds most.
    Nearby(Idle),
    /// Each task goes to the host that costs it least.
    Cheapest(Box<Cheapest>),
}

impl Ready {
    pub(super) fn new(
        workload: &Workload,
        profile: &Profile,
        configuration: &Configuration,
        roles: &Roles,
        seed: u64,
    ) -> Result<Self, Problem> {
        let slots: Vec<u32> = roles.app.clone().map(|host| profile.host(host).slots).collect();
        let most = slots.iter().max().copied().unwrap_or(0);
        if let Some(task) = workload.tasks.iter().find(|task| task.slots > most) {
            let why = format!(
                "task '{}' needs {} slots, and no host has more than {most}",
                task.name, task.slots
            );
            return Err(Problem::new(why).with_help("raise 'slots' of the profile's hosts"));
        }
        let wanted = || workload.tasks.iter().map(|task| task.slots).collect();
        let link = profile.host.in_bytes_per_second.min(profile.host.out_bytes_per_second);
        Ok(match configuration.scheduler {
            Scheduler::Workqueue => Self::Anywhere(Idle::new(slots, wanted(), seed)),
            Scheduler::Location => Self::Nearby(Idle::new(slots, wanted(), seed)),
            Scheduler::Local => {
                Self::Cheapest(Box::new(Cheapest::new(workload, slots, link, true)))
            }
            Scheduler::Wow => Self::Cheapest(Box::new(Cheapest::new(workload, slots, link, false))),
        })
    }

    /// A run of a task has ended there.
    pub(super) fn leave(&mut self, task: u32, host: u32, now: Time) {
        match self {
            Self::Anywhere(idle) | Self::Nearby(idle) => idle.leave(task, host),
            Self::Cheapest(cheapest) => cheapest.leave(task, host, now),
        }
    }

    /// A task that waits for a host must wait for others first; false if it does not wait here.
    pub(super) fn withdraw(&mut self, task: u32) -> bool {
        match self {
            Self::Anywhere(idle) | Self::Nearby(idle) => idle.withdraw(task),
            Self::Cheapest(cheapest) => cheapest.withdraw(task),
        }
    }

    /// A host takes no tasks; nobody runs one there.
    pub(super) fn close(&mut self, host: u32) {
        match self {
            Self::Anywhere(idle) | Self::Nearby(idle) => idle.close(host),
            Self::Cheapest(cheapest) => cheapest.close(host),
        }
    }

    /// It does again.
    pub(super) fn open(&mut self, host: u32) {
        match self {
            Self::Anywhere(idle) | Self::Nearby(idle) => idle.open(host),
            Self::Cheapest(cheapest) => cheapest.open(host),
        }
    }

    /// Takes slots of an idle host for a task, of any but `host`.
    pub(super) fn take_besides(&mut self, task: u32, host: u32, now: Time) -> Option<u32> {
        match self {
            Self::Anywhere(idle) | Self::Nearby(idle) => idle.take_besides(task, host),
            Self::Cheapest(cheapest) => cheapest.take_besides(task, host, now),
        }
    }

    /// The next task that starts, and where.
    pub(super) fn next(&mut self, now: Time) -> Option<(u32, u32)> {
        match self {
            Self::Anywhere(idle) | Self::Nearby(idle) => idle.next(),
            Self::Cheapest(cheapest) => cheapest.next(now),
        }
    }

    /// When to look again at tasks that wait, if nothing happens until then.
    pub(super) fn look_again(&self, now: Time) -> Option<Time> {
        match self {
            Self::Anywhere(_) | Self::Nearby(_) => None,
            Self::Cheapest(cheapest) => cheapest.look_again(now),
        }
    }
}
