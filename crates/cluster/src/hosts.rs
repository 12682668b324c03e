//! Which hosts: from `--hosts`, a host file, or what the batch system says.

mod expression;

use std::collections::HashMap;
use std::path::Path;

use intarsia_types::{Error, NodeId, Result};

use expression::Fault;

/// Most hosts of one list; a longer one is a mistyped range.
pub const MAX_HOSTS: usize = 65_536;
/// A host file larger than this is no host file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The hosts of a deployment in the order given; at least one, none twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostList(Vec<NodeId>);

/// Why a list of hosts was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}, line {line}, column {column}: {what}; {fix}")]
pub struct HostsError {
    /// The file, option or variable.
    pub origin: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub fix: &'static str,
}

impl From<HostsError> for Error {
    fn from(error: HostsError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Whether a name may come again: a PBS node file names a host once for each of its slots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    Refused,
    Slots,
}

impl HostList {
    /// Reads `a,b,c[01-10]`: names and Slurm's bracket expressions. `origin` is named in errors.
    ///
    /// # Errors
    /// With the column of what is malformed or comes twice.
    pub fn from_expression(origin: &str, text: &str) -> std::result::Result<Self, HostsError> {
        Self::from_lines(origin, &[text], Repeats::Refused)
    }

    /// Reads a host file: an expression on each line, `#` begins a comment.
    ///
    /// # Errors
    /// When the file cannot be read; with line and column of what is malformed or comes twice.
    pub fn from_file(path: &Path) -> Result<Self> {
        let lines = read(path)?;
        let lines: Vec<&str> = lines.lines().map(without_comment).collect();
        Ok(Self::from_lines(&path.display().to_string(), &lines, Repeats::Refused)?)
    }

    /// Reads the file that `PBS_NODEFILE` names, in which a host comes once for each of its slots.
    ///
    /// # Errors
    /// As [`from_file`](Self::from_file), repeats excepted.
    pub fn from_pbs_file(path: &Path) -> Result<Self> {
        let lines = read(path)?;
        let lines: Vec<&str> = lines.lines().map(without_comment).collect();
        Ok(Self::from_lines(&path.display().to_string(), &lines, Repeats::Slots)?)
    }

    /// What the batch system of this job says, if there is one: `SLURM_JOB_NODELIST`, then
    /// `PBS_NODEFILE`. `variable` looks up the environment.
    ///
    /// # Errors
    /// When what it says cannot be read.
    pub fn from_batch_system(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        const SLURM: &str = "SLURM_JOB_NODELIST";
        if let Some(text) = variable(SLURM).filter(|t| !t.is_empty()) {
            return Ok(Some(Self::from_expression(SLURM, &text)?));
        }
        match variable("PBS_NODEFILE").filter(|t| !t.is_empty()) {
            Some(path) => Self::from_pbs_file(Path::new(&path)).map(Some),
            None => Ok(None),
        }
    }

    fn from_lines(
        origin: &str,
        lines: &[&str],
        repeats: Repeats,
    ) -> std::result::Result<Self, HostsError> {
        let mut hosts = Vec::new();
        let mut seen: HashMap<String, (usize, usize)> = HashMap::new();
        for (line, text) in (1..).zip(lines) {
            let at = |fault: Fault| HostsError {
                origin: origin.to_owned(),
                line,
                column: fault.column,
                what: fault.what,
                fix: fault.fix,
            };
            if text.trim().is_empty() {
                continue;
            }
            for found in expression::expand(text, MAX_HOSTS - hosts.len()).map_err(at)? {
                let place = (line, found.column);
                match seen.insert(found.name.clone(), place) {
                    None => hosts.push(NodeId(found.name)),
                    Some(_) if repeats == Repeats::Slots => {}
                    Some(first) => return Err(at(twice(&found, first))),
                }
            }
        }
        if hosts.is_empty() {
            return Err(no_host(origin));
        }
        Ok(Self(hosts))
    }

    /// The hosts.
    #[must_use]
    pub fn hosts(&self) -> &[NodeId] {
        &self.0
    }

    /// The hosts, owned.
    #[must_use]
    pub fn into_hosts(self) -> Vec<NodeId> {
        self.0
    }
}

fn twice(found: &expression::Found, (line, column): (usize, usize)) -> Fault {
    Fault {
        column: found.column,
        what: format!("host '{}' stands at line {line}, column {column} already", found.name),
        fix: "name each host once",
    }
}

fn no_host(origin: &str) -> HostsError {
    HostsError {
        origin: origin.to_owned(),
        line: 1,
        column: 1,
        what: "there is no host".into(),
        fix: "name at least one",
    }
}

fn read(path: &Path) -> Result<String> {
    let failed = |e| Error::io(format!("host file {}", path.display()), e);
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > MAX_FILE_BYTES {
        return Err(Error::TooBig(format!(
            "host file {} holds {length} bytes; a host file names one host a line",
            path.display()
        )));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// The line without its comment, without white space at the end; columns stay what they were.
fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &HostList) -> Vec<&str> {
        list.hosts().iter().map(|h| h.0.as_str()).collect()
    }

    #[test]
    fn a_file_has_comments_and_ranges() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        std::fs::write(&path, "# rack 1\nn[1-2]\n\nlogin  # the head\n").unwrap();
        assert_eq!(names(&HostList::from_file(&path).unwrap()), ["n1", "n2", "login"]);
    }

    #[test]
    fn refusals_name_file_line_column_and_fix() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        for (text, place, word) in [
            ("a\nb slots=4\n", "line 2, column 2", "one host name"),
            ("a\nb,a\n", "line 2, column 3", "name each host once"),
            ("a\n\nn[3-1]\n", "line 3, column 3", "smaller number first"),
            ("# nothing\n", "line 1, column 1", "at least one"),
        ] {
            std::fs::write(&path, text).unwrap();
            let message = HostList::from_file(&path).unwrap_err().to_string();
            for part in [path.to_str().unwrap(), place, word] {
                assert!(message.contains(part), "'{part}' is missing in: {message}");
            }
        }
    }

    #[test]
    fn a_pbs_file_repeats_hosts_and_a_host_file_must_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nodes");
        std::fs::write(&path, "n1\nn1\nn2\nn1\n").unwrap();
        assert_eq!(names(&HostList::from_pbs_file(&path).unwrap()), ["n1", "n2"]);
        assert!(HostList::from_file(&path).is_err());
    }

    #[test]
    fn the_batch_system_is_asked_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nodes");
        std::fs::write(&path, "p1\n").unwrap();
        let pbs = path.to_str().unwrap().to_owned();
        let both = |name: &str| match name {
            "SLURM_JOB_NODELIST" => Some("s[1-2]".to_owned()),
            "PBS_NODEFILE" => Some(pbs.clone()),
            _ => None,
        };
        assert_eq!(names(&HostList::from_batch_system(both).unwrap().unwrap()), ["s1", "s2"]);
        let pbs_only = |name: &str| (name == "PBS_NODEFILE").then(|| pbs.clone());
        assert_eq!(names(&HostList::from_batch_system(pbs_only).unwrap().unwrap()), ["p1"]);
        assert_eq!(HostList::from_batch_system(|_| None).unwrap(), None);
    }

    #[test]
    fn a_missing_file_is_named() {
        let message = HostList::from_file(Path::new("/no/such/hosts")).unwrap_err().to_string();
        assert!(message.contains("/no/such/hosts"), "{message}");
    }
}
