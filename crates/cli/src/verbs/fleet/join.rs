//! Hosts that join a store that is up: they get its description with themselves in it, and its secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use intarsia_cluster::deployment::Member;
use intarsia_types::NodeId;

use super::{Hosts, general, usage};
use crate::deployment::Bundle;
use crate::exit::{Failure, Outcome};
use crate::failpoint;
use crate::registry::Registry;
use crate::target;
use crate::verbs::agent::Inspection;

/// The store that hosts join.
pub(super) struct Joined {
    /// Where this host has the deployment's files.
    dir: PathBuf,
    /// The files with the new hosts.
    pub(super) bundle: Bundle,
    store: String,
}

impl Joined {
    /// What the store at `mount` on this host will be with these hosts.
    pub(super) fn with(mount: &Path, hosts: &Hosts, port: u16) -> Outcome<Self> {
        let entry = target::one(&Registry::of_user()?, Some(mount))?;
        if !entry.process.is_running() {
            return Err(Failure::not_running(format!(
                "the node of {} does not run, so nobody can join its store",
                mount.display()
            ))
            .with_help("bring the store up first, with the hosts that it has"));
        }
        let dir = entry.dir.join("deployment");
        let Some(old) = Bundle::pack(&dir) else {
            return Err(Failure::usage(format!(
                "the store at {} is of one host, and stays so",
                mount.display()
            ))
            .with_help(
                "begin one of several hosts with 'intarsia up --hosts', and copy the files",
            ));
        };
        let old = old.map_err(|e| general(&e))?;
        let mut deployment = old.deployment().map_err(|e| general(&e))?;
        let server_port = port.checked_add(1).ok_or_else(|| {
            Failure::usage("--port: a node and its metadata servers need 9 ports from there on")
        })?;
        for (name, address) in &hosts.members {
            let address = *address;
            match deployment.member(name) {
                // It was there before, and comes again.
                Some(known) if known.address == address && known.node_port == port => continue,
                Some(known) => {
                    return Err(Failure::usage(format!(
                        "{name} is a host of the store already, at {} port {}",
                        known.address, known.node_port
                    )));
                }
                None => {}
            }
            let member = Member { name: name.clone(), address, node_port: port, server_port };
            deployment = deployment.with_joined(member).map_err(|e| usage(&e))?;
        }
        let store = deployment.store.clone();
        let bundle = old.describing(&deployment).map_err(|e| general(&e))?;
        failpoint::reach("join:described");
        Ok(Self { dir, bundle, store })
    }

    /// Refuses hosts on which another store lies. Whether there is nothing of this one yet.
    pub(super) fn check(&self, seen: &BTreeMap<NodeId, Inspection>) -> Outcome<bool> {
        let mut is_new = true;
        for (host, inspection) in seen {
            let Some(bundle) = &inspection.bundle else { continue };
            if bundle.deployment().map_err(|e| general(&e))?.store != self.store {
                return Err(Failure::usage(format!("{host} holds a part of another store"))
                    .with_help("name another --dir, or purge what is there"));
            }
            is_new = false;
        }
        Ok(is_new)
    }

    /// Has this host know the new ones too, so that the store comes up again with them.
    pub(super) fn record(&self) -> Outcome {
        failpoint::reach("join:recording");
        self.bundle.unpack(&self.dir).map_err(|e| general(&e))?;
        failpoint::reach("join:recorded");
        Ok(())
    }
}
