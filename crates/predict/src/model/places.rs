//! Where files lie: what metadata servers of the model decide and know.
//!
//! The decisions are those of `policy`, which nodes of a store ask too. Which hosts a file is dealt over is drawn anew for
//! each file from its own number: one order for all is the hot spot that the thesis found in its store.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use intarsia_policy::{
    Dealt, FileState, Here, Home, HostState, HostWish, PlaceRequest, Plan, PlannedLayout, Purpose,
    Stripe, TierState, Wish, place, reduces_with_its_directory,
};
use intarsia_types::{ByteCount, Dealing, HintSet, NodeId, TierClass, TierId};

use super::groups::Groups;
use super::place::{Place, Spot, held_bytes};
use crate::Problem;
use crate::configuration::{Configuration, Placement, Roles};
use crate::profile::Profile;
use crate::workload::{FileId, Workload};

/// All files of a run.
pub(super) struct Places<'a> {
    workload: &'a Workload,
    configuration: &'a Configuration,
    roles: Roles,
    seed: u64,
    /// The storage hosts, and the same as the decisions take them; by number from the first one.
    tiers: Vec<Vec<TierState>>,
    /// What each tier of a host can hold.
    capacities: Vec<u64>,
    states: Vec<HostState>,
    numbers: HashMap<NodeId, u32>,
    groups: Groups,
    /// What each host has dealt over all.
    dealt: HashMap<u32, Dealt>,
    places: Vec<Option<Place>>,
    /// By file: it was lost, and is not made again yet.
    lost: Vec<bool>,
    /// By tier: what it has is in memory.
    is_memory: Vec<bool>,
    /// Storage hosts that are down.
    down: Vec<u32>,
}

impl<'a> Places<'a> {
    pub(super) fn new(
        workload: &'a Workload,
        profile: &Profile,
        configuration: &'a Configuration,
        roles: &Roles,
        seed: u64,
    ) -> Self {
        let names: Vec<NodeId> =
            roles.stores.clone().map(|host| NodeId(profile.host_name(host))).collect();
        let tiers: Vec<TierState> = (0..)
            .zip(&profile.tiers)
            .map(|(id, tier)| TierState {
                id: TierId(id),
                class: tier.class,
                free_bytes: tier.capacity_bytes,
                is_low: false,
                is_overflow: false,
                is_stackable: true,
                capacity_bytes: tier.capacity_bytes,
            })
            .collect();
        let bytes = total(&tiers);
        let state = |node: &NodeId| HostState {
            capacity_bytes: bytes,
            ..HostState::new(node.clone(), bytes)
        };
        Self {
            workload,
            configuration,
            roles: roles.clone(),
            seed,
            capacities: tiers.iter().map(|tier| tier.free_bytes).collect(),
            tiers: vec![tiers; names.len()],
            states: names.iter().map(state).collect(),
            numbers: names.into_iter().zip(roles.stores.clone()).collect(),
            groups: Groups::new(workload),
            dealt: HashMap::new(),
            places: vec![None; workload.files.len()],
            lost: vec![false; workload.files.len()],
            down: Vec::new(),
            is_memory: profile.tiers.iter().map(|tier| tier.class == TierClass::Memory).collect(),
        }
    }

    /// How many bytes lie on each tier, over all hosts.
    #[expect(clippy::cast_precision_loss, reason = "for a price")]
    pub(super) fn held_bytes(&self) -> Vec<f64> {
        let tiers = self.capacities.len();
        let held = |tier: usize| {
            let free = self.tiers.iter().map(|tiers| tiers[tier].free_bytes);
            free.map(|free| self.capacities[tier].saturating_sub(free) as f64).sum()
        };
        (0..tiers).map(held).collect()
    }

    pub(super) fn of(&self, file: FileId) -> Option<&Place> {
        self.places[file].as_ref()
    }

    /// The inputs of the workload are in the store when it begins, dealt as `intarsia run` deals those that it makes for a
    /// replay (`intarsia.run.replay.dealt`): the largest first, each as if that storage host had written it that has written
    /// least so far.
    pub(super) fn lay_inputs(&mut self) -> Result<(), Problem> {
        let files = &self.workload.files;
        let mut inputs: Vec<FileId> =
            (0..files.len()).filter(|id| files[*id].writer.is_none()).collect();
        inputs.sort_by_key(|id| Reverse(files[*id].size_bytes));
        let mut written: BinaryHeap<Reverse<(u64, u32)>> =
            self.roles.stores.clone().map(|host| Reverse((0, host))).collect();
        for input in inputs {
            let Some(Reverse((bytes, writer))) = written.pop() else { break };
            self.lay(input, writer)?;
            written.push(Reverse((bytes.saturating_add(files[input].size_bytes), writer)));
        }
        Ok(())
    }

