//! Asks the policy where bytes of a file are to be and how they are reached. It tells the policy what this host knows of
//! itself, of the other hosts, and of the hints: these can wish a file at the host that makes it, at the host of its group, or
//! have files dealt over all hosts.

use std::collections::HashMap;
use std::sync::Arc;

use intarsia_meta::{GroupRecord, Namespace};
use intarsia_policy::{
    FileState, FoldLimits, Here, Home, HostState, HostWish, KeepRequest, OpenRequest, PlaceRequest,
    Plan, PlannedLayout, Purpose, Reason, TierState, Wish, choose_group_host, copies_wanted,
    named_host, place, reduces_with_its_directory,
};
use intarsia_store::Tier;
use intarsia_sync::Mutex;
use intarsia_types::{
    Hint, HintKey, HintSet, InodeId, Integrity, NodeId, Pattern, Placement, Result, TierClass,
    TierId,
};

use crate::clock::now;
use crate::membership::cluster::Cluster;
use crate::options::NodeOptions;
use crate::ranks::GROUPS;
use crate::space::dealing::Dealing;
use crate::space::tiers::{Tiers, full, state_of};

/// Most groups whose hosts are remembered here. Beyond it all are forgotten, and looked up anew.
const REMEMBERED_MAX: usize = 4096;
/// Most groups whose hosts are recorded. Beyond it the oldest is removed, and a host is chosen anew for its next file.
const RECORDED_MAX: usize = 4096;
/// Attempts to record the host of a group while other hosts do so too.
const ATTEMPTS: usize = 4;

/// The hosts of groups, as the metadata said when they were looked up.
struct Groups(Mutex<HashMap<String, NodeId>>);

impl Default for Groups {
    fn default() -> Self {
        Self(Mutex::ranked(GROUPS, HashMap::new()))
    }
}

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

/// Names the group of a new file in its hints, if they say that it is to be reduced and name no place: its group is all that is
/// made in the same directory.
pub(crate) fn name_group(hints: &mut HintSet, directory: InodeId) {
    if reduces_with_its_directory(hints)
        && let Ok(hint) = Hint::new(HintKey::Place, &format!("collocate:d{directory}"))
    {
        hints.set(hint);
    }
}

/// What the hints say of a file's place, except of its host.
fn wanted_by(hints: &HintSet) -> FileState {
    FileState { class: hints.tier(), is_strict: is_strict(hints), ..FileState::default() }
}

fn is_strict(hints: &HintSet) -> bool {
    hints.integrity() == Integrity::Strict
}

/// The pattern of the hints that the place of a file follows, for the metrics; none if it follows none.
pub(crate) fn pattern_of_place(hints: &HintSet, wish: &Wish) -> Option<Pattern> {
    let is_pipeline =
        hints.place() == Some(Placement::Local) || hints.pattern() == Some(Pattern::Pipeline);
    match wish {
        Wish::Group(_) => Some(Pattern::Reduce),
        Wish::Spread => Some(Pattern::Distribute),
        Wish::Maker => is_pipeline.then_some(Pattern::Pipeline),
    }
}

/// Asks the policy where files go.
pub(crate) struct Placing {
    /// The name of this host.
    me: NodeId,
    /// How much content may stand beside inodes.
    limits: FoldLimits,
    /// How many copies a file is to have if its hints do not say, the one at its home among them.
    replicas: u16,
    tiers: Arc<Tiers>,
    /// Has the records of groups.
    namespace: Arc<Namespace>,
    /// The other hosts; none in a store of one.
    cluster: Option<Arc<Cluster>>,
    groups: Groups,
    dealing: Dealing,
}

impl Placing {
    pub(crate) fn new(
        options: &NodeOptions,
        tiers: Arc<Tiers>,
        namespace: Arc<Namespace>,
        cluster: Option<Arc<Cluster>>,
    ) -> Self {
        let limits = FoldLimits {
            inline_bytes: options.inline_bytes.0,
            budget_bytes: options.inline_budget.0,
        };
        let me = options.name.clone();
        Self {
            me,
            limits,
            replicas: options.replicas,
            tiers,
            namespace,
            cluster,
            groups: Groups::default(),
            dealing: Dealing::default(),
        }
    }

