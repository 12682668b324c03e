//! Metadata servers on some of the hosts: they move when hosts join, leave or are lost. Real processes on the loopback
//! network.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use common::{Fleet, PATIENCE, program, wait_for};
use intarsia_cluster::client::Connection;
use intarsia_cluster::deployment::{Deployment, Member, ServerAddress};
use intarsia_cluster::formation::{form, form_again};
use intarsia_cluster::servers::{self, Start};
use intarsia_cluster::supervision::{Begin, Holding, Supervisor};
use intarsia_cluster::survey::Survey;
use intarsia_cluster::topology::Topology;
use intarsia_types::NodeId;

const REPLACE_AFTER: Duration = Duration::from_secs(2);
/// Keys whose slots are in all shards.
const KEYS: u32 = 60;

/// A fleet with a watch on every host, as its nodes would have it.
struct Store {
    supervisors: HashMap<NodeId, Supervisor>,
    fleet: Fleet,
}

impl Store {
    /// All hosts live; servers begin on `meta_hosts`.
    fn new(hosts: u8, meta_hosts: usize) -> Self {
        let fleet = Fleet::with_meta_hosts(hosts, meta_hosts);
        let mut store = Self { supervisors: HashMap::new(), fleet };
        let all: Vec<usize> = (0..usize::from(hosts)).collect();
        for host in &all {
            store.begin(*host, Begin::Form(Start::Empty));
        }
        form(&store.fleet.deployment, &store.fleet.keeper(), PATIENCE).unwrap();
        store.fleet.record(&all, &[]);
        store
    }

    fn begin(&mut self, host: usize, begin: Begin) {
        let name = self.name(host);
        let supervisor = common::watch(&self.fleet, &name, begin, REPLACE_AFTER);
        self.supervisors.insert(name, supervisor);
    }

    fn name(&self, host: usize) -> NodeId {
        self.fleet.deployment.hosts().nth(host).unwrap().name.clone()
    }

    /// Ends a host as a loss of power would.
    fn kill(&mut self, host: usize) {
        let name = self.name(host);
        let supervisor = self.supervisors.remove(&name).unwrap();
        let states = supervisor.states();
        drop(supervisor);
        for (server, _) in states {
            let process = self.fleet.process(&server).unwrap();
            process.signal(rustix::process::Signal::KILL);
            assert!(process.wait_until_gone(PATIENCE));
        }
    }

    fn survey(&self) -> Option<Survey> {
        Survey::take(&self.fleet.deployment, &self.fleet.keeper()).ok()
    }

    fn addresses(&self) -> Vec<ServerAddress> {
        let hosts = self.fleet.deployment.hosts();
        hosts.flat_map(|m| (0..4).map(|number| m.server(number).unwrap())).collect()
    }

    /// Primaries and replicas that are up, by host.
    fn servers(&self) -> Option<BTreeMap<String, (usize, usize)>> {
        let survey = self.survey().filter(Survey::is_whole)?;
        let mut servers: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        let host = |server: &str| server.split('/').next().unwrap().to_owned();
        for shard in &survey.shards {
            let home = host(&shard.primary.server);
            servers.entry(home.clone()).or_default().0 += 1;
            let synced = shard.replicas.iter().filter(|replica| replica.is_in_sync);
            let elsewhere = synced.map(|r| host(&r.place.server)).filter(|host| *host != home);
            let elsewhere: Vec<_> = elsewhere.collect();
            if survey.shards.len() > 1 && elsewhere.is_empty() {
                return None;
            }
            elsewhere.into_iter().for_each(|host| servers.entry(host).or_default().1 += 1);
        }
        Some(servers)
    }

    /// Waits until each of these hosts has a primary, each shard a replica elsewhere, and no other host anything.
    fn wait_for_primaries_on(&self, hosts: &[&str]) {
        let mut last = None;
        wait_for(&format!("primaries on {hosts:?}"), || {
            let servers = self.servers();
            if servers != last {
                tracing::info!(?servers, "the hosts with servers");
                last.clone_from(&servers);
            }
            let servers = servers?;
            let is_so = servers.keys().map(String::as_str).eq(hosts.iter().copied())
                && servers.values().all(|(primaries, _)| *primaries == 1);
            is_so.then_some(())
        });
    }

    fn holding(&self, asked: usize, of: usize) -> Option<Holding> {
        self.supervisors[&self.name(asked)].holding(&self.name(of))
    }

    fn write(&self) {
        for n in 0..KEYS {
            let key = format!("k{n}");
            self.at_primary(|c| {
                c.ask::<()>(&["SET", &key, &n.to_string()])?;
                c.ask::<u32>(&["WAIT", "1", "3000"])
            });
        }
    }

    fn assert_all_there(&self) {
        for n in 0..KEYS {
            let key = format!("k{n}");
            let value = self.at_primary(|c| c.ask::<Option<String>>(&["GET", &key]));
            assert_eq!(value, Some(n.to_string()), "{key}");
        }
    }

    /// The answer of the one server that does not send the question elsewhere.
    fn at_primary<T>(&self, ask: impl Fn(&mut Connection) -> intarsia_types::Result<T>) -> T {
        wait_for("an answer", || {
            let access = self.fleet.client();
            self.addresses().iter().find_map(|at| ask(&mut access.connect(at).ok()?).ok())
        })
    }

    fn peers(&self) -> usize {
        let keeper = self.fleet.keeper();
        let view = |at| Topology::ask(&mut keeper.connect(at).ok()?).ok();
        self.addresses().iter().find_map(view).unwrap().peers().len()
    }
}

