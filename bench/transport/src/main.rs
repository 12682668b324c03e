//! Requests between two processes on one host, by Intarsia's transport and by plain TCP, measured in turns.
//!
//! Every server reads what it sends from one file in memory (`/dev/shm`), because a node does; every client throws it
//! away. The figures of one round lie seconds apart, so their ratios are steadier than they are.

#[path = "../../smallfiles/src/cpu.rs"]
mod cpu;
mod ours;
mod report;
mod tcp;

use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use intarsia_transport::DeploymentKey;

use crate::report::{Cell, Sample};

/// The binary's allocator, as in the node.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Length of a large read.
pub(crate) const LARGE_BYTES: usize = 1 << 20;
/// Length of the file that servers read from: more than the processor's caches.
pub(crate) const FILE_BYTES: u64 = 256 << 20;

/// Measures requests between two nodes beside a plain TCP copy.
#[derive(Debug, Parser)]
#[command(name = "transport", version)]
struct Args {
    #[command(subcommand)]
    command: Option<Role>,
    /// Rounds; every round measures every cell once.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds for each cell of a round.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Only cells whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Print samples as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Started by the benchmark itself: the other node.
    #[command(hide = true)]
    Serve { system: System, file: PathBuf, key: PathBuf },
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum System {
    /// Blocking sockets, no protection: the limit.
    Tcp,
    /// Ours with encrypt=none.
    Tagged,
    /// Ours with encrypt=payload.
    Encrypted,
}

impl System {
    const ALL: [Self; 3] = [Self::Tcp, Self::Tagged, Self::Encrypted];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tagged => "tagged",
            Self::Encrypted => "encrypted",
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing; answered by the thread that received it.
    Ping,
    /// Attributes; answered by a thread that could wait for a disk.
    Stat,
    /// `LARGE_BYTES` of the file.
    Read,
}

/// A pattern of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) kind: Kind,
    pub(crate) in_flight: usize,
    pub(crate) threads: usize,
}

impl Load {
    /// Requests in flight of one thread, and threads.
    const ALL: [Self; 9] = [
        Self::new(Kind::Ping, 1, 1),
        Self::new(Kind::Ping, 32, 1),
        Self::new(Kind::Ping, 1, 8),
        Self::new(Kind::Stat, 1, 1),
        Self::new(Kind::Stat, 32, 1),
        Self::new(Kind::Stat, 1, 8),
        Self::new(Kind::Read, 1, 1),
        Self::new(Kind::Read, 4, 1),
        Self::new(Kind::Read, 16, 1),
    ];

    const fn new(kind: Kind, in_flight: usize, threads: usize) -> Self {
        Self { kind, in_flight, threads }
    }

    fn name(self) -> String {
        let kind = match self.kind {
            Kind::Ping => "ping",
            Kind::Stat => "stat",
            Kind::Read => "1MiB",
        };
        let threads = if self.threads > 1 { format!(" x{}", self.threads) } else { String::new() };
        format!("{kind} {}{threads}", self.in_flight)
    }

    pub(crate) const fn payload_bytes(self) -> usize {
        match self.kind {
            Kind::Ping | Kind::Stat => 0,
            Kind::Read => LARGE_BYTES,
        }
    }
}

/// The asking side of a system.
pub(crate) trait Client {
    /// Asks for `duration`; the time of each request in nanoseconds.
    fn run(&mut self, load: Load, duration: Duration) -> Outcome<Vec<u64>>;
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.command {
        Some(Role::Serve { system, file, key }) => serve(*system, file, key),
        None => measure(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "transport: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(system: System, file: &Path, key: &Path) -> Outcome<()> {
    let file = File::open(file)?;
    let (address, hold): (_, Box<dyn Send>) = match system {
        System::Tcp => (tcp::serve(file)?, Box::new(())),
        System::Tagged | System::Encrypted => ours::serve(system, file, key)?,
    };
    writeln!(io::stdout(), "{address}")?;
    // Until the benchmark is gone, however it went.
    io::stdin().read_line(&mut String::new())?;
    drop(hold);
    Ok(())
}

/// A server process; killed when dropped.
struct Server {
    child: Child,
    client: Box<dyn Client>,
    system: System,
}

impl Server {
    fn start(system: System, file: &Path, key: &Path) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([Path::new("serve"), Path::new(system.name()), file, key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line.trim().parse()?;
        let client: Box<dyn Client> = match system {
            System::Tcp => Box::new(tcp::Tcp::connect(address)?),
            System::Tagged | System::Encrypted => {
                Box::new(ours::Ours::connect(system, address, key)?)
            }
        };
        Ok(Self { child, client, system })
    }

    fn sample(&mut self, load: Load, duration: Duration) -> Outcome<Sample> {
        let pids = [self.child.id()];
        let cpu = || cpu::own() + cpu::of(&pids);
        self.client.run(load, duration / 10)?;
        let (before, begun) = (cpu(), Instant::now());
        let times_ns = self.client.run(load, duration)?;
        Ok(Sample::new(load, times_ns, begun.elapsed(), cpu().saturating_sub(before)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(args: &Args) -> Outcome<()> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let (file, key) = (dir.path().join("file"), dir.path().join("key.pem"));
    DeploymentKey::create(&key)?;
    let mut content = File::create(&file)?;
    let block: Vec<u8> = (0..LARGE_BYTES).map(|at| at.to_le_bytes()[1]).collect();
    for _ in 0..FILE_BYTES / block.len() as u64 {
        content.write_all(&block)?;
    }
    let systems = System::ALL.map(|system| Server::start(system, &file, &key));
    let mut systems: Vec<Server> = systems.into_iter().collect::<Outcome<_>>()?;
    let mut cells: Vec<Cell> = Vec::new();
    let duration = Duration::from_secs_f64(args.seconds);
    for _ in 0..args.rounds {
        for load in Load::ALL.into_iter().filter(|load| load.name().contains(&args.only)) {
            for server in &mut systems {
                let (system, load_name) = (server.system.name(), load.name());
                let sample = server.sample(load, duration)?;
                match cells.iter_mut().find(|c| c.system == system && c.load == load_name) {
                    Some(cell) => cell.samples.push(sample),
                    None => cells.push(Cell { system, load: load_name, samples: vec![sample] }),
                }
            }
        }
    }
    let mut out = io::stdout().lock();
    if args.json {
        report::json(&cells, &mut out)?;
    } else {
        report::table(&cells, &mut out)?;
    }
    Ok(())
}
