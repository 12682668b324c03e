//! The server program: `redis-server` or `valkey-server` of this host.

use std::path::{Path, PathBuf};
use std::process::Command;

use intarsia_types::{Error, Result};

/// A server program whose version we know how to drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
    version: String,
}

const ADVICE: &str = "install Debian's redis-server or valkey-server on every host, or name a server with --meta URL";

impl Program {
    /// The first of `redis-server` and `valkey-server` on PATH, or where system tools lie.
    ///
    /// # Errors
    /// When there is none, or its version is not one that we know how to drive.
    pub fn find() -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let usual = ["/usr/bin", "/usr/local/bin", "/usr/sbin"];
        let dirs: Vec<PathBuf> =
            std::env::split_paths(&path).chain(usual.iter().map(PathBuf::from)).collect();
        let found = ["redis-server", "valkey-server"]
            .iter()
            .flat_map(|name| dirs.iter().map(move |dir| dir.join(name)))
            .find(|p| p.is_file() && rustix::fs::access(p, rustix::fs::Access::EXEC_OK).is_ok());
        match found {
            Some(path) => Self::at(&path),
            None => Err(Error::Invalid(format!(
                "neither redis-server nor valkey-server is installed here; {ADVICE}"
            ))),
        }
    }

    /// This program.
    ///
    /// # Errors
    /// When it cannot be run, or its version is not one that we know how to drive.
    pub fn at(path: &Path) -> Result<Self> {
        let output = Command::new(path)
            .arg("--version")
            .output()
            .map_err(|e| Error::io(format!("run {} --version", path.display()), e))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = accepted(&text)
            .map_err(|why| Error::Invalid(format!("{}: {why}; {ADVICE}", path.display())))?;
        Ok(Self { path: path.to_owned(), version })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is, as in `Redis 7.0.15`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// `Redis server v=7.0.15 sha=…`: Redis 7.0 to 7.2 and Valkey from 7.2 are free software with the
/// functions and the per-command permissions that we use.
fn accepted(text: &str) -> std::result::Result<String, String> {
    let product = text.split_whitespace().next().unwrap_or_default();
    let version = text.split_whitespace().find_map(|w| w.strip_prefix("v=")).unwrap_or_default();
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let is_known = match product {
        "Redis" => ((7, 0)..=(7, 2)).contains(&number),
        "Valkey" => number >= (7, 2),
        _ => false,
    };
    if is_known {
        Ok(format!("{product} {version}"))
    } else {
        let first = text.lines().next().unwrap_or_default();
        Err(format!("'{first}' is neither Redis 7.0 to 7.2 nor Valkey from 7.2"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_which_versions_it_can_drive() {
        let debian = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=x";
        assert_eq!(accepted(debian).as_deref(), Ok("Redis 7.0.15"));
        assert!(accepted("Valkey server v=8.1.1 sha=0 bits=64").is_ok());
        for bad in
            ["Redis server v=6.2.0 x", "Redis server v=7.4.0 x", "Valkey", "", "Dragonfly v=9"]
        {
            assert!(accepted(bad).is_err(), "{bad}");
        }
    }
}
