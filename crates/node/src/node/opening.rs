//! What a node is built on: its tiers and the namespace, as they are found at the start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use intarsia_meta::engines::{EmbeddedEngine, EmbeddedOptions, MemoryEngine};
use intarsia_meta::{MetaEngine, Namespace, RootSpec, TierRecord};
use intarsia_store::{Tier, TierOptions, tier_at};
use intarsia_types::{Durability, Error, Result, TierClass, TierId, TierSpec};

use crate::body::lower::OVERFLOW_NAME;
use crate::clock::now;
use crate::identity::{Identity, is_copy};
use crate::options::NodeOptions;
use crate::space::tiers::clear_tier;

/// Adds the tiers that go without saying: one in the store's directory if none is named, and the overflow, whose
/// directory it returns.
pub(super) fn add_tiers(options: &mut NodeOptions, store: &str) -> Result<Option<PathBuf>> {
    let spec = |dir| TierSpec { dir, class: None, capacity: None };
    if options.tiers.is_empty() {
        options.tiers.push(spec(options.dir.join("tier")));
    }
    let overflow = options.overflow.then(|| overflow_dir(options, store)).transpose()?;
    options.tiers.extend(overflow.clone().map(spec));
    Ok(overflow)
}

/// The tiers first: on a full disk the metadata takes what is left for its own needs. But with several hosts
/// the metadata numbers the tiers.
/// `is_new` tells that nothing of the store was in the directory.
pub(super) fn open_parts(
    options: &NodeOptions,
    identity: &mut Identity,
    is_new: bool,
) -> Result<(Namespace, Vec<Tier>)> {
    let is_volatile = identity.is_volatile;
    if options.cluster.is_none() {
        let tiers = open_tiers(options, identity, None)?;
        return Ok((open_namespace(options, is_volatile)?, tiers));
    }
    let namespace = open_namespace(options, is_volatile)?;
    take_up_former(options, identity, &namespace, is_new)?;
    let tiers = open_tiers(options, identity, Some(&namespace))?;
    Ok((namespace, tiers))
}

/// Compares what the metadata knows of this host's tiers with the disks: a tier that is there goes on under its
/// number, also when the host's directory is lost, when it was moved, or when it counted as that of a lost host because its disk
/// was not there for a while; one that is not, on a disk that was replaced, counts as that of a
/// lost host, so that its files are read from their other copies and copied anew.
fn take_up_former(
    options: &NodeOptions,
    identity: &mut Identity,
    namespace: &Namespace,
    is_new: bool,
) -> Result<()> {
    let known = take_back_found(options, identity, namespace)?;
    let is_configured =
        |dir: &str| options.tiers.iter().any(|spec| absolute(&spec.dir) == Path::new(dir));
    let own = known.into_iter().filter(|(_, tier)| tier.host == options.name.0);
    let (there, missing): (Vec<_>, Vec<_>) =
        own.partition(|(id, tier)| tier_at(Path::new(&tier.dir), &identity.store) == Some(*id));
    identity.keep_tiers(there.into_iter().map(|(id, tier)| (id, PathBuf::from(tier.dir))));
    // The capacity is recorded once a tier is in use; before, nothing is on it.
    let is_gone =
        |tier: &TierRecord| tier.capacity_bytes > 0 && (is_new || is_configured(&tier.dir));
    let gone: Vec<TierId> =
        missing.into_iter().filter(|(_, tier)| is_gone(tier)).map(|(id, _)| id).collect();
    identity.drop_tiers(&gone);
    if let Some(former) = namespace.retire_tiers(&options.name, &gone, now())? {
        tracing::error!(
            host = %options.name, %former, tiers = ?gone,
            "tiers of this host come back empty; what they held counts as that of a lost host"
        );
    }
    Ok(())
}

