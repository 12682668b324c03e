//! What a machine must have for a test, and saying so when it has not.

use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

use crate::{Settings, Store};

/// How the kernel serves the files of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By itself, on the backing files.
    Passthrough,
    /// Through the process, with a write-back cache.
    WriteBack,
}

/// Whether the long forms of the tests are wanted.
#[must_use]
pub fn is_long() -> bool {
    is_set("INTARSIA_TEST_LONG")
}

fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|v| v == "1")
}

/// Says that a test cannot run here; where every test has to run, that is a failure.
///
/// # Panics
/// With `INTARSIA_TEST_REQUIRE_ALL=1`.
pub fn skip(reason: &str) {
    assert!(
        !is_set("INTARSIA_TEST_REQUIRE_ALL"),
        "cannot run, and every test is required: {reason}"
    );
    // Past the capture of the test runner, which hides what a passing test prints.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

/// What is missing for a test in this mode, if anything.
#[must_use]
pub fn unmet(mode: Mode) -> Option<String> {
    if !Path::new("/dev/fuse").exists() {
        return Some("there is no /dev/fuse".into());
    }
    if !rustix::process::geteuid().is_root() {
        return Some("root is needed, to act as several users and to mount".into());
    }
    match mode {
        Mode::Passthrough => obstacle_to_passthrough(),
        Mode::WriteBack => None,
    }
}

/// Asked of a real mount, once: whether passthrough works depends on the kernel, the rights and the disk.
fn obstacle_to_passthrough() -> Option<String> {
    static OBSTACLE: OnceLock<Option<String>> = OnceLock::new();
    OBSTACLE
        .get_or_init(|| {
            let store = Store::start(Settings::new(Mode::Passthrough));
            let passthrough = &store.status()["passthrough"];
            let is_in_force = passthrough["in_force"].as_bool() == Some(true);
            (!is_in_force).then(|| format!("no passthrough here: {passthrough}"))
        })
        .clone()
}
