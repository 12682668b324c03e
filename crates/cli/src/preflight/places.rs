//! Where a store is to lie: places that do not lie in each other, of the user's own, with nobody else's files.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use intarsia_types::{TierId, TierSpec};
use serde::Deserialize;

use crate::config::{Settings, path};
use crate::exit::{Failure, Outcome};
use crate::process::is_root;
use crate::runtime::{OVERFLOW_NAME, tier_found_at};

/// A store that lies in its own mount would wait for itself for ever; one that lies in its lower file system would
/// show its keys there.
pub(super) fn check_apart(settings: &Settings) -> Outcome {
    let mount = &settings.mount;
    let tiers = settings.tiers.iter().map(|t| ("the tier", t.dir.clone()));
    let own: Vec<(&str, PathBuf)> =
        [("the store's directory", settings.dir.clone())].into_iter().chain(tiers).collect();
    let lower = settings.lower.iter().map(|dir| ("the lower file system", dir.clone()));
    for (what, path) in own.iter().cloned().chain(lower) {
        if is_within(&path, mount) {
            return Err(Failure::usage(format!(
                "{what} {} and the mount point {} lie in each other",
                path.display(),
                mount.display()
            ))
            .with_help("choose two places of which neither is inside the other"));
        }
    }
    if let Some(lower) = &settings.lower
        && let Some((what, path)) = own.iter().find(|(_, path)| is_within(path, lower))
    {
        return Err(Failure::usage(format!(
            "--lower: {what} {} and the lower file system {} lie in each other, so that the store would show its own \
             files and keys",
            path.display(),
            lower.display()
        ))
        .with_help("name a directory with --lower that holds only inputs, or another --dir"));
    }
    check_tiers_apart(settings)
}

fn check_tiers_apart(settings: &Settings) -> Outcome {
    let dirs: Vec<&PathBuf> = settings.tiers.iter().map(|t| &t.dir).collect();
    for (n, dir) in dirs.iter().enumerate() {
        if dirs.iter().skip(n + 1).any(|other| is_within(other, dir)) {
            return Err(Failure::usage(format!(
                "the tier {} overlaps another tier",
                dir.display()
            ))
            .with_help("give each tier a directory of its own"));
        }
    }
    Ok(())
}

fn is_within(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// Root's data in a directory of another user would be in that user's hands, and so would be what `--purge` deletes.
pub(crate) fn check_owner(dir: &Path, what: &str) -> Outcome {
    path::check_links(dir).map_err(|why| Failure::usage(format!("{what}: {why}")))?;
    let owner = std::fs::metadata(dir).map_or(0, |meta| meta.uid());
    if !is_root() || owner == 0 {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{what} {} belongs to user {owner}, and you are root",
        dir.display()
    ))
    .with_help("name a directory of root's, or run this as that user"))
}

/// What `store.json` says of a store; one that is damaged is the node's to report.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Identity {
    store: String,
    pub(super) is_volatile: bool,
    tiers: Vec<PathBuf>,
    shared_tiers: BTreeMap<u16, PathBuf>,
}

impl Identity {
    pub(super) fn of(dir: &Path) -> Self {
        let text = std::fs::read(dir.join("store.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// The tiers of the store that are neither named nor there.
    ///
    /// # Errors
    /// Usage, when a tier is there and is not named: its files could not be read.
    pub(super) fn check_tiers(&self, settings: &Settings) -> Outcome<Vec<PathBuf>> {
        let lower_of = |dir: &Path| {
            let below = dir.ancestors().find(|above| above.ends_with(OVERFLOW_NAME));
            below.and_then(Path::parent).map(Path::to_owned)
        };
        let is_named = |dir: &Path| match lower_of(dir) {
            Some(lower) => settings.overflow && settings.lower.as_ref() == Some(&lower),
            None => has_tier_at(settings, dir),
        };
        let known =
            (0..).zip(&self.tiers).chain(self.shared_tiers.iter().map(|(id, dir)| (*id, dir)));
        let left_out = known.filter(|(_, dir)| !is_named(dir));
        let (there, missing): (Vec<_>, Vec<_>) =
            left_out.partition(|(_, dir)| dir.join("tier.json").exists());
        let Some((_, dir)) = there.first() else {
            let is_moved = |id| {
                let now = |tier: &TierSpec| tier_found_at(&tier.dir, &self.store);
                settings.tiers.iter().any(|tier| now(tier) == Some(TierId(id)))
            };
            let gone = missing.into_iter().filter(|(id, _)| !is_moved(*id));
            return Ok(gone.map(|(_, dir)| dir.clone()).collect());
        };
        let named = match lower_of(dir) {
            Some(lower) => format!("--lower {} --overflow", lower.display()),
            None => format!("--tier {}", dir.display()),
        };
        Err(Failure::usage(format!(
            "the store in {} keeps files in the tier {}, which is not named; they could not be read",
            settings.dir.display(),
            dir.display()
        ))
        .with_help(format!("name it, as before: {named}; or, to go on without its files, move it away")))
    }

    /// The named tiers of a store of several hosts at whose places nothing is: new ones would be founded there, which hide what is
    /// made in them as soon as their disks are mounted over them. What lies in memory is gone after a restart of the machine, and
    /// is made anew.
    ///
    /// # Errors
    /// Usage, in a store of one host, whose other directories could take the place of such a tier.
    pub(super) fn gone_tiers(&self, settings: &Settings) -> Outcome<Vec<PathBuf>> {
        if self.is_volatile {
            return Ok(Vec::new());
        }
        let is_gone = |dir: &&PathBuf| {
            has_tier_at(settings, dir) && !dir.join("tier.json").exists() && !lies_in_memory(dir)
        };
        let Some(dir) = self.tiers.iter().find(is_gone) else {
            return Ok(self.shared_tiers.values().filter(is_gone).cloned().collect());
        };
        Err(Failure::usage(format!(
            "the store in {} has a tier at {}, and nothing of it is there",
            settings.dir.display(),
            dir.display()
        ))
        .with_help(
            "is its disk mounted? If it was moved, name it where it is now; to go on without its files, name another directory in its place",
        ))
    }
}

fn has_tier_at(settings: &Settings, dir: &Path) -> bool {
    settings.tiers.iter().any(|tier| tier.dir == dir)
}

/// Whether a directory, or the nearest one above it that there is, is of a file system in memory.
fn lies_in_memory(dir: &Path) -> bool {
    /// `TMPFS_MAGIC` and `RAMFS_MAGIC` of the kernel's `linux/magic.h`.
    const IN_MEMORY: [i128; 2] = [0x0102_1994, 0x8584_58f6];
    let found = dir.ancestors().find_map(|above| rustix::fs::statfs(above).ok());
    found.is_some_and(|found| IN_MEMORY.contains(&i128::from(found.f_type)))
}

/// What a tier's directory may hold before it is one.
const BEFORE_A_TIER: [&str; 3] = ["lock", "tier.json.new", "lost+found"];

/// A tier's directory that is new, empty or a tier.
pub(super) fn check_tier_not_foreign(dir: &Path) -> Outcome {
    if dir.join("tier.json").exists() {
        return Ok(());
    }
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.file_name());
    match names.into_iter().find(|name| !BEFORE_A_TIER.iter().any(|own| name == own)) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!(
            "--tier: {} holds other data ('{}') and is no tier",
            dir.display(),
            name.display()
        ))
        .with_help("name an empty or a new directory; nothing was changed")),
    }
}