    /// A host has failed, or is back.
    pub(super) fn host_is(&mut self, host: u32, is_up: bool) {
        self.down.retain(|other| *other != host);
        if !is_up && self.roles.stores.contains(&host) {
            self.down.push(host);
        }
    }

    /// Decides where a new file goes that `writer` makes: on hosts that are up, if these have room.
    pub(super) fn lay(&mut self, file: FileId, writer: u32) -> Result<(), Problem> {
        if self.places[file].is_some() {
            return Ok(());
        }
        if self.down.is_empty() {
            return self.lay_anywhere(file, writer);
        }
        let (tiers, states, dealt) = (self.tiers.clone(), self.states.clone(), self.dealt.clone());
        for host in self.down.clone() {
            let index = self.index(host);
            self.states[index].free_bytes = 0;
        }
        let is_laid = self.lay_anywhere(file, writer).is_ok();
        if is_laid {
            for host in self.down.clone() {
                let index = self.index(host);
                self.states[index].free_bytes = states[index].free_bytes;
            }
            return Ok(());
        }
        (self.tiers, self.states, self.dealt) = (tiers, states, dealt);
        self.lay_anywhere(file, writer)
    }

    fn lay_anywhere(&mut self, file: FileId, writer: u32) -> Result<(), Problem> {
        let workload = self.workload;
        let (none, size) = (HintSet::default(), workload.files[file].size_bytes);
        let hints =
            if self.configuration.follows_hints { &workload.files[file].hints } else { &none };
        let chunk_bytes = hints.chunk_bytes().unwrap_or(self.configuration.chunk_bytes);
        let (width, deal_bytes) = self.width(hints, file, chunk_bytes);
        let copies = hints.replicas().map_or(self.configuration.copies, u32::from);
        let hosts = match width {
            Some(width) => self.ranked(file, size, width.max(copies)),
            None => {
                let home = self.home(file, size, writer, hints)?;
                let count = copies.saturating_sub(1) as usize;
                let holds = [self.states[self.index(home)].node.clone()];
                let plan = self.plan(Purpose::Copies { holds: &holds, count }, file, size);
                let copies = plan.copies.iter().map(|node| self.number(node));
                std::iter::once(home).chain(copies).collect()
            }
        };
        let parts = width.map_or(1, |width| hosts.len().min(width as usize));
        let stripe = Stripe::new(parts, deal_bytes).filter(|_| !hosts.is_empty());
        let Some(stripe) = stripe else { return Err(self.is_full(file)) };
        let copies = copies.clamp(1, u32::try_from(hosts.len()).unwrap_or(u32::MAX));
        let ring = self.reserve(file, &hosts, stripe, copies, hints.tier())?;
        let gone = vec![false; ring.len()];
        self.places[file] = Some(Place { ring, gone, stripe, copies, chunk_bytes });
        Ok(())
    }

    /// Whether a file was lost and is not made again yet.
    pub(super) fn is_lost(&self, file: FileId) -> bool {
        self.lost[file]
    }

    /// All of a file is written, as far as it was not lost meanwhile.
    pub(super) fn is_made(&mut self, file: FileId) {
        self.lost[file] = self.places[file].is_none();
    }

    /// A host has lost what was in its memory, or all. Gives the files of which there is no copy elsewhere: first those that
    /// tasks made, then the inputs. Whoever brought these brings them again.
    pub(super) fn lose(&mut self, host: u32, is_all: bool) -> (Vec<FileId>, Vec<FileId>) {
        let (mut lost, mut inputs) = (Vec::new(), Vec::new());
        for file in 0..self.places.len() {
            let Some(mut place) = self.places[file].take() else { continue };
            let before = place.gone.clone();
            for (at, spot) in place.ring.iter().enumerate() {
                let is_hit =
                    spot.host == host && (is_all || self.is_memory[usize::from(spot.tier)]);
                place.gone[at] |= is_hit;
            }
            let described = &self.workload.files[file];
            let is_lost = place.is_lost(described.size_bytes);
            match (is_lost, described.writer.is_some()) {
                (true, true) => {
                    lost.push(file);
                    self.lost[file] = true;
                    place.gone.fill(true);
                }
                (true, false) => {
                    inputs.push(file);
                    place.gone.clone_from(&before);
                }
                (false, _) => {}
            }
            self.give_back(file, &place, &before);
            self.places[file] = Some(place).filter(|_| !self.lost[file]);
        }
        (lost, inputs)
    }

