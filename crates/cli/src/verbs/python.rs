//! Verbs that the Python package does: statistics, sweeps and pictures.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli::PythonArguments;
use crate::exit::{Exit, Failure, Outcome};

/// Names the interpreter to use.
const PYTHON: &str = "INTARSIA_PYTHON";
/// Where the package finds this program.
const BINARY: &str = "INTARSIA_BIN";
/// Ends with 0 if all modules that are its arguments are there, without importing them.
const PROBE: &str = "\
import importlib.util as u, sys
assert all(u.find_spec(name) for name in sys.argv[1:])";

/// A part of the Python package that does verbs.
pub(crate) struct Part {
    /// What `python -m` runs.
    pub(crate) module: &'static str,
    /// The largest of its dependencies, which tell whether its extra is installed.
    pub(crate) needs: &'static [&'static str],
    /// The extra with which pip installs them.
    pub(crate) extra: &'static str,
}

/// Becomes `python -m MODULE [VERB] …`; returns only when that fails.
pub(crate) fn run(part: &Part, verb: Option<&str>, arguments: &PythonArguments) -> Outcome<Exit> {
    let binary = std::env::current_exe().map_err(|e| Failure::io("this program's path", &e))?;
    let python = interpreter(&binary);
    require_package(&python, part)?;
    let mut command = Command::new(&python);
    command.args(["-m", part.module]).args(verb).args(&arguments.arguments);
    if std::env::var_os(BINARY).is_none() {
        command.env(BINARY, &binary);
    }
    Err(Failure::io(python.to_string_lossy(), &command.exec()))
}

/// The interpreter that the user names, that of the checkout this program was built in, or that of
/// the PATH.
fn interpreter(binary: &Path) -> OsString {
    let named = std::env::var_os(PYTHON).filter(|name| !name.is_empty());
    named.or_else(|| checkout_python(binary).map(Into::into)).unwrap_or_else(|| "python3".into())
}

fn checkout_python(binary: &Path) -> Option<PathBuf> {
    binary
        .ancestors()
        .filter(|root| root.join("python/src/intarsia").is_dir())
        .map(|root| root.join(".venv/bin/python"))
        .find(|python| python.is_file())
}

fn require_package(python: &OsString, part: &Part) -> Outcome {
    let shown = python.to_string_lossy();
    let probed = Command::new(python)
        .args(["-c", PROBE, part.module])
        .args(part.needs)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|e| missing(part, &format!("Python cannot be started as {shown}: {e}")))?;
    if probed.success() {
        return Ok(());
    }
    let what = format!("{shown} has no Python package intarsia with its extra `{}`", part.extra);
    Err(missing(part, &what))
}

fn missing(part: &Part, message: &str) -> Failure {
    Failure::general(message).with_help(format!(
        "install it with `pip install '.[{}]'` in the checkout, or let {PYTHON} name a Python that \
         has it",
        part.extra
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;

    #[test]
    fn the_interpreter_of_the_checkout_is_found_from_the_build() {
        let root = tempfile::tempdir().unwrap();
        let binary = root.path().join("target/debug/intarsia");
        assert_eq!(checkout_python(&binary), None);
        std::fs::create_dir_all(root.path().join("python/src/intarsia")).unwrap();
        std::fs::create_dir_all(root.path().join(".venv/bin")).unwrap();
        let python = root.path().join(".venv/bin/python");
        std::fs::write(&python, "").unwrap();
        assert_eq!(checkout_python(&binary), Some(python));
    }

    #[test]
    fn a_missing_interpreter_or_package_says_what_to_install() {
        for python in ["/nonexistent/python", "false"] {
            let part = Part { module: "intarsia.nothing", needs: &[], extra: "some-extra" };
            let failure = require_package(&python.into(), &part).unwrap_err();
            assert!(failure.message.contains(python), "{}", failure.message);
            assert!(failure.help.unwrap().contains("pip install '.[some-extra]'"), "{python}");
        }
    }
}
