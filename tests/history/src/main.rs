//! `history`: clients of a directory, and the judge of what they saw.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use intarsia_history::check::{Rules, Verdict, check};
use intarsia_history::client::{self, Plan, Workload};
use intarsia_history::event::{Record, Recorder};

/// Violations that are printed in full.
const SHOWN: usize = 20;
/// How much longer than their time clients may take before they count as hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// Records what many clients of a file system see, and checks that it could be so.
#[derive(Parser)]
#[command(
    name = "history",
    after_help = "Examples:
  history run --dir /mnt/work/t --clients 4 --records /tmp/records
  history run --dir /scratch/n{}/mnt/t --clients 4 --records /tmp/records \\
      --launcher 'intarsia lab exec n{} --'        on four nodes of a lab, each with a mount
  history check /tmp/records --may-fail

Exit codes: 0 all is as it should be, 1 a violation (or undecided), 2 wrong command line"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start clients, wait for them, check
    Run(Run),
    /// Be one client
    Client(Client),
    /// Check records
    Check(Check),
}

#[derive(Args, Clone)]
struct Load {
    /// Operations of each client, at most
    #[arg(long, default_value_t = 2000)]
    operations: u64,
    /// Seconds, at most
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Milliseconds between operations
    #[arg(long, default_value_t = 0)]
    pause_ms: u64,
    /// Directories that the names are spread over
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    directories: u16,
    /// Names of each client, and shared names
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..))]
    names: u16,
    /// From which the operations follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only replace names by rename, remove and remake them, with sizes at which a store may change how it keeps a file
    #[arg(long)]
    replacing: bool,
}

impl Load {
    const fn workload(&self) -> Workload {
        if self.replacing { Workload::Replacing } else { Workload::Mixed }
    }
}

#[derive(Args, Clone, Copy)]
struct Judge {
    /// Calls may fail: something is being broken on purpose
    #[arg(long)]
    may_fail: bool,
    /// Clients may be killed
    #[arg(long)]
    may_die: bool,
    /// A new name may be seen only once it is closed
    #[arg(long)]
    names_may_wait: bool,
    /// The longest that a system call may take, in milliseconds
    #[arg(long, default_value_t = 10_000)]
    limit_ms: u64,
}

#[derive(Args)]
struct Run {
    /// The directory under test; {} is the client's number, from 1
    #[arg(long)]
    dir: String,
    /// How many clients
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,
    /// Where to keep the records, outside of the directory under test
    #[arg(long)]
    records: PathBuf,
    /// Words before the command of each client; {} is its number, from 1
    #[arg(long, default_value = "")]
    launcher: String,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    judge: Judge,
}

#[derive(Args)]
struct Client {
    /// The directory under test
    #[arg(long)]
    dir: PathBuf,
    /// The client's number, from 0
    #[arg(long)]
    client: u16,
    /// How many clients there are
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,
    /// The record
    #[arg(long)]
    record: PathBuf,
    #[command(flatten)]
    load: Load,
}

#[derive(Args)]
struct Check {
    /// The directory with the records
    records: PathBuf,
    #[command(flatten)]
    judge: Judge,
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Run(arguments) => run(&arguments),
        Verb::Client(arguments) => be_client(&arguments).map(|()| true),
        Verb::Check(arguments) => judge(&arguments.records, arguments.judge),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a program of its own")]
fn say(text: &str) {
    eprintln!("{text}");
}

fn be_client(arguments: &Client) -> std::io::Result<()> {
    let load = &arguments.load;
    let plan = Plan {
        root: arguments.dir.clone(),
        client: arguments.client,
        clients: arguments.clients,
        seed: load.seed,
        workload: load.workload(),
        operations: load.operations,
        time: Duration::from_secs(load.seconds),
        pause: Duration::from_millis(load.pause_ms),
        directories: load.directories,
        names: load.names,
        gate: Arc::default(),
    };
    let recorder = Recorder::create(&arguments.record, arguments.client, load.seed)?;
    client::make_directories(&plan.root, plan.directories)?;
    client::run(&plan, recorder)
}

fn run(arguments: &Run) -> std::io::Result<bool> {
    std::fs::create_dir_all(&arguments.records)?;
    if records_in(&arguments.records)?.is_empty() {
        let mut children = Children(Vec::new());
        for client in 0..arguments.clients {
            children.0.push(command(arguments, client)?.spawn()?);
        }
        children.wait(Duration::from_secs(arguments.load.seconds) + PATIENCE);
        let found = records_in(&arguments.records)?.len();
        if found < usize::from(arguments.clients) {
            let text = format!("only {found} of {} clients began a record", arguments.clients);
            return Err(std::io::Error::other(text));
        }
        return judge(&arguments.records, arguments.judge);
    }
    let text =
        format!("{} holds records already; name an empty directory", arguments.records.display());
    Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, text))
}

