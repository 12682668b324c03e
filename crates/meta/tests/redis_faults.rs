//! Whether a Cluster, driven as we drive it, keeps what was acknowledged when its servers die, stall, and
//! follow each other. A few rounds; 50 of each with `INTARSIA_TEST_LONG=1`. `--nocapture` prints figures.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests, outside of test functions"
)]

mod load;
mod servers;

use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use intarsia_meta::engines::{RedisEngine, RedisOptions};
use intarsia_meta::{CommitOutcome, Condition, MetaEngine, Mutation, OpId};
use intarsia_types::PartitionId;
use redis::Value;

use load::{Load, Seen};
use servers::{Server, Servers, Settings, wait_for};

/// The log of changes as `intarsia-cluster` has it, which forces it out from outside.
const LOG: &[&str] = &["--appendfsync no"];
const CLUSTER: Settings = Settings { appends: true, more: LOG, ..Settings::CLUSTER };

fn rounds() -> usize {
    let is_long = std::env::var("INTARSIA_TEST_LONG").is_ok_and(|value| value == "1");
    std::env::var("INTARSIA_TEST_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(if is_long { 50 } else { 2 })
}

/// The place of the replica of the primary at `place`.
fn replica_of(servers: &Servers, place: usize) -> usize {
    wait_for("a replica", || servers.all[place].is_primary_with(1));
    let Value::Array(role) = servers.all[place].ask(&["ROLE"]) else { panic!("no role") };
    let Some(Value::Array(replicas)) = role.into_iter().nth(2) else { panic!("no primary") };
    let Some(Value::Array(replica)) = replicas.into_iter().next() else { panic!("no replica") };
    let port: u16 = redis::from_redis_value(replica[1].clone()).unwrap();
    servers.all.iter().position(|server| server.port == port).unwrap()
}

fn primaries(servers: &Servers) -> Vec<usize> {
    (0..servers.all.len()).filter(|&place| servers.all[place].is_primary()).collect()
}

fn wait_until_whole(servers: &Servers) {
    wait_for("three primaries with a replica in sync each", || {
        servers.all.iter().filter(|server| server.is_primary_with(1)).count() == 3
            && servers.all.iter().filter(|server| server.is_synced_replica()).count() == 3
    });
}

/// Runs `fault` on one primary after the other under load, and verifies after each round that everything
/// acknowledged is there.
fn under_load(name: &str, fault: impl FnMut(&mut Servers, usize)) {
    if servers::are_there() {
        under_load_of(name, Servers::start(CLUSTER), fault);
    }
}

/// The same with servers that are there.
fn under_load_of(name: &str, mut servers: Servers, mut fault: impl FnMut(&mut Servers, usize)) {
    let load = Load::start(&servers.options());
    let mut verified = 0;
    let mut lost = Vec::new();
    for round in 0..rounds() {
        let before = load.acknowledged();
        wait_for("some load", || load.acknowledged() > before + 500);
        let primaries = primaries(&servers);
        fault(&mut servers, primaries[round % primaries.len()]);
        wait_until_whole(&servers);
        let now = load.acknowledged();
        lost.extend(load.lost(verified));
        verified = now;
        println!("{name} round {round}: {}, lost {}", load.seen.summary(), lost.len());
    }
    let (engine, seen) = load.stop();
    lost.extend(seen.lost(&engine, 0));
    println!("{name}: {} rounds, {}, lost {}", rounds(), seen.summary(), lost.len());
    verdict(&seen, &engine, lost.len());
}

fn verdict(seen: &Seen, engine: &RedisEngine, lost: usize) {
    assert_eq!(lost, 0, "acknowledged commits are lost");
    assert_eq!(seen.repeated.load(SeqCst), 0, "a commit was applied twice");
    seen.check_counts(engine);
    assert_eq!(seen.absent.load(SeqCst), 0, "a read said absent of what was acknowledged");
}

/// Kills a primary, waits for its replica to take over, and lets it return without its data.
fn replace(servers: &mut Servers, primary: usize) -> usize {
    let successor = replica_of(servers, primary);
    servers.all[primary].kill();
    wait_for("the replica to take over", || servers.all[successor].is_primary());
    servers.all[primary].remove_data();
    servers.all[primary].start();
    wait_for("the old primary to follow", || servers.all[primary].is_synced_replica());
    successor
}

#[test]
fn a_killed_primary_loses_nothing() {
    under_load("kill", |servers, primary| {
        replace(servers, primary);
    });
}

#[test]
fn two_failovers_in_a_row_lose_nothing() {
    under_load("two failovers", |servers, primary| {
        let successor = replace(servers, primary);
        replace(servers, successor);
    });
}

#[test]
fn a_primary_that_stalls_and_wakes_up_deposed_acknowledges_nothing() {
    under_load("stall", |servers, primary| {
        let successor = replica_of(servers, primary);
        servers.all[primary].signal("STOP");
        wait_for("the replica to take over", || servers.all[successor].is_primary());
        thread::sleep(Duration::from_millis(200));
        servers.all[primary].signal("CONT");
        wait_for("the old primary to follow", || servers.all[primary].is_synced_replica());
    });
}

/// Has all others forgotten by a primary, so that it never hears that `successor` takes its place.
fn depose_unheard(servers: &Servers, primary: usize, successor: usize) {
    for other in (0..servers.all.len()).filter(|&other| other != primary) {
        let id = servers.all[other].text(&["CLUSTER", "MYID"]);
        servers.all[primary].ask(&["CLUSTER", "FORGET", &id]);
    }
    let successor = &servers.all[successor];
    successor.ask(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    wait_for("the replica to take over", || successor.is_primary());
    successor.ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
}

#[test]
fn what_a_deposed_primary_says_that_does_not_know_it_is_not_believed() {
    if !servers::are_there() {
        return;
    }
    let servers = Servers::start(CLUSTER);
    let options = servers.options();
    let reader = RedisEngine::open(&options).unwrap();
    let put = |engine: &RedisEngine, partition, number, value: &str| {
        let mutation = Mutation::Put(b"k".as_slice().into(), value.as_bytes().into());
        let op = OpId { session: 1, number };
        let outcome = engine.commit(partition, op, &[], vec![mutation]).unwrap();
        assert_eq!(outcome, CommitOutcome::Applied);
    };
    let primary = &servers.all[0];
    let records = || redis::from_redis_value::<u64>(primary.ask(&["DBSIZE"])).unwrap();
    let is_at_primary = |partition: &PartitionId| {
        let before = records();
        put(&reader, *partition, u64::from(partition.0), "old");
        records() > before
    };
    let partition = (0..reader.partitions()).map(PartitionId).find(is_at_primary).unwrap();
    let read = || reader.get(partition, b"k").unwrap().unwrap();
    assert_eq!(*read(), *b"old");

    depose_unheard(&servers, 0, replica_of(&servers, 0));
    let urls = servers.urls().split_off(1);
    let others = RedisOptions { urls, require_replica: false, ..options };
    let writer = RedisEngine::open(&others).unwrap();
    put(&writer, partition, 1000, "new");
    // For longer than a server is believed without asking others.
    thread::sleep(Duration::from_secs(2));
    assert!(primary.is_primary(), "it knows of nothing");
    assert_eq!(*read(), *b"new");
}

#[test]
fn a_primary_that_restarts_at_once_with_its_log_loses_nothing() {
    under_load("restart with its log", restart);
}

/// With `appendfsync everysec` the server would answer before it writes its log, come back without what it answered,
/// and have its replica forget it too.
#[test]
fn a_primary_that_restarts_at_once_with_its_log_on_a_slow_disk_loses_nothing() {
    if servers::are_there() {
        let servers = Servers::start(Settings { has_slow_disk: true, ..CLUSTER });
        under_load_of("restart with its log on a slow disk", servers, restart);
    }
}

fn restart(servers: &mut Servers, primary: usize) {
    servers.all[primary].kill();
    servers.all[primary].start();
    wait_for("the server", || servers.all[primary].try_ask(&["PING"]).is_some());
}

/// Moves all slots of partitions from the primary at `from` to the one at `to`, as `redis-cli` does.
fn move_slots(servers: &Servers, from: usize, to: usize, slots: &[u16]) {
    let (from, to) = (&servers.all[from], &servers.all[to]);
    let id = |server: &Server| server.text(&["CLUSTER", "MYID"]);
    let (from_id, to_id) = (id(from), id(to));
    let port = to.port.to_string();
    for slot in slots.iter().map(u16::to_string) {
        to.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
        loop {
            let keys = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"]);
            let keys: Vec<Vec<u8>> = redis::from_redis_value(keys).unwrap();
            if keys.is_empty() {
                break;
            }
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg(&to.host).arg(&port).arg("").arg(0).arg(5000).arg("KEYS").arg(keys);
            from.run(&migrate);
        }
        for server in [to, from] {
            server.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
        }
    }
}

#[test]
fn a_commit_while_its_partition_moves_changes_all_or_nothing() {
    if !servers::are_there() {
        return;
    }
    let servers = Servers::start(Settings { primaries: 2, replicas_each: 0, ..Settings::CLUSTER });
    let options =
        RedisOptions { timeout: Duration::from_secs(1), partitions: Some(2), ..servers.options() };
    let engine = RedisEngine::open(&options).unwrap();
    let (p, op) = (PartitionId(0), OpId { session: 0, number: 0 });
    let put =
        |key: &str, value: &str| Mutation::Put(key.as_bytes().into(), value.as_bytes().into());
    assert!(engine.commit(p, op, &[], vec![put("Iold", "1")]).is_ok());

    // The first partition's tag is the first number in the first half of the slots.
    let slot =
        (0..).map(|tag| slot_of(&servers, tag)).find(|&slot| slot < 8192).unwrap().to_string();
    let id = servers.all[1].text(&["CLUSTER", "MYID"]);
    servers.all[0].ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id]);
    let refused = engine.commit(p, op, &[], vec![put("Iold", "2"), put("Inew", "2")]);
    assert!(refused.is_err());
    assert!(engine.get(p, b"Iold").unwrap().is_some_and(|value| *value == *b"1"));
    servers.all[0].ask(&["CLUSTER", "SETSLOT", &slot, "STABLE"]);
    assert!(engine.get(p, b"Inew").unwrap().is_none());
    let done = engine.commit(p, op, &[], vec![put("Iold", "2"), put("Inew", "2")]);
    assert!(done.is_ok());
    assert!(engine.get(p, b"Inew").unwrap().is_some());
}

