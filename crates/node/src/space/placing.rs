//! Where the hints of a new file wish it to be born: on the host that makes it, where its group is, or dealt over all.

use std::collections::HashMap;

use intarsia_meta::GroupRecord;
use intarsia_policy::{
    Home, HomeReason, HostState, HostWish, PlaceRequest, Plan, choose_group_host, place,
};
use intarsia_sync::Mutex;
use intarsia_types::{Hint, HintKey, HintSet, InodeId, NodeId, Pattern, Placement, Result};

use crate::clock::now;
use crate::node::Node;

/// Groups that are remembered here; beyond it all are looked up anew.
const REMEMBERED_MAX: usize = 4096;
/// Groups that are recorded; beyond it the oldest goes, and its next file chooses a host anew.
const RECORDED_MAX: usize = 4096;
/// Attempts to record the host of a group while other hosts do so too.
const ATTEMPTS: usize = 4;

/// The hosts of groups, as they were looked up.
#[derive(Default)]
pub(crate) struct Groups(Mutex<HashMap<String, NodeId>>);

impl Groups {
    fn get(&self, group: &str) -> Option<NodeId> {
        self.0.lock().get(group).cloned()
    }

    fn note(&self, group: &str, host: &NodeId) {
        let mut groups = self.0.lock();
        if groups.len() >= REMEMBERED_MAX {
            groups.clear();
        }
        groups.insert(group.to_owned(), host.clone());
    }
}

/// What the hints of a file say of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing, or that it is the one that makes the file.
    Maker,
    /// That it is the one of this group.
    Group(String),
    /// That files are dealt over all.
    Spread,
}

/// What a file is reduced with is what is made in the same directory, unless a hint names a group.
pub(crate) fn name_group(hints: &mut HintSet, directory: InodeId) {
    if hints.pattern() == Some(Pattern::Reduce)
        && hints.place().is_none()
        && let Ok(hint) = Hint::new(HintKey::Place, &format!("collocate:d{directory}"))
    {
        hints.set(hint);
    }
}

/// The pattern that a file's place follows.
pub(crate) fn pattern_of_place(hints: &HintSet, wish: &Wish) -> Option<Pattern> {
    let is_pipeline =
        hints.place() == Some(Placement::Local) || hints.pattern() == Some(Pattern::Pipeline);
    match wish {
        Wish::Group(_) => Some(Pattern::Reduce),
        Wish::Spread => Some(Pattern::Distribute),
        Wish::Maker => is_pipeline.then_some(Pattern::Pipeline),
    }
}

impl Node {
    /// What the hints of a file say of its host. A store of one host has no other.
    pub(crate) fn wish_of(&self, hints: &HintSet) -> Wish {
        match (hints.place(), hints.pattern()) {
            _ if !self.is_shared() => Wish::Maker,
            (Some(Placement::Collocate(group)), _) => Wish::Group(group),
            (None, Some(Pattern::Distribute)) => Wish::Spread,
            _ => Wish::Maker,
        }
    }

    /// Where the bytes of a new file are to be, and why.
    pub(crate) fn plan_for_new(&self, hints: &HintSet, seed: u64) -> Plan {
        match self.wish_of(hints) {
            Wish::Maker => self.plan(hints, HostWish::Maker, seed),
            Wish::Group(group) => {
                let host = self.host_of_group(&group);
                self.plan(hints, HostWish::Group(host.as_ref()), seed)
            }
            Wish::Spread => self.plan(hints, HostWish::Roomiest, seed),
        }
    }

    /// The same without regard to what the hints say of hosts: whether there is room here.
    pub(crate) fn plan_here(&self, hints: &HintSet, seed: u64) -> Plan {
        self.plan(hints, HostWish::Maker, seed)
    }

    fn plan(&self, hints: &HintSet, wish: HostWish<'_>, seed: u64) -> Plan {
        self.remote_cache.make_room();
        let is_leaving = self.is_leaving();
        if wish == HostWish::Maker
            && !is_leaving
            && let Some(tier) = self.tiers.only_one_with_room()
        {
            return Plan { home: Home::Here(tier), reason: HomeReason::RoomHere };
        }
        let (maker, class) = (&self.options.name, hints.tier());
        let tiers = self.tiers.states();
        let request = PlaceRequest { maker, tiers: &tiers, class, wish, is_leaving, seed };
        place(&request, || self.roomy_hosts())
    }

    fn roomy_hosts(&self) -> Vec<HostState> {
        self.cluster.as_ref().map(|cluster| cluster.roomy_hosts()).unwrap_or_default()
    }

    /// Whether a file stays at its home although another host writes it anew, because its hints put it there.
    pub(crate) fn stays_by_hint(&self, hints: &HintSet) -> bool {
        self.wish_of(hints) != Wish::Maker
    }

    /// The host of a group: the one that is named with it, the one that is recorded if it has room, else one that is
    /// chosen now.
    fn host_of_group(&self, group: &str) -> Option<NodeId> {
        if let Some((_, host)) = group.rsplit_once('@') {
            return Some(NodeId(host.to_owned()));
        }
        let hosts = self.roomy_hosts();
        let is_roomy =
            |node: &NodeId| hosts.iter().any(|host| host.node == *node && host.free_bytes > 0);
        if let Some(host) = self.groups.get(group).filter(is_roomy) {
            return Some(host);
        }
        match self.found_group(group, &hosts, is_roomy) {
            Ok(host) => {
                if let Some(host) = &host {
                    self.groups.note(group, host);
                }
                host
            }
            Err(error) => {
                tracing::debug!(group, %error, "a group has no host for now");
                None
            }
        }
    }

    fn found_group(
        &self,
        group: &str,
        hosts: &[HostState],
        is_roomy: impl Fn(&NodeId) -> bool,
    ) -> Result<Option<NodeId>> {
        for _ in 0..ATTEMPTS {
            let known = self.namespace.group(group)?;
            if let Some(record) = known.as_ref().filter(|record| is_roomy(&record.host)) {
                return Ok(Some(record.host.clone()));
            }
            let mut others = self.namespace.groups()?;
            others.retain(|(name, _)| name != group);
            let groups_at =
                |node: &NodeId| others.iter().filter(|(_, record)| record.host == *node).count();
            let Some(host) = choose_group_host(group, hosts, groups_at) else { return Ok(None) };
            let record = GroupRecord { host: host.clone(), since: now() };
            let excess = (others.len() + 1).saturating_sub(RECORDED_MAX);
            others.sort_by_key(|(_, record)| record.since);
            let forgotten: Vec<_> = others.into_iter().take(excess).map(|(name, _)| name).collect();
            if self.namespace.put_group(group, known.as_ref(), &record, &forgotten)? {
                tracing::info!(group, host = %record.host, "the files of a group go to this host");
                return Ok(Some(record.host));
            }
        }
        Ok(None)
    }
}
