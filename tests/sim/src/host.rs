//! One host: its node, while it has one, and the threads that end with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use intarsia_meta::MetaEngine;
use intarsia_node::{ClusterOptions, Node, NodeOptions};
use intarsia_sync::simulation::Group;
use intarsia_sync::{Instant, Simulation};
use intarsia_transport::{DeploymentKey, Network};
use intarsia_types::{ByteCount, HintKey, NodeId, Result, RuleSet};
use parking_lot::Mutex;

use crate::disks::Disks;
use crate::metadata::{Metadata, Seat};
use crate::others::Others;
use crate::programs::Programs;
use crate::promises::Promises;
use crate::sameness;
use crate::uses::Uses;

/// What closes promise, and so what may be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// That others see what was written. Disks keep what they have.
    Usual,
    /// That there are copies. The power and the disks of one host may go.
    Safe,
    /// Nothing: there is one copy of each file, and the power may fail. What is left is to be the same for all hosts.
    Frail,
}

/// What all hosts of a store share.
pub(crate) struct Deployment {
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) network: Network,
    pub(crate) disks: Disks,
    pub(crate) key: DeploymentKey,
    pub(crate) replicas: u16,
    pub(crate) care: Care,
    /// What safe closes have acknowledged.
    pub(crate) promises: Arc<Promises>,
    /// Whether that, and how many copies there are to be, is said by hints of the directories that clients work in, and not by
    /// how the hosts are set up.
    pub(crate) has_hints: bool,
    pub(crate) inline_bytes: ByteCount,
    pub(crate) uses: Uses,
    /// Further programs of all hosts.
    pub(crate) others: Arc<Others>,
    /// Whether somebody moves files about.
    pub(crate) is_operated: bool,
}

impl Deployment {
    /// What all directories say that are worked in.
    pub(crate) fn hints(&self) -> Vec<(HintKey, String)> {
        let all = [
            (self.replicas > 1, HintKey::Replicas, self.replicas.to_string()),
            (self.care == Care::Safe, HintKey::Close, "safe".to_owned()),
        ];
        let said = all.into_iter().filter(|(is_said, ..)| *is_said && self.has_hints);
        said.map(|(_, hint, value)| (hint, value)).collect()
    }
}

/// The store's name.
const STORE: &str = "000102030405060708090a0b0c0d0e0f";

pub(crate) struct Host {
    pub(crate) name: NodeId,
    number: u8,
    dir: PathBuf,
    simulation: Simulation,
    deployment: Arc<Deployment>,
    // Of the system, as all that threads of different hosts share.
    life: Mutex<Option<Life>>,
    /// Somebody is about to end its life, or to start it again.
    is_taken: AtomicBool,
}

/// Nobody else ends or starts the host meanwhile.
pub(crate) struct Taken(Arc<Host>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::SeqCst);
    }
}

/// From a start to an end.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) node: Arc<Node>,
    pub(crate) group: Group,
    pub(crate) programs: Arc<Programs>,
}

impl Host {
    pub(crate) fn new(
        number: u8,
        home: &Path,
        simulation: &Simulation,
        deployment: &Arc<Deployment>,
    ) -> Arc<Self> {
        let name = format!("n{number}");
        Arc::new(Self {
            dir: home.join(&name),
            name: NodeId(name),
            number,
            simulation: simulation.clone(),
            deployment: Arc::clone(deployment),
            life: Mutex::default(),
            is_taken: AtomicBool::new(false),
        })
    }

