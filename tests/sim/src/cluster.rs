//! All hosts, and the clients that work on them.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use intarsia_history::client::{self, Plan, Workload};
use intarsia_history::event::{Record, Recorder};
use intarsia_sync::thread::JoinHandle;
use intarsia_sync::{Instant, Simulation, thread};
use intarsia_types::{Error, HintKey};
use parking_lot::Mutex;

use crate::client::Program;
use crate::drawing::Draws;
use crate::faults::Pace;
use crate::host::{Care, Deployment, Host, Life};
use crate::operator::Operator;
use crate::others::Shift;
use crate::parts::Only;
use crate::{account, last_readers, writers};

/// Directories that clients work in.
const DIRECTORIES: u16 = 3;
/// Clients that there can be, all that died among them.
const CLIENTS_MAX: u16 = 64;

/// Operations of one client at most, so that a run stays short.
const OPERATIONS_MAX: u64 = 2000;

/// The directories that clients work in.
pub(crate) fn of_clients() -> impl Iterator<Item = String> {
    (0..DIRECTORIES).map(|d| format!("d{d}"))
}

/// What the clients of a run do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) seed: u64,
    pub(crate) workload: Workload,
    pub(crate) clients_per_host: u16,
    pub(crate) pause: Duration,
    pub(crate) pace: Pace,
    pub(crate) begun: Instant,
    pub(crate) end: Instant,
}

pub(crate) struct Cluster {
    pub(crate) hosts: Vec<Arc<Host>>,
    pub(crate) deployment: Arc<Deployment>,
    load: Load,
    /// Programs that work; others end as soon as they are started.
    kept: Only<String>,
    /// Clients so far, those that are left out among them.
    numbers: AtomicU16,
    clients: Mutex<Vec<Client>>,
    /// Programs of which nothing is recorded.
    helpers: Mutex<Vec<Helper>>,
}

struct Client {
    group: usize,
    thread: JoinHandle<std::io::Result<()>>,
    record: Sink,
}

struct Helper {
    group: usize,
    name: &'static str,
    thread: JoinHandle<()>,
}

