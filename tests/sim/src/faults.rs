//! What breaks, when, and for how long.

use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::{Instant, thread};
use intarsia_transport::Link;

use crate::account::{self, Broken};
use crate::cluster::{Cluster, Load};
use crate::disks::Sickness;
use crate::drawing::Draws;
use crate::host::{Care, Deployment, Host};
use crate::parts::Only;

/// The longest that a server of metadata goes on without its replica before that takes its place: others miss it after 2 s.
const APART_MAX: Duration = Duration::from_secs(2);

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
    fn duration(self, draws: &mut Draws) -> Duration {
        let kind = draws.below(3);
        let mut millis = |from: u64, to: u64| Duration::from_millis(from + draws.below(to - from));
        match (self, kind) {
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

/// Breaks things until the load ends. A fault ends before the next one begins, or soon after.
pub(crate) fn break_until(
    load: Load,
    kept: &Only<u64>,
    cluster: &Arc<Cluster>,
) -> Result<(), String> {
    // What two hosts have may go with two hosts at once.
    let is_doubled =
        cluster.deployment.care == Care::Usual && Draws::of(load.seed, "faults", 0).is_one_in(3);
    if !is_doubled {
        return break_one_by_one(load, kept, cluster, (1..).step_by(1));
    }
    let (also, of) = (kept.clone(), Arc::clone(cluster));
    let other = thread::spawn(move || break_one_by_one(load, &also, &of, (2..).step_by(2)));
    let one = break_one_by_one(load, kept, cluster, (1..).step_by(2));
    other.join().map_err(|_| "what breaks things panicked")?.and(one)
}

/// A fault as it is drawn, which follows from its number, whatever else there is.
struct Drawn {
    number: u64,
    fault: Fault,
    is_heavy: bool,
    /// Before it begins.
    pause: Duration,
    duration: Duration,
    /// For the rest of what is to be known of it.
    draws: Draws,
}

impl Drawn {
    fn of(number: u64, load: &Load, care: Care) -> Self {
        let mut draws = Draws::of(load.seed, "fault", number);
        let pause = Duration::from_millis(50 + draws.below(load.pace.pause_ms()));
        let heavy = care.may_take();
        let is_heavy = !heavy.is_empty() && draws.is_one_in(3);
        let fault = draws.pick(if is_heavy { heavy } else { &ALL }).unwrap_or(Fault::CutBoth);
        let duration = load.pace.duration(&mut draws);
        Self { number, fault, is_heavy, pause, duration, draws }
    }

    /// Breaks it, and takes note of that.
    fn happen(mut self, load: &Load, cluster: &Arc<Cluster>) -> Result<(), String> {
        let hosts = cluster.two(&mut self.draws);
        let broken = Broken {
            kind: self.fault.name().to_owned(),
            at_s: load.begun.elapsed().as_secs_f64(),
            for_s: self.duration.as_secs_f64(),
            host: hosts.0.name.0.clone(),
            other: hosts.1.name.0.clone(),
        };
        tracing::info!(number = self.number, "something breaks: {broken}");
        account::note_broken(self.number, broken);
        apply(self.fault, self.duration, &mut self.draws, &hosts, cluster)
    }
}

fn break_one_by_one(
    load: Load,
    kept: &Only<u64>,
    cluster: &Arc<Cluster>,
    numbers: impl Iterator<Item = u64>,
) -> Result<(), String> {
    let care = cluster.deployment.care;
    for number in numbers {
        let drawn = Drawn::of(number, &load, care);
        thread::sleep(drawn.pause);
        if Instant::now() >= load.end {
            break;
        }
        if !kept.keeps(&number) {
            thread::sleep(drawn.duration);
        } else if !drawn.is_heavy || care == Care::Frail || has_all_copies(cluster) {
            drawn.happen(&load, cluster)?;
        }
    }
    Ok(())
}

fn apply(
    fault: Fault,
    duration: Duration,
    draws: &mut Draws,
    (one, other): &(Arc<Host>, Arc<Host>),
    cluster: &Arc<Cluster>,
) -> Result<(), String> {
    let network = &cluster.deployment.network;
    let (from, to) = (&one.name, &other.name);
    match fault {
        Fault::CutBoth | Fault::CutOneWay | Fault::SlowLink => {
            let slow = Duration::from_millis(200 + draws.below(1500));
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
            for _ in 0..=draws.below(6) {
                network.disconnect(from, to);
                thread::sleep(Duration::from_millis(1 + draws.below(400)));
            }
        }
        Fault::AnswerLost => {
            let metadata = &cluster.deployment.metadata;
            metadata.lose_answer(from, draws.below(12), duration);
            thread::sleep(duration);
        }
        Fault::Restart => {
            let Some(_taken) = one.take() else { return Ok(()) };
            let deadline = Instant::now() + Duration::from_secs(30);
            if one.take_down(deadline).map_err(|e| format!("taking {from} down: {e}"))? {
                tracing::info!(host = %from, "it is down");
                thread::sleep(duration);
                cluster.start(one)?;
            }
        }
        Fault::Kill => {
            let Some(_taken) = one.take() else { return Ok(()) };
            one.kill().map_err(|e| format!("killing {from}: {e}"))?;
            thread::sleep(duration);
            cluster.start(one)?;
        }
        Fault::Freeze => {
            one.freeze(duration.min(Duration::from_secs(12)));
            thread::sleep(duration);
        }
        Fault::FailOver => {
            let metadata = &cluster.deployment.metadata;
            let partition = draws.below(u64::from(metadata.partitions()));
            let partition = u16::try_from(partition).unwrap_or(0);
            let is_apart = draws.is_one_in(2);
            let apart = if is_apart { (duration / 2).min(APART_MAX) } else { Duration::ZERO };
            let times = (apart, duration - apart);
            metadata.fail_over(partition, times, draws).map_err(|e| format!("a fail-over: {e}"))?;
            if draws.is_one_in(2) {
                thread::sleep(times.1);
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
            cluster.start(one)?;
        }
        Fault::DiskLoss => {
            let died = |e| format!("{from} dies: {e}");
            one.kill().map_err(died)?;
            if draws.below(2) == 0 {
                // They fail when it has just come back.
                cluster.start(one)?;
                thread::sleep(Duration::from_millis(1 + draws.below(3000)));
                one.kill().map_err(died)?;
            }
            one.lose_disks(draws.below(2) == 0).map_err(|e| format!("disks of {from}: {e}"))?;
            thread::sleep(duration);
            cluster.start(one)?;
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