    /// Room is free again where parts of a file are gone that were not before.
    fn give_back(&mut self, file: FileId, place: &Place, before: &[bool]) {
        let size = self.workload.files[file].size_bytes;
        for (at, spot) in place.ring.iter().enumerate() {
            if place.gone[at] && !before[at] {
                let index = self.index(spot.host);
                let free = &mut self.tiers[index][usize::from(spot.tier)].free_bytes;
                *free = free.saturating_add(place.held_bytes(at, size));
                self.states[index].free_bytes = total(&self.tiers[index]);
            }
        }
    }

    /// Over how many hosts a file is dealt, if it is, and in runs of how many bytes.
    fn width(&self, hints: &HintSet, file: FileId, chunk_bytes: u64) -> (Option<u32>, u64) {
        if let Some(Dealing { hosts, chunk_bytes: said }) = hints.dealing() {
            return (Some(hosts.map_or(u32::MAX, u32::from)), said.unwrap_or(chunk_bytes));
        }
        match (self.wishes_host(file, hints), self.configuration.placement) {
            (false, Placement::RoundRobin) => (Some(self.configuration.stripe_width), chunk_bytes),
            _ => (None, self.workload.files[file].size_bytes.max(1)),
        }
    }

    /// The host on which all of a file lies first.
    fn home(
        &mut self,
        file: FileId,
        size: u64,
        writer: u32,
        hints: &HintSet,
    ) -> Result<u32, Problem> {
        let is_collocated = self.configuration.placement == Placement::Collocate;
        let wish = self.wish(file, hints);
        let is_free = wish == Wish::Maker && hints.place().is_none();
        let is_spread = wish == Wish::Spread;
        let group = match wish {
            Wish::Group(name) => Some(name),
            // What one task reads of several others goes together.
            Wish::Maker if is_collocated && is_free => {
                self.workload.reduction_of(file).map(|task| format!("reduction {task}"))
            }
            _ => None,
        };
        if let Some(group) = group
            && let Some(host) = self.home_of_group(&group, file, size)?
        {
            return Ok(host);
        }
        let is_central = self.configuration.placement == Placement::Central;
        if is_central && is_free {
            return Ok(self.roles.stores.start);
        }
        let (nowhere, tiers) = (NodeId(String::new()), self.tiers_for(writer, size));
        let is_store = self.roles.stores.contains(&writer);
        let node = if is_store { &self.states[self.index(writer)].node } else { &nowhere };
        let here = Here { node, tiers: &tiers, is_leaving: false, has_passthrough: false };
        let state = FileState { class: hints.tier(), ..self.file_state(file, size) };
        let nothing = Dealt::default();
        let dealt = self.dealt.get(&writer).unwrap_or(&nothing);
        let wish = if is_spread { HostWish::Roomiest(dealt) } else { HostWish::Maker };
        let purpose = Purpose::Birth(wish);
        let home = match place(&PlaceRequest { purpose, file: state, here }, || &self.states).home {
            Home::Here(_) => writer,
            Home::Elsewhere { hosts, .. } => {
                hosts.first().map(|node| self.number(node)).ok_or_else(|| self.is_full(file))?
            }
            Home::Nowhere | Home::Unchanged => return Err(self.is_full(file)),
        };
        if is_spread && is_store {
            let node = self.states[self.index(home)].node.clone();
            self.dealt.entry(writer).or_default().add(&node, size);
        }
        Ok(home)
    }

    /// What the hints of a file say of its host, as a store that makes it reads them.
    fn wish(&self, file: FileId, hints: &HintSet) -> Wish {
        if reduces_with_its_directory(hints) {
            let directory = self.workload.files[file].name.rsplit_once('/');
            return Wish::Group(format!("d{}", directory.map_or("", |(directory, _)| directory)));
        }
        Wish::of(hints)
    }

    /// Whether hints say on which host a file goes, before any configuration.
    fn wishes_host(&self, file: FileId, hints: &HintSet) -> bool {
        hints.place().is_some() || self.wish(file, hints) != Wish::Maker
    }

    /// The host of a group. A host that a group names is taken while it has room; else a file is born as without a group.
    fn home_of_group(
        &mut self,
        group: &str,
        file: FileId,
        size: u64,
    ) -> Result<Option<u32>, Problem> {
        let at = match self.groups.named(group, self.states.len()) {
            Some(named) => Some(named).filter(|at| self.states[*at].free_bytes > size),
            None => {
                let chosen = self.groups.chosen(group, &self.states, size);
                Some(chosen.ok_or_else(|| self.is_full(file))?)
            }
        };
        Ok(at.map(|at| self.number(&self.states[at].node)))
    }

