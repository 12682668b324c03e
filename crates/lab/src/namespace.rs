//! Network namespaces by name, as `ip netns` keeps them.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use intarsia_types::{Error, Result};

use crate::name::{LabName, Node};

/// Where `ip netns` keeps the names.
const DIR: &str = "/run/netns";
/// What marks a namespace as one of a lab: nothing else is ever touched.
const PREFIX: &str = "intarsia-lab-";
const HUB: &str = "hub";

/// A namespace of a lab: its hub, or one of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    lab: LabName,
    /// `None` is the hub.
    node: Option<Node>,
}

/// A namespace as `/proc` tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Namespace {
    pub(crate) fn of_hub(lab: &LabName) -> Self {
        Self { lab: lab.clone(), node: None }
    }

    pub(crate) fn of_node(lab: &LabName, node: Node) -> Self {
        Self { lab: lab.clone(), node: Some(node) }
    }

    pub(crate) const fn lab(&self) -> &LabName {
        &self.lab
    }

    /// `n3`, or `hub`.
    pub(crate) fn place(&self) -> String {
        self.node.map_or_else(|| HUB.to_owned(), |n| n.to_string())
    }

    /// The name that `ip netns` knows.
    pub(crate) fn name(&self) -> String {
        format!("{PREFIX}{}-{}", self.lab, self.place())
    }

    fn parse(name: &str) -> Option<Self> {
        let (lab, place) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
        let lab = lab.parse().ok()?;
        let node = if place == HUB { None } else { Some(Node::parse(place)?) };
        Some(Self { lab, node })
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(DIR).join(self.name())
    }

    /// `None` when there is no such namespace.
    pub(crate) fn identity(&self) -> Option<Identity> {
        identity_of(self.path())
    }

    /// A command that runs in this network and shares all else with the caller.
    ///
    /// `nsenter` replaces itself by the program, so the process is the program's own. `ip netns exec` would
    /// also give it a mount namespace, in which its mounts are hidden from everybody else.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path().display())).arg("--").arg(program);
        command
    }
}

/// What a path names, if it is there; `/proc/PID/ns/net` compares with a name in [`DIR`].
pub(crate) fn identity_of(path: impl AsRef<std::path::Path>) -> Option<Identity> {
    let meta = std::fs::metadata(path).ok()?;
    Some(Identity { device: meta.dev(), inode: meta.ino() })
}

/// The namespaces of all labs, whole or not.
pub(crate) fn all() -> Result<Vec<Namespace>> {
    let entries = match std::fs::read_dir(DIR) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(DIR, e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(|e| Error::io(DIR, e))?.file_name();
        found.extend(name.to_str().and_then(Namespace::parse));
    }
    Ok(found)
}

/// The namespaces of one lab that exist.
pub(crate) fn of_lab(lab: &LabName) -> Result<Vec<Namespace>> {
    Ok(all()?.into_iter().filter(|n| n.lab() == lab).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_left_alone() {
        let lab: LabName = "a-n1".parse().unwrap();
        for namespace in [Namespace::of_hub(&lab), Namespace::of_node(&lab, Node::numbered(12))] {
            assert_eq!(Namespace::parse(&namespace.name()), Some(namespace));
        }
        for foreign in
            ["n1", "intarsia-lab-n1", "intarsia-lab-a-eth0", "other-lab-a-n1", "intarsia-lab--n1"]
        {
            assert_eq!(Namespace::parse(foreign), None, "{foreign}");
        }
    }
}
