//! A store begins again without some of its servers: real processes on the loopback network.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use std::time::Duration;

use common::{Fleet, PATIENCE, program, wait_for};
use intarsia_cluster::deployment::ServerName;
use intarsia_cluster::formation::form;
use intarsia_cluster::recovery::{Survivor, plan, recover};
use intarsia_cluster::servers::{self, Kept, Server, Start};
use intarsia_cluster::topology::{Health, Peer};
use intarsia_types::NodeId;

/// Both servers of each of these hosts.
fn of_hosts(fleet: &Fleet, hosts: [usize; 2]) -> impl Iterator<Item = ServerName> {
    let of_host = |host| [0, 1].map(|number| ServerName { host: fleet.host(host), number });
    hosts.map(of_host).into_iter().flatten()
}

/// Starts these servers with what they kept, and has them make up for all others.
fn begin_again(fleet: &Fleet, names: impl Iterator<Item = ServerName>) -> Vec<Server> {
    let survivors: Vec<Survivor> = names.map(|name| Survivor { name, is_complete: true }).collect();
    let again = survivors.iter().map(|one| fleet.start_server(&one.name, Start::Kept)).collect();
    recover(&fleet.deployment, &fleet.keeper(), &survivors, &[], PATIENCE).unwrap();
    again
}

/// The heir was away while epochs went on, so what it takes over under is older than what others know of the dead primary.
#[test]
fn an_heir_that_had_not_heard_of_the_last_epoch_takes_over_all_the_same() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::new(3);
    let mut servers = fleet.start_servers(Start::Empty);
    form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
    let lost = ServerName { host: fleet.host(2), number: 0 };
    let ask = |name: &ServerName| fleet.ask(name);
    let view = ask(&lost);
    let id = view.myself().unwrap().id.clone();
    let heir = view.replicas_of(&id).next().unwrap().address;
    let heir = fleet.deployment.server_at(heir.ip, heir.port).unwrap();
    let place = servers.iter().position(|server| *server.name() == heir).unwrap();
    servers.remove(place).stop().unwrap();
    let mut primary = fleet.connect(&lost);
    let other = ServerName { host: heir.host, number: 0 };
    for _ in 0..20 {
        let mut others = fleet.connect(&other);
        others.ask::<()>(&["CLUSTER", "BUMPEPOCH"]).unwrap();
        primary.ask::<()>(&["CLUSTER", "BUMPEPOCH"]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    // Two primaries that bumped to one epoch part later, by themselves, so the epoch may still go on.
    wait_for("another host to know the primary's last epoch", || {
        let epoch = ask(&lost).myself()?.config_epoch;
        let known = ask(&other).by_id(&id)?.config_epoch;
        (known == epoch && epoch > 3).then_some(())
    });
    drop(servers);
    fleet.stop_all();

    let _again = begin_again(&fleet, of_hosts(&fleet, [0, 1]));
    let view = ask(&other);
    let held = view.primaries().iter().filter(|p| p.health == Health::Up).count();
    assert_eq!(held, 3, "{view:?}");
}

/// The heir took over under just the epoch that the others know of the dead primary: of two claims under one epoch servers
/// believe neither, and tell nobody of it.
#[test]
fn an_heir_that_took_over_under_the_epoch_of_the_dead_primary_is_believed_in_the_end() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::new(3);
    let servers = fleet.start_servers(Start::Empty);
    form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
    let ask = |name: &ServerName| fleet.ask(name);
    let lost = ServerName { host: fleet.host(2), number: 0 };
    let view = ask(&lost);
    let dead = view.myself().unwrap().clone();
    let heir = view.replicas_of(&dead.id).next().unwrap().clone();
    let heir_name = fleet.deployment.server_at(heir.address.ip, heir.address.port).unwrap();
    drop(servers);
    fleet.stop_all();

    // The dead primary's epoch is the last of all.
    let map = fleet.settings(&heir_name).dir.join("nodes.conf");
    let before = std::fs::read_to_string(&map).unwrap();
    let epoch = before.lines().find(|line| line.starts_with(&dead.id.0)).unwrap();
    let (epoch, slots) = (epoch.split(' ').nth(6).unwrap(), epoch.split(' ').nth(8).unwrap());
    let reigns = |line: &str| -> Option<String> {
        let fields: Vec<&str> = line.split(' ').collect();
        if fields[0] == dead.id.0 {
            return None;
        }
        let is_heir = fields[0] == heir.id.0;
        let heir =
            || format!("{} {} myself,master - 0 0 {epoch} connected {slots}", fields[0], fields[1]);
        Some(if is_heir { heir() } else { line.to_owned() })
    };
    let after: Vec<String> = before.lines().filter_map(reigns).collect();
    std::fs::write(&map, after.join("\n") + "\n").unwrap();

    let _again = begin_again(&fleet, of_hosts(&fleet, [0, 1]));
    assert!(ask(&heir_name).myself().unwrap().has_slots());
}

