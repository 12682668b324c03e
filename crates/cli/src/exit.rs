//! Exit codes, and the one kind of failure that ends the program.

use serde::{Deserialize, Serialize};

/// How the program ends. The numbers are a promise to scripts: never change one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// It did not work.
    Failure = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// It works, but not as it should.
    Degraded = 3,
    /// Somebody is in the way.
    Busy = 4,
    /// No store runs there, or the path is in no store.
    NotRunning = 5,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The section that `--help` and the manual pages end with.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  failure
  2  wrong command line or configuration
  3  degraded: it works, but not as it should (a stale store, damage that was found)
  4  busy: a program holds the mount, or another node is in the way
  5  no store runs there, or the path is in no store

Data goes to standard output, messages to standard error. NO_COLOR is respected.";

/// Why the program ends without having done its work, and what the user can do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What went wrong.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) help: Option<String>,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), help: None }
    }

    pub(crate) fn general(message: impl Into<String>) -> Self {
        Self::new(Exit::Failure, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(Exit::Busy, message)
    }

    pub(crate) fn not_running(message: impl Into<String>) -> Self {
        Self::new(Exit::NotRunning, message)
    }

    /// Wraps a system error with what was tried.
    pub(crate) fn io(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Self::general(format!("{what}: {error}"))
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
