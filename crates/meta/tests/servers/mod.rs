//! Redis servers of the tests' own, on loopback ports: one alone, or a Cluster.
//!
//! Each server is the child of a shell that ends it and removes its directory when our end of a pipe
//! closes, so that nothing stays behind however a test ends.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    dead_code,
    reason = "test code, not all used everywhere"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use intarsia_meta::engines::{RedisEngine, RedisOptions, RedisTls};
use redis::{Value, cmd};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Starts a server and says its process number; ends it when told or when the pipe closes, also when a
/// signal ends the whole group.
const KEEPER: &str = r#"
dir=$1; preload=$2; shift 2
trap '' HUP INT TERM
LD_PRELOAD=$preload redis-server "$@" </dev/null >"$dir/out" 2>&1 &
server=$!
echo $server
read -r how
kill -9 $server 2>/dev/null
wait
[ "$how" = keep ] || { rm -rf "$dir"; rmdir "$(dirname "$dir")" 2>/dev/null; }
"#;

/// What a test's servers are like.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// Each with its share of the slots; 1 with no Cluster is a plain server.
    pub(crate) primaries: usize,
    pub(crate) replicas_each: usize,
    pub(crate) is_cluster: bool,
    pub(crate) appends: bool,
    /// With TLS to the engine, in replication and in the Cluster; a plain port is there for the tests.
    pub(crate) is_tls: bool,
    /// Whether each `fdatasync` takes seconds.
    pub(crate) has_slow_disk: bool,
    /// Lines of configuration beside ours.
    pub(crate) more: &'static [&'static str],
}

impl Settings {
    pub(crate) const SINGLE: Self =
        Self { primaries: 1, replicas_each: 0, is_cluster: false, ..Self::PLAIN };
    pub(crate) const CLUSTER: Self =
        Self { primaries: 3, replicas_each: 1, is_cluster: true, ..Self::PLAIN };
    const PLAIN: Self = Self {
        primaries: 0,
        replicas_each: 0,
        is_cluster: false,
        appends: false,
        is_tls: false,
        has_slow_disk: false,
        more: &[],
    };
}

pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
    bus_port: u16,
    tls_port: u16,
    dir: PathBuf,
    settings: Settings,
    running: Option<Running>,
}

struct Running {
    keeper: Child,
    orders: ChildStdin,
    pid: i32,
}

/// Whether there is a `redis-server` to test with. Where everything must run, its absence is a failure.
pub(crate) fn are_there() -> bool {
    static FOUND: LazyLock<bool> =
        LazyLock::new(|| Command::new("redis-server").arg("--version").output().is_ok());
    if !*FOUND {
        let must = std::env::var_os("INTARSIA_TEST_REQUIRE_ALL").is_some_and(|v| v == "1");
        assert!(!must, "no redis-server found, and INTARSIA_TEST_REQUIRE_ALL=1");
        eprintln!("SKIPPED: no redis-server found (Debian: apt-get install redis-server)");
    }
    *FOUND
}

/// Waits until `condition` holds.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

impl Server {
    fn new(root: &Path, number: usize, settings: Settings) -> Self {
        let (port, bus_port) = free_ports();
        let mut server = Self::at("127.0.0.1", (port, bus_port), root, number, settings);
        server.start();
        server
    }

    /// A server that is not started yet.
    fn at(
        host: &str,
        (port, bus_port): (u16, u16),
        root: &Path,
        number: usize,
        settings: Settings,
    ) -> Self {
        let dir = root.join(number.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        let tls_port = if settings.is_tls { free_ports().0 } else { 0 };
        Self { host: host.to_owned(), port, bus_port, tls_port, dir, settings, running: None }
    }

    /// Starts the server on what its directory holds.
    pub(crate) fn start(&mut self) {
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&self.dir)
            .arg(if self.settings.has_slow_disk { slow_disk() } else { Path::new("") })
            .args(self.configuration())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (orders, pid) = (keeper.stdin.take().unwrap(), line.trim().parse().unwrap());
        self.running = Some(Running { keeper, orders, pid });
    }