/// A primary died, its replica took over and was lost before the primary had copied anything: what the primary had set
/// aside is the only copy, and goes by a name that the others have forgotten.
#[test]
fn a_server_that_the_others_have_forgotten_hears_who_took_over_from_it_and_takes_over_again() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::new(3);
    let mut servers = fleet.start_servers(Start::Empty);
    form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
    let ask = |name: &ServerName| fleet.ask(name);
    let connect = |name: &ServerName| fleet.connect(name);
    let old = ServerName { host: fleet.host(0), number: 0 };
    let id = ask(&old).myself().unwrap().id.clone();
    let next = ask(&old).replicas_of(&id).next().unwrap().address;
    let next = fleet.deployment.server_at(next.ip, next.port).unwrap();
    let place = servers.iter().position(|server| *server.name() == old).unwrap();
    servers.remove(place).stop().unwrap();
    connect(&next).ask::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"]).unwrap();
    let names: Vec<ServerName> = servers.iter().map(|server| server.name().clone()).collect();
    wait_for("all to know the next primary", || {
        let knows = |name| {
            ask(name)
                .by_address(fleet.settings(&next).address.ip, fleet.settings(&next).address.port)
                .is_some_and(Peer::has_slots)
        };
        names.iter().all(knows).then_some(())
    });
    for name in &names {
        connect(name).ask::<()>(&["CLUSTER", "FORGET", &id.0]).unwrap();
    }
    drop(servers);
    fleet.stop_all();

    let is_there = |name: &&ServerName| name.host != next.host;
    let all = names.iter().filter(is_there).chain([&old]).cloned();
    let _again = begin_again(&fleet, all);
    assert!(ask(&old).myself().unwrap().has_slots());
}

/// What lies on the disks of these hosts, and what is to be done with it.
fn kept_on(fleet: &Fleet, hosts: [usize; 2]) -> Vec<(NodeId, Kept)> {
    let of_host = |host: NodeId| {
        let kept = servers::kept(&fleet.host_dir(&host));
        kept.into_iter().map(move |one| (host.clone(), one))
    };
    hosts.map(|host| fleet.host(host)).into_iter().flat_map(of_host).collect()
}

/// A replica was away while its primary went on with another one, and the primary is lost.
#[test]
fn of_two_replicas_the_one_takes_over_that_the_primary_went_on_with() {
    if program().is_none() {
        return;
    }
    let fleet = Fleet::new(3);
    let mut servers = fleet.start_servers(Start::Empty);
    form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
    let ask = |name: &ServerName| fleet.ask(name);
    let connect = |name: &ServerName| fleet.connect(name);
    let server = |host: usize, number: u16| ServerName { host: fleet.host(host), number };
    // The first in the list is the one that is away.
    let (primary, [away, stays]) = (server(2, 0), [server(0, 1), server(1, 1)]);
    let id = ask(&primary).myself().unwrap().id.clone();
    let [away_id, stays_id] = [&away, &stays].map(|one| ask(one).myself().unwrap().id.clone());
    assert!(ask(&away).by_id(&away_id).unwrap().is_replica_of(&id));
    connect(&stays).ask::<()>(&["CLUSTER", "REPLICATE", &id.0]).unwrap();
    let place = servers.iter().position(|server| *server.name() == away).unwrap();
    servers.remove(place).stop().unwrap();
    let names: Vec<ServerName> = servers.iter().map(|server| server.name().clone()).collect();
    wait_for("all to know who is away and who stays", || {
        let knows = |name| {
            let view = ask(name);
            view.by_id(&away_id).is_some_and(|peer| peer.health == Health::Failed)
                && view.by_id(&stays_id).is_some_and(|peer| peer.is_replica_of(&id))
        };
        names.iter().all(knows).then_some(())
    });
    let mut client = fleet.client().connect(&fleet.settings(&primary).address).unwrap();
    let key = (0..).map(|n| format!("k{n}"));
    let key = key.into_iter().find(|key| client.ask::<()>(&["SET", key, "new"]).is_ok()).unwrap();
    wait_for("a copy on the other's disk", || {
        let log = connect(&stays).fields(&["INFO", "persistence"]).ok()?;
        let is_idle = log.number("aof_rewrite_in_progress") == Some(0)
            && log.number("aof_rewrite_scheduled") == Some(0);
        (is_idle && client.ask::<u32>(&["WAIT", "1", "1000"]).ok()? == 1).then_some(())
    });
    let processes: Vec<_> = names.iter().map(|name| fleet.process(name).unwrap()).collect();
    processes.iter().for_each(|process| process.signal(rustix::process::Signal::KILL));
    assert!(processes.iter().all(|process| process.wait_until_gone(PATIENCE)));
    drop(servers);
    // As the watch would have noted of all of them.
    for name in names.iter().chain([&away]) {
        std::fs::write(fleet.settings(name).dir.join("complete"), "").unwrap();
    }

    let kept = kept_on(&fleet, [0, 1]);
    let without: Vec<_> = kept
        .iter()
        .filter(|(host, one)| (host, one.number) != (&stays.host, stays.number))
        .cloned()
        .collect();
    let refusal = plan(&fleet.deployment, &without, false).unwrap_err().to_string();
    assert!(refusal.contains("only an older copy") && refusal.contains(&away.host.0), "{refusal}");
    assert!(plan(&fleet.deployment, &without, true).unwrap().passed_over.is_empty());
    let plan = plan(&fleet.deployment, &kept, false).unwrap();
    assert_eq!((plan.passed_over, plan.warning), (vec![away.clone()], None));

    let survivors: Vec<Survivor> =
        of_hosts(&fleet, [0, 1]).map(|name| Survivor { is_complete: name != away, name }).collect();
    let _again: Vec<Server> =
        survivors.iter().map(|one| fleet.start_server(&one.name, Start::Kept)).collect();
    recover(&fleet.deployment, &fleet.keeper(), &survivors, &[], PATIENCE).unwrap();
    let mut client = fleet.client().connect(&fleet.settings(&stays).address).unwrap();
    assert_eq!(client.ask::<String>(&["GET", &key]).unwrap(), "new");
}
