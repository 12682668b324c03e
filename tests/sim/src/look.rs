//! What all hosts see in the end: the same, and all of it can be read.

use std::collections::{BTreeMap, BTreeSet};

use intarsia_types::{InodeId, NodeId, Result};

use crate::cluster::Cluster;
use crate::host::{Care, Deployment};
use crate::run::Report;

/// A file as a host sees it.
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) ino: InodeId,
    pub(crate) content: Result<Vec<u8>>,
}

/// Looks at directories from all hosts, and says what must not be.
pub(crate) fn everywhere(
    cluster: &Cluster,
    directories: &[String],
    report: &mut Report,
) -> std::result::Result<(), String> {
    let mut views = Vec::new();
    for host in &cluster.hosts {
        let mut view = Vec::new();
        for directory in directories {
            let of = directory.clone();
            let tree = cluster.on(host, "look", move |program| program.tree(&of))?;
            view.extend(tree.map_err(|e| format!("{} cannot list {directory}: {e}", host.name))?);
        }
        views.push((&host.name, view));
    }
    let lost = lost_in_order(cluster, &views, report);
    for (_, view) in &mut views {
        view.retain(|file| !lost.contains(&file.path));
    }
    compare(&views, &mut report.violations);
    Ok(())
}

/// Files that cannot be read, of which no close has said that they outlive what broke: that went with the disks of their
/// host, or did not reach one before the power failed.
fn lost_in_order(
    cluster: &Cluster,
    views: &[(&NodeId, Vec<Seen>)],
    report: &Report,
) -> BTreeSet<String> {
    let Deployment { care, promises, .. } = &*cluster.deployment;
    if !report.faults.keys().any(|fault| care.may_lose_files(fault)) {
        return BTreeSet::new();
    }
    let may_be =
        |file: &&Seen| file.content.is_err() && (*care == Care::Frail || !promises.holds(file.ino));
    let all = views.iter().flat_map(|(_, view)| view);
    all.filter(may_be).map(|file| file.path.clone()).collect()
}

fn compare(views: &[(&NodeId, Vec<Seen>)], violations: &mut Vec<String>) {
    let mut first: BTreeMap<&str, &[u8]> = BTreeMap::new();
    for (number, (host, view)) in views.iter().enumerate() {
        for Seen { path, ino, content } in view {
            let content = match content {
                Ok(content) => content,
                Err(error) => {
                    violations.push(format!("{host} cannot read {path}, inode {ino}: {error}"));
                    continue;
                }
            };
            match first.get(path.as_str()) {
                _ if number == 0 => {
                    first.insert(path, content);
                }
                None => violations.push(format!("{host} alone sees {path}")),
                Some(known) if known != content => {
                    let how = how_they_differ(content, known);
                    violations.push(format!("{host} sees another {path}{how}"));
                }
                Some(_) => {}
            }
        }
        let (names, firsts) = (view.len(), first.len());
        if names != firsts {
            violations.push(format!("{host} sees {names} names, the first host {firsts}"));
        }
    }
}

fn how_they_differ(one: &[u8], other: &[u8]) -> String {
    let at = one.iter().zip(other).position(|(a, b)| a != b);
    let at = at.unwrap_or_else(|| one.len().min(other.len()));
    let of = |content: &[u8]| {
        let some: Vec<u8> = content.iter().skip(at).take(24).copied().collect();
        format!("{:?}", String::from_utf8_lossy(&some))
    };
    let (len, other_len) = (one.len(), other.len());
    format!(": {len} bytes, not {other_len}; at {at} {}, not {}", of(one), of(other))
}
