//! The phases of the benchmark: what each does to every file, and how it is timed.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::cpu;

/// What all phases work on.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) directory: PathBuf,
    pub(crate) files: usize,
    pub(crate) content: Vec<u8>,
    pub(crate) clients: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Create a new file, write it in one call, close it.
    Create,
    /// Stat every file just created.
    StatWarm,
    /// Open, read and close every file, its data perhaps still cached.
    OpenRead,
    /// Stat every file after the kernel's names and attributes were dropped.
    StatCold,
    /// Open, read and close every file after the same.
    OpenReadCold,
    /// List the directory by name after the same.
    ReaddirCold,
    /// List it once more.
    ReaddirWarm,
    /// List and stat every entry, as `ls -l` does, after dropping again.
    ListStatCold,
    /// Remove every file.
    Unlink,
}

/// One phase as it was measured.
#[derive(Debug)]
pub(crate) struct Outcome {
    name: &'static str,
    operations: usize,
    wall: Duration,
    client_cpu: Duration,
    server_cpu: Duration,
}

impl Phase {
    /// All phases in an order that suits them.
    pub(crate) const NAMES: [&'static str; 9] = [
        "create",
        "stat_warm",
        "open_read",
        "stat_cold",
        "open_read_cold",
        "readdir_cold",
        "readdir_warm",
        "list_stat_cold",
        "unlink",
    ];

    /// Runs the phase; a cold phase without the right to drop caches has no outcome.
    pub(crate) fn measure(self, plan: &Plan, server_pids: &[u32]) -> io::Result<Option<Outcome>> {
        if self.is_cold() && !drop_names(plan)? {
            return Ok(None);
        }
        let (client_before, server_before) = (cpu::own(), cpu::of(server_pids));
        let start = Instant::now();
        self.run(plan)?;
        Ok(Some(Outcome {
            name: Self::NAMES[self as usize],
            operations: plan.files,
            wall: start.elapsed(),
            client_cpu: cpu::own().saturating_sub(client_before),
            server_cpu: cpu::of(server_pids).saturating_sub(server_before),
        }))
    }

    fn is_cold(self) -> bool {
        use Phase::{ListStatCold, OpenReadCold, ReaddirCold, StatCold};
        matches!(self, StatCold | OpenReadCold | ReaddirCold | ListStatCold)
    }

    fn run(self, plan: &Plan) -> io::Result<()> {
        match self {
            Self::Create => plan.each(|path, content| File::create_new(path)?.write_all(content)),
            Self::StatWarm | Self::StatCold => plan.each(|path, _| fs::metadata(path).map(drop)),
            Self::OpenRead | Self::OpenReadCold => plan.each(read_back),
            Self::ReaddirCold | Self::ReaddirWarm => plan.list(|_| Ok(())),
            Self::ListStatCold => plan.list(|entry| entry.metadata().map(drop)),
            Self::Unlink => plan.each(|path, _| fs::remove_file(path)),
        }
    }
}

impl Plan {
    fn path(&self, number: usize) -> PathBuf {
        self.directory.join(format!("file-{number:07}"))
    }

    /// Does `work` for every file, each client its share.
    fn each(&self, work: fn(&PathBuf, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let ready = Barrier::new(self.clients);
        let share = |client: usize| -> io::Result<()> {
            ready.wait();
            (client..self.files)
                .step_by(self.clients)
                .try_for_each(|number| work(&self.path(number), &self.content))
        };
        thread::scope(|scope| {
            let share = &share;
            let clients: Vec<_> =
                (1..self.clients).map(|client| scope.spawn(move || share(client))).collect();
            share(0)?;
            clients.into_iter().try_for_each(|client| {
                client.join().unwrap_or_else(|_| Err(io::Error::other("a client thread panicked")))
            })
        })
    }

    /// Lists the directory in one client and insists that the listing is complete.
    fn list(&self, visit: fn(fs::DirEntry) -> io::Result<()>) -> io::Result<()> {
        let mut count = 0;
        for entry in fs::read_dir(&self.directory)? {
            visit(entry?)?;
            count += 1;
        }
        if count == self.files {
            return Ok(());
        }
        Err(io::Error::other(format!("the listing has {count} of {} names", self.files)))
    }
}

fn read_back(path: &PathBuf, content: &[u8]) -> io::Result<()> {
    // One byte more than written, so that a file that grew is noticed.
    let mut buffer = vec![0; content.len() + 1];
    let length = File::open(path)?.read(&mut buffer)?;
    if &buffer[..length] == content {
        return Ok(());
    }
    Err(io::Error::other(format!("{} does not hold what was written", path.display())))
}

/// Makes the next look at each name a first look; false without the right to do so.
fn drop_names(plan: &Plan) -> io::Result<bool> {
    // Names of files with unwritten changes would be kept.
    rustix::fs::syncfs(File::open(&plan.directory)?)?;
    match fs::write("/proc/sys/vm/drop_caches", "2") {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        outcome => outcome.map(|()| true),
    }
}

impl Outcome {
    pub(crate) fn to_json(&self) -> String {
        let operations = u32::try_from(self.operations).unwrap_or(u32::MAX);
        format!(
            "\"{}\": {{\"operations\": {}, \"wall_s\": {:.6}, \"per_s\": {:.1}, \
             \"client_cpu_s\": {:.6}, \"server_cpu_s\": {:.2}}}",
            self.name,
            self.operations,
            self.wall.as_secs_f64(),
            f64::from(operations) / self.wall.as_secs_f64(),
            self.client_cpu.as_secs_f64(),
            self.server_cpu.as_secs_f64(),
        )
    }
}
