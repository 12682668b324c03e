//! What breaks, when, and for how long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::{Instant, Simulation, thread};
use intarsia_transport::Link;

use crate::cluster::Cluster;
use crate::disks::Sickness;
use crate::drawing::pick;
use crate::host::Deployment;

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Two hosts reach each other no more.
    CutBoth,
    /// One host reaches another no more.
    CutOneWay,
    /// Messages from one host to another take long.
    SlowLink,
    /// A host's process is killed and started again.
    Kill,
    /// A host stops for a while.
    Freeze,
    /// A server of metadata fails over.
    FailOver,
    /// A host reaches no server of metadata.
    CutFromMetadata,
    /// Nothing more fits on a host's disk.
    DiskFull,
    /// A host's disk fails now and then.
    DiskBroken,
    /// A host's connection with another is lost, again and again.
    Disconnect,
    /// The answer to a commit of a host is lost, with its server.
    AnswerLost,
    /// A host is taken down in order and started again.
    Restart,
    /// A host's power fails, in a store in which what was acknowledged has copies.
    PowerLoss,
    /// A host dies, its disks with it, and comes back without them, in such a store.
    DiskLoss,
}

/// What takes away what a host has. There what was acknowledged has copies, and all of them are made.
const HEAVY: [Fault; 2] = [Fault::PowerLoss, Fault::DiskLoss];
/// What can break anywhere.
const ALL: [Fault; 12] = [
    Fault::CutBoth,
    Fault::CutOneWay,
    Fault::SlowLink,
    Fault::Kill,
    Fault::Freeze,
    Fault::FailOver,
    Fault::CutFromMetadata,
    Fault::DiskFull,
    Fault::DiskBroken,
    Fault::Disconnect,
    Fault::AnswerLost,
    Fault::Restart,
];

impl Fault {
    const fn name(self) -> &'static str {
        match self {
            Self::CutBoth => "cut-both",
            Self::CutOneWay => "cut-one-way",
            Self::SlowLink => "slow-link",
            Self::Kill => "kill",
            Self::Freeze => "freeze",
            Self::FailOver => "fail-over",
            Self::CutFromMetadata => "cut-from-metadata",
            Self::DiskFull => "disk-full",
            Self::DiskBroken => "disk-broken",
            Self::Disconnect => "disconnect",
            Self::AnswerLost => "answer-lost",
            Self::Restart => "restart",
            Self::PowerLoss => "power-loss",
            Self::DiskLoss => "disk-loss",
        }
    }
}

/// Whether a host that lives may be slow by a fault of this name.
pub(crate) fn makes_slow(name: &str) -> bool {
    [Fault::SlowLink, Fault::Freeze].iter().any(|fault| fault.name() == name)
}

/// Whether a fault of this name takes files away.
pub(crate) fn loses_disks(name: &str) -> bool {
    Fault::DiskLoss.name() == name
}

/// How many faults of each kind there were.
pub(crate) type Count = BTreeMap<&'static str, u64>;

/// Breaks things until `end`. A fault ends before the next one begins, or soon after.
pub(crate) fn break_until(
    end: Instant,
    simulation: &Simulation,
    cluster: &Arc<Cluster>,
) -> Result<Count, String> {
    // What two hosts have may go with two hosts at once.
    let is_doubled = !cluster.deployment.is_safe && simulation.below(3) == 0;
    if !is_doubled {
        return break_one_by_one(end, simulation, cluster);
    }
    let (also, of) = (simulation.clone(), Arc::clone(cluster));
    let other = thread::spawn(move || break_one_by_one(end, &also, &of));
    let mut count = break_one_by_one(end, simulation, cluster)?;
    let others = other.join().map_err(|_| "what breaks things panicked")??;
    others.into_iter().for_each(|(name, n)| *count.entry(name).or_default() += n);
    Ok(count)
}

fn break_one_by_one(
    end: Instant,
    simulation: &Simulation,
    cluster: &Arc<Cluster>,
) -> Result<Count, String> {
    let mut count = Count::new();
    let millis = |from: u64, to: u64| Duration::from_millis(from + simulation.below(to - from));
    loop {
        thread::sleep(millis(50, 4000));
        if Instant::now() >= end {
            return Ok(count);
        }
        let is_heavy = cluster.deployment.is_safe && simulation.below(3) == 0;
        let drawn = if is_heavy { pick(&HEAVY) } else { pick(&ALL) };
        let Some(fault) = drawn.filter(|_| !is_heavy || has_all_copies(cluster)) else { continue };
        *count.entry(fault.name()).or_default() += 1;
        // Most are short; some outlast what others wait for a host.
        let duration = match simulation.below(3) {
            0 => millis(5, 300),
            1 => millis(300, 4000),
            _ => millis(4000, 16_000),
        };
        tracing::info!(fault = fault.name(), ?duration, "something breaks");
        apply(fault, duration, simulation, cluster)?;
    }
}

