//! One host: its node, while it has one, and the threads that end with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::MetaEngine;
use intarsia_node::{ClusterOptions, Node, NodeOptions};
use intarsia_sync::Simulation;
use intarsia_sync::simulation::Group;
use intarsia_transport::{DeploymentKey, Network};
use intarsia_types::{ByteCount, HintKey, NodeId, Result, RuleSet, TierSpec};
use parking_lot::Mutex;

use crate::disks::Disks;
use crate::metadata::{Metadata, Seat};
use crate::sameness;

/// What all hosts of a store share.
pub(crate) struct Deployment {
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) network: Network,
    pub(crate) disks: Disks,
    pub(crate) key: DeploymentKey,
    pub(crate) replicas: u16,
    /// Whether each close waits for its copies.
    pub(crate) is_safe: bool,
    /// Whether that, and how many copies there are to be, is said by hints of the directories that clients work in, and not by
    /// how the hosts are set up.
    pub(crate) has_hints: bool,
    pub(crate) inline_bytes: ByteCount,
}

impl Deployment {
    /// What the directories say that clients work in.
    pub(crate) fn hints(&self) -> Vec<(HintKey, String)> {
        let all = [
            (self.replicas > 1, HintKey::Replicas, self.replicas.to_string()),
            (self.is_safe, HintKey::Close, "safe".to_owned()),
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
}

/// From a start to an end.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) node: Arc<Node>,
    pub(crate) group: Group,
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
        })
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
        *self.life.lock() = Some(Life { node, group });
        Ok(())
    }

    /// Ends it as `kill -9` would.
    pub(crate) fn kill(&self) -> std::io::Result<()> {
        let Some(Life { node, group }) = self.life.lock().take() else { return Ok(()) };
        group.kill();
        // Nobody drops a node whose threads are gone: what they hold would be waited for.
        std::mem::forget(node);
        sameness::close_files_below(&self.dir)?;
        self.deployment.network.reset(&self.name, "connection reset");
        Ok(())
    }

    /// Ends it as a failure of its power would.
    pub(crate) fn lose_power(&self) -> std::io::Result<()> {
        self.kill()?;
        let files = self.deployment.disks.lose_power(&self.tier())?;
        tracing::info!(host = %self.name, files, "the power fails; so many files were not on the disk");
        Ok(())
    }

    /// Where everything of the host lies.
    pub(crate) fn place(&self) -> &Path {
        &self.dir
    }

    fn tier(&self) -> PathBuf {
        self.dir.join("tier")
    }

    /// Stops all its threads for a while.
    pub(crate) fn freeze(&self, duration: Duration) {
        if let Some(life) = self.life() {
            life.group.freeze(duration);
        }
    }

    /// Ends it as `intarsia down` does.
    pub(crate) fn close(&self) -> Result<()> {
        let Some(Life { node, group }) = self.life.lock().take() else { return Ok(()) };
        let closing = group.spawn("close", move || node.close());
        let closing = closing.map_err(|e| intarsia_types::Error::io("start a thread", e))?;
        closing.join().map_err(|_| intarsia_types::Error::BadHandle)?.map(drop)
    }

    fn options(&self) -> NodeOptions {
        let Deployment { metadata, network, key, inline_bytes, .. } = &*self.deployment;
        let Deployment { replicas, is_safe, has_hints, .. } = *self.deployment;
        let rule = "* close=safe".parse().into_iter().filter(|_| is_safe && !has_hints);
        let engine: Arc<dyn MetaEngine> = Seat::new(metadata, Some(self.name.clone()));
        // Of a known size: how much of /dev/shm is free is nobody's to say.
        let tier = TierSpec { dir: self.tier(), class: None, capacity: Some(ByteCount::gib(1)) };
        NodeOptions {
            tiers: vec![tier],
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