/// What a client writes down, kept when it is killed.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Cluster {
    /// So many hosts that all serve, with the directories made and clients at work.
    pub(crate) fn start_all(
        hosts: u8,
        home: &Path,
        simulation: &Simulation,
        deployment: Deployment,
        load: Load,
        kept: Only<String>,
    ) -> Result<Arc<Self>, String> {
        let deployment = Arc::new(deployment);
        let hosts: Vec<_> =
            (1..=hosts).map(|n| Host::new(n, home, simulation, &deployment)).collect();
        for host in &hosts {
            host.start().map_err(|e| format!("starting {}: {e}", host.name))?;
        }
        let cluster = Arc::new(Self {
            hosts,
            deployment,
            load,
            kept,
            numbers: AtomicU16::new(0),
            clients: Mutex::default(),
            helpers: Mutex::default(),
        });
        if let Some(first) = cluster.hosts.first() {
            let (hints, uses) = (cluster.deployment.hints(), cluster.deployment.uses.directories());
            let directories = [uses, cluster.deployment.others.directories()].concat();
            let made = cluster.on(first, "make", move |program| {
                directories.iter().try_for_each(|(directory, own)| {
                    program.make_directory(directory)?;
                    let all = hints.iter().map(|(hint, value)| (*hint, value.as_str()));
                    let mut all = all.chain(own.iter().copied());
                    all.try_for_each(|(hint, value)| program.hint(directory, hint, value))
                })
            });
            made?.map_err(|e| format!("making directories: {e}"))?;
        }
        cluster.hosts.iter().try_for_each(|host| cluster.start_clients(host))?;
        Ok(cluster)
    }

    /// Starts a host that was killed, and its clients. It is tried again for as long as a user would.
    pub(crate) fn start(&self, host: &Arc<Host>) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            match host.start() {
                Ok(()) => return self.start_clients(host),
                Err(error) if Instant::now() > deadline => {
                    return Err(format!("{} does not start: {error}", host.name));
                }
                Err(error) => {
                    tracing::info!(host = %host.name, %error, "it does not start yet");
                    host.kill().map_err(|e| e.to_string())?;
                    thread::sleep(Duration::from_secs(1));
                }
            }
        }
    }

    fn start_clients(&self, host: &Host) -> Result<(), String> {
        let Some(life) = host.life() else { return Ok(()) };
        let (end, pause_ms) = (self.load.end, self.load.pace.writer_pause_ms());
        let may_cut = self.deployment.care != Care::Safe;
        let draws = |name| Draws::of(self.load.seed, name, life.group.id() as u64);
        let writer = writers::Writer { draws: draws("writer"), may_cut };
        let work = move |program: &Program| writer.write_until(program, end, pause_ms);
        self.start_helper(&life, host, "writer", work)?;
        if self.deployment.is_operated {
            let hosts = self.hosts.iter().map(|host| host.name.clone()).collect();
            let operator = Operator { draws: draws("operator"), hosts };
            let work = move |program: &Program| operator.operate_until(program, end);
            self.start_helper(&life, host, "operator", work)?;
        }
        self.start_others(&life, host)?;
        for _ in 0..self.load.clients_per_host {
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            if number >= CLIENTS_MAX || Instant::now() >= self.load.end {
                return Ok(());
            }
            self.start_client(&life, host, number)?;
        }
        Ok(())
    }

    fn start_client(&self, life: &Life, host: &Host, number: u16) -> Result<(), String> {
        let (load, record) = (self.load, Sink::default());
        let program = Program::among(&life.programs, Arc::clone(&life.node), load.begun);
        let (sink, place) = (Box::new(record.clone()), u16::from(host.number()));
        let is_kept = self.is_kept("clients", host);
        let work = move || {
            let recorder = Recorder::into(sink, number, load.seed, Some(place))?;
            let plan = plan(load, number, is_kept);
            client::run_on(&program, &plan, recorder)
        };
        let thread = life.group.spawn(&format!("client-{number}"), work);
        let thread = thread.map_err(|e| format!("starting a client: {e}"))?;
        self.clients.lock().push(Client { group: life.group.id(), thread, record });
        Ok(())
    }

    /// Whether programs of this name work on a host, of which note is taken.
    fn is_kept(&self, name: &str, host: &Host) -> bool {
        let part = format!("{name}@{}", host.name);
        let is_kept = self.kept.keeps(&part);
        if is_kept {
            account::note_program(part);
        }
        is_kept
    }

    fn start_others(&self, life: &Life, host: &Host) -> Result<(), String> {
        let number = life.group.id();
        let shift = Shift { end: self.load.end, pause_ms: self.load.pace.writer_pause_ms() };
        for &kind in self.deployment.others.kinds() {
            let others = Arc::clone(&self.deployment.others);
            let of = (format!("{}-{number}", host.name), number as u64);
            let work = move |program: &Program| others.work(kind, program, of, shift);
            self.start_helper(life, host, kind.name(), work)?;
        }
        Ok(())
    }

    /// Starts a program of which nothing is recorded.
    fn start_helper(
        &self,
        life: &Life,
        host: &Host,
        name: &'static str,
        work: impl FnOnce(&Program) + Send + 'static,
    ) -> Result<(), String> {
        let program = Program::among(&life.programs, Arc::clone(&life.node), self.load.begun);
        let work = self.is_kept(name, host).then_some(work);
        let begin = move || {
            if let Some(work) = work {
                work(&program);
            }
        };
        let thread = life.group.spawn(name, begin);
        let thread = thread.map_err(|e| format!("starting a {name}: {e}"))?;
        self.helpers.lock().push(Helper { group: life.group.id(), name, thread });
        Ok(())
    }

    /// Takes back that a host is to leave.
    pub(crate) fn keep_all_hosts(&self) -> Result<(), String> {
        let Some(first) = self.hosts.first() else { return Ok(()) };
        for host in &self.hosts {
            let name = host.name.clone();
            self.until_done(first, "keep", move |program| program.keep_host(&name))
                .map_err(|e| format!("{}: {e}", host.name))?;
        }
        Ok(())
    }

    /// Has files stay that wait for their last reader: whoever looks at one of them reads it.
    pub(crate) fn keep_unread(&self) -> Result<(), String> {
        let others = &self.deployment.others;
        let Some(first) = self.hosts.first().filter(|_| others.has_readers()) else {
            return Ok(());
        };
        let list = |program: &Program| program.names(last_readers::DIRECTORY);
        for (name, _) in self.until_done(first, "keep", list)? {
            let path = format!("{}/{name}", last_readers::DIRECTORY);
            if others.is_gone(&path) {
                others.findings.tell(format!("{path} is there in the end, after its last reader"));
            }
            let keep = move |program: &Program| program.hint(&path, HintKey::Lifetime, "keep");
            self.until_done(first, "keep", keep)?;
        }
        Ok(())
    }

    /// Has a host do something that may fail before it is a member again.
    fn until_done<T: Send + 'static>(
        &self,
        host: &Host,
        name: &str,
        work: impl Fn(&Program) -> Result<T, Error> + Clone + Send + 'static,
    ) -> Result<T, String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.on(host, name, work.clone())? {
                Ok(done) => return Ok(done),
                Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_secs(1)),
                Err(error) => return Err(format!("{} cannot {name}: {error}", host.name)),
            }
        }
    }

    /// Two different hosts.
    pub(crate) fn two(&self, draws: &mut Draws) -> (Arc<Host>, Arc<Host>) {
        let count = self.hosts.len();
        let mut draw = |bound: usize| usize::try_from(draws.below(bound as u64)).unwrap_or(0);
        let one = draw(count);
        let other = (one + 1 + draw(count - 1)) % count;
        (Arc::clone(&self.hosts[one]), Arc::clone(&self.hosts[other]))
    }

    /// Runs `work` as a program of `host`.
    pub(crate) fn on<T: Send + 'static>(
        &self,
        host: &Host,
        name: &str,
        work: impl FnOnce(&Program) -> T + Send + 'static,
    ) -> Result<T, String> {
        let life = host.life().ok_or_else(|| format!("{} is down", host.name))?;
        let program = Program::among(&life.programs, Arc::clone(&life.node), self.load.begun);
        let thread = life.group.spawn(name, move || work(&program));
        let thread = thread.map_err(|e| format!("starting a program: {e}"))?;
        thread.join().map_err(|_| format!("a program of {} panicked", host.name))
    }

    /// Waits until all programs of hosts that live have come to their end, and what they had open was let go.
    pub(crate) fn await_programs(&self, deadline: Instant) -> Result<(), String> {
        while let Some(who) = self.who_works() {
            if Instant::now() > deadline {
                return Err(format!("{who} does not come to its end"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// A program that is not at its end, if there is one.
    fn who_works(&self) -> Option<String> {
        let lives: Vec<Life> = self.hosts.iter().filter_map(|host| host.life()).collect();
        let is_alive = |group: usize| lives.iter().any(|life| life.group.id() == group);
        let busy = self.clients.lock().iter().enumerate().find_map(|(number, client)| {
            (is_alive(client.group) && !client.thread.is_finished()).then_some(number)
        });
        let is_at_it = |helper: &&Helper| is_alive(helper.group) && !helper.thread.is_finished();
        let helper = self.helpers.lock().iter().find(is_at_it).map(|helper| helper.name);
        let is_at_work = lives.iter().any(|life| life.programs.are_at_work());
        busy.map(|number| format!("client {number}"))
            .or(helper.map(|name| format!("a program, {name},")))
            .or(is_at_work.then(|| "a release of a file".to_owned()))
    }

    /// Writes the clients' records into a directory, as `history check` reads them.
    pub(crate) fn keep_records(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        for (number, client) in self.clients.lock().iter().enumerate() {
            let path = directory.join(format!("{number}.jsonl"));
            std::fs::write(path, &*client.record.0.lock())?;
        }
        Ok(())
    }

    /// What the clients saw.
    pub(crate) fn records(&self) -> Result<Vec<Record>, String> {
        let clients = self.clients.lock();
        let parse = |(number, client): (usize, &Client)| {
            let bytes = client.record.0.lock();
            Record::parse(&bytes[..], &format!("client {number}")).map_err(|e| e.to_string())
        };
        clients.iter().enumerate().map(parse).collect()
    }
}

fn plan(load: Load, client: u16, is_kept: bool) -> Plan {
    Plan {
        root: std::path::PathBuf::new(),
        client,
        clients: CLIENTS_MAX,
        seed: load.seed,
        workload: load.workload,
        operations: if is_kept { OPERATIONS_MAX } else { 0 },
        time: load.end.saturating_duration_since(Instant::now()),
        pause: load.pause,
        directories: DIRECTORIES,
        names: 4,
        gate: Arc::default(),
    }
}
