//! Clusters out of real servers on the loopback network.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use std::thread;
use std::time::{Duration, Instant};

use common::{Fleet, PATIENCE, program, wait_for};
use intarsia_cluster::claim::Claim;
use intarsia_cluster::client::Connection;
use intarsia_cluster::deployment::ServerName;
use intarsia_cluster::formation::form;
use intarsia_cluster::servers::{self, Server, Start};
use intarsia_cluster::topology::{Role, Topology};
use intarsia_types::{Durability, NodeId};
use rustix::process::Signal;

fn view(fleet: &Fleet, host: usize) -> Topology {
    let address = fleet.deployment.members[host].server(0).unwrap();
    Topology::ask(&mut fleet.keeper().connect(&address).unwrap()).unwrap()
}

/// Each primary with its host and the hosts of its replicas.
fn shards(fleet: &Fleet) -> Vec<(NodeId, Vec<NodeId>)> {
    let view = view(fleet, 0);
    let host = |ip, port| fleet.deployment.server_at(ip, port).unwrap().host;
    view.primaries()
        .into_iter()
        .map(|p| {
            let replicas = view.replicas_of(&p.id).map(|r| host(r.address.ip, r.address.port));
            (host(p.address.ip, p.address.port), replicas.collect())
        })
        .collect()
}

#[test]
fn one_to_four_hosts_form_a_whole_cluster() {
    if program().is_none() {
        return;
    }
    for hosts in 1..=4u8 {
        let fleet = Fleet::new(hosts);
        let started = Instant::now();
        let servers = fleet.start_servers(Start::Empty);
        form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
        eprintln!("{hosts} hosts: whole after {:?}", started.elapsed());
        let shards = shards(&fleet);
        assert_eq!(shards.len(), usize::from(hosts));
        for (i, (primary, replicas)) in shards.iter().enumerate() {
            assert_eq!(*primary, fleet.host(i));
            if hosts > 1 {
                let next = fleet.host((i + 1) % usize::from(hosts));
                assert_eq!(*replicas, [next], "host {i}");
            }
        }
        let before = view(&fleet, 0);
        form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
        let after = view(&fleet, 0);
        for peer in before.peers() {
            let again = after.by_id(&peer.id).unwrap();
            assert_eq!((&again.role, again.config_epoch), (&peer.role, peer.config_epoch));
        }
        assert_eq!(before.peers().len(), after.peers().len());
        drop(servers);
    }
}

#[test]
fn a_missing_server_is_named() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::new(3);
    let mut servers = fleet.start_servers(Start::Empty);
    let gone = servers.remove(3);
    let name = gone.name().clone();
    gone.stop().unwrap();
    let message = form(&fleet.deployment, &fleet.keeper(), Duration::from_millis(500))
        .unwrap_err()
        .to_string();
    assert!(message.contains(&name.to_string()), "{name} is missing in: {message}");
}

#[test]
fn only_who_has_the_password_gets_something_and_a_node_cannot_administer() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::new(1);
    let _servers = fleet.start_servers(Start::Empty);
    form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
    let address = fleet.deployment.members[0].server(0).unwrap();
    let mut stranger = fleet.client();
    stranger.password = intarsia_cluster::secrets::Secret::random().unwrap();
    assert!(stranger.connect(&address).is_err());

    // Who names no user is the default user, which is off.
    let mut nobody = std::net::TcpStream::connect((address.ip, address.port)).unwrap();
    for command in ["GET k", "CLUSTER NODES", "AUTH default ", "AUTH x"] {
        std::io::Write::write_all(&mut nobody, format!("{command}\r\n").as_bytes()).unwrap();
        let mut answer = [0u8; 256];
        let length = std::io::Read::read(&mut nobody, &mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(answer.starts_with('-') && !answer.contains("MOVED"), "{command}: {answer}");
    }

    let mut node = fleet.client().connect(&address).unwrap();
    node.ask::<()>(&["SET", "k", "v"]).unwrap();
    assert_eq!(node.ask::<String>(&["GET", "k"]).unwrap(), "v");
    let script = "return redis.call('GET', KEYS[1])";
    assert_eq!(node.ask::<String>(&["EVAL", script, "1", "k"]).unwrap(), "v");
    let library = "#!lua name=l\nredis.register_function('f', function(k) return redis.call('GET', k[1]) end)";
    node.ask::<String>(&["FUNCTION", "LOAD", "REPLACE", library]).unwrap();
    assert_eq!(node.ask::<String>(&["FCALL", "f", "1", "k"]).unwrap(), "v");
    assert_eq!(node.ask::<u32>(&["WAIT", "0", "1"]).unwrap(), 0);
    for allowed in [&["CLUSTER", "NODES"][..], &["CLUSTER", "INFO"], &["INFO"]] {
        node.ask::<String>(allowed).unwrap();
    }
    node.ask::<redis::Value>(&["CLUSTER", "SLOTS"]).unwrap();
    for refused in [
        &["FLUSHALL"][..],
        &["CONFIG", "GET", "masterauth"],
        &["CLUSTER", "RESET"],
        &["CLUSTER", "FAILOVER", "TAKEOVER"],
        &["SHUTDOWN"],
        &["KEYS", "*"],
        &["FUNCTION", "FLUSH"],
        &["ACL", "LIST"],
        &["DEBUG", "SLEEP", "0"],
        &["REPLICAOF", "NO", "ONE"],
    ] {
        refuses(&mut node, refused);
    }
    let mut keeper = fleet.keeper().connect(&address).unwrap();
    refuses(&mut keeper, &["GET", "k"]);
    refuses(&mut keeper, &["FLUSHALL"]);
}