    fn configuration(&self) -> Vec<String> {
        let Settings { is_cluster, appends, replicas_each, .. } = self.settings;
        let mut lines = vec![
            format!("--port {}", self.port),
            format!("--bind {}", self.host),
            "--protected-mode no".into(),
            format!("--dir {}", self.dir.display()),
            "--save ''".into(),
            "--maxmemory-policy noeviction".into(),
            "--repl-diskless-sync-delay 0".into(),
            "--repl-ping-replica-period 1".into(),
            "--logfile log".into(),
            "--enable-debug-command local".into(),
            format!("--appendonly {}", if appends { "yes" } else { "no" }),
            format!("--min-replicas-to-write {}", replicas_each.min(1)),
        ];
        if is_cluster {
            lines.push("--cluster-enabled yes".into());
            lines.push(format!("--cluster-port {}", self.bus_port));
            lines.push("--cluster-node-timeout 2000".into());
            lines.push("--cluster-require-full-coverage no".into());
        }
        if self.settings.is_tls {
            lines.push(format!("--tls-port {}", self.tls_port));
            let file = self.dir.join("key.pem");
            std::fs::write(&file, key()).unwrap();
            let file = file.display();
            let names = ["tls-cert-file", "tls-key-file", "tls-ca-cert-file"];
            lines.extend(names.map(|name| format!("--{name} {file}")));
            lines.push("--tls-replication yes".into());
            lines.extend(is_cluster.then(|| "--tls-cluster yes".into()));
        }
        lines.extend(self.settings.more.iter().map(|line| (*line).to_owned()));
        let words = |line: &String| {
            let (name, value) = line.split_once(' ').unwrap();
            [name.to_owned(), value.replace("''", "")]
        };
        lines.iter().flat_map(words).collect()
    }