    /// What the hints of a file wish of its host. In a store of one host they are not looked at.
    pub(crate) fn wish_of(&self, hints: &HintSet) -> Wish {
        if self.cluster.is_none() { Wish::Maker } else { Wish::of(hints) }
    }

    /// Where the bytes of a new file are to be, and why.
    pub(crate) fn plan_for_new(&self, hints: &HintSet, seed: u64) -> Plan {
        match self.wish_of(hints) {
            Wish::Maker => self.plan(hints, HostWish::Maker, seed),
            Wish::Group(group) => {
                let host = self.host_of_group(&group);
                self.plan(hints, HostWish::Group(host.as_ref()), seed)
            }
            Wish::Spread => self.plan(hints, HostWish::Roomiest(&self.dealing.dealt()), seed),
        }
    }

    /// A new file went to `node`, or to this host if that is none.
    pub(crate) fn note_home(&self, hints: &HintSet, ino: InodeId, node: Option<&NodeId>) {
        if self.wish_of(hints) == Wish::Spread {
            self.dealing.note(ino, node.unwrap_or(&self.me));
        }
    }

    /// A file was closed. `size_bytes` says how long it is, if that is known; it is only asked where that matters.
    pub(crate) fn note_closed(
        &self,
        hints: &HintSet,
        ino: InodeId,
        size_bytes: impl FnOnce() -> Option<u64>,
    ) {
        if self.wish_of(hints) == Wish::Spread
            && let Some(size_bytes) = size_bytes()
        {
            self.dealing.closed(ino, size_bytes);
        }
    }

    /// As [`plan_for_new`](Self::plan_for_new), but whatever the hints wish of the host: here if there is room.
    pub(crate) fn plan_here(&self, hints: &HintSet, seed: u64) -> Plan {
        self.plan(hints, HostWish::Maker, seed)
    }

    fn plan(&self, hints: &HintSet, wish: HostWish<'_>, seed: u64) -> Plan {
        let file = FileState { seed, ..wanted_by(hints) };
        self.ask(Purpose::Birth(wish), file, &self.tiers.states())
    }

    /// The tier for bytes that are to be at this host, whatever room others have.
    ///
    /// # Errors
    /// [`Error::NoSpace`](intarsia_types::Error::NoSpace) when every tier is full to the last byte.
    pub(crate) fn tier_here(&self, class: Option<TierClass>) -> Result<TierId> {
        let file = FileState { class, ..FileState::default() };
        match self.ask(Purpose::Here, file, &self.tiers.states()).home {
            Home::Here(tier) => Ok(tier),
            _ => Err(full()),
        }
    }

    /// The tier of this host that a file of `size_bytes` in the tier `from` is to move to by its hints; none if it stays.
    pub(crate) fn tier_as_hinted(
        &self,
        hints: &HintSet,
        from: TierId,
        size_bytes: u64,
    ) -> Option<TierId> {
        let file = FileState { size_bytes, ..wanted_by(hints) };
        match self.ask(Purpose::Hinted { tier: from }, file, &self.tiers.states()).home {
            Home::Here(tier) => Some(tier),
            _ => None,
        }
    }

    /// Whether this host has room for further bytes in a tier other than its overflow.
    pub(crate) fn has_room_here(&self) -> bool {
        let file = FileState::default();
        self.ask(Purpose::Here, file, &self.tiers.states()).reason == Reason::RoomHere
    }

    /// Whether a file that this host got the right to write is to move here from `home`, with `bytes` of content, instead of
    /// being written through `home`.
    pub(crate) fn comes_here(&self, hints: &HintSet, home: &NodeId, bytes: u64) -> bool {
        let is_put_there = self.wish_of(hints) != Wish::Maker;
        let purpose = Purpose::Rewrite { home, is_put_there };
        match self.ask(purpose, wanted_by(hints), &self.tiers.states()).home {
            Home::Here(tier) => self.tiers.get(tier).is_ok_and(|tier| tier.fits(bytes)),
            _ => false,
        }
    }