#[track_caller]
fn refuses(connection: &mut Connection, words: &[&str]) {
    let message = connection.ask::<redis::Value>(words).unwrap_err().to_string();
    assert!(
        ["NOPERM", "no permissions", "not allowed"].iter().any(|word| message.contains(word)),
        "{words:?}: {message}"
    );
}

#[test]
fn a_server_listens_at_its_address_only() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::new(1);
    let servers = fleet.start_servers(Start::Empty);
    let listening = listening_addresses(servers[0].process().pid);
    let ip = fleet.deployment.members[0].address;
    let address = servers[0].address();
    let expected = [(ip, address.port), (ip, address.bus_port)];
    assert_eq!(listening, expected.into_iter().collect());
}

/// Addresses of the listening sockets of a process, as `/proc` shows them.
fn listening_addresses(pid: u32) -> std::collections::BTreeSet<(std::net::IpAddr, u16)> {
    let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|e| std::fs::read_link(e.path()).ok()?.to_str().map(str::to_owned))
        .filter_map(|l| Some(l.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut found = std::collections::BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words[3] != "0A" || !sockets.iter().any(|s| s == words[9]) {
                continue;
            }
            assert_eq!(table, "tcp", "a listening IPv6 socket: {line}");
            let (ip, port) = words[1].split_once(':').unwrap();
            let ip = u32::from_str_radix(ip, 16).unwrap().to_le_bytes();
            found.insert((ip.into(), u16::from_str_radix(port, 16).unwrap()));
        }
    }
    found
}

#[test]
fn a_deployment_that_was_stopped_comes_back_with_its_data() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::with_durability(3, Durability::Sync);
    let servers = fleet.start_servers(Start::Empty);
    form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
    let key = "{a}k";
    let owner = |fleet: &Fleet| {
        (0..3)
            .find_map(|host| {
                let address = fleet.deployment.members[host].server(0).unwrap();
                let mut connection = fleet.client().connect(&address).unwrap();
                connection.ask::<Option<String>>(&["GET", key]).is_ok().then_some(connection)
            })
            .unwrap()
    };
    owner(&fleet).ask::<()>(&["SET", key, "kept"]).unwrap();
    drop(servers);
    fleet.stop_all();
    let _servers = fleet.start_servers(Start::Kept);
    form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
    assert_eq!(owner(&fleet).ask::<String>(&["GET", key]).unwrap(), "kept");
}

/// A fleet of one host with a server that answers.
fn one_server() -> (Fleet, ServerName, servers::Server) {
    let fleet = Fleet::new(1);
    let name = ServerName { host: fleet.host(0), number: 0 };
    let mut server = fleet.start_server(&name, Start::Empty);
    server.wait_until_answering(&fleet.keeper(), PATIENCE).unwrap();
    (fleet, name, server)
}

#[test]
fn a_directory_has_one_server_and_its_record_finds_it() {
    if program().is_none() {
        return;
    }
    let (fleet, name, mut server) = one_server();
    let again = servers::Server::start(
        program().unwrap(),
        name.clone(),
        &fleet.settings(&name),
        Start::Empty,
    );
    assert!(again.unwrap_err().to_string().contains("runs already"));
    let adopted = servers::Server::adopt(name.clone(), *server.address(), server.dir()).unwrap();
    assert_eq!(adopted.process(), server.process());
    assert_eq!(servers::stop_all(&fleet.host_dir(&name.host)).unwrap(), 1);
    assert!(!server.is_running());
    assert!(servers::Server::adopt(name, *server.address(), server.dir()).is_none());
    assert_eq!(servers::stop_all(&fleet.host_dir(&fleet.host(0))).unwrap(), 0);
}

