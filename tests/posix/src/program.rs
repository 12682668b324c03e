//! Running programs.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The directory of the build that the running test or program belongs to: tests lie in its `deps`.
fn build_dir() -> PathBuf {
    let own = std::env::current_exe().expect("the test knows its own path");
    let mut dirs = own.ancestors().skip(1);
    dirs.find(|dir| !dir.ends_with("deps")).expect("a directory").to_owned()
}

/// Finds `intarsia`: named by INTARSIA_BIN, or built in the profile of the test.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn intarsia() -> PathBuf {
    let path = std::env::var_os("INTARSIA_BIN")
        .map_or_else(|| build_dir().join("intarsia"), PathBuf::from);
    assert!(path.exists(), "{} is missing; run 'cargo build --workspace' first", path.display());
    path
}

/// Finds a program in `target/tools/bin` or in the PATH.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let tools = build_dir().parent().map(|target| target.join("tools/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    tools.into_iter().chain(std::env::split_paths(&path)).map(|d| d.join(name)).find(|p| p.exists())
}

/// Runs a command to its end.
///
/// # Panics
/// When it fails, with all it said.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a shell script as another user, without supplementary groups; what it said, failures included.
///
/// # Panics
/// When no shell starts.
#[must_use]
pub fn output_as(uid: u32, gid: u32, dir: &Path, script: &str) -> String {
    // Setting the user as root drops the supplementary groups as well.
    let output = Command::new("/bin/sh")
        .args(["-c", &format!("exec 2>&1; {script}")])
        .uid(uid)
        .gid(gid)
        .current_dir(dir)
        .output()
        .expect("start a shell");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