fn apply(
    fault: Fault,
    duration: Duration,
    simulation: &Simulation,
    cluster: &Arc<Cluster>,
) -> Result<(), String> {
    let (one, other) = cluster.two(simulation);
    let network = &cluster.deployment.network;
    let (from, to) = (&one.name, &other.name);
    match fault {
        Fault::CutBoth | Fault::CutOneWay | Fault::SlowLink => {
            let slow = Duration::from_millis(200 + simulation.below(1500));
            let link = match fault {
                Fault::SlowLink => Link { is_cut: false, min_delay: slow / 2, max_delay: slow },
                _ => Link { is_cut: true, ..Link::default() },
            };
            network.set_link(from, to, link);
            if fault == Fault::CutBoth {
                network.set_link(to, from, link);
            }
            thread::sleep(duration);
            network.mend();
        }
        Fault::Disconnect => {
            for _ in 0..=simulation.below(6) {
                network.disconnect(from, to);
                thread::sleep(Duration::from_millis(1 + simulation.below(400)));
            }
        }
        Fault::AnswerLost => {
            let metadata = &cluster.deployment.metadata;
            metadata.lose_answer(from, simulation.below(12), duration);
            thread::sleep(duration);
        }
        Fault::Restart => {
            let Some(_taken) = one.take() else { return Ok(()) };
            let deadline = Instant::now() + Duration::from_secs(30);
            if one.take_down(deadline).map_err(|e| format!("taking {from} down: {e}"))? {
                thread::sleep(duration);
                cluster.start(&one)?;
            }
        }
        Fault::Kill => {
            let Some(_taken) = one.take() else { return Ok(()) };
            one.kill().map_err(|e| format!("killing {from}: {e}"))?;
            thread::sleep(duration);
            cluster.start(&one)?;
        }
        Fault::Freeze => {
            one.freeze(duration.min(Duration::from_secs(12)));
            thread::sleep(duration);
        }
        Fault::FailOver => {
            let partition = simulation.below(u64::from(cluster.deployment.metadata.partitions()));
            let partition = u16::try_from(partition).unwrap_or(0);
            cluster.deployment.metadata.fail_over(partition, duration);
            if simulation.below(2) == 0 {
                thread::sleep(duration);
            }
        }
        Fault::CutFromMetadata => {
            cluster.deployment.metadata.cut(from, true);
            thread::sleep(duration);
            cluster.deployment.metadata.cut(from, false);
        }
        Fault::DiskFull | Fault::DiskBroken => {
            let sickness = if fault == Fault::DiskFull { Sickness::Full } else { Sickness::Broken };
            let disks = &cluster.deployment.disks;
            disks.set(one.place(), Some(sickness));
            thread::sleep(duration);
            disks.set(one.place(), None);
        }
        Fault::PowerLoss => {
            one.lose_power().map_err(|e| format!("the power of {from}: {e}"))?;
            thread::sleep(duration);
            cluster.start(&one)?;
        }
        Fault::DiskLoss => {
            let died = |e| format!("{from} dies: {e}");
            one.kill().map_err(died)?;
            if simulation.below(2) == 0 {
                // They fail when it has just come back.
                cluster.start(&one)?;
                thread::sleep(Duration::from_millis(1 + simulation.below(3000)));
                one.kill().map_err(died)?;
            }
            one.lose_disks(simulation.below(2) == 0)
                .map_err(|e| format!("disks of {from}: {e}"))?;
            thread::sleep(duration);
            cluster.start(&one)?;
        }
    }
    Ok(())
}

/// Waits until all files that were there before have their copies; `false` if that takes too long.
fn has_all_copies(cluster: &Cluster) -> bool {
    let Deployment { metadata, replicas, .. } = &*cluster.deployment;
    let Ok(mut lacking) = metadata.lacking(*replicas) else { return false };
    for _ in 0..6 {
        thread::sleep(Duration::from_secs(5));
        let Ok(lacks_now) = metadata.lacking(*replicas) else { return false };
        lacking.retain(|ino, _| lacks_now.contains_key(ino));
        if lacking.is_empty() {
            return true;
        }
    }
    false
}