#[test]
fn a_server_starts_again_although_a_child_of_the_dead_one_is_there_for_a_moment() {
    if program().is_none() {
        return;
    }
    let (fleet, name, mut server) = one_server();
    server.process().signal(Signal::KILL);
    wait_for("the end of the server", || (!server.is_running()).then_some(()));
    // A child that rewrites the log holds the lock of its parent, until it notices that this is gone.
    let claim = Claim::take(&server.dir().join("server.lock"), "rewriting", PATIENCE).unwrap();
    thread::scope(|scope| {
        let again = scope.spawn(|| fleet.start_server(&name, Start::Kept));
        thread::sleep(Duration::from_millis(500));
        assert!(!again.is_finished());
        drop(claim);
        let mut again = again.join().unwrap();
        again.wait_until_answering(&fleet.keeper(), PATIENCE).unwrap();
    });
}

#[test]
fn a_server_whose_directory_was_removed_is_found_and_stopped() {
    if program().is_none() {
        return;
    }
    let (fleet, name, mut server) = one_server();
    let parent = fleet.host_dir(&name.host);
    std::fs::remove_dir_all(&parent).unwrap();
    assert!(servers::is_any_running(&parent));
    assert_eq!(servers::stop_all(&parent).unwrap(), 1);
    assert!(!server.is_running() && !servers::is_any_running(&parent));
}

#[test]
fn a_server_that_cannot_start_says_why() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::new(1);
    let name = ServerName { host: fleet.host(0), number: 0 };
    let address = fleet.deployment.members[0].server(0).unwrap();
    let _taken = std::net::TcpListener::bind((address.ip, address.port)).unwrap();
    let started =
        Server::start(program().unwrap(), name.clone(), &fleet.settings(&name), Start::Empty);
    // It has ended by the time that its start is looked at, or soon after.
    let answers = |mut server: Server| server.wait_until_answering(&fleet.keeper(), PATIENCE);
    let message = started.and_then(answers).err().unwrap().to_string();
    assert!(message.contains("ended"), "{message}");
    assert!(message.contains("Address already in use"), "{message}");
    assert!(message.contains("server 0 of host n1"), "{message}");
}

#[test]
fn roles_of_a_formed_cluster_are_what_the_servers_say() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::new(2);
    let _servers = fleet.start_servers(Start::Empty);
    form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
    let view = view(&fleet, 1);
    let replicas = view.peers().iter().filter(|p| matches!(p.role, Role::Replica(_))).count();
    assert_eq!((view.primaries().len(), replicas), (2, 2));
    assert_eq!(view.assigned_slots(), 16_384);
}

#[test]
fn with_tls_nobody_without_the_certificate_gets_anything() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::with_tls(2);
    let _servers = fleet.start_servers(Start::Empty);
    form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
    assert_eq!(view(&fleet, 0).primaries().len(), 2);
    let address = fleet.deployment.members[0].server(0).unwrap();
    let mut plain = fleet.keeper();
    plain.key_file = None;
    assert!(plain.connect(&address).is_err());
    let stranger = Fleet::with_tls(2);
    let mut other = fleet.keeper();
    other.key_file = stranger.key_file.clone();
    assert!(other.connect(&address).is_err(), "a certificate of another deployment");
    // The servers' own messages: a plain one gets no answer.
    let bus = std::net::TcpStream::connect((address.ip, address.bus_port)).unwrap();
    bus.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    std::io::Write::write_all(&mut &bus, b"RCmb\0\0\0\0").unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut &bus, &mut answer);
    assert!(!answer.starts_with(b"RCmb"), "{answer:?}");
}

#[test]
fn a_server_that_is_slow_for_once_does_not_end_the_forming() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::new(3);
    let servers = fleet.start_servers(Start::Empty);
    let slow = ServerName { host: fleet.host(1), number: 0 };
    let slow = servers.iter().find(|server| *server.name() == slow).unwrap();
    thread::scope(|scope| {
        let forming = scope.spawn(|| form(&fleet.deployment, &fleet.keeper(), PATIENCE));
        wait_for("the first introductions", || (view(&fleet, 0).peers().len() > 1).then_some(()));
        slow.process().signal(Signal::STOP);
        // Longer than an answer is waited for otherwise.
        thread::sleep(Duration::from_secs(4));
        slow.process().signal(Signal::CONT);
        forming.join().unwrap().unwrap();
    });
    assert_eq!(shards(&fleet).len(), 3);
}