/// The slot of a partition's tag.
fn slot_of(servers: &Servers, tag: u16) -> u16 {
    let slot = servers.all[0].ask(&["CLUSTER", "KEYSLOT", &format!("{{{tag}}}")]);
    redis::from_redis_value(slot).unwrap()
}

#[test]
fn a_partition_that_moves_loses_nothing_and_is_never_half_there() {
    if !servers::are_there() {
        return;
    }
    // A primary whose disk stalls must not be deposed: only a primary gives its slots away.
    let more = &["--appendfsync no", "--cluster-node-timeout 60000"];
    let servers = Servers::start(Settings { more, ..CLUSTER });
    let options = servers.options();
    let load = Load::start(&options);
    wait_for("some load", || load.acknowledged() > 3000);
    let primaries = primaries(&servers);
    let slots = |place: usize| -> Vec<u16> {
        let client = redis::Client::open(servers.all[place].url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let keys: Vec<String> =
            redis::cmd("KEYS").arg(format!("{}*m", options.store)).query(&mut connection).unwrap();
        let slot = |key: &String| {
            redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut connection).unwrap()
        };
        keys.iter().map(slot).collect()
    };
    for (from, to) in [(0, 1), (1, 2), (2, 0)].map(|(a, b)| (primaries[a], primaries[b])) {
        let moving = slots(from);
        assert!(moving.len() > 10);
        move_slots(&servers, from, to, &moving);
        let before = load.acknowledged();
        wait_for("load after the move", || load.acknowledged() > before + 500);
        println!("moved {} partitions: {}", moving.len(), load.seen.summary());
    }
    let (engine, seen) = load.stop();
    verdict(&seen, &engine, seen.lost(&engine, 0).len());
    assert_eq!(seen.read_errors.load(SeqCst) + seen.write_errors.load(SeqCst), 0);
}

