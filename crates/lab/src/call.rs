//! One call of a system tool.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

use intarsia_types::{Error, Result};

use crate::namespace::Namespace;

/// Where Debian and others keep the tools; not on everybody's PATH.
const SYSTEM_DIRS: &str = "/usr/sbin:/sbin";

/// One call of `ip`, `tc`, `nft` or another tool, in a namespace or outside. It prints as a command for a shell.
#[derive(Clone, Debug)]
pub struct Call {
    namespace: Option<Namespace>,
    words: Vec<String>,
    /// What the tool reads from standard input.
    input: String,
}

impl Call {
    pub(crate) fn new(words: &str) -> Self {
        let words = words.split_ascii_whitespace().map(str::to_owned).collect();
        Self { namespace: None, words, input: String::new() }
    }

    pub(crate) fn inside(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Gives the tool a batch to read.
    pub(crate) fn reading(mut self, lines: &[String]) -> Self {
        self.input = lines.iter().map(|l| format!("{l}\n")).collect();
        self
    }

    /// Runs the tool and returns what it wrote.
    pub(crate) fn output(&self) -> Result<String> {
        self.run(Stdio::piped())
    }

    /// Runs a tool that writes nothing. It holds `lock` as its standard output: should this process die, the
    /// lock lasts until the tool has ended too, and nobody tidies up under its hands.
    pub(crate) fn run_under(&self, lock: &File) -> Result<()> {
        let lock = lock.try_clone().map_err(|e| Error::io(self.words.join(" "), e))?;
        self.run(lock.into()).map(drop)
    }

    fn run(&self, stdout: Stdio) -> Result<String> {
        let failed = |e| Error::io(self.title(), e);
        let mut child = self
            .command()
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| match e.kind() {
                std::io::ErrorKind::NotFound => failed(missing(self.program())),
                _ => failed(e),
            })?;
        if let Some(mut stdin) = child.stdin.take() {
            // A tool that ends early says why by itself.
            let _ = stdin.write_all(self.input.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        if output.status.code() == Some(127) {
            return Err(failed(missing(self.program())));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(failed(std::io::Error::other(format!("{} ({})", said.trim(), output.status))))
    }

    fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The call in one line.
    fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} in {}", self.words.join(" "), namespace.name()),
            None => self.words.join(" "),
        }
    }

    fn command(&self) -> Command {
        let program = self.program();
        let mut command = match &self.namespace {
            Some(namespace) => namespace.command(program),
            None => Command::new(program),
        };
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(self.words.iter().skip(1));
        command.env("PATH", format!("{path}:{SYSTEM_DIRS}")).env("LC_ALL", "C");
        command
    }
}

/// What is missing, and where to get it.
fn missing(program: &str) -> std::io::Error {
    let package = if program == "nft" { "nftables" } else { "iproute2" };
    let text = format!(
        "'{program}' or 'nsenter' is missing; install the packages {package} and util-linux"
    );
    std::io::Error::other(text)
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "nsenter --net={} -- ", namespace.path().display())?;
        }
        let words: Vec<String> = self.words.iter().map(|w| quoted(w)).collect();
        f.write_str(&words.join(" "))?;
        if !self.input.is_empty() {
            write!(f, " <<'END'\n{}END", self.input)?;
        }
        Ok(())
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_was_called_and_what_it_said() {
        let error = Call::new("sh -c false").output().unwrap_err().to_string();
        assert!(error.contains("sh -c false"), "{error}");
        let error = Call::new("no-such-tool").output().unwrap_err().to_string();
        assert!(error.contains("install the packages iproute2"), "{error}");
        let error = Call::new("cat /no/such/file").output().unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_tool_reads_its_batch_and_prints_as_a_command() {
        let call = Call::new("cat -").reading(&["a b".into(), "c".into()]);
        assert_eq!(call.output().unwrap(), "a b\nc\n");
        assert_eq!(call.to_string(), "cat - <<'END'\na b\nc\nEND");
        let hub = Namespace::of_hub(&"x".parse().unwrap());
        let call = Call::new("ip addr").inside(hub);
        assert_eq!(call.to_string(), "nsenter --net=/run/netns/intarsia-lab-x-hub -- ip addr");
    }
}