    /// The right to end and to start it, unless somebody has it.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Taken> {
        (!self.is_taken.swap(true, Ordering::SeqCst)).then(|| Taken(Arc::clone(self)))
    }

    pub(crate) const fn number(&self) -> u8 {
        self.number
    }

    pub(crate) fn life(&self) -> Option<Life> {
        self.life.lock().clone()
    }

    /// Starts the host's node, on threads of its own.
    pub(crate) fn start(&self) -> Result<()> {
        let group = self.simulation.group(&self.name.0);
        let options = self.options();
        let opening = group.spawn("start", move || Node::open(options));
        let opening = opening.map_err(|e| intarsia_types::Error::io("start a thread", e))?;
        let node = opening.join().map_err(|_| intarsia_types::Error::BadHandle)??;
        let programs = Arc::new(Programs::promised(&self.deployment.promises));
        *self.life.lock() = Some(Life { node, group, programs });
        Ok(())
    }

    /// Ends it as `kill -9` would.
    pub(crate) fn kill(&self) -> std::io::Result<()> {
        let Some(life) = self.life.lock().take() else { return Ok(()) };
        self.end(life)
    }

    fn end(&self, life: Life) -> std::io::Result<()> {
        life.group.kill();
        // Nobody drops a node whose threads are gone: what they hold would be waited for.
        std::mem::forget(life.node);
        sameness::close_files_below(&self.dir)?;
        self.deployment.network.reset(&self.name, "connection reset");
        Ok(())
    }

    /// Ends it as a failure of its power would.
    pub(crate) fn lose_power(&self) -> std::io::Result<()> {
        self.kill()?;
        let mut files = 0;
        for tier in self.deployment.uses.tiers(self.number, &self.dir) {
            files += self.deployment.disks.lose_power(&tier.dir)?;
        }
        tracing::info!(host = %self.name, files, "the power fails; so many files were not on the disk");
        Ok(())
    }

    /// Takes the disks of its tiers from a host that is dead, or all that it has; they come back empty.
    pub(crate) fn lose_disks(&self, takes_all: bool) -> std::io::Result<()> {
        if takes_all {
            std::fs::remove_dir_all(&self.dir)?;
        } else {
            for tier in self.deployment.uses.tiers(self.number, &self.dir) {
                std::fs::remove_dir_all(&tier.dir)?;
            }
        }
        self.deployment.disks.forget(&self.dir);
        tracing::info!(host = %self.name, takes_all, "the disks are lost");
        Ok(())
    }

    /// Where everything of the host lies.
    pub(crate) fn place(&self) -> &Path {
        &self.dir
    }

    /// Stops all its threads for a while.
    pub(crate) fn freeze(&self, duration: Duration) {
        if let Some(life) = self.life() {
            life.group.freeze(duration);
        }
    }

    /// Ends it as `intarsia down` does.
    pub(crate) fn close(&self) -> Result<()> {
        let Some(life) = self.life.lock().take() else { return Ok(()) };
        Self::close_node(&life)
    }

    fn close_node(life: &Life) -> Result<()> {
        let node = Arc::clone(&life.node);
        let closing = life.group.spawn("close", move || node.close());
        let closing = closing.map_err(|e| intarsia_types::Error::io("start a thread", e))?;
        closing.join().map_err(|_| intarsia_types::Error::BadHandle)?.map(drop)
    }

    /// Takes the node down as `intarsia down` does, once its programs are at nothing; `false` if they do not come to rest.
    pub(crate) fn take_down(&self, deadline: Instant) -> std::io::Result<bool> {
        let Some(life) = self.life() else { return Ok(true) };
        if !life.programs.call_off(deadline) {
            return Ok(false);
        }
        // Metadata that do not answer are nothing that a start could not mend.
        if let Err(error) = Self::close_node(&life) {
            tracing::info!(host = %self.name, %error, "it does not stop in order");
        }
        self.life.lock().take();
        self.end(life).map(|()| true)
    }

    fn options(&self) -> NodeOptions {
        let Deployment { metadata, network, key, inline_bytes, .. } = &*self.deployment;
        let Deployment { replicas, care, has_hints, .. } = *self.deployment;
        let is_ruled = care == Care::Safe && !has_hints;
        let rule = "* close=safe".parse().into_iter().filter(|_| is_ruled);
        let engine: Arc<dyn MetaEngine> = Seat::new(metadata, Some(self.name.clone()));
        NodeOptions {
            tiers: self.deployment.uses.tiers(self.number, &self.dir),
            watermark: ByteCount(0),
            name: self.name.clone(),
            replicas: if has_hints { 1 } else { replicas },
            rules: RuleSet::new(rule.collect()),
            inline_bytes: *inline_bytes,
            cluster: Some(ClusterOptions {
                engine,
                store: STORE.into(),
                listen: ([10, 0, 0, self.number], 7000).into(),
                key: key.clone(),
                network: Some(network.clone()),
            }),
            ..NodeOptions::new(self.dir.join("store"))
        }
    }
}
