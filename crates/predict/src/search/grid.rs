//! Which configurations are looked at.

use std::collections::BTreeSet;

use intarsia_types::TierClass;

use crate::Problem;
use crate::configuration::{Configuration, Placement, Scheduler};
use crate::profile::Profile;

/// Configurations that are too many are refused rather than begun.
const MOST: usize = 100_000;

/// What is searched.
#[derive(Clone, Copy, Debug)]
pub enum Space<'a> {
    /// All combinations of some values.
    Grid(&'a Grid),
    /// These configurations.
    Listed(&'a [Configuration]),
}

impl Space<'_> {
    pub(super) fn configurations(&self, profile: &Profile) -> Result<Vec<Configuration>, Problem> {
        match self {
            Self::Grid(grid) => grid.configurations(profile),
            Self::Listed(listed) => Ok(listed.to_vec()),
        }
    }

    /// Whether the best of it are also tried with hints for patterns.
    pub(super) const fn tries_patterns(&self) -> bool {
        match self {
            Self::Grid(grid) => grid.tries_patterns,
            Self::Listed(_) => false,
        }
    }
}

impl<'a> From<&'a Grid> for Space<'a> {
    fn from(grid: &'a Grid) -> Self {
        Self::Grid(grid)
    }
}

impl<'a> From<&'a [Configuration]> for Space<'a> {
    fn from(listed: &'a [Configuration]) -> Self {
        Self::Listed(listed)
    }
}

/// The values of each choice; all combinations are looked at.
#[derive(Clone, Debug)]
pub struct Grid {
    /// What is the same for all.
    pub common: Configuration,
    /// Numbers of hosts.
    pub hosts: Vec<u32>,
    /// Hosts that only store; none: all store.
    pub storage_hosts: Vec<Option<u32>>,
    /// Where new files go.
    pub placements: Vec<Placement>,
    /// Lengths of chunks.
    pub chunk_bytes: Vec<u64>,
    /// Hosts that a striped file is dealt over.
    pub stripe_widths: Vec<u32>,
    /// Copies.
    pub copies: Vec<u32>,
    /// Who runs a task.
    pub schedulers: Vec<Scheduler>,
    /// Frequencies of the processors; none: that for which hosts are described.
    pub frequencies_mhz: Vec<Option<u32>>,
    /// Classes of tiers for all files; none: the fastest that has room.
    pub tiers: Vec<Option<TierClass>>,
    /// Whether the best are also tried with hints for the patterns of the workload.
    pub tries_patterns: bool,
}

impl Grid {
    /// What users would try on this platform: all hosts, and halves down to one; storage on all hosts or on a quarter or
    /// half of them; every placement and scheduler; three lengths of chunks, two widths of stripes.
    #[must_use]
    pub fn usual(profile: &Profile) -> Self {
        let halves = std::iter::successors(Some(profile.hosts), |n| (*n > 1).then_some(n / 2));
        let hosts: Vec<u32> = halves.collect();
        let parts = hosts.iter().flat_map(|n| [n / 4, n / 2]).filter(|part| *part > 0);
        let mut storage_hosts: Vec<Option<u32>> = parts.map(Some).collect();
        storage_hosts.push(None);
        storage_hosts.sort_unstable();
        storage_hosts.dedup();
        Self {
            common: Configuration::new(profile.hosts),
            hosts,
            storage_hosts,
            placements: Placement::OURS.to_vec(),
            chunk_bytes: vec![256 << 10, 1 << 20, 4 << 20],
            stripe_widths: vec![4, profile.hosts],
            copies: vec![1],
            schedulers: vec![Scheduler::Workqueue, Scheduler::Local],
            frequencies_mhz: vec![None],
            tiers: slower_tiers(profile),
            tries_patterns: true,
        }
    }

    /// All combinations that can be, each once. Two that differ only in what does not matter (the width of stripes where
    /// nothing is striped) are one.
    ///
    /// # Errors
    /// When there is none, with the reason of the first; when there are too many.
    pub fn configurations(&self, profile: &Profile) -> Result<Vec<Configuration>, Problem> {
        let lengths = [
            self.hosts.len(),
            self.storage_hosts.len(),
            self.placements.len(),
            self.chunk_bytes.len(),
            self.stripe_widths.len(),
            self.copies.len(),
            self.schedulers.len(),
            self.frequencies_mhz.len(),
            self.tiers.len(),
        ];
        let count = lengths.iter().fold(1_usize, |product, len| product.saturating_mul(*len));
        if count > MOST {
            let why = format!("{count} configurations are more than {MOST}");
            return Err(Problem::new(why)
                .with_help("give fewer values of some choice, or let --search choose among them"));
        }
        let mut found = BTreeSet::new();
        let mut refused = None;
        for number in 0..count {
            let configuration = self.combination(number);
            match configuration.roles(profile) {
                Ok(roles) => {
                    found.insert(plain(&configuration, roles.stores.end - roles.stores.start));
                }
                Err(problem) => {
                    refused.get_or_insert(problem);
                }
            }
        }
        if found.is_empty() {
            return Err(refused.unwrap_or_else(|| Problem::new("a choice has no value")));
        }
        Ok(found.into_iter().collect())
    }

    /// The combination of this number, counted as digits of mixed bases.
    fn combination(&self, mut number: usize) -> Configuration {
        let mut digit = |base: usize| {
            let digit = number % base;
            number /= base;
            digit
        };
        Configuration {
            hosts: self.hosts[digit(self.hosts.len())],
            storage_hosts: self.storage_hosts[digit(self.storage_hosts.len())],
            placement: self.placements[digit(self.placements.len())],
            chunk_bytes: self.chunk_bytes[digit(self.chunk_bytes.len())],
            stripe_width: self.stripe_widths[digit(self.stripe_widths.len())],
            copies: self.copies[digit(self.copies.len())],
            scheduler: self.schedulers[digit(self.schedulers.len())],
            frequency_mhz: self.frequencies_mhz[digit(self.frequencies_mhz.len())],
            tier: self.tiers[digit(self.tiers.len())],
            ..self.common.clone()
        }
    }
}

/// None, which is the fastest with room, and each class of tier that is slower than another one.
fn slower_tiers(profile: &Profile) -> Vec<Option<TierClass>> {
    let classes: BTreeSet<TierClass> = profile.tiers.iter().map(|tier| tier.class).collect();
    std::iter::once(None).chain(classes.into_iter().skip(1).map(Some)).collect()
}

/// The same configuration, said in one way: of what does not matter the default, of what cannot be the most that can.
fn plain(configuration: &Configuration, stores: u32) -> Configuration {
    let is_striped = configuration.placement == Placement::RoundRobin;
    let default = Configuration::new(1);
    let width = if is_striped { configuration.stripe_width } else { default.stripe_width };
    Configuration {
        stripe_width: if is_striped { width.min(stores) } else { width },
        copies: configuration.copies.min(stores),
        ..configuration.clone()
    }
}
