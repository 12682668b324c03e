//! Servers that die under watch, while a client writes: real processes on the loopback network.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::{Fleet, PATIENCE, program, wait_for};
use intarsia_cluster::client::{Access, Connection};
use intarsia_cluster::deployment::{Deployment, ServerAddress, ServerName};
use intarsia_cluster::formation::{form, servers_per_host};
use intarsia_cluster::process::Process;
use intarsia_cluster::servers::{self, Server, Start};
use intarsia_cluster::supervision::{Begin, ServerState, Supervisor, go_over};
use intarsia_cluster::survey::Survey;
use intarsia_cluster::topology::{Role, ServerId, Topology};
use intarsia_types::NodeId;
use rustix::process::Signal;

const REPLACE_AFTER: Duration = Duration::from_secs(3);

/// A fleet under watch.
struct Watched {
    supervisors: HashMap<NodeId, Supervisor>,
    fleet: Fleet,
}

impl Watched {
    fn new(hosts: u8) -> Self {
        let fleet = Fleet::new(hosts);
        let supervisors = fleet
            .deployment
            .members
            .iter()
            .map(|m| (m.name.clone(), watch(&fleet, &m.name, Begin::Form(Start::Empty))))
            .collect();
        form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
        Self { supervisors, fleet }
    }

    fn process(&self, name: &ServerName) -> Option<Process> {
        self.fleet.process(name)
    }

    fn kill(&self, name: &ServerName) {
        let process = self.process(name).unwrap();
        process.signal(Signal::KILL);
        assert!(process.wait_until_gone(PATIENCE));
    }

    fn survey(&self) -> Option<Survey> {
        Survey::take(&self.fleet.deployment, &self.fleet.keeper()).ok()
    }

    fn view(&self) -> Option<Topology> {
        addresses(&self.fleet.deployment)
            .iter()
            .find_map(|address| Topology::ask(&mut self.fleet.keeper().connect(address).ok()?).ok())
    }

    /// Waits until every shard has a primary and a replica in sync, and all servers serve and may be elected.
    fn wait_until_whole(&self, replicas: usize) -> Survey {
        wait_for("a whole Cluster", || {
            let states = self.supervisors.values().flat_map(Supervisor::states);
            let is_serving = states.into_iter().all(|(_, s)| s == ServerState::Serving);
            let is_serving = is_serving && !self.view()?.peers().iter().any(|p| p.is_barred);
            let survey = self.survey().filter(|s| s.is_whole() && is_serving)?;
            let synced = survey.shards.iter().flat_map(|s| &s.replicas).filter(|r| r.is_in_sync);
            (synced.count() >= replicas).then_some(survey)
        })
    }

    /// The server that holds slot 0, and its name in the Cluster.
    fn first_primary(&self) -> (ServerName, ServerId) {
        let view = self.view().unwrap();
        let peer = view.primaries()[0];
        let name = self.fleet.deployment.server_at(peer.address.ip, peer.address.port).unwrap();
        (name, peer.id.clone())
    }

    fn primaries_per_host(&self) -> Vec<usize> {
        let Some(view) = self.view() else { return vec![] };
        let hosts: Vec<NodeId> = view
            .primaries()
            .iter()
            .map(|p| self.fleet.deployment.server_at(p.address.ip, p.address.port).unwrap().host)
            .collect();
        let members = &self.fleet.deployment.members;
        members.iter().map(|m| hosts.iter().filter(|h| **h == m.name).count()).collect()
    }
}

fn watch(fleet: &Fleet, host: &NodeId, begin: Begin) -> Supervisor {
    common::watch(fleet, host, begin, REPLACE_AFTER)
}

fn addresses(deployment: &Deployment) -> Vec<ServerAddress> {
    let numbers = 0..4;
    let members = deployment.members.iter();
    members.flat_map(|m| numbers.clone().map(|n| m.server(n).unwrap())).collect()
}

/// Writes to the first shard without pause, and remembers what was acknowledged: answered, and
/// confirmed by a replica.
struct Writer {
    stop: Arc<AtomicBool>,
    /// How many writes were acknowledged so far.
    count: Arc<AtomicUsize>,
    thread: JoinHandle<(Vec<u32>, Duration)>,
}

