//! By what a command comes to a host, and what to do when it does not.

use std::process::Command;

use intarsia_types::{Error, NodeId, Result};
use serde::{Deserialize, Serialize};

/// What `ssh` ends with when it could not run the command.
const SSH_FAILED: i32 = 255;
/// What a shell ends with when it does not find the command.
const NOT_FOUND: i32 = 127;

/// By what a command comes to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Launcher {
    /// A step of the Slurm job that we are in, beside whatever else runs in it.
    Srun,
    /// `ssh`, as the words to begin with, such as `ssh -p 2222`. It asks no questions: keys or
    /// host-based authentication must be set up.
    Ssh(Vec<String>),
    /// Any other: words in which `{host}` stands for the host; the command's words follow.
    Words(Vec<String>),
}

impl Default for Launcher {
    fn default() -> Self {
        Self::Ssh(vec!["ssh".into()])
    }
}

impl Launcher {
    /// The process to run here so that `command` runs on this host; standard streams are the caller's.
    ///
    /// # Errors
    /// When there is nothing to run.
    pub fn command(&self, host: &NodeId, command: &[String]) -> Result<Command> {
        let words = self.words(host, command)?;
        let mut words = words.iter();
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command.args(words);
        Ok(command)
    }

    /// What is run here for this host.
    pub(super) fn words(&self, host: &NodeId, command: &[String]) -> Result<Vec<String>> {
        let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let mut words = match self {
            Self::Srun => {
                let mut words = own(&["srun", "--overlap", "--nodes=1", "--ntasks=1"]);
                words.extend(own(&["--unbuffered", "--quiet", "--cpu-bind=none"]));
                words.push(format!("--nodelist={host}"));
                words.push("--".into());
                words
            }
            Self::Ssh(program) => {
                // What is said first counts, so the user's own options win.
                let mut words = program.clone();
                words.extend(own(&["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=8"]));
                words.extend(own(&["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]));
                words.extend(["--".to_owned(), host.0.clone()]);
                // The other side's shell reads it.
                words.push(command.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" "));
                return Ok(words);
            }
            Self::Words(words) => words.iter().map(|w| w.replace("{host}", &host.0)).collect(),
        };
        words.extend(command.iter().cloned());
        if words.is_empty() {
            return Err(Error::Invalid("there is no command to launch".into()));
        }
        Ok(words)
    }

    /// What the user can do after this failure, if that is known: `said` is the end of what came on
    /// standard error, `code` the exit code.
    pub(super) fn fix(
        &self,
        host: &NodeId,
        program: &str,
        code: Option<i32>,
        said: &str,
    ) -> Option<String> {
        if code == Some(NOT_FOUND) {
            return Some(format!("{program} must be at the same place on every host"));
        }
        match self {
            Self::Ssh(words) if code == Some(SSH_FAILED) => Some(ssh_fix(words, host, said)),
            Self::Srun if code != Some(0) && said.contains("srun: error") => Some(format!(
                "try 'srun --overlap --nodelist={host} true'; is the host of this job, and is its slurmd up?"
            )),
            _ => None,
        }
    }
}

fn ssh_fix(words: &[String], host: &NodeId, said: &str) -> String {
    let ssh = words.join(" ");
    let has = |texts: &[&str]| texts.iter().any(|text| said.contains(text));
    if has(&["Host key verification failed", "REMOTE HOST IDENTIFICATION"]) {
        format!("its key is not known here: log in once by hand with '{ssh} {host}'")
    } else if has(&["Permission denied", "Too many authentication failures"]) {
        format!(
            "'{ssh} {host} true' must work without a question: install a key with ssh-copy-id, or name one with --ssh '{ssh} -i KEY'"
        )
    } else if has(&["Could not resolve"]) {
        "is the name right? /etc/hosts, DNS or ~/.ssh/config must know it".into()
    } else if has(&["refused"]) {
        format!(
            "no sshd listens there; name another port with --ssh '{ssh} -p PORT' or in ~/.ssh/config"
        )
    } else if has(&["timed out", "No route", "unreachable"]) {
        "is the host up, and does no firewall keep this one from it?".into()
    } else {
        format!("try '{ssh} {host} true'")
    }
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_gets_one_quoted_word_and_the_users_options_come_first() {
        let ssh = Launcher::Ssh(["ssh", "-p", "22"].map(str::to_owned).to_vec());
        let command = ["echo".to_owned(), "it's $HOME".to_owned()];
        let words = ssh.words(&NodeId("n1".into()), &command).unwrap();
        assert_eq!(words.get(..4).unwrap(), ["ssh", "-p", "22", "-T"]);
        assert!(words.windows(2).any(|w| w == ["--", "n1"]));
        assert_eq!(words.last().unwrap(), r"'echo' 'it'\''s $HOME'");
    }

    #[test]
    fn what_stands_in_the_way_comes_with_its_fix() {
        let (ssh, host) = (Launcher::default(), NodeId("n1".into()));
        for (said, word) in [
            ("ssh: connect to host n1 port 22: Connection refused", "-p PORT"),
            ("root@n1: Permission denied (publickey).", "ssh-copy-id"),
            ("Host key verification failed.", "log in once"),
            ("ssh: connect to host n1 port 22: Connection timed out", "is the host up"),
            ("ssh: Could not resolve hostname n1: Name or service not known", "is the name right"),
            ("something new", "try 'ssh n1 true'"),
        ] {
            let fix = ssh.fix(&host, "intarsia", Some(255), said).unwrap();
            assert!(fix.contains(word), "{said}: {fix}");
        }
        let missing = ssh.fix(&host, "/opt/intarsia", Some(127), "sh: 1: not found").unwrap();
        assert!(missing.contains("/opt/intarsia must be at the same place"), "{missing}");
        assert_eq!(ssh.fix(&host, "intarsia", Some(1), "error"), None);
    }
}