/// Takes the tiers of this store that lie in the directories of this host for its own, where they are not another host's.
/// Returns all tiers of the store.
///
/// # Errors
/// [`Error::Invalid`] for a copy of a tier that is at its place, and for a tier of another host.
fn take_back_found(
    options: &NodeOptions,
    identity: &Identity,
    namespace: &Namespace,
) -> Result<Vec<(TierId, TierRecord)>> {
    let dirs = options.tiers.iter().map(|spec| absolute(&spec.dir));
    let found: Vec<(TierId, PathBuf)> =
        dirs.filter_map(|dir| Some((tier_at(&dir, &identity.store)?, dir))).collect();
    let known = namespace.tiers()?;
    let is_own = |tier: &TierRecord| tier.host == options.name.0;
    let mut is_news = false;
    for (id, dir) in &found {
        let Some((_, tier)) = known.iter().find(|(known, _)| known == id) else { continue };
        let recorded = Path::new(&tier.dir);
        if is_own(tier) && dir != recorded && tier_at(recorded, &identity.store) == Some(*id) {
            return Err(is_copy(*id, dir, recorded));
        }
        is_news |= !is_own(tier) || dir != recorded;
    }
    if !is_news {
        return Ok(known);
    }
    let named = found.iter().map(|(id, dir)| (*id, dir.to_string_lossy().into_owned()));
    let back = namespace.take_back_tiers(&options.name, &named.collect::<Vec<_>>())?;
    tracing::warn!(host = %options.name, tiers = ?back, "tiers of this host were elsewhere before, or not there");
    let now = namespace.tiers()?;
    let is_here = |id: &TierId| found.iter().find(|(there, _)| there == id);
    let stranger = now.iter().find(|(id, tier)| !is_own(tier) && is_here(id).is_some());
    let Some((id, tier)) = stranger else { return Ok(now) };
    let dir = is_here(id).map_or(Path::new(""), |(_, dir)| dir);
    Err(Error::Invalid(format!(
        "directory {} has tier {id} of this store, which is one of host {}; name it there, and another directory on {}",
        dir.display(),
        tier.host,
        options.name
    )))
}

fn absolute(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned())
}

/// The directory of the overflow in the lower file system, made; each host of each store has its own.
fn overflow_dir(options: &NodeOptions, store: &str) -> Result<PathBuf> {
    let lower = options.lower.as_deref().ok_or_else(|| {
        Error::Invalid("an overflow needs a lower file system; name one with --lower".into())
    })?;
    let parent = lower.join(OVERFLOW_NAME).join(store);
    std::fs::create_dir_all(&parent)
        .map_err(|e| Error::io(format!("make the overflow {}", parent.display()), e))?;
    Ok(parent.join(&options.name.0))
}

/// Opens the tiers, numbered by `numbering` in a store of several hosts.
fn open_tiers(
    options: &NodeOptions,
    identity: &mut Identity,
    numbering: Option<&Namespace>,
) -> Result<Vec<Tier>> {
    let record = |dir: &Path, class, capacity_bytes| TierRecord {
        host: options.name.0.clone(),
        dir: dir.to_string_lossy().into_owned(),
        class,
        capacity_bytes,
    };
    let register = |dir: &Path| match numbering {
        Some(namespace) => namespace.register_tier(&record(dir, TierClass::Disk, 0)),
        None => Err(Error::Engine("a tier was to be numbered for other hosts".into())),
    };
    let ids = identity.number_tiers(&options.tiers, numbering.map(|_| &register as _))?;
    for (id, dir) in identity.absent_tiers(&ids) {
        tracing::warn!(%id, dir = %dir.display(), "a tier of this store is not configured; its files give EIO");
    }
    let mut tiers = Vec::with_capacity(ids.len());
    for (spec, id) in options.tiers.iter().zip(ids) {
        let tier = Tier::open(TierOptions {
            spec: spec.clone(),
            id,
            store: identity.store.clone(),
            watermark: options.watermark,
        })?;
        if options.durability == Durability::Memory {
            clear_tier(&tier)?;
        }
        if let Some(namespace) = numbering {
            // Now that it is known what it is.
            let dir = absolute(&spec.dir);
            let capacity_bytes = tier.space().capacity_bytes;
            namespace.register_tier(&record(&dir, tier.class(), capacity_bytes))?;
        }
        tiers.push(tier);
    }
    identity.save(&options.dir)?;
    Ok(tiers)
}

pub(super) const fn root_of(options: &NodeOptions) -> RootSpec {
    RootSpec { perm: options.root_perm, uid: options.root_uid, gid: options.root_gid }
}

fn open_namespace(options: &NodeOptions, is_volatile: bool) -> Result<Namespace> {
    let root = root_of(options);
    match &options.cluster {
        Some(cluster) => Namespace::open(Arc::clone(&cluster.engine), root, now()),
        None => Namespace::open(open_engine(options, is_volatile)?, root, now()),
    }
}

fn open_engine(options: &NodeOptions, is_volatile: bool) -> Result<Arc<dyn MetaEngine>> {
    if is_volatile || options.durability == Durability::Memory {
        return Ok(Arc::new(MemoryEngine::new(1)));
    }
    let interval = std::time::Duration::from_millis(options.interval_ms);
    let settings = EmbeddedOptions {
        cache_bytes: options.cache.0,
        flush_interval: Some(interval),
        ..EmbeddedOptions::default()
    };
    Ok(Arc::new(EmbeddedEngine::open(&options.dir.join("meta"), &settings)?))
}
