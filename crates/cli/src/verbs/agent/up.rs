//! The part of `up` on a host: claim the directory and look; start a node when told to; let it stay when told to.
//!
//! Nobody else changes what runs in the directory from the look on. Until the word that it is to stay, the node ends
//! when the launcher is gone.

use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use intarsia_cluster::claim::{self, Claim};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::inspection::{forget_unfounded, inspect};
use super::{Orders, Saying, answer, say};
use crate::assembly::Assembly;
use crate::config::Settings;
use crate::deployment::Bundle;
use crate::exit::{Exit, Failure, Outcome};
use crate::failpoint;
use crate::launch::{self, Ready, Tether};
use crate::process::Process;
use crate::registry::Registry;
use crate::verbs::down::{self, part};
use crate::verbs::purge;
use crate::{made_dir, output, tenure};

/// How long a node may take to leave before it is made to.
const LEAVE: Duration = Duration::from_secs(20);
/// Two who bring the same hosts up at once: the one that has the first host waits so long for the other to let go of
/// the rest.
const CLAIM_PATIENCE: Duration = Duration::from_secs(3);

/// What an agent of `up` is told after its first look.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UpStep {
    /// Start the node.
    Start {
        /// The deployment's files.
        bundle: Box<Bundle>,
        /// How the hosts begin together.
        assembly: Assembly,
    },
    /// All hosts are up: the node stays.
    Stay,
    /// Nothing is to be done here.
    Quit,
}

/// Looks, and starts a node if told to.
pub(super) fn run(orders: &mut Orders) -> Outcome<Exit> {
    let mut told: launch::Orders = orders.first()?;
    failpoint::on_host(&told.settings.name);
    let begun = Begun::new(&told);
    let looked = begun.and_then(|begun| Ok((inspect(&told)?, begun)));
    answer(&looked.as_ref().map(|(seen, _)| seen.clone()).map_err(Clone::clone))?;
    failpoint::reach("agent-up:looked");
    let Ok((_, begun)) = looked else { return Ok(Exit::Ok) };
    let Some(UpStep::Start { bundle, assembly }) = orders.next()? else { return Ok(Exit::Ok) };
    failpoint::reach("agent-up:ordered");
    if assembly.is_founding {
        begun.clear_ground()?;
    }
    told.bundle = Some(*bundle);
    told.assembly = Some(assembly);
    let Some(started) = start(&told, orders)? else {
        begun.clear();
        return Ok(Exit::Ok);
    };
    if let Some(UpStep::Stay) = orders.next()? {
        let stays = tenure::let_stay(started.tether, &told.settings.dir);
        failpoint::reach("agent-up:stayed");
        answer(&stays)?;
    } else {
        started.take_back(&told.settings);
        begun.clear();
    }
    Ok(Exit::Ok)
}

/// Starts a node, and has it end with its launcher.
pub(super) fn keep(orders: &mut Orders) -> Outcome<Exit> {
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|e| Failure::io("signals", &e))?;
    let told: launch::Orders = orders.first()?;
    let begun = Begun::new(&told);
    let begun = match begun {
        Ok(begun) => begun,
        Err(failure) => return say(&Saying::<Ready>::Failed(failure)).map(|()| Exit::Ok),
    };
    if told.assembly.as_ref().is_some_and(|assembly| assembly.is_founding) {
        begun.clear_ground()?;
    }
    let Some(started) = start(&told, orders)? else {
        begun.clear();
        return Ok(Exit::Ok);
    };
    let settings = &told.settings;
    let Some(UpStep::Stay) = orders.next()? else {
        started.take_back(settings);
        begun.clear();
        return Ok(Exit::Ok);
    };
    let node = started.tether.process();
    answer(&tenure::let_stay(started.tether, &settings.dir))?;
    // From here on 'down' may take it down.
    drop(begun);
    let (sender, happenings) = mpsc::channel();
    let told_by_signal = sender.clone();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = told_by_signal.send(Happening::LauncherGone);
        }
    });
    watch(node.clone(), sender);
    wait_for_end(orders, &happenings, settings);
    end(node.as_ref(), settings, told.discard)
}

/// What an agent has made and claimed before it started anything.
struct Begun {
    claim: Claim,
    dir: std::path::PathBuf,
    has_made_dir: bool,
}

impl Begun {
    /// Claims the directory, and ends what an `up` left that nobody waits for any more.
    fn new(told: &launch::Orders) -> Outcome<Self> {
        let dir = told.settings.dir.clone();
        let has_made_dir = !dir.exists();
        // The first host decides between two 'up' at once.
        let take = if told.comes_first { tenure::claim_after_down } else { tenure::claim_made };
        let claim = take("up", &dir, CLAIM_PATIENCE)?;
        let begun = Self { claim, dir, has_made_dir };
        failpoint::reach("agent-up:claimed");
        tenure::end_leftover(&begun.dir, told.settings.wait)?;
        Ok(begun)
    }

    /// Ends and removes what is left of an attempt to found a store here, for a new one.
    fn clear_ground(&self) -> Outcome {
        if !self.dir.join("store.json").exists() {
            part::stop_servers(&self.dir, &[])?;
            forget_unfounded(&self.dir);
        }
        Ok(())
    }