fn command(arguments: &Run, client: u16) -> std::io::Result<Command> {
    let number = (client + 1).to_string();
    let mut words: Vec<String> =
        arguments.launcher.split_ascii_whitespace().map(|w| w.replace("{}", &number)).collect();
    words.push(std::env::current_exe()?.display().to_string());
    let mut command = Command::new(words.remove(0));
    let load = &arguments.load;
    command
        .args(words)
        .arg("client")
        .args(["--dir", &arguments.dir.replace("{}", &number)])
        .args(["--client", &client.to_string(), "--clients", &arguments.clients.to_string()])
        .arg("--record")
        .arg(arguments.records.join(format!("{client}.jsonl")))
        .args([
            "--operations",
            &load.operations.to_string(),
            "--seconds",
            &load.seconds.to_string(),
        ])
        .args(["--pause-ms", &load.pause_ms.to_string(), "--seed", &load.seed.to_string()])
        .args(["--directories", &load.directories.to_string(), "--names", &load.names.to_string()])
        .args(load.replacing.then_some("--replacing"));
    Ok(command)
}

/// Clients, ended when they are dropped.
struct Children(Vec<Child>);

impl Children {
    /// Waits for all, and ends those that take too long: their records say in what they hung.
    fn wait(mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while self.0.iter_mut().any(|c| matches!(c.try_wait(), Ok(None)))
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            // One that hangs in the kernel cannot be waited for.
            let _ = child.try_wait();
        }
    }
}

fn records_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn judge(directory: &Path, judge: Judge) -> std::io::Result<bool> {
    let paths = records_in(directory)?;
    if paths.is_empty() {
        let text = format!("there are no records (*.jsonl) in {}", directory.display());
        return Err(std::io::Error::new(std::io::ErrorKind::NotFound, text));
    }
    let records =
        paths.iter().map(|p| Record::read(p)).collect::<std::io::Result<Vec<Record>>>()?;
    let rules = Rules {
        limit_ms: judge.limit_ms,
        may_fail: judge.may_fail,
        may_die: judge.may_die,
        names_may_wait: judge.names_may_wait,
        ..Rules::default()
    };
    let verdict = check(&records, rules);
    say(&text(&verdict, records.len()));
    Ok(verdict.is_clean())
}

fn text(verdict: &Verdict, clients: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(verdict.violations.iter().take(SHOWN).map(|v| format!("VIOLATION {v}")));
    if let Some(more) = verdict.violations.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        lines.push(format!("and {more} more violations"));
    }
    lines.extend(verdict.undecided.iter().map(|n| format!("UNDECIDED {n}")));
    for ((call, errno), count) in &verdict.failures {
        lines.push(format!("{count} times {call} failed with error {errno}"));
    }
    lines.push(format!(
        "{} operations of {clients} clients, slowest call {} ms, {} violations, {} undecided",
        verdict.operations,
        verdict.slowest_ms,
        verdict.violations.len(),
        verdict.undecided.len()
    ));
    lines.join("\n")
}