const TAG: &str = "{b}";

impl Writer {
    /// Its first write is acknowledged when this returns.
    fn start(fleet: &Fleet) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicUsize::new(0));
        let (access, all) = (fleet.client(), addresses(&fleet.deployment));
        let (is_stopped, counted) = (Arc::clone(&stop), Arc::clone(&count));
        let thread = std::thread::spawn(move || {
            let mut connection = None;
            let mut acknowledged = Vec::new();
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            let mut number = 0u32;
            while !is_stopped.load(Ordering::Relaxed) {
                number += 1;
                let mut open = connection.take().or_else(|| find_primary(&access, &all));
                let Some(c) = &mut open else { continue };
                let (key, value) = (format!("{TAG}{number}"), number.to_string());
                let written = c.ask::<()>(&["SET", &key, &value]).is_ok()
                    && c.ask::<u32>(&["WAIT", "1", "1000"]).is_ok_and(|n| n >= 1);
                if written {
                    acknowledged.push(number);
                    counted.store(acknowledged.len(), Ordering::Relaxed);
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                    connection = open;
                } else {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            (acknowledged, longest)
        });
        let writer = Self { stop, count, thread };
        writer.wait_for_another();
        writer
    }

    /// Waits until one more write than now is acknowledged.
    fn wait_for_another(&self) {
        let before = self.count.load(Ordering::Relaxed);
        wait_for("a write", || (self.count.load(Ordering::Relaxed) > before).then_some(()));
    }

    /// What was acknowledged, one write from now on among it, and the longest time without.
    fn finish(self) -> (Vec<u32>, Duration) {
        self.wait_for_another();
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// A server that takes a write to the first shard.
fn find_primary(access: &Access, all: &[ServerAddress]) -> Option<Connection> {
    all.iter().find_map(|address| {
        let mut connection = access.connect(address).ok()?;
        connection.ask::<()>(&["SET", &format!("{TAG}probe"), "x"]).ok()?;
        Some(connection)
    })
}

#[track_caller]
fn assert_nothing_is_lost(fleet: &Fleet, acknowledged: &[u32]) {
    let (access, all) = (fleet.client(), addresses(&fleet.deployment));
    let mut primary = None;
    // Primaries still move back to the host that had none.
    let mut read = |n: u32| {
        wait_for("a primary", || {
            let mut open = primary.take().or_else(|| find_primary(&access, &all))?;
            let value = open.ask::<Option<String>>(&["GET", &format!("{TAG}{n}")]).ok()?;
            primary = Some(open);
            Some(value)
        })
    };
    let lost: Vec<u32> =
        acknowledged.iter().copied().filter(|&n| read(n) != Some(n.to_string())).collect();
    assert!(
        lost.is_empty(),
        "{} of {} acknowledged writes are lost",
        lost.len(),
        acknowledged.len()
    );
    assert!(!acknowledged.is_empty());
}

#[test]
fn a_killed_primary_returns_empty_as_a_replica_twice_in_a_row() {
    if program().is_none() {
        return;
    }
    let watched = Watched::new(3);
    assert_eq!(
        watched
            .fleet
            .keeper()
            .connect(&addresses(&watched.fleet.deployment)[0])
            .unwrap()
            .ask::<u16>(&["CLUSTER", "KEYSLOT", TAG])
            .unwrap()
            / 5461,
        0,
        "{TAG} is of the first shard"
    );
    for round in 0..2 {
        let writer = Writer::start(&watched.fleet);
        let (name, id) = watched.first_primary();
        let started = Instant::now();
        watched.kill(&name);
        let promoted = wait_for("a promotion", || {
            let view = watched.view()?;
            let primary = view.primaries().first().copied().cloned();
            primary.filter(|p| p.id != id && p.has_slots() && p.slot_count() > 5000)
        });
        let (old_address, promoted_after) =
            (watched.fleet.settings(&name).address, started.elapsed());
        assert_ne!(promoted.address, old_address, "it never goes on where it was");
        watched.wait_until_whole(3);
        let whole_after = started.elapsed();
        let (acknowledged, longest) = writer.finish();
        eprintln!(
            "round {round}: promoted after {promoted_after:?}, whole after {whole_after:?}, \
             {} acknowledged, longest pause {longest:?}",
            acknowledged.len()
        );
        assert_nothing_is_lost(&watched.fleet, &acknowledged);
        let view = watched.view().unwrap();
        let back = view.by_address(old_address.ip, old_address.port).unwrap();
        assert_ne!(back.id, id, "it has a new name");
        wait_for("one primary on each host", || {
            (watched.primaries_per_host() == [1, 1, 1]).then_some(())
        });
        wait_for("the old name forgotten", || watched.view()?.by_id(&id).is_none().then_some(()));
        watched.wait_until_whole(3);
        assert_nothing_is_lost(&watched.fleet, &acknowledged);
    }
}

/// What the neighbour knows decides nothing alone: it may have heard of a take-over too late, or of the server not yet.
#[test]
fn a_killed_primary_that_its_neighbour_does_not_know_keeps_its_slots() {
    if program().is_none() {
        return;
    }
    let watched = Watched::new(3);
    let writer = Writer::start(&watched.fleet);
    let (name, id) = watched.first_primary();
    let neighbour = ServerName { host: name.host.clone(), number: 1 - name.number };
    let neighbour = watched.fleet.settings(&neighbour).address;
    let mut connection = watched.fleet.keeper().connect(&neighbour).unwrap();
    connection.ask::<()>(&["CLUSTER", "FORGET", &id.0]).unwrap();
    watched.kill(&name);
    watched.wait_until_whole(3);
    let (acknowledged, _) = writer.finish();
    assert_nothing_is_lost(&watched.fleet, &acknowledged);
}

#[test]
fn a_killed_replica_comes_back_in_sync() {
    if program().is_none() {
        return;
    }
    let watched = Watched::new(3);
    let writer = Writer::start(&watched.fleet);
    let (primary, _) = watched.first_primary();
    let name = ServerName { host: watched.fleet.host(1), number: 1 };
    let before = watched.process(&name).unwrap();
    watched.kill(&name);
    wait_for("another process", || watched.process(&name).filter(|p| *p != before));
    watched.wait_until_whole(3);
    assert_eq!(watched.first_primary().0, primary, "the primary was left alone");
    let (acknowledged, _) = writer.finish();
    assert_nothing_is_lost(&watched.fleet, &acknowledged);
}

#[test]
fn both_servers_of_a_host_come_back() {
    if program().is_none() {
        return;
    }
    let watched = Watched::new(3);
    let writer = Writer::start(&watched.fleet);
    for number in 0..2 {
        watched.kill(&ServerName { host: watched.fleet.host(0), number });
    }
    let started = Instant::now();
    wait_for("one primary on each host", || {
        (watched.survey()?.is_whole() && watched.primaries_per_host() == [1, 1, 1]).then_some(())
    });
    watched.wait_until_whole(3);
    eprintln!("both of a host: whole and even after {:?}", started.elapsed());
    let (acknowledged, _) = writer.finish();
    assert_nothing_is_lost(&watched.fleet, &acknowledged);
}

#[test]
fn with_two_hosts_the_only_replica_takes_over_from_a_dead_process() {
    if program().is_none() {
        return;
    }
    let watched = Watched::new(2);
    let writer = Writer::start(&watched.fleet);
    let (name, id) = watched.first_primary();
    let started = Instant::now();
    watched.kill(&name);
    wait_for("a takeover", || {
        let view = watched.view()?;
        view.primaries().first().is_some_and(|p| p.id != id).then_some(())
    });
    eprintln!("two hosts: taken over after {:?}", started.elapsed());
    watched.wait_until_whole(2);
    let (acknowledged, longest) = writer.finish();
    eprintln!("two hosts: longest pause {longest:?}");
    assert_nothing_is_lost(&watched.fleet, &acknowledged);
}

#[test]
fn alone_a_server_starts_again_with_its_data() {
    if program().is_none() {
        return;
    }
    let watched = Watched::new(1);
    let name = ServerName { host: watched.fleet.host(0), number: 0 };
    let address = watched.fleet.settings(&name).address;
    let mut client = watched.fleet.client().connect(&address).unwrap();
    for n in 0..500u32 {
        client.ask::<()>(&["SET", &n.to_string(), "v"]).unwrap();
    }
    watched.kill(&name);
    let mut client = wait_for("a server", || {
        let mut client = watched.fleet.client().connect(&address).ok()?;
        client.ask::<Option<String>>(&["GET", "0"]).ok().map(|_| client)
    });
    for n in 0..500u32 {
        assert_eq!(client.ask::<String>(&["GET", &n.to_string()]).unwrap(), "v", "{n}");
    }
}

#[test]
fn a_lost_host_is_made_up_for_and_may_come_back() {
    if program().is_none() {
        return;
    }
    let mut watched = Watched::new(3);
    let writer = Writer::start(&watched.fleet);
    let lost = watched.fleet.host(0);
    drop(watched.supervisors.remove(&lost));
    for number in 0..servers_per_host(&watched.fleet.deployment) {
        watched.kill(&ServerName { host: lost.clone(), number });
    }
    let started = Instant::now();
    let survey = watched.wait_until_whole(3);
    eprintln!("host lost: whole again after {:?}", started.elapsed());
    for shard in &survey.shards {
        let host = |server: &str| server.split('/').next().unwrap().to_owned();
        assert_ne!(host(&shard.primary.server), lost.0);
        let home = host(&shard.primary.server);
        let synced = shard.replicas.iter().filter(|r| r.is_in_sync);
        assert!(synced.clone().count() > 0);
        assert!(synced.clone().all(|r| host(&r.place.server) != home), "{shard:?}");
    }
    let supervisor = watch(&watched.fleet, &lost, Begin::Join);
    watched.supervisors.insert(lost, supervisor);
    wait_for("one primary on each host", || {
        (watched.primaries_per_host() == [1, 1, 1]).then_some(())
    });
    wait_for("the extra servers gone", || {
        let states: Vec<_> = watched.supervisors.values().flat_map(Supervisor::states).collect();
        (states.len() == 6).then_some(())
    });
    watched.wait_until_whole(3);
    let (acknowledged, _) = writer.finish();
    assert_nothing_is_lost(&watched.fleet, &acknowledged);
}

/// Its host is away, the voters were away with it for longer than a replica stands for election by itself (30 s), and
/// of two replicas neither is the sole one.
#[test]
fn of_two_replicas_one_takes_over_although_both_have_been_without_their_primary_for_long() {
    if program().is_none() {
        return;
    }
    let mut watched = Watched::new(3);
    watched.wait_until_whole(3);
    let access = watched.fleet.keeper();
    watched.supervisors.clear();
    let view = watched.view().unwrap();
    let dead = watched.fleet.settings(&server(&watched, 0, 0)).address;
    let dead = view.by_address(dead.ip, dead.port).unwrap().id.clone();
    // The host that has no replica of the first shard gives its own for it.
    let spare = [1, 2].map(|host| watched.fleet.settings(&server(&watched, host, 1)).address);
    for address in spare {
        let peer = view.by_address(address.ip, address.port).unwrap();
        if !peer.is_replica_of(&dead) {
            access
                .connect(&address)
                .unwrap()
                .ask::<()>(&["CLUSTER", "REPLICATE", &dead.0])
                .unwrap();
        }
    }
    wait_for("two replicas in sync", || {
        let is_synced = |address: &ServerAddress| {
            let mut connection = access.connect(address).ok()?;
            let fields = connection.fields(&["INFO", "replication"]).ok()?;
            (fields.get("master_link_status") == Some("up")).then_some(())
        };
        spare.iter().all(|address| is_synced(address).is_some()).then_some(())
    });
    let voters = [1, 2].map(|host| watched.process(&server(&watched, host, 0)).unwrap());
    voters.iter().for_each(|voter| voter.signal(Signal::STOP));
    for number in 0..2 {
        watched.kill(&server(&watched, 0, number));
    }
    let too_long = |address: &ServerAddress| {
        let fields = access.connect(address).ok()?.fields(&["INFO", "replication"]).ok()?;
        fields.number("master_link_down_since_seconds").filter(|seconds| *seconds > 32)
    };
    wait_for("replicas that are too old", || {
        spare.iter().all(|a| too_long(a).is_some()).then_some(())
    });
    voters.iter().for_each(|voter| voter.signal(Signal::CONT));
    for host in [1, 2] {
        let name = watched.fleet.host(host);
        let again = watch(&watched.fleet, &name, Begin::Form(Start::Kept));
        watched.supervisors.insert(name, again);
    }
    let started = Instant::now();
    wait_for("a successor", || {
        let view = watched.view()?;
        let is_held = view.primaries().iter().all(|p| p.id != dead) && view.primaries().len() == 3;
        is_held.then_some(())
    });
    eprintln!("two old replicas: taken over {:?} after the voters came back", started.elapsed());
}

fn server(watched: &Watched, host: usize, number: u16) -> ServerName {
    ServerName { host: watched.fleet.host(host), number }
}

#[test]
fn servers_outlive_their_watch_and_are_taken_over_by_the_next() {
    if program().is_none() {
        return;
    }
    let mut watched = Watched::new(2);
    let host = watched.fleet.host(0);
    let name = ServerName { host: host.clone(), number: 0 };
    let before = watched.process(&name).unwrap();
    drop(watched.supervisors.remove(&host));
    assert!(before.is_running());
    watched.supervisors.insert(host.clone(), watch(&watched.fleet, &host, Begin::Join));
    watched.wait_until_whole(2);
    assert_eq!(watched.process(&name), Some(before.clone()));
    watched.supervisors.remove(&host).unwrap().stop().unwrap();
    assert!(!before.is_running());
}

/// The node of a host ends; its servers stay, but for one that died and was started empty.
fn with_an_empty_server() -> (Watched, ServerName, Server) {
    let mut watched = Watched::new(3);
    watched.wait_until_whole(3);
    let host = watched.fleet.host(2);
    // Nobody is to make up for it meanwhile.
    watched.supervisors.clear();
    let name = ServerName { host, number: 1 };
    watched.kill(&name);
    let empty = watched.fleet.start_server(&name, Start::Empty);
    (watched, name, empty)
}

/// The next node of the host brings the server into the Cluster, as a replica.
fn assert_comes_back(watched: &mut Watched, name: &ServerName) {
    let again = watch(&watched.fleet, &name.host, Begin::Form(Start::Kept));
    watched.supervisors.insert(name.host.clone(), again);
    let survey = watched.wait_until_whole(3);
    let place = format!("{}/1", name.host);
    let mut replicas = survey.shards.iter().flat_map(|s| &s.replicas);
    assert!(replicas.any(|r| r.place.server == place), "{survey:?}");
}

#[test]
fn a_server_that_was_on_its_way_back_when_its_node_ended_comes_back_with_the_next() {
    if program().is_none() {
        return;
    }
    let (mut watched, name, empty) = with_an_empty_server();
    assert_comes_back(&mut watched, &name);
    drop(empty);
}

#[test]
fn a_server_that_was_on_its_way_back_when_it_was_stopped_comes_back_when_it_is_started() {
    if program().is_none() {
        return;
    }
    let (mut watched, name, mut empty) = with_an_empty_server();
    empty.wait_until_answering(&watched.fleet.keeper(), PATIENCE).unwrap();
    empty.stop().unwrap();
    assert_comes_back(&mut watched, &name);
}

#[test]
fn a_host_none_of_whose_servers_has_a_place_brings_them_back() {
    if program().is_none() {
        return;
    }
    let mut watched = Watched::new(4);
    watched.wait_until_whole(4);
    let host = watched.fleet.host(3);
    drop(watched.supervisors.remove(&host));
    let both = [0, 1].map(|number| ServerName { host: host.clone(), number });
    both.iter().for_each(|name| watched.kill(name));
    wait_for("successors", || watched.survey().filter(Survey::is_whole));
    let both = both.map(|name| watched.fleet.start_server(&name, Start::Empty));
    watched.supervisors.insert(host.clone(), watch(&watched.fleet, &host, Begin::Join));
    let place = |number: u16| format!("{host}/{number}");
    wait_for("both servers in the Cluster", || {
        let survey = watched.survey().filter(Survey::is_whole)?;
        let replicas = survey.shards.iter().flat_map(|s| s.replicas.iter().map(|r| &r.place));
        let primaries = survey.shards.iter().map(|s| &s.primary);
        let members: Vec<_> = replicas.chain(primaries).map(|place| &place.server).collect();
        let is_there = |number| members.contains(&&place(number));
        (is_there(0) && is_there(1)).then_some(())
    });
    drop(both);
}

/// Writes to the first shard; what was acknowledged, once it is on the disk of the primary too.
fn write_some(fleet: &Fleet) -> Vec<u32> {
    let all = addresses(&fleet.deployment);
    let mut primary = wait_for("a primary", || find_primary(&fleet.client(), &all));
    let mut write = |number: &u32| {
        let (key, value) = (format!("{TAG}{number}"), number.to_string());
        primary.ask::<()>(&["SET", &key, &value]).is_ok()
            && primary.ask::<u32>(&["WAIT", "1", "1000"]).is_ok_and(|n| n >= 1)
    };
    let acknowledged = (0..500).filter(|number| write(number)).collect();
    wait_for("the log of the primary", || {
        let fields = primary.fields(&["INFO", "persistence"]).ok()?;
        let is_empty = |field: &str| fields.number(field) == Some(0);
        (is_empty("aof_buffer_length") && is_empty("aof_pending_bio_fsync")).then_some(())
    });
    acknowledged
}

/// The primary of the first shard, and its replica.
fn first_shard(watched: &Watched) -> [ServerName; 2] {
    let (primary, id) = watched.first_primary();
    let view = watched.view().unwrap();
    let replica = view.replicas_of(&id).next().unwrap().address;
    [primary, watched.fleet.deployment.server_at(replica.ip, replica.port).unwrap()]
}

/// Three hosts with what was acknowledged, after the primary of the first shard and its replica, which are returned,
/// were lost: the nodes of both hosts ended, all servers of the first and one of the second.
fn without_first_shard() -> (Watched, Vec<u32>, [ServerName; 2]) {
    let mut watched = Watched::new(3);
    watched.wait_until_whole(3);
    let acknowledged = write_some(&watched.fleet);
    let [primary, replica] = first_shard(&watched);
    // What a server has counts once its host has noted that it is everything.
    wait_for("the note of both copies", || {
        let is_noted = |name| servers::is_complete(&watched.fleet.settings(name).dir);
        [&primary, &replica].into_iter().all(is_noted).then_some(())
    });
    for host in [&primary.host, &replica.host] {
        drop(watched.supervisors.remove(host));
    }
    watched.kill(&replica);
    for number in 0..2 {
        watched.kill(&ServerName { host: primary.host.clone(), number });
    }
    (watched, acknowledged, [primary, replica])
}

#[test]
fn a_replica_that_died_beside_its_primary_comes_back_with_what_it_had_and_takes_over() {
    if program().is_none() {
        return;
    }
    let (mut watched, acknowledged, shard) = without_first_shard();
    let host = &shard[1].host;
    watched.supervisors.insert(host.clone(), watch(&watched.fleet, host, Begin::Join));
    assert_nothing_is_lost(&watched.fleet, &acknowledged);
}

#[test]
fn a_primary_whose_replica_lost_everything_comes_back_with_what_it_had() {
    if program().is_none() {
        return;
    }
    let (mut watched, acknowledged, shard) = without_first_shard();
    std::fs::remove_dir_all(watched.fleet.settings(&shard[1]).dir).unwrap();
    // The replica is back first, with nothing, and waits for somebody to copy from.
    for name in shard.iter().rev() {
        let again = watch(&watched.fleet, &name.host, Begin::Join);
        watched.supervisors.insert(name.host.clone(), again);
    }
    assert_nothing_is_lost(&watched.fleet, &acknowledged);
    watched.wait_until_whole(3);
}

#[test]
fn a_primary_that_lost_everything_leaves_its_place_to_its_replica() {
    if program().is_none() {
        return;
    }
    let (mut watched, acknowledged, shard) = without_first_shard();
    let [primary, replica] = &shard;
    std::fs::remove_dir_all(watched.fleet.settings(primary).dir).unwrap();
    let again = watch(&watched.fleet, &primary.host, Begin::Join);
    watched.supervisors.insert(primary.host.clone(), again);
    let address = watched.fleet.deployment.member(&primary.host).unwrap();
    let address = address.server(primary.number).unwrap();
    // For longer than a dead server waits for its heir.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        assert!(watched.fleet.keeper().connect(&address).is_err(), "an empty server has its place");
        std::thread::sleep(Duration::from_millis(200));
    }
    let again = watch(&watched.fleet, &replica.host, Begin::Join);
    watched.supervisors.insert(replica.host.clone(), again);
    assert_nothing_is_lost(&watched.fleet, &acknowledged);
    watched.wait_until_whole(3);
}

/// Has primaries begin no copy, or begin them at once.
fn delay_copies(watched: &Watched, is_delayed: bool) {
    let view = watched.view().unwrap();
    for primary in view.primaries() {
        let mut connection = watched.fleet.keeper().connect(&primary.address).unwrap();
        let delay_s = if is_delayed { "600" } else { "0" };
        connection.ask::<()>(&["CONFIG", "SET", "repl-diskless-sync-delay", delay_s]).unwrap();
    }
}

fn is_linked(connection: &mut Connection) -> bool {
    let fields = connection.fields(&["INFO", "replication"]).unwrap();
    fields.get("master_link_status") == Some("up")
}

#[test]
fn a_replica_stands_for_election_once_it_has_copied_everything() {
    if program().is_none() {
        return;
    }
    let watched = Watched::new(3);
    watched.wait_until_whole(3);
    let [_, replica] = first_shard(&watched);
    let address = watched.fleet.settings(&replica).address;
    let id_before =
        watched.view().unwrap().by_address(address.ip, address.port).unwrap().id.clone();
    delay_copies(&watched, true);
    watched.kill(&replica);
    let follows = || {
        let mut connection = watched.fleet.keeper().connect(&address).ok()?;
        let own = Topology::ask(&mut connection).ok()?.myself()?.clone();
        let is_new = own.id != id_before && matches!(own.role, Role::Replica(_));
        is_new.then_some((connection, own.is_barred))
    };
    let (mut connection, is_barred) = wait_for("a server that follows", follows);
    assert!(is_barred && !is_linked(&mut connection));
    delay_copies(&watched, false);
    wait_for("a server that may be elected", || (!follows()?.1).then_some(()));
    assert!(is_linked(&mut connection));
}

/// It has been with its primary all the while, as Redis counts, and has nothing that its shard has.
#[test]
fn a_replica_that_comes_from_another_shard_is_not_elected_before_it_has_copied_everything() {
    if program().is_none() {
        return;
    }
    let mut watched = Watched::new(3);
    watched.wait_until_whole(3);
    let acknowledged = write_some(&watched.fleet);
    let [primary, replica] = first_shard(&watched);
    wait_for("the note of the primary", || {
        servers::is_complete(&watched.fleet.settings(&primary).dir).then_some(())
    });
    // Nobody but the host of the primary is to see to it.
    watched.supervisors.retain(|host, _| *host == primary.host);
    let view = watched.view().unwrap();
    let id = watched.first_primary().1;
    let is_other = |name: &ServerName| name.host != primary.host && name.host != replica.host;
    let name_of = |at: ServerAddress| watched.fleet.deployment.server_at(at.ip, at.port).unwrap();
    let primaries = view.primaries();
    let other = primaries.iter().find(|p| is_other(&name_of(p.address))).unwrap();
    let mut moving =
        watched.fleet.keeper().connect(&watched.fleet.settings(&replica).address).unwrap();
    go_over(&mut moving, &other.id).unwrap();
    wait_for("a copy of the other shard", || is_linked(&mut moving).then_some(()));
    delay_copies(&watched, true);
    go_over(&mut moving, &id).unwrap();
    wait_for("all to know whom it follows", || {
        let address = watched.fleet.settings(&primary).address;
        let view = Topology::ask(&mut watched.fleet.keeper().connect(&address).ok()?).ok()?;
        view.replicas_of(&id).next().map(|_| ())
    });
    assert!(!is_linked(&mut moving));
    watched.kill(&primary);
    assert_nothing_is_lost(&watched.fleet, &acknowledged);
    assert_eq!(watched.first_primary().1, id, "the primary is back with what it had");
}