    /// Storage hosts in an order that is the file's own, those with room.
    fn ranked(&self, file: FileId, size: u64, most: u32) -> Vec<u32> {
        let width = u64::from(most).min(self.states.len() as u64).max(1);
        let share = size.div_ceil(width);
        let count = usize::try_from(most).unwrap_or(usize::MAX);
        let chunk_bytes = self.configuration.chunk_bytes;
        let plan = self.plan(Purpose::Parts { hosts: count, chunk_bytes }, file, share);
        let PlannedLayout::Dealt { hosts, .. } = plan.layout else { return Vec::new() };
        hosts.iter().map(|node| self.number(node)).collect()
    }

    /// Asks the policy, as no host in particular.
    fn plan(&self, purpose: Purpose<'_>, file: FileId, bytes: u64) -> Plan {
        let node = NodeId(String::new());
        let here = Here { node: &node, tiers: &[], is_leaving: false, has_passthrough: false };
        let file = self.file_state(file, bytes);
        place(&PlaceRequest { purpose, file, here }, || &self.states)
    }

    fn file_state(&self, file: FileId, size_bytes: u64) -> FileState {
        FileState { seed: self.seed_of(file), size_bytes, ..FileState::default() }
    }

    /// The tiers of a storage host, those that have no room for so many bytes as if below their watermark.
    fn tiers_for(&self, host: u32, bytes: u64) -> Vec<TierState> {
        if !self.roles.stores.contains(&host) {
            return Vec::new();
        }
        let is_low = |tier: &TierState| TierState { is_low: tier.free_bytes < bytes, ..*tier };
        self.tiers[self.index(host)].iter().map(is_low).collect()
    }

    /// Takes the room, and chooses a tier on each host.
    fn reserve(
        &mut self,
        file: FileId,
        hosts: &[u32],
        stripe: Stripe,
        copies: u32,
        wanted: Option<TierClass>,
    ) -> Result<Vec<Spot>, Problem> {
        let (size, count) = (self.workload.files[file].size_bytes, hosts.len());
        let held = |at: usize| held_bytes(stripe, at, count, copies, size);
        let mut ring = Vec::with_capacity(count);
        for (at, host) in hosts.iter().enumerate() {
            let (bytes, index) = (held(at), self.index(*host));
            let tiers = self.tiers_for(*host, bytes);
            let node = &self.states[index].node;
            let here = Here { node, tiers: &tiers, is_leaving: false, has_passthrough: false };
            let state = FileState { class: wanted, ..self.file_state(file, bytes) };
            let plan = place(&PlaceRequest { purpose: Purpose::Here, file: state, here }, || []);
            let Home::Here(TierId(tier)) = plan.home else { return Err(self.is_full(file)) };
            let free = &mut self.tiers[index][usize::from(tier)].free_bytes;
            let Some(left) = free.checked_sub(bytes) else { return Err(self.is_full(file)) };
            *free = left;
            let free = total(&self.tiers[index]);
            self.states[index].free_bytes = free;
            ring.push(Spot { host: *host, tier });
        }
        Ok(ring)
    }

    /// Stands for the number of the inode, which makes a node's choices differ from file to file.
    fn seed_of(&self, file: FileId) -> u64 {
        crate::profile::mixed(self.seed, 1, file as u64)
    }

    fn index(&self, host: u32) -> usize {
        (host - self.roles.stores.start) as usize
    }

    fn number(&self, node: &NodeId) -> u32 {
        self.numbers.get(node).copied().unwrap_or(self.roles.stores.start)
    }

    fn is_full(&self, file: FileId) -> Problem {
        let file = &self.workload.files[file];
        let free = self.states.iter().fold(0, |sum: u64, s| sum.saturating_add(s.free_bytes));
        Problem::new(format!(
            "the store is full: no storage host has room for '{}' ({}); {} are free on {} hosts",
            file.name,
            ByteCount(file.size_bytes),
            ByteCount(free),
            self.states.len()
        ))
        .with_help("take more storage hosts, fewer copies, or tiers of a larger 'capacity_bytes'")
    }
}

fn total(tiers: &[TierState]) -> u64 {
    tiers.iter().fold(0, |sum: u64, tier| sum.saturating_add(tier.free_bytes))
}

#[cfg(test)]
#[path = "places/tests.rs"]
mod tests;