/// Why a killed primary is never restarted in place: without its log it returns empty, its replica follows,
/// and the shard is gone. Nothing of it may then be said to be absent.
#[test]
fn a_primary_that_restarts_at_once_without_its_log_is_never_read_as_empty() {
    if !servers::are_there() {
        return;
    }
    let mut servers = Servers::start(CLUSTER);
    let options = RedisOptions { timeout: Duration::from_secs(3), ..servers.options() };
    let engine = RedisEngine::open(&options).unwrap();
    let partitions = || (0..engine.partitions()).map(PartitionId);
    let op = OpId { session: 0, number: 0 };
    for partition in partitions() {
        let put = Mutation::Put(b"Ikept".as_slice().into(), b"1".as_slice().into());
        assert!(engine.commit(partition, op, &[], vec![put]).is_ok());
    }
    servers.all[0].kill();
    servers.all[0].remove_data();
    servers.all[0].start();
    wait_until_whole(&servers);
    let (mut kept, mut refused) = (0, 0);
    for partition in partitions() {
        let absent = [Condition::Absent(b"Ikept".as_slice().into())];
        let commit = engine.commit(partition, op, &absent, vec![]);
        match engine.get(partition, b"Ikept") {
            Ok(found) => {
                assert!(found.is_some(), "partition {} is read as empty", partition.0);
                kept += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("lost its data"), "{error}");
                assert!(commit.is_err(), "a commit to what was lost");
                refused += 1;
            }
        }
    }
    println!("restart without its log: {kept} partitions kept, {refused} refused");
    assert!(refused > 0 && kept > 0);
    assert!(RedisEngine::open(&options).is_err(), "a store that lost a part opens");
}
