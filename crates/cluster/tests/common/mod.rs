//! Hosts of a test: addresses of the loopback network, real servers in temporary directories.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test may fail")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use intarsia_cluster::client::{Access, CLIENT_USER, Connection, KEEPER_USER};
use intarsia_cluster::deployment::{Deployment, Engine, Member, ServerName};
use intarsia_cluster::formation;
use intarsia_cluster::process::Process;
use intarsia_cluster::secrets::Secrets;
use intarsia_cluster::servers::{self, Program, Server, Settings, Start};
use intarsia_cluster::supervision::{Begin, HostSeen, Roster, Supervisor, Watch};
use intarsia_cluster::topology::Topology;
use intarsia_cluster::watchdog;
use intarsia_types::{Durability, NodeId};

/// Long enough for a busy machine; what is waited for comes much earlier.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Lines of a server's log that a failed test shows.
const LOGGED: usize = 25;

/// The server program; a test that must not be skipped fails without it.
pub(crate) fn program() -> Option<&'static Program> {
    static PROGRAM: OnceLock<Result<Program, String>> = OnceLock::new();
    let found = PROGRAM.get_or_init(|| Program::find().map_err(|e| e.to_string()));
    found.as_ref().inspect_err(|why| skip(why)).ok()
}

pub(crate) fn skip(why: &str) {
    let must = std::env::var_os("INTARSIA_TEST_REQUIRE_ALL").is_some_and(|v| v == "1");
    assert!(!must, "{why}, and INTARSIA_TEST_REQUIRE_ALL=1");
    eprintln!("SKIPPED: {why}");
}

/// The records of hosts; none while nodes are not open.
pub(crate) type Records = Arc<Mutex<Option<Vec<HostSeen>>>>;

/// The hosts of a deployment. Their servers end with it, also when the test is killed.
pub(crate) struct Fleet {
    pub(crate) deployment: Deployment,
    pub(crate) secrets: Secrets,
    pub(crate) key_file: Option<PathBuf>,
    /// What the members' records would say, in stores with nodes.
    pub(crate) records: Records,
    dir: tempfile::TempDir,
    reaper: Child,
}

impl Fleet {
    pub(crate) fn new(hosts: u8) -> Self {
        Self::with_durability(hosts, Durability::Interval)
    }

    pub(crate) fn with_durability(hosts: u8, durability: Durability) -> Self {
        // What the watch says shows beside a failure.
        let _ = tracing_subscriber::fmt().with_test_writer().try_init();
        let net = loopback_net();
        let members = (1..=hosts)
            .map(|n| Member {
                name: NodeId(format!("n{n}")),
                address: [127, net[0], net[1], n].into(),
                node_port: 7400,
                server_port: 7401,
            })
            .collect();
        let deployment = Deployment::new(durability, 2, Engine::Servers, members).unwrap();
        let secrets = Secrets::generate(&deployment.store).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let reaper = reaper(dir.path());
        let records = Records::default();
        Self { deployment, secrets, key_file: None, records, dir, reaper }
    }

    /// With servers on some of the hosts.
    pub(crate) fn with_meta_hosts(hosts: u8, count: usize) -> Self {
        let mut fleet = Self::new(hosts);
        fleet.deployment = fleet.deployment.clone().with_meta_hosts(Some(count)).unwrap();
        fleet
    }

    /// What the records say from now on: hosts by their place in the list.
    pub(crate) fn record(&self, alive: &[usize], leaving: &[usize]) {
        let hosts: Vec<_> = self.deployment.hosts().cloned().collect();
        let seen = |place: &usize| HostSeen {
            name: hosts[*place].name.clone(),
            address: Some((hosts[*place].address, hosts[*place].node_port).into()),
            is_alive: true,
            is_leaving: leaving.contains(place),
        };
        *self.records.lock().unwrap() = Some(alive.iter().map(seen).collect());
    }

    /// With a deployment's key.
    pub(crate) fn with_tls(hosts: u8) -> Self {
        let mut fleet = Self::new(hosts);
        let path = fleet.dir.path().join("deployment.pem");
        intarsia_transport::DeploymentKey::create(&path).unwrap();
        fleet.key_file = Some(path);
        fleet
    }

    /// Where the servers of a host are.
    pub(crate) fn host_dir(&self, host: &NodeId) -> PathBuf {
        self.dir.path().join(&host.0)
    }

    pub(crate) fn host(&self, number: usize) -> NodeId {
        self.deployment.members[number].name.clone()
    }

    pub(crate) fn keeper(&self) -> Access {
        let password = self.secrets.keeper_password.clone();
        Access { user: KEEPER_USER, password, key_file: self.key_file.clone() }
    }

