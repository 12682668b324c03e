//! `down --purge`: delete a store's data, and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use intarsia_cluster::claim;
use serde::Deserialize;

use crate::exit::{Failure, Outcome};
use crate::failpoint;
use crate::made_dir;
use crate::output;
use crate::preflight::check_owner;
use crate::runtime::RECORDS_DIRECTORY;
use crate::tenure;

/// What the store's directory holds; everything else in it is not ours to delete.
const STORE_FILES: [&str; 14] = [
    made_dir::MOUNT_POINT_MADE,
    claim::VERB,
    claim::NODE,
    "control.sock",
    "last-run.json",
    "lock",
    "metrics.prom",
    "metrics.prom.new",
    "node.log",
    "node.log.1",
    "store.json.new",
    "last-run.json.new",
    "copies-unfinished",
    "copies-unfinished.new",
];
const STORE_DIRECTORIES: [&str; 4] = ["meta", "deployment", "servers", RECORDS_DIRECTORY];
/// What the directory of a tier holds.
const TIER_FILES: [&str; 3] = ["tier.json.new", "tier.json", "lock"];

/// The part of `store.json` that is read here.
#[derive(Deserialize)]
struct Identity {
    store: String,
    tiers: Vec<PathBuf>,
    /// Those of a store of several hosts.
    #[serde(default)]
    shared_tiers: BTreeMap<u16, PathBuf>,
}

#[derive(Deserialize)]
struct TierIdentity {
    store: String,
}

/// A store's places on disk.
pub(super) struct Contents {
    dir: PathBuf,
    tiers: Vec<PathBuf>,
}

/// Finds a store's places; a directory that is no store is refused.
pub(super) fn contents(dir: &Path, known_tiers: &[PathBuf]) -> Outcome<Contents> {
    let path = dir.join("store.json");
    check_owner(dir, "the store's directory")?;
    if !path.exists() && is_begun(dir) {
        return Ok(Contents { dir: dir.to_owned(), tiers: Vec::new() });
    }
    let identity = identity(&path)?;
    let mut tiers: Vec<PathBuf> = identity.tiers;
    tiers.extend(identity.shared_tiers.into_values());
    tiers.extend(known_tiers.iter().cloned());
    tiers.sort();
    tiers.dedup();
    // A directory that another store has taken over since is not ours any more.
    tiers.retain(|tier| owner_of(tier).as_deref() == Some(identity.store.as_str()));
    Ok(Contents { dir: dir.to_owned(), tiers })
}

fn identity(path: &Path) -> Outcome<Identity> {
    let text = std::fs::read(path).map_err(|e| {
        let dir = path.parent().unwrap_or(path).display();
        Failure::io(format!("{dir} is no store: {}", path.display()), &e)
    })?;
    serde_json::from_slice(&text)
        .map_err(|e| Failure::general(format!("{} is damaged: {e}", path.display())))
}

/// The name of the store in a directory, if one was founded there.
pub(super) fn store_in(dir: &Path) -> Option<String> {
    identity(&dir.join("store.json")).ok().map(|identity| identity.store)
}

/// Whether something lies here that an `up` left which was cut short before the store was founded.
pub(super) fn is_begun(dir: &Path) -> bool {
    let begun = STORE_DIRECTORIES.iter().chain(&[claim::NODE, claim::VERB]);
    begun.into_iter().any(|name| dir.join(name).exists())
}

fn owner_of(tier: &Path) -> Option<String> {
    let text = std::fs::read(tier.join("tier.json")).ok()?;
    serde_json::from_slice::<TierIdentity>(&text).ok().map(|t| t.store)
}

pub(super) fn describe(contents: &Contents) -> Vec<String> {
    let tiers = contents.tiers.iter().map(|t| format!("delete the files of tier {}", t.display()));
    let dir = format!("delete the store in {}", contents.dir.display());
    tiers.chain([dir]).collect()
}

