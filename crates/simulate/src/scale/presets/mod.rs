//! Scenarios that come with the program.

use crate::scenario::Preset;

macro_rules! preset {
    ($name:literal) => {
        Preset { name: $name, text: include_str!(concat!($name, ".toml")) }
    };
}

/// The scenarios that come with the program.
pub const PRESETS: &[Preset] = &[
    preset!("fusionsim-bgp"),
    preset!("ior-bgp"),
    preset!("striped-bgp"),
    preset!("central-gpfs-bgp"),
    preset!("modern-dragonfly"),
    preset!("frontier-local"),
];
