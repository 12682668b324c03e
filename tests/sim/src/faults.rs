//! What breaks, when, and for how long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::{Instant, Simulation, thread};
use intarsia_transport::Link;

use crate::cluster::Cluster;
use crate::disks::Sickness;
use crate::drawing::pick;
use crate::host::{Care, Deployment};

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
    /// A host's power fails, where what was acknowledged has copies or nothing was.
    PowerLoss,
    /// A host dies, its disks with it, and comes back without them, where what was acknowledged has copies.
    DiskLoss,
}

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

impl Care {
    /// What may take away what a host has; of what has copies, once all of them are made.
    const fn may_take(self) -> &'static [Fault] {
        match self {
            Self::Usual => &[],
            Self::Safe => &[Fault::PowerLoss, Fault::DiskLoss],
            Self::Frail => &[Fault::PowerLoss],
        }
    }

    /// Whether a fault of this name may take files away.
    pub(crate) fn may_lose_files(self, name: &str) -> bool {
        self.may_take()
            .iter()
            .any(|fault| fault.name() == name && (*fault == Fault::DiskLoss || self == Self::Frail))
    }
}

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

/// How fast things break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Every two seconds, mostly for longer than others wait for a host.
    Calm,
    /// Several times a second, for as long as a few messages take: what has to meet within moments does so.
    Stormy,
}

impl Pace {
    /// The longest pause between two faults.
    const fn pause_ms(self) -> u64 {
        match self {
            Self::Calm => 4000,
            Self::Stormy => 500,
        }
    }

    /// The longest pause between what one writer does and what it does next.
    pub(crate) const fn writer_pause_ms(self) -> u64 {
        match self {
            Self::Calm => 1500,
            Self::Stormy => 250,
        }
    }

    /// How long a fault lasts.
    fn duration(self, simulation: &Simulation) -> Duration {
        let millis = |from: u64, to: u64| Duration::from_millis(from + simulation.below(to - from));
        match (self, simulation.below(3)) {
            (_, 0) => millis(5, 300),
            (Self::Stormy, 1) => millis(5, 60),
            (Self::Stormy, _) => millis(300, 1500),
            (Self::Calm, 1) => millis(300, 4000),
            // Some outlast what others wait for a host.
            (Self::Calm, _) => millis(4000, 16_000),
        }
    }
}

/// Whether a host that lives may be slow by a fault of this name.
pub(crate) fn makes_slow(name: &str) -> bool {
    [Fault::SlowLink, Fault::Freeze].iter().any(|fault| fault.name() == name)
}

/// How many faults of each kind there were.
pub(crate) type Count = BTreeMap<&'static str, u64>;

/// Breaks things until `end`. A fault ends before the next one begins, or soon after.
pub(crate) fn break_until(
    end: Instant,
    pace: Pace,
    simulation: &Simulation,
    cluster: &Arc<Cluster>,
) -> Result<Count, String> {
    // What two hosts have may go with two hosts at once.
    let is_doubled = cluster.deployment.care == Care::Usual && simulation.below(3) == 0;
    if !is_doubled {
        return break_one_by_one(end, pace, simulation, cluster);
    }
    let (also, of) = (simulation.clone(), Arc::clone(cluster));
    let other = thread::spawn(move || break_one_by_one(end, pace, &also, &of));
    let mut count = break_one_by_one(end, pace, simulation, cluster)?;
    let others = other.join().map_err(|_| "what breaks things panicked")??;
    others.into_iter().for_each(|(name, n)| *count.entry(name).or_default() += n);
    Ok(count)
}

fn break_one_by_one(
    end: Instant,
    pace: Pace,
    simulation: &Simulation,
    cluster: &Arc<Cluster>,
) -> Result<Count, String> {
    let mut count = Count::new();
    loop {
        thread::sleep(Duration::from_millis(50 + simulation.below(pace.pause_ms())));
        if Instant::now() >= end {
            return Ok(count);
        }
        let care = cluster.deployment.care;
        let heavy = care.may_take();
        let is_heavy = !heavy.is_empty() && simulation.below(3) == 0;
        let drawn = if is_heavy { pick(heavy) } else { pick(&ALL) };
        let is_meant = |_: &Fault| !is_heavy || care == Care::Frail || has_all_copies(cluster);
        let Some(fault) = drawn.filter(is_meant) else { continue };
        *count.entry(fault.name()).or_default() += 1;
        let duration = pace.duration(simulation);
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
    tracing::info!(fault = fault.name(), ?duration, host = %from, other = %to, "something breaks");
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
                tracing::info!(host = %from, "it is down");
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

/// Waits until all files that were there before have their copies, and so has everything that a safe close has acknowledged
/// since: when a host is given up, its copies go from the records. `false` if that takes too long.
fn has_all_copies(cluster: &Cluster) -> bool {
    let Deployment { metadata, replicas, promises, .. } = &*cluster.deployment;
    let Ok(mut lacking) = metadata.lacking(*replicas) else { return false };
    for _ in 0..6 {
        thread::sleep(Duration::from_secs(5));
        let Ok(lacks_now) = metadata.lacking(*replicas) else { return false };
        lacking.retain(|ino, _| lacks_now.contains_key(ino));
        if lacking.is_empty() && !lacks_now.keys().any(|ino| promises.holds(*ino)) {
            return true;
        }
    }
    false
}
