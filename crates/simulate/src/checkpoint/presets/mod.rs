//! The scenarios that come with the program, each a TOML file that says where its figures are from.

use crate::scenario::Preset;

/// A preset in the file of its name.
macro_rules! preset {
    ($name:literal) => {
        Preset { name: $name, text: include_str!(concat!($name, ".toml")) }
    };
}

/// The scenarios that come with the program.
pub const PRESETS: &[Preset] = &[
    preset!("rxsim-none"),
    preset!("rxsim-pfs"),
    preset!("rxsim-dfs"),
    preset!("frontier"),
    preset!("el-capitan"),
    preset!("aurora"),
    preset!("llama-3"),
    preset!("measured-store"),
    preset!("lanl-2"),
    preset!("lanl-18"),
    preset!("lanl-19"),
    preset!("lanl-20"),
    preset!("lanl-20-nodes"),
];
