//! The exerciser `fsx` on files in the mount: every read is compared with what was written.

use std::path::Path;
use std::process::Command;

use intarsia_posix_tests::{
    Mode, Settings, Store, entries_of, find_program, in_both_modes, is_long, skip,
};

/// Operations in all, over the configurations and seeds of one mode.
const OPERATIONS: usize = 40_000;
const OPERATIONS_LONG: usize = 2_000_000;
const SEEDS: [u32; 2] = [20, 1977];

fn fsx(mode: Mode) {
    exercise(mode, false);
}

/// Verified reads: everything goes through the process, in either mode of the mount.
fn fsx_strict(mode: Mode) {
    exercise(mode, true);
}

in_both_modes!(fsx, fsx_strict);

fn exercise(mode: Mode, is_strict: bool) {
    let Some(program) = find_program("fsx") else {
        return skip("fsx is not installed (make test installs it)");
    };
    let configurations = entries_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fsx"));
    let total = if is_long() { OPERATIONS_LONG } else { OPERATIONS };
    let count = total / configurations.len() / SEEDS.len();
    let store = Store::start(Settings::new(mode));
    if is_strict {
        xattr::set(store.mount(), "user.intarsia.integrity", b"strict").unwrap();
    }
    let artifacts = tempfile::tempdir().unwrap();
    for configuration in &configurations {
        for seed in SEEDS {
            let name = configuration.file_stem().unwrap();
            let output = Command::new(&program)
                .args(["-N", &count.to_string(), "-S", &seed.to_string(), "-f"])
                .arg(configuration)
                .arg("-P")
                .arg(artifacts.path())
                .arg(store.path(name))
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{} with seed {seed}: {}\n{}{}",
                configuration.display(),
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
