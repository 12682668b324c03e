//! Files whose only bytes are at hosts that are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use intarsia_meta::{Inode, MemberState, Namespace, Naming};
use intarsia_types::{Error, InodeId, Result};
use serde::Serialize;

use crate::membership::cluster::{Cluster, in_words};
use crate::membership::homes::{homes_of, is_lost};
use crate::rebalance::mover::path_of;

/// Records looked at between two reports of the progress.
const PROGRESS_EVERY: u64 = 10_000;

/// A file some of whose bytes are at lost hosts only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostFile {
    /// One of its paths within the store.
    pub path: String,
    /// Its other paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_paths: Vec<String>,
    /// Its length by the record.
    pub size_bytes: u64,
    /// The lost hosts that had it, or parts of it.
    pub hosts: Vec<String>,
}

/// A lost host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostHost {
    /// Its name.
    pub host: String,
    /// Since when it is lost.
    pub since: String,
}

/// How much is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LostSummary {
    /// The hosts.
    pub hosts: Vec<LostHost>,
    /// Files that only they had.
    pub files: u64,
    /// Their lengths together.
    pub bytes: u64,
    /// Those of them that were removed now, because that was asked for.
    pub removed: u64,
}

/// What was found of a lost file so far.
struct Found {
    inode: Inode,
    names: Vec<Naming>,
}

/// Finds files whose only bytes are at lost hosts.
pub(crate) struct LostFiles {
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) namespace: Arc<Namespace>,
}

/// Takes a name out of a directory.
pub(crate) type Unlink<'u> = dyn Fn(InodeId, &[u8]) -> Result<()> + 'u;

impl LostFiles {
    /// Calls `each` with every file whose bytes are at lost hosts only, and with `unlink` removes all its names then.
    /// `progress` hears how many records have been looked at.
    ///
    /// # Errors
    /// The engine's own; one that names the hosts that do not answer, when the metadata does not. [`Error::NotSupported`]
    /// in a store of one host.
    pub(crate) fn report(
        &self,
        unlink: Option<&Unlink<'_>>,
        each: &mut dyn FnMut(LostFile),
        progress: &mut dyn FnMut(u64),
    ) -> Result<LostSummary> {
        let cluster = self.cluster.as_ref().ok_or(NO_OTHERS)?;
        cluster.require_metadata()?;
        let lost = cluster.members().into_iter().filter(|(_, m)| m.state == MemberState::Lost);
        let hosts: Vec<_> = lost
            .map(|(node, member)| LostHost { host: node.0, since: in_words(member.since) })
            .collect();
        let mut summary = LostSummary { hosts, ..LostSummary::default() };
        if summary.hosts.is_empty() {
            return Ok(summary);
        }
        let mut found = self.survey_lost(cluster, progress)?;
        self.name_lost(&mut found, progress)?;
        for (ino, found) in found {
            let homes = homes_of(cluster, &found.inode)?.into_iter();
            let hosts = homes.filter(|node| cluster.is_lost(node)).map(|node| node.0).collect();
            let mut paths = self.paths_of(ino, &found.names)?.into_iter();
            // Removed since, or without a name because it is open at a host.
            let Some(path) = paths.next() else { continue };
            summary.files += 1;
            summary.bytes += found.inode.size_bytes;
            each(LostFile {
                path,
                other_paths: paths.collect(),
                size_bytes: found.inode.size_bytes,
                hosts,
            });
            if let Some(unlink) = unlink
                && self.remove(cluster, &found, unlink)?
            {
                summary.removed += 1;
            }
        }
        Ok(summary)
    }

    fn survey_lost(
        &self,
        cluster: &Cluster,
        progress: &mut dyn FnMut(u64),
    ) -> Result<BTreeMap<InodeId, Found>> {
        let mut found = BTreeMap::new();
        let mut records = 0;
        let mut outcome = Ok(());
        self.namespace.each_inode(|inode| {
            records += 1;
            if records % PROGRESS_EVERY == 0 {
                progress(records);
            }
            match is_lost(cluster, &inode) {
                Ok(true) => drop(found.insert(inode.ino, Found { inode, names: Vec::new() })),
                Ok(false) => {}
                Err(error) => outcome = Err(error),
            }
        })?;
        outcome.map(|()| found)
    }

    fn name_lost(
        &self,
        found: &mut BTreeMap<InodeId, Found>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let mut names = 0;
        self.namespace.each_name(|naming| {
            names += 1;
            if names % PROGRESS_EVERY == 0 {
                progress(names);
            }
            if let Some(found) = found.get_mut(&naming.ino) {
                found.names.push(naming);
            }
        })
    }

    fn paths_of(&self, ino: InodeId, names: &[Naming]) -> Result<Vec<String>> {
        let mut paths = BTreeSet::new();
        for naming in names {
            match path_of(&self.namespace, naming) {
                Ok(path) => drop(paths.insert(path)),
                // A directory on the way up went meanwhile.
                Err(Error::NotFound) => tracing::debug!(%ino, "a lost file has just been removed"),
                Err(error) => return Err(error),
            }
        }
        Ok(paths.into_iter().collect())
    }

    /// Removes all names of a file, unless it is not what it was or its host is back.
    fn remove(&self, cluster: &Cluster, found: &Found, unlink: &Unlink<'_>) -> Result<bool> {
        for naming in &found.names {
            let now = match self.namespace.lookup(naming.parent, &naming.name) {
                Err(Error::NotFound) => continue,
                other => other?,
            };
            if now.ino != found.inode.ino
                || now.layout != found.inode.layout
                || !is_lost(cluster, &now)?
            {
                return Ok(false);
            }
            unlink(naming.parent, &naming.name)?;
        }
        Ok(true)
    }
}

const NO_OTHERS: Error = Error::NotSupported("a store of one host has no other hosts");
