//! A store over several hosts that are reached by `ssh`: a real `sshd` at three addresses of the loopback network.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Answer, Place, has_fuse, is_root, wait_until};

const MOUNT: &str = "mnt-{host}";
const DIR: &str = "store-{host}";

/// Hosts `h1` to `h3` behind one `sshd`, and `h4`, which is down.
struct Hosts {
    place: Place,
    net: [u8; 2],
    port: u16,
    sshd: Child,
}

impl Hosts {
    /// `None` where there can be none and the test may be skipped.
    fn new() -> Option<Self> {
        let needed =
            ["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/setpriv", "/usr/bin/redis-server"];
        let missing = needed.iter().find(|program| !Path::new(program).exists());
        let why = match missing {
            Some(program) => format!("{program} is not installed"),
            None if !is_root() => "root is needed to run a server of logins".into(),
            None if !has_fuse() => return None,
            None => return Some(Self::start()),
        };
        let must = std::env::var_os("INTARSIA_TEST_REQUIRE_ALL").is_some_and(|v| v == "1");
        assert!(!must, "{why}, and INTARSIA_TEST_REQUIRE_ALL=1");
        eprintln!("SKIPPED: {why}");
        None
    }

    fn start() -> Self {
        let place = Place::new();
        let mut random = [0u8; 2];
        std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
        let net = [random[0] | 1, random[1]];
        let address = |n: u8| IpAddr::from([127, net[0], net[1], n]);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for key in ["host_key", "user_key"] {
            let mut made = Command::new("ssh-keygen");
            made.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(place.path(key));
            assert!(made.status().unwrap().success());
        }
        let listen = (1..=3).map(|n| format!("ListenAddress {}\n", address(n)));
        let configuration = format!(
            "Port {port}\n{}HostKey {}\nPidFile none\nUsePAM no\nStrictModes no\n\
             AuthorizedKeysFile {}\nPermitRootLogin prohibit-password\nMaxStartups 100\n\
             SetEnv INTARSIA_RUNTIME_DIR={}\n",
            listen.collect::<String>(),
            place.text("host_key"),
            place.text("user_key.pub"),
            place.text("run"),
        );
        std::fs::write(place.path("sshd_config"), configuration).unwrap();
        let alias = |n: u8| format!("Host h{n}\n  HostName {}\n", address(n));
        let client = format!(
            "{}Host *\n  Port {port}\n  IdentityFile {}\n  IdentitiesOnly yes\n  LogLevel ERROR\n\
             \n  StrictHostKeyChecking accept-new\n  UserKnownHostsFile {}\n",
            (1..=4).map(alias).collect::<String>(),
            place.text("user_key"),
            place.text("known_hosts"),
        );
        std::fs::write(place.path("ssh_config"), client).unwrap();
        std::fs::create_dir_all("/run/sshd").unwrap();
        let log = std::fs::File::create(place.path("sshd.log")).unwrap();
        // The kernel ends it even when the test is killed.
        let sshd = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "/usr/sbin/sshd", "-D", "-e", "-f"])
            .arg(place.path("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        wait_until("sshd", || TcpStream::connect((address(3), port)).is_ok());
        Self { place, net, port, sshd }
    }

    fn address(&self, n: u8) -> IpAddr {
        IpAddr::from([127, self.net[0], self.net[1], n])
    }

    /// A verb for these hosts, with more options of ssh.
    fn run_with(&self, ssh: &str, verb: &str, hosts: &str, more: &[&str]) -> Answer {
        let ssh = format!("ssh -F {} {ssh}", self.place.text("ssh_config"));
        let mount = self.place.text(MOUNT);
        let mut arguments = vec![verb, &mount, "--hosts", hosts, "--ssh", &ssh];
        arguments.extend(more);
        self.place.run(&arguments)
    }

    fn run(&self, verb: &str, hosts: &str, more: &[&str]) -> Answer {
        self.run_with("", verb, hosts, more)
    }

    fn up(&self, ssh: &str, hosts: &str, more: &[&str]) -> Answer {
        let dir = self.place.text(DIR);
        self.run_with(ssh, "up", hosts, &[&["--dir", &dir, "--wait", "60s"], more].concat())
    }

    /// That no attempt left a mount, a directory or a listener.
    #[track_caller]
    fn assert_nothing_is_left(&self) {
        for n in 1..=3 {
            for path in [format!("mnt-h{n}"), format!("store-h{n}/servers")] {
                assert!(!self.place.path(&path).exists(), "{path} was left behind");
            }
            for port in [7400, 7401, 7403] {
                TcpListener::bind((self.address(n), port)).unwrap();
            }
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = self.run("down", "h[1-3]", &["--force"]);
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

#[test]
fn a_store_over_hosts_reached_by_ssh_comes_and_goes_and_comes_again() {
    let Some(hosts) = Hosts::new() else { return };
    let plan = hosts.up("", "h[1-3]", &["--dry-run"]).code(0);
    plan.prints(&format!("on h2 ({}): make a new store in", hosts.address(2)));
    hosts.assert_nothing_is_left();

    let up = hosts.up("", "h[1-3]", &["--encrypt", "all"]).code(0);
    let up = up.says("The store is up on 3 hosts.");
    assert_eq!(up.out, format!("export INTARSIA_MOUNT={}\n", hosts.place.text("mnt-h1")));
    let file = |n: u8, name: &str| hosts.place.path(&format!("mnt-h{n}")).join(name);
    std::fs::write(file(1, "small"), "small").unwrap();
    std::fs::write(file(2, "large"), vec![7; 3 << 20]).unwrap();
    assert_eq!(std::fs::read(file(3, "small")).unwrap(), b"small");
    hosts.up("", "h[1-3]", &[]).code(4).says("already up");

    let table = hosts.run("status", "h[1-3]", &[]).code(0).prints("h3");
    assert_eq!(table.out.lines().count(), 4, "{}", table.out);
    let all = hosts.run("status", "h[1-3]", &["--json"]).code(0).json();
    assert_eq!((&all[1]["host"], &all[1]["state"]), (&"h2".into(), &"up".into()));
    // A host that does not answer is named, in time, and the others are shown.
    let begun = std::time::Instant::now();
    let table = hosts.run("status", "h[1-4]", &[]).code(3).prints("no answer").says("host h4");
    assert!(table.out.contains("h1") && begun.elapsed().as_secs() < 30);

    // Who has no key gets nothing: from a metadata server no word, from a node its preamble, which says that
    // all is encrypted.
    let ask = |port: u16, length: usize| {
        let mut stream = TcpStream::connect((hosts.address(2), port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"PING\r\n").unwrap();
        let mut answer = vec![0; length];
        let read = stream.read(&mut answer).unwrap_or(0);
        answer.truncate(read);
        answer
    };
    let answer = ask(7401, 64);
    assert!(!String::from_utf8_lossy(&answer).contains("NOAUTH"), "{answer:?}");
    assert_eq!(ask(7400, 16).get(10), Some(&2));

    // The secrets are the owner's alone, and on no command line.
    for name in ["deployment.toml", "secrets.toml", "key.pem"] {
        let path = hosts.place.path("store-h2/deployment").join(name);
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
    hosts.run("down", "h[1-3]", &[]).code(0).says("down on 3 hosts");
    assert!(!file(1, "small").exists());

    // A host that is not named is left out, and started later by the same command.
    hosts.up("", "h1,h2", &[]).code(0).says("lost until they are started again: h3");
    assert_eq!(std::fs::read(file(2, "large")).unwrap().len(), 3 << 20);
    hosts.up("", "h[1-3]", &[]).code(0).says("1 host started; the store is up on 3 hosts");
    hosts.run("down", "h[1-3]", &[]).code(0);
    hosts.up("", "h[1-3]", &["--dry-run"]).code(0).prints("open the store");
    hosts.up("", "h[1-3]", &[]).code(0);
    assert_eq!(std::fs::read(file(3, "small")).unwrap(), b"small");
    assert_eq!(std::fs::read(file(1, "large")).unwrap().len(), 3 << 20);
    hosts.run("down", "h[1-3]", &["--purge"]).code(0);
    hosts.assert_nothing_is_left();
    assert!(!hosts.place.path("store-h1").exists());
}

#[test]
fn a_host_in_the_way_is_named_with_the_fix_and_nothing_is_left() {
    let Some(hosts) = Hosts::new() else { return };
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_ne!(closed, hosts.port);
    hosts.up("", "h[1-4]", &[]).code(1).says("host h4").says("no sshd listens there");
    hosts.up(&format!("-p {closed}"), "h[1-3]", &[]).code(1).says("host h2").says("-p PORT");
    let keyless = "-o PubkeyAuthentication=no";
    hosts.up(keyless, "h[1-2]", &[]).code(1).says("host h1").says("ssh-copy-id");
    let unknown = "-o StrictHostKeyChecking=yes -o UserKnownHostsFile=/dev/null";
    hosts.up(unknown, "h[1-2]", &[]).code(1).says("host h2").says("log in once");
    hosts.up("", "h1,no-such-host", &[]).code(2).says("host no-such-host has no address");
    let refused = hosts.place.run(&["up", "--hosts", "h1", "--ssh", "ssh 'open"]);
    refused.code(2).says("'ssh 'open' is no command");
    hosts.assert_nothing_is_left();

    let taken = TcpListener::bind((hosts.address(2), 7401)).unwrap();
    let answer = hosts.up("", "h[1-3]", &[]).code(1).says("host h2: port 7401").says("--port");
    assert!(!answer.err.contains("host h1"), "{}", answer.err);
    drop(taken);
    std::fs::create_dir(hosts.place.path("mnt-h3")).unwrap();
    std::fs::write(hosts.place.path("mnt-h3/file"), "x").unwrap();
    hosts.up("", "h[1-3]", &[]).says("host h3").says("--nonempty");
    std::fs::remove_dir_all(hosts.place.path("mnt-h3")).unwrap();
    hosts.assert_nothing_is_left();
}

#[test]
fn a_store_of_a_job_over_ssh_ends_with_its_launcher() {
    let Some(hosts) = Hosts::new() else { return };
    // As PBS names them: once for each slot.
    std::fs::write(hosts.place.path("nodes"), "h1\nh1\nh2\nh3\nh3\n").unwrap();
    let ssh = format!("ssh -F {}", hosts.place.text("ssh_config"));
    let (mount, dir) = (hosts.place.text(MOUNT), hosts.place.text(DIR));
    let mut up = hosts.place.command(&["up", &mount, "--dir", &dir, "--wait", "60s", "--discard"]);
    up.env("PBS_NODEFILE", hosts.place.path("nodes")).env("INTARSIA_SSH", &ssh);
    Answer::of(&mut up).code(0).says("up on 3 hosts, until the job ends");
    std::fs::write(hosts.place.path("mnt-h1/file"), "content").unwrap();
    assert_eq!(std::fs::read(hosts.place.path("mnt-h3/file")).unwrap(), b"content");

    let run = format!("INTARSIA_RUNTIME_DIR={}", hosts.place.text("run"));
    let read = |pid: &str, name: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = entries.filter_map(|e| e.file_name().into_string().ok());
    let launcher = pids.find(|pid| {
        read(pid, "cmdline").ends_with("\0launcher\0") && read(pid, "environ").contains(&run)
    });
    let launcher = launcher.unwrap();
    assert!(Command::new("kill").args(["-9", &launcher]).status().unwrap().success());
    for n in 1..=3 {
        let store = hosts.place.path(&format!("store-h{n}"));
        common::wait_longer("the end of the store", Duration::from_secs(120), || !store.exists());
    }
    hosts.assert_nothing_is_left();
}