    /// How a file is served to programs, by passthrough or through the process. `tier` is the one that has, or will have, its
    /// backing file, if there is one.
    pub(crate) fn plan_opened(
        &self,
        hints: &HintSet,
        tier: Option<&Tier>,
        access: OpenRequest,
        has_passthrough: bool,
    ) -> Plan {
        let tier = tier.map(|tier| state_of(tier, false));
        let purpose = Purpose::Open(OpenRequest { tier, ..access });
        let file = FileState { is_strict: is_strict(hints), ..FileState::default() };
        let here = Here { has_passthrough, ..self.here(&[]) };
        place(&PlaceRequest { purpose, file, here }, || [])
    }

    /// Whether another host's file of `size_bytes` is kept here once it is read.
    pub(crate) fn plan_kept(&self, hints: &HintSet, size_bytes: u64, request: KeepRequest) -> Plan {
        let is_strict = is_strict(hints);
        let file = FileState { size_bytes, is_strict, ..FileState::default() };
        self.ask(Purpose::Keep(request), file, &[])
    }

    /// Whether the content of a backing file, `size_bytes` long, goes beside its inode. `inline_total_bytes` says how much is
    /// beside inodes already; it is only asked for a file that is small enough.
    pub(crate) fn goes_inline(
        &self,
        hints: &HintSet,
        size_bytes: u64,
        inline_total_bytes: impl FnOnce() -> u64,
    ) -> bool {
        let limits = self.limits;
        if size_bytes > limits.inline_bytes {
            return false;
        }
        let purpose = Purpose::Settle { limits, inline_total_bytes: inline_total_bytes() };
        let is_strict = is_strict(hints);
        let file = FileState { size_bytes, is_strict, ..FileState::default() };
        self.ask(purpose, file, &[]).layout == PlannedLayout::Inline
    }

    /// How many copies a file with these hints is to have, the one at its home among them.
    pub(crate) fn copies_wanted(&self, hints: &HintSet) -> usize {
        copies_wanted(hints.replicas(), self.replicas, self.cluster.is_some())
    }

    /// Up to `count` hosts for further copies of a content. None of those in `holds` is among them, which have a copy or have
    /// been asked for one.
    pub(crate) fn plan_copies(
        &self,
        holds: &[NodeId],
        count: usize,
        size_bytes: u64,
        seed: u64,
    ) -> Plan {
        let file = FileState { seed, size_bytes, ..FileState::default() };
        let (purpose, here) = (Purpose::Copies { holds, count }, self.here(&[]));
        let hosts = || self.cluster.as_ref().map(|cluster| cluster.hosts_for_copies());
        place(&PlaceRequest { purpose, file, here }, || hosts().unwrap_or_default())
    }

    /// Those of `hosts` that can have a part of a striped file, in the order in which they are to be asked.
    pub(crate) fn hosts_for_parts(
        &self,
        hosts: &[HostState],
        chunk_bytes: u64,
        seed: u64,
    ) -> Vec<NodeId> {
        let purpose = Purpose::Parts { hosts: hosts.len(), chunk_bytes };
        let file = FileState { seed, ..FileState::default() };
        match place(&PlaceRequest { purpose, file, here: self.here(&[]) }, || hosts).layout {
            PlannedLayout::Dealt { hosts, .. } => hosts,
            _ => Vec::new(),
        }
    }

    /// The one of `hosts` that a file of `size_bytes` goes to when it has to leave `from`; none if no host has room.
    pub(crate) fn home_away_from(
        from: &NodeId,
        size_bytes: u64,
        hosts: &[HostState],
    ) -> Option<NodeId> {
        let here = Here { node: from, tiers: &[], is_leaving: true, has_passthrough: false };
        let file = FileState { size_bytes, ..FileState::default() };
        match place(&PlaceRequest { purpose: Purpose::Move, file, here }, || hosts).home {
            Home::Elsewhere { hosts, .. } => hosts.into_iter().next(),
            _ => None,
        }
    }