/// Deletes tiers first and the identity last, so that a purge that was cut short can be taken up again.
///
/// # Errors
/// Busy, when a node works there, whoever started it; then nothing is deleted.
pub(super) fn purge(contents: &Contents) -> Outcome {
    let _no_node = tenure::claim_node(&contents.dir)?;
    for tier in &contents.tiers {
        remove_directory(&tier.join("data"))?;
        TIER_FILES.iter().try_for_each(|name| remove_file(&tier.join(name)))?;
        // Fails when something else lies in it, which then stays.
        let _ = std::fs::remove_dir(tier);
    }
    failpoint::reach("purge:tiers-deleted");
    made_dir::remove_mount_point(&contents.dir, None);
    let dir = &contents.dir;
    STORE_DIRECTORIES.iter().try_for_each(|name| remove_directory(&dir.join(name)))?;
    failpoint::reach("purge:directories-deleted");
    STORE_FILES.iter().try_for_each(|name| remove_file(&dir.join(name)))?;
    failpoint::reach("purge:files-deleted");
    remove_file(&dir.join("store.json"))?;
    if std::fs::remove_dir(dir).is_err() {
        output::warn(&format!("{} holds other files as well and stays", dir.display()));
    }
    output::message(&format!("The data in {} is deleted.", dir.display()));
    Ok(())
}

fn remove_directory(dir: &Path) -> Outcome {
    gone(std::fs::remove_dir_all(dir), dir)
}

fn remove_file(path: &Path) -> Outcome {
    gone(std::fs::remove_file(path), path)
}

fn gone(outcome: std::io::Result<()>, path: &Path) -> Outcome {
    match outcome {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::io(format!("delete {}", path.display()), &e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_tiers_of_a_store_of_several_hosts() {
        let root = tempfile::tempdir().unwrap();
        let (dir, tier) = (root.path().join("store"), root.path().join("store/tier"));
        std::fs::create_dir_all(tier.join("data/0")).unwrap();
        let identity =
            serde_json::json!({ "store": "s", "tiers": [], "shared_tiers": { "2": tier } });
        std::fs::write(dir.join("store.json"), identity.to_string()).unwrap();
        std::fs::write(tier.join("tier.json"), r#"{"store":"s"}"#).unwrap();
        purge(&contents(&dir, &[]).unwrap()).unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn deletes_what_a_node_left_that_founded_nothing() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("store");
        for left in [&["verb.lock", "node.lock", "node.log"][..], &["verb.lock"]] {
            std::fs::create_dir(&dir).unwrap();
            for name in left {
                std::fs::write(dir.join(name), "").unwrap();
            }
            purge(&contents(&dir, &[]).unwrap()).unwrap();
            assert!(!dir.exists());
        }
    }

    #[test]
    fn deletes_the_store_and_spares_everything_else() {
        let root = tempfile::tempdir().unwrap();
        let (dir, tier) = (root.path().join("store"), root.path().join("tier"));
        let taken = root.path().join("taken");
        for d in [dir.join("meta"), tier.join("data/0"), taken.join("data")] {
            std::fs::create_dir_all(d).unwrap();
        }
        let identity = serde_json::json!({ "store": "s", "tiers": [], "format": 1,
            "shared_tiers": { "0": tier, "3": taken } });
        std::fs::write(dir.join("store.json"), identity.to_string()).unwrap();
        std::fs::write(tier.join("tier.json"), r#"{"store":"s"}"#).unwrap();
        std::fs::write(taken.join("tier.json"), r#"{"store":"another"}"#).unwrap();
        std::fs::write(tier.join("precious"), "x").unwrap();
        purge(&contents(&dir, &[]).unwrap()).unwrap();
        assert!(!dir.exists());
        assert!(!tier.join("data").exists() && tier.join("precious").exists());
        assert!(taken.join("data").exists(), "it belongs to another store now");
        assert!(contents(&dir, &[]).is_err());
    }
}
