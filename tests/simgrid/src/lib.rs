//! SimGrid as an oracle: a small C++ program, built when a test asks for it.
//!
//! `flows.cpp` says which of SimGrid's corrections for TCP are switched off, so that both sides are pure
//! max-min sharing.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/flows.cpp");
const HEADER: &str = "/usr/include/simgrid/s4u.hpp";

/// Links and the flows over them.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Capacities in bytes per second.
    pub links: Vec<f64>,
    /// In any order.
    pub flows: Vec<Flow>,
}

/// A transfer.
#[derive(Clone, Debug)]
pub struct Flow {
    /// When it starts.
    pub start_seconds: f64,
    /// How much is moved.
    pub bytes: u32,
    /// The most that it gets, if it has a limit of its own.
    pub limit_per_second: Option<f64>,
    /// Places of its links among those of the scenario; at least one.
    pub path: Vec<usize>,
}

/// The built program.
#[derive(Debug)]
pub struct SimGrid {
    folder: TempDir,
}

impl SimGrid {
    /// Builds the program; `None` after saying why the test cannot run here.
    ///
    /// # Errors
    /// When the compiler fails.
    ///
    /// # Panics
    /// When SimGrid or the compiler is missing and `INTARSIA_TEST_REQUIRE_ALL=1`.
    pub fn build() -> io::Result<Option<Self>> {
        if !Path::new(HEADER).exists() {
            skip("SimGrid is missing: apt-get install libsimgrid-dev");
            return Ok(None);
        }
        if Command::new("g++").arg("--version").output().is_err() {
            skip("a C++ compiler is missing: apt-get install g++");
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let output = Command::new("g++")
            .args(["-std=c++17", "-O1", "-o"])
            .arg(folder.path().join("flows"))
            .args([SOURCE, "-lsimgrid"])
            .output()?;
        check("g++", &output)?;
        Ok(Some(Self { folder }))
    }

    /// When each flow ends, in seconds.
    ///
    /// # Errors
    /// When the program fails or prints anything else.
    pub fn ends_seconds(&self, scenario: &Scenario) -> io::Result<Vec<f64>> {
        let mut child = Command::new(self.folder.path().join("flows"))
            .arg("--log=root.thres:error")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // It reads everything before it writes anything; dropping the pipe ends its input.
        if let Some(mut input) = child.stdin.take() {
            input.write_all(scenario.to_text().as_bytes())?;
        }
        let output = child.wait_with_output()?;
        check("flows", &output)?;
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| line.parse().map_err(|_| io::Error::other(format!("no number: {line}"))))
            .collect()
    }
}

impl Scenario {
    fn to_text(&self) -> String {
        let mut text = String::new();
        for capacity in &self.links {
            _ = writeln!(text, "link {capacity}");
        }
        for flow in &self.flows {
            let limit = flow.limit_per_second.unwrap_or(0.0);
            _ = write!(text, "flow {} {} {limit}", flow.start_seconds, flow.bytes);
            flow.path.iter().for_each(|link| _ = write!(text, " {link}"));
            text.push('\n');
        }
        text
    }
}

fn check(program: &str, output: &std::process::Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program}: {}: {errors}", output.status)))
}

fn skip(reason: &str) {
    let must_run = std::env::var("INTARSIA_TEST_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!must_run, "cannot run, and every test is required: {reason}");
    // Past the capture of the test runner, which hides what a passing test prints.
    _ = writeln!(io::stderr(), "SKIPPED: {reason}");
}