    /// By which an engine reaches it.
    fn engine_url(&self) -> String {
        match self.settings.is_tls {
            true => format!("rediss://{}:{}", self.host, self.tls_port),
            false => self.url(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}:{}", self.host, self.port)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.running.as_ref().unwrap().pid
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Ends the server as `kill -9` does; its directory stays.
    pub(crate) fn kill(&mut self) {
        let Some(Running { mut keeper, mut orders, .. }) = self.running.take() else { return };
        orders.write_all(b"keep\n").unwrap();
        drop(orders);
        keeper.wait().unwrap();
    }

    /// Sends the server a signal such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Removes everything that the server has written, but not its place in the Cluster.
    pub(crate) fn remove_data(&self) {
        assert!(self.running.is_none());
        let _ = std::fs::remove_dir_all(self.dir.join("appendonlydir"));
        let _ = std::fs::remove_file(self.dir.join("dump.rdb"));
    }

    /// Asks the server; `None` when it does not answer soon.
    pub(crate) fn try_ask(&self, words: &[&str]) -> Option<Value> {
        self.answer(words, Duration::from_secs(5)).ok()
    }

    fn answer(&self, words: &[&str], patience: Duration) -> redis::RedisResult<Value> {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
        connection.set_read_timeout(Some(patience))?;
        let mut command = cmd(words[0]);
        words[1..].iter().for_each(|word| {
            command.arg(word);
        });
        match command.query(&mut connection)? {
            Value::ServerError(error) => Err(error.into()),
            value => Ok(value),
        }
    }

    /// Runs a command, which must succeed.
    pub(crate) fn run(&self, command: &redis::Cmd) -> Value {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(1)).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        command.query(&mut connection).unwrap_or_else(|e| panic!("server {}: {e}", self.port))
    }

    /// Asks the server, which must answer: also where the disk has it wait before it writes its state.
    pub(crate) fn ask(&self, words: &[&str]) -> Value {
        self.answer(words, PATIENCE)
            .unwrap_or_else(|e| panic!("server {}: {words:?} failed: {e}", self.port))
    }

    pub(crate) fn text(&self, words: &[&str]) -> String {
        self.try_ask(words)
            .and_then(|value| redis::from_redis_value(value).ok())
            .unwrap_or_default()
    }

    /// Whether the server answers, is a primary, and has so many replicas in sync.
    pub(crate) fn is_primary_with(&self, replicas: usize) -> bool {
        let Some(Value::Array(parts)) = self.try_ask(&["ROLE"]) else { return false };
        let [Value::BulkString(role), _, Value::Array(found)] = parts.as_slice() else {
            return false;
        };
        role == b"master" && found.len() >= replicas
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.is_primary_with(0)
    }

    /// Whether the server follows a primary and has all of its data.
    pub(crate) fn is_synced_replica(&self) -> bool {
        let text = self.text(&["INFO", "replication"]);
        text.contains("role:slave") && text.contains("master_link_status:up")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(Running { mut keeper, orders, .. }) = self.running.take() {
            drop(orders);
            let _ = keeper.wait();
        } else {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// Servers that belong together; in a Cluster the primaries come first.
pub(crate) struct Servers {
    pub(crate) all: Vec<Server>,
    pub(crate) settings: Settings,
}

impl Servers {
    pub(crate) fn start(settings: Settings) -> Self {
        let root = root();
        let count = settings.primaries * (1 + settings.replicas_each);
        let all = (0..count).map(|number| Server::new(&root, number, settings)).collect();
        Self::of(all, settings)
    }

    /// The same on hosts of their own, one for each primary; the replica of a primary is on the next. `start`
    /// starts a server on a host; the caller must be where it can reach all.
    pub(crate) fn start_on(
        hosts: &[String],
        settings: Settings,
        start: impl Fn(usize, &mut Server),
    ) -> Self {
        let root = root();
        let mut all = Vec::new();
        for number in 0..settings.primaries * (1 + settings.replicas_each) {
            let (row, column) = (number / settings.primaries, number % settings.primaries);
            let host = (column + row) % hosts.len();
            let port = 7000 + u16::try_from(row).unwrap();
            let ports = (port, port + 10_000);
            let mut server = Server::at(&hosts[host], ports, &root, number, settings);
            start(host, &mut server);
            all.push(server);
        }
        Self::of(all, settings)
    }

    fn of(all: Vec<Server>, settings: Settings) -> Self {
        let servers = Self { all, settings };
        for server in &servers.all {
            wait_for("a server that answers", || server.try_ask(&["PING"]).is_some());
        }
        if settings.is_cluster {
            servers.form();
        }
        servers
    }

    /// Makes a Cluster of servers that do not know each other.
    fn form(&self) {
        let (primaries, replicas) = self.all.split_at(self.settings.primaries);
        for (number, server) in primaries.iter().enumerate() {
            let bound = |number: usize| (number * 16_384 / primaries.len()).to_string();
            let last = (number + 1) * 16_384 / primaries.len() - 1;
            server.ask(&["CLUSTER", "ADDSLOTSRANGE", &bound(number), &last.to_string()]);
            server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
        }
        let first = &self.all[0];
        for server in &self.all[1..] {
            let (port, bus) = (server.port.to_string(), server.bus_port.to_string());
            first.ask(&["CLUSTER", "MEET", &server.host, &port, &bus]);
        }
        let knows_all = |server: &Server| {
            let info = server.text(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok")
                && info.contains(&format!("cluster_known_nodes:{}", self.all.len()))
        };
        for server in &self.all {
            wait_for("all servers to know each other", || knows_all(server));
        }
        for (number, replica) in replicas.iter().enumerate() {
            let primary = primaries[number % primaries.len()].text(&["CLUSTER", "MYID"]);
            wait_for("a replica", || {
                replica.try_ask(&["CLUSTER", "REPLICATE", &primary]).is_some()
            });
        }
        for server in primaries {
            wait_for("replicas in sync", || server.is_primary_with(self.settings.replicas_each));
        }
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.all.iter().map(Server::url).collect()
    }

    /// Options for a store that no other test uses.
    pub(crate) fn options(&self) -> RedisOptions {
        static STORES: AtomicU32 = AtomicU32::new(0);
        RedisOptions {
            urls: self.all.iter().map(Server::engine_url).collect(),
            tls: self.settings.is_tls.then(|| RedisTls::Deployment(key().into())),
            store: format!("t{}", STORES.fetch_add(1, Ordering::Relaxed)),
            require_replica: self.settings.replicas_each > 0,
            ..RedisOptions::default()
        }
    }

    pub(crate) fn engine(&self) -> RedisEngine {
        RedisEngine::open(&self.options()).unwrap()
    }
}

/// One server that all tests of a file share.
pub(crate) fn single() -> &'static Servers {
    static SERVERS: LazyLock<Servers> = LazyLock::new(|| Servers::start(Settings::SINGLE));
    &SERVERS
}

/// One Cluster that all tests of a file share.
pub(crate) fn cluster() -> &'static Servers {
    static SERVERS: LazyLock<Servers> = LazyLock::new(|| Servers::start(Settings::CLUSTER));
    &SERVERS
}

/// A library that has a disk's syncs take longer, compiled from `slow_disk.c`. It stays for other runs of the tests.
fn slow_disk() -> &'static Path {
    static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
        // Examples use these servers too, and have no directory of their own for what tests make.
        let made =
            option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/slow_disk.c");
        let (partial, library) =
            (made.join(format!("slow_disk.{}", std::process::id())), made.join("slow_disk.so"));
        let compiled =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&partial, &source]).status();
        assert!(compiled.unwrap().success(), "{} cannot be compiled", source.display());
        std::fs::rename(partial, &library).unwrap();
        library
    });
    &LIBRARY
}

/// A certificate and its key, as a deployment has it.
fn key() -> &'static str {
    static KEY: LazyLock<String> = LazyLock::new(|| {
        let name = "node.intarsia.internal".to_owned();
        let made = rcgen::generate_simple_self_signed([name]).unwrap();
        made.cert.pem() + &made.signing_key.serialize_pem()
    });
    &KEY
}

/// A directory that goes with the last server in it.
fn root() -> PathBuf {
    tempfile::Builder::new().prefix("intarsia-redis-").tempdir().unwrap().keep()
}

/// Two ports that nobody uses now, below those that the kernel gives to outgoing connections.
pub(crate) fn free_ports() -> (u16, u16) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut free = (0..2000_u32).filter_map(|_| {
        let number =
            std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(10_000 + number % 20_000).unwrap();
        TcpListener::bind(("127.0.0.1", port)).ok().map(|_| port)
    });
    (free.next().unwrap(), free.next().unwrap())
}