#[test]
fn servers_stand_on_the_chosen_hosts_alone() {
    if program().is_none() {
        return;
    }
    let store = Store::new(5, 3);
    store.wait_for_primaries_on(&["n1", "n2", "n4"]);
    assert_eq!(store.peers(), 6);
    assert!(store.supervisors[&store.name(2)].states().is_empty());
    let holding = wait_for("a look", || store.holding(2, 0));
    assert_eq!((holding.primaries, holding.replicas), (1, 1));
    assert!(store.holding(0, 4).unwrap().is_vacant());
}

#[test]
fn a_host_without_servers_takes_the_place_of_a_lost_one_which_may_return() {
    if program().is_none() {
        return;
    }
    let mut store = Store::new(4, 3);
    store.write();
    store.kill(1);
    store.fleet.record(&[0, 2, 3], &[]);
    store.wait_for_primaries_on(&["n1", "n3", "n4"]);
    store.assert_all_there();
    // Its place is taken; what it brings back is not needed.
    store.begin(1, Begin::Join);
    store.fleet.record(&[0, 1, 2, 3], &[]);
    wait_for("the host that returned has servers", || {
        store.holding(0, 1).filter(|holding| holding.replicas > 0)
    });
    wait_for("none any more", || store.holding(0, 1).filter(Holding::is_vacant));
    store.wait_for_primaries_on(&["n1", "n3", "n4"]);
    assert!(store.supervisors[&store.name(1)].states().is_empty());
    store.assert_all_there();
}

#[test]
fn a_host_that_leaves_is_vacated_first_and_the_store_comes_up_without_it() {
    if program().is_none() {
        return;
    }
    let mut store = Store::new(4, 3);
    store.write();
    store.fleet.record(&[0, 1, 2, 3], &[0]);
    wait_for("nothing on the host that leaves", || store.holding(2, 0).filter(Holding::is_vacant));
    assert!(store.supervisors[&store.name(0)].states().is_empty());
    store.wait_for_primaries_on(&["n2", "n3", "n4"]);
    store.supervisors.remove(&store.name(0)).unwrap().stop().unwrap();
    store.fleet.record(&[1, 2, 3], &[]);
    store.assert_all_there();
    // Down, and up again with servers where they are now.
    for (_, supervisor) in store.supervisors.drain() {
        supervisor.stop().unwrap();
    }
    *store.fleet.records.lock().unwrap() = None;
    for host in 1..4 {
        store.begin(host, Begin::Form(Start::Kept));
    }
    form_again(&store.fleet.deployment, &store.fleet.keeper(), PATIENCE).unwrap();
    store.assert_all_there();
    store.begin(0, Begin::Form(Start::Kept));
    assert!(store.supervisors[&store.name(0)].states().is_empty(), "nothing starts empty there");
    store.fleet.record(&[0, 1, 2, 3], &[]);
    store.wait_for_primaries_on(&["n2", "n3", "n4"]);
    store.assert_all_there();
}

/// The description of the other hosts does not have the one that joins: they know it from its record.
#[test]
fn a_host_that_joins_takes_the_place_of_one_that_left() {
    if program().is_none() {
        return;
    }
    let mut store = Store::new(3, 3);
    store.write();
    store.fleet.record(&[0, 1, 2], &[2]);
    wait_for("nothing on the host that leaves", || store.holding(0, 2).filter(Holding::is_vacant));
    store.supervisors.remove(&store.name(2)).unwrap().stop().unwrap();
    store.fleet.record(&[0, 1], &[]);
    store.assert_all_there();
    let first = store.fleet.deployment.members[0].clone();
    let std::net::IpAddr::V4(ip) = first.address else { unreachable!() };
    let [a, b, c, _] = ip.octets();
    let newcomer = Member { name: NodeId("n9".into()), address: [a, b, c, 9].into(), ..first };
    store.fleet.deployment = store.fleet.deployment.clone().with_joined(newcomer).unwrap();
    store.begin(3, Begin::Form(Start::Empty));
    store.fleet.record(&[0, 1, 3], &[]);
    store.wait_for_primaries_on(&["n1", "n2", "n9"]);
    store.assert_all_there();
}

#[test]
fn the_only_server_of_a_store_moves_when_its_host_leaves() {
    if program().is_none() {
        return;
    }
    let mut store = Store::new(3, 1);
    for n in 0..KEYS {
        let key = format!("k{n}");
        store.at_primary(|c| c.ask::<()>(&["SET", &key, &n.to_string()]));
    }
    store.fleet.record(&[0, 1, 2], &[0]);
    wait_for("nothing on the host that leaves", || store.holding(0, 0).filter(Holding::is_vacant));
    store.supervisors.remove(&store.name(0)).unwrap().stop().unwrap();
    store.fleet.record(&[1, 2], &[]);
    store.assert_all_there();
    assert_eq!(store.peers(), 1);
}

#[test]
fn a_store_made_before_there_was_a_choice_comes_up_as_it_was() {
    if program().is_none() {
        return;
    }
    let mut fleet = Fleet::new(4);
    let text = fleet.deployment.to_text().unwrap();
    assert!(!text.contains("meta_hosts"));
    fleet.deployment = Deployment::parse(&text).unwrap();
    let servers = fleet.start_servers(Start::Empty);
    assert_eq!(servers.len(), 8);
    form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
    drop(servers);
    fleet.stop_all();
    let mut store = Store { supervisors: HashMap::new(), fleet };
    for host in 0..4 {
        store.begin(host, Begin::Form(Start::Kept));
    }
    form_again(&store.fleet.deployment, &store.fleet.keeper(), PATIENCE).unwrap();
    store.fleet.record(&[0, 1, 2, 3], &[]);
    store.wait_for_primaries_on(&["n1", "n2", "n3", "n4"]);
    assert_eq!(store.peers(), 8);
    assert!(servers::is_any_running(&store.fleet.host_dir(&store.name(3))));
}
