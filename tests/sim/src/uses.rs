//! How the store of a run is used: what its directories say by hints, and which tiers its hosts have.

use std::path::Path;

use intarsia_sync::Simulation;
use intarsia_types::{ByteCount, Hint, HintKey, HintSet, TierClass, TierSpec};

use crate::drawing::pick;
use crate::{cluster, writers};

/// Hints of one directory.
pub(crate) type Hints = Vec<(HintKey, &'static str)>;

/// What one directory may say, in a store that keeps one copy of each file or several.
const ANY: [&[(HintKey, &str)]; 16] = [
    &[],
    &[(HintKey::Pattern, "pipeline")],
    &[(HintKey::Pattern, "reduce")],
    &[(HintKey::Pattern, "distribute")],
    &[(HintKey::Pattern, "reuse")],
    &[(HintKey::Pattern, "broadcast")],
    &[(HintKey::Pattern, "broadcast"), (HintKey::Place, "collocate:h@n1")],
    &[(HintKey::Pattern, "gather"), (HintKey::Chunk, "64KiB")],
    &[(HintKey::Pattern, "scatter"), (HintKey::Chunk, "64KiB")],
    &[(HintKey::Place, "local")],
    &[(HintKey::Place, "collocate:g")],
    &[(HintKey::Place, "collocate:g@n2")],
    &[(HintKey::Cache, "keep")],
    &[(HintKey::Cache, "none")],
    &[(HintKey::Tier, "disk")],
    &[(HintKey::Integrity, "strict")],
];
/// What it may say only where one copy is kept.
const STRIPED: [&[(HintKey, &str)]; 4] = [
    &[(HintKey::Place, "scatter:65536")],
    &[(HintKey::Place, "stripe:2"), (HintKey::Chunk, "4KiB")],
    &[(HintKey::Place, "stripe:3"), (HintKey::Chunk, "64KiB")],
    &[(HintKey::Place, "stripe:2"), (HintKey::Pattern, "reuse"), (HintKey::Chunk, "8KiB")],
];

/// What the seed says of the use of a store.
#[derive(Debug)]
pub(crate) struct Uses {
    directories: Vec<(String, Hints)>,
    tiers: Tiers,
}

/// The tiers of the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tiers {
    One,
    /// Memory before a disk.
    Two,
    /// As two, and the first host has little room.
    Narrow,
}

impl Uses {
    /// Draws them for so many hosts and copies. Half of the runs have no hints.
    pub(crate) fn draw(simulation: &Simulation, hosts: u8, replicas: u16) -> Self {
        let has_hints = simulation.below(2) == 0;
        let names = cluster::of_clients().chain([writers::DIRECTORY.to_owned()]);
        let directories =
            names.map(|name| (name, if has_hints { hints(replicas) } else { Hints::new() }));
        let directories = directories.collect();
        let tiers = match simulation.below(4) {
            0 => Tiers::Two,
            // Where one host is full the others have to be able to take all copies.
            1 if u16::from(hosts) > replicas => Tiers::Narrow,
            _ => Tiers::One,
        };
        Self { directories, tiers }
    }

    /// Whether files are spread over hosts.
    pub(crate) fn has_stripes(&self) -> bool {
        self.directories.iter().any(|(_, hints)| {
            let hints = hints.iter().filter_map(|(key, value)| Hint::new(*key, value).ok());
            hints.collect::<HintSet>().dealing().is_some()
        })
    }

    /// Whether all hosts have room for long files.
    pub(crate) fn has_room(&self) -> bool {
        self.tiers != Tiers::Narrow
    }

    /// Directories, each with what it says.
    pub(crate) fn directories(&self) -> &[(String, Hints)] {
        &self.directories
    }

    /// The tiers of the host of this number, below its directory.
    pub(crate) fn tiers(&self, number: u8, dir: &Path) -> Vec<TierSpec> {
        // Of a known size: how much of /dev/shm is free is nobody's to say.
        let tier = |name, class, capacity| TierSpec { dir: dir.join(name), class, capacity };
        let is_narrow = self.tiers == Tiers::Narrow && number == 1;
        let capacity = Some(if is_narrow { ByteCount::mib(2) } else { ByteCount::gib(1) });
        match self.tiers {
            Tiers::One => vec![tier("tier", None, capacity)],
            Tiers::Two | Tiers::Narrow => vec![
                tier("tier", Some(TierClass::Memory), capacity),
                tier("slow", Some(TierClass::Disk), capacity),
            ],
        }
    }
}

fn hints(replicas: u16) -> Hints {
    let striped: &[_] = if replicas == 1 { &STRIPED } else { &[] };
    pick(&[&ANY, striped].concat()).map_or_else(Hints::new, <[_]>::to_vec)
}
