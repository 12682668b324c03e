//! The hints in force for a file: its own attributes over the rules, over what its directory passes on.

use std::sync::Arc;

use intarsia_meta::{Inode, Namespace};
use intarsia_sync::RwLock;
use intarsia_types::{FileKind, Hint, HintKey, HintSet, InodeId, Result, RuleSet};

use crate::inode::live::LiveTable;
use crate::members::Members;
use crate::rebalance::tiers::TierChanges;
use crate::replication::replicator::CopyQueue;
use crate::space::hints::own_hints;
use crate::space::placing::name_group;
use crate::vfs::attributes::Attributes;

/// The rules, and which hints are in force.
pub(crate) struct Hinting {
    pub(crate) rules: RwLock<Arc<RuleSet>>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) members: Members,
    pub(crate) tier_changes: Arc<TierChanges>,
    pub(crate) copy_queue: Arc<CopyQueue>,
    pub(crate) attributes: Arc<Attributes>,
}

impl Hinting {
    /// The rules in force.
    pub(crate) fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(&self.rules.read())
    }

    /// Replaces the rules; files created from now on follow them.
    pub(crate) fn set_rules(&self, rules: RuleSet) {
        *self.rules.write() = Arc::new(rules);
    }

    /// The hints that a new entry `name` of `parent` starts with. Rules are for what is no directory.
    pub(crate) fn hints_for_new(
        &self,
        parent: &Inode,
        name: &[u8],
        kind: FileKind,
    ) -> Result<HintSet> {
        let mut hints = own_hints(&self.namespace, parent)?;
        if kind == FileKind::Directory {
            return Ok(hints);
        }
        let rules = Arc::clone(&self.rules.read());
        if !rules.rules().is_empty() {
            let name = String::from_utf8_lossy(name);
            let by_rule = if rules.needs_path() {
                let directory = self.namespace.path_of(parent.ino)?;
                let directory = String::from_utf8_lossy(&directory);
                rules.hints_for(&format!("{}/{name}", directory.trim_end_matches('/')))
            } else {
                rules.hints_for(&name)
            };
            hints.overlay(&by_rule);
        }
        if kind == FileKind::Regular {
            name_group(&mut hints, parent.ino);
        }
        Ok(hints)
    }

    /// Follows a hint that was changed while the file is live.
    pub(crate) fn apply_hint(&self, ino: InodeId, key: HintKey, value: Option<&str>) {
        self.live.with_existing(ino, |state| match value.and_then(|v| Hint::new(key, v).ok()) {
            Some(hint) => state.hints.set(hint),
            None => state.hints.remove(key),
        });
        if value.is_some_and(|value| !key.is_acted_upon_as(value, self.members.is_shared())) {
            tracing::info!(%ino, hint = %key, "stored; not acted upon by this store");
        }
        if key == HintKey::Tier && value.is_some() {
            self.tier_changes.follow_tier(ino);
        }
        if key == HintKey::Replicas && self.members.is_shared() {
            // As soon as nobody writes to it; a directory has no bytes, and is passed over.
            self.copy_queue.add(ino, self.attributes.length_now(ino).unwrap_or(0));
        }
    }
}

/// Sets hints on a new inode as attributes, so that they stay when the directory's change.
pub(super) fn hint_xattrs(hints: &HintSet) -> Vec<(Vec<u8>, Vec<u8>)> {
    hints
        .iter()
        .map(|(key, value)| (key.attribute().into_bytes(), value.as_bytes().to_vec()))
        .collect()
}