    /// Removes what it made for a store that was not founded. Once its metadata servers are one Cluster with those of
    /// other hosts, which may have founded it, they stay: the next `up` goes on with them, or clears them away.
    fn clear(self) {
        let Self { claim, dir, has_made_dir } = self;
        if intarsia_cluster::servers::has_any_formed(&dir.join("servers")) {
            return;
        }
        forget_unfounded(&dir);
        if has_made_dir && !dir.join("store.json").exists() {
            made_dir::remove_mount_point(&dir, None);
            for name in [claim::NODE, "node.log", "metrics.prom", "control.sock"] {
                let _ = std::fs::remove_file(dir.join(name));
            }
            claim.remove();
            let _ = std::fs::remove_dir(&dir);
        }
    }
}

/// A node that is starting.
struct Started {
    tether: Tether,
    /// The metadata servers that ran before it: they may be all that others have.
    earlier: Vec<Process>,
}

/// Starts a node and says what became of it; none when it failed, and then nothing of it runs.
fn start(told: &launch::Orders, orders: &Orders) -> Outcome<Option<Started>> {
    let earlier = part::running_servers(&told.settings.dir);
    // Nothing is said to an agent meanwhile.
    match launch::start(told, || !orders.is_gone(Duration::ZERO)) {
        Ok((ready, tether)) => {
            failpoint::reach("agent-up:started");
            say(&Saying::Done(ready))?;
            Ok(Some(Started { tether, earlier }))
        }
        Err(failure) => {
            stop_servers(&told.settings, &earlier);
            say(&Saying::<Ready>::Failed(failure))?;
            Ok(None)
        }
    }
}

impl Started {
    /// Ends a node that nobody wants any more, and what it has started.
    fn take_back(self, settings: &Settings) {
        self.tether.cut(LEAVE);
        if let Err(failure) = down::by_force(&settings.mount) {
            output::warn(&failure.message);
        }
        stop_servers(settings, &self.earlier);
    }
}

fn stop_servers(settings: &Settings, spared: &[Process]) {
    if let Err(failure) = part::stop_servers(&settings.dir, spared) {
        output::warn(&failure.message);
    }
}

/// What an agent that keeps a node waits for.
enum Happening {
    /// Whoever holds our input is gone, or the job ends.
    LauncherGone,
    NodeGone,
}

fn wait_for_end(orders: &Orders, happenings: &mpsc::Receiver<Happening>, settings: &Settings) {
    /// Between two looks whether the launcher is there, and the place clear.
    const STEP: Duration = Duration::from_millis(500);
    let mut is_node_gone = false;
    while !orders.is_gone(STEP) {
        match happenings.try_recv() {
            Ok(Happening::LauncherGone) => return,
            Ok(Happening::NodeGone) => {
                is_node_gone = true;
                // Its servers go on, as on any host whose node dies.
                if !is_clear(settings) {
                    output::warn(&format!(
                        "the node of {} ended and its place is not clear yet; its log is {}",
                        settings.mount.display(),
                        launch::log_path(&settings.dir).display()
                    ));
                }
            }
            Err(_) => {}
        }
        if is_node_gone && is_clear(settings) {
            return;
        }
    }
}

fn watch(node: Option<Process>, told: Sender<Happening>) {
    /// A wait without a bound is divided into these.
    const STEP: Duration = Duration::from_secs(3600);
    std::thread::spawn(move || {
        while node.as_ref().is_some_and(|node| !node.wait_until_gone(STEP)) {}
        let _ = told.send(Happening::NodeGone);
    });
}

/// Whether the node was taken down in order: then it has left the registry.
fn is_clear(settings: &Settings) -> bool {
    Registry::of_user().is_ok_and(|registry| registry.by_mount(&settings.mount).is_none())
}

/// Ends the node, in order where that is possible, and leaves nothing running and nothing mounted. What another `up` has
/// begun here since, after a `down`, is not ours to end.
fn end(node: Option<&Process>, settings: &Settings, discard: bool) -> Outcome<Exit> {
    if let Some(node) = node {
        node.signal(Signal::TERM);
        let _ = node.wait_until_gone(LEAVE);
    }
    let Ok(Some(claim)) = tenure::claim_if_there(tenure::DOWN, &settings.dir, CLAIM_PATIENCE)
    else {
        return Ok(Exit::Ok);
    };
    let holder = claim::holder(&settings.dir.join(claim::NODE));
    if holder.is_some_and(|holder| node != Some(&holder.process)) {
        return Ok(Exit::Ok);
    }
    let cleared = if is_clear(settings) { Ok(()) } else { down::by_force(&settings.mount) };
    stop_servers(settings, &[]);
    if discard {
        let tiers: Vec<_> = settings.tiers.iter().map(|t| t.dir.clone()).collect();
        purge::purge(&purge::contents(&settings.dir, &tiers)?)?;
        Registry::of_user()?.forget_gone();
    }
    tenure::leave(claim, &settings.dir);
    cleared.map(|()| Exit::Ok)
}