    /// The greatest length, in bytes, of a file whose content goes beside its inode.
    pub(crate) const fn inline_max_bytes(&self) -> u64 {
        self.limits.inline_bytes
    }

    fn ask(&self, purpose: Purpose<'_>, file: FileState, tiers: &[TierState]) -> Plan {
        place(&PlaceRequest { purpose, file, here: self.here(tiers) }, || self.roomy_hosts())
    }

    fn here<'a>(&'a self, tiers: &'a [TierState]) -> Here<'a> {
        let is_leaving = self.cluster.as_ref().is_some_and(|cluster| cluster.is_leaving());
        Here { node: &self.me, tiers, is_leaving, has_passthrough: true }
    }

    fn roomy_hosts(&self) -> Vec<HostState> {
        self.cluster.as_ref().map(|cluster| cluster.roomy_hosts()).unwrap_or_default()
    }

    /// The host of a group: the one that its name ends with, else the one that is remembered or recorded if it has room, else
    /// one that is chosen now and recorded. None if there is no host with room, or the metadata does not answer.
    fn host_of_group(&self, group: &str) -> Option<NodeId> {
        if let Some(host) = named_host(group) {
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

    /// The recorded host of a group if it has room, else one that is chosen now and recorded.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::cluster::lone::{lone, record_host};

    fn hints(list: &[(HintKey, &str)]) -> HintSet {
        let mut hints = HintSet::default();
        list.iter().for_each(|(key, value)| hints.set(Hint::new(*key, value).unwrap()));
        hints
    }

    fn options_of(name: &str) -> NodeOptions {
        NodeOptions { name: NodeId(name.into()), ..NodeOptions::new("/nowhere") }
    }

    fn no_tiers() -> Arc<Tiers> {
        Arc::new(Tiers::new(Vec::new(), None, false))
    }

    #[test]
    fn in_a_store_of_one_host_no_wish_counts() {
        let (_, namespace) = lone();
        let placing = Placing::new(&options_of("a"), no_tiers(), Arc::new(namespace), None);
        let group = hints(&[(HintKey::Place, "collocate:g")]);
        assert_eq!(placing.wish_of(&group), Wish::Maker);
        assert_eq!(placing.plan_for_new(&group, 7).home, Home::Nowhere);
    }

    #[test]
    fn a_group_goes_to_one_host_which_is_recorded_for_all() {
        let (cluster, namespace) = lone();
        record_host(&namespace, "b", 1 << 30);
        record_host(&namespace, "c", 1 << 30);
        cluster.meet().unwrap();
        let namespace = Arc::new(namespace);
        let placing = |maker: &str| {
            let (names, hosts) = (Arc::clone(&namespace), Some(Arc::clone(&cluster)));
            Placing::new(&options_of(maker), no_tiers(), names, hosts)
        };
        let hosts_of = |placing: &Placing, hints: &HintSet, seed| match placing
            .plan_for_new(hints, seed)
        {
            Plan { home: Home::Elsewhere { hosts, .. }, reason, .. } if reason.is_wish() => hosts,
            plan => panic!("{plan:?}"),
        };
        let group = hints(&[(HintKey::Place, "collocate:g")]);
        let (a, d) = (placing("a"), placing("d"));
        let first = hosts_of(&a, &group, 1);
        let recorded = namespace.group("g").unwrap().map(|record| record.host);
        assert_eq!(first, recorded.into_iter().collect::<Vec<_>>());
        assert_eq!(hosts_of(&d, &group, 2), first, "another host looks it up");
        let named = hints(&[(HintKey::Place, "collocate:g@c")]);
        assert_eq!(hosts_of(&a, &named, 3), [NodeId("c".into())]);
        assert!(!a.comes_here(&named, &NodeId("c".into()), 0));
    }
}