    /// A connection of the keeper to a server.
    pub(crate) fn connect(&self, name: &ServerName) -> Connection {
        self.keeper().connect(&self.settings(name).address).unwrap()
    }

    /// What a server says of the Cluster.
    pub(crate) fn ask(&self, name: &ServerName) -> Topology {
        Topology::ask(&mut self.connect(name)).unwrap()
    }

    pub(crate) fn client(&self) -> Access {
        let password = self.secrets.client_password.clone();
        Access { user: CLIENT_USER, password, key_file: self.key_file.clone() }
    }

    pub(crate) fn settings(&self, name: &ServerName) -> Settings {
        let member = self.deployment.member(&name.host).unwrap();
        Settings {
            dir: self.host_dir(&name.host).join(name.number.to_string()),
            address: member.server(name.number).unwrap(),
            durability: self.deployment.durability,
            replication: formation::replication_of(&self.deployment),
            memory: None,
            secrets: self.secrets.clone(),
            key_file: self.key_file.clone(),
        }
    }

    /// The process of a server that runs.
    pub(crate) fn process(&self, name: &ServerName) -> Option<Process> {
        let settings = self.settings(name);
        Server::adopt(name.clone(), settings.address, &settings.dir).map(|s| s.process().clone())
    }

    pub(crate) fn start_server(&self, name: &ServerName, start: Start) -> Server {
        Server::start(program().unwrap(), name.clone(), &self.settings(name), start).unwrap()
    }

    /// Starts the servers that every host begins with.
    pub(crate) fn start_servers(&self, start: Start) -> Vec<Server> {
        let mut servers: Vec<Server> = self
            .deployment
            .meta_members()
            .flat_map(|m| {
                (0..formation::servers_per_host(&self.deployment))
                    .map(|number| ServerName { host: m.name.clone(), number })
            })
            .map(|name| self.start_server(&name, start))
            .collect();
        for server in &mut servers {
            server.wait_until_answering(&self.keeper(), PATIENCE).unwrap();
        }
        servers
    }

    /// The last lines of what each server has logged.
    fn print_logs(&self) {
        for path in server_logs(self.dir.path()) {
            let log = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(LOGGED);
            eprintln!("{}:\n{}", path.display(), lines[last..].join("\n"));
        }
    }

    pub(crate) fn stop_all(&self) {
        for member in &self.deployment.members {
            servers::stop_all(&self.host_dir(&member.name)).unwrap();
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_logs();
        }
        // Its input closes, and it ends what runs.
        drop(self.reaper.stdin.take());
        self.reaper.wait().unwrap();
    }
}

/// Starts and watches the servers of a host.
pub(crate) fn watch(
    fleet: &Fleet,
    host: &NodeId,
    begin: Begin,
    replace_after: Duration,
) -> Supervisor {
    let watch = Watch {
        program: program().unwrap().clone(),
        deployment: fleet.deployment.clone(),
        secrets: fleet.secrets.clone(),
        key_file: fleet.key_file.clone(),
        host: host.clone(),
        dir: fleet.host_dir(host),
        memory: None,
        replace_after,
        roster: {
            let records = Arc::clone(&fleet.records);
            Roster::new(move || records.lock().unwrap().clone())
        },
    };
    Supervisor::start(watch, begin, PATIENCE).unwrap()
}

/// The logs of the servers of all hosts.
fn server_logs(dir: &Path) -> Vec<PathBuf> {
    let below = |dir: PathBuf| {
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let mut logs: Vec<PathBuf> = below(dir.to_owned()).flat_map(below).collect();
    logs.iter_mut().for_each(|server| server.push("server.log"));
    logs.retain(|log| log.is_file());
    logs.sort();
    logs
}

/// Two numbers for `127.a.b.*`, so that tests at the same time do not meet; the ports can then be
/// the same everywhere.
fn loopback_net() -> [u8; 2] {
    let mut bytes = [0u8; 2];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    [bytes[0] | 1, bytes[1]]
}

/// This program again, as a process that outlives the test and ends the servers when the test is gone.
fn reaper(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "common::reap", "--ignored", "--nocapture"])
        .env("INTARSIA_TEST_REAP", dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "runs as a process of its own beside another test"]
fn reap() {
    let Some(dir) = std::env::var_os("INTARSIA_TEST_REAP") else { return };
    watchdog::wait(std::io::stdin(), None);
    for host in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        servers::stop_all(&host.path()).unwrap();
    }
    let _ = std::fs::remove_dir_all(&dir);
}

/// Waits for a condition and returns what it gives.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(50));
    }
}
