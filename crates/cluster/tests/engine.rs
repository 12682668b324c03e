//! The metadata engine on the servers of a deployment, with the rights of a node and no more.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use std::time::Duration;

use common::{Fleet, PATIENCE, program};
use intarsia_cluster::client::CLIENT_USER;
use intarsia_cluster::formation::form;
use intarsia_cluster::servers::Start;
use intarsia_cluster::supervision::{Begin, Supervisor};
use intarsia_meta::engines::{RedisEngine, RedisOptions};
use intarsia_meta::{CommitOutcome, MetaEngine, Mutation, OpId};
use intarsia_types::PartitionId;
use rustix::process::Signal;

fn options(fleet: &Fleet) -> RedisOptions {
    let password = fleet.secrets.client_password.reveal();
    let servers = fleet.deployment.members.iter().map(|m| m.server(0).unwrap());
    RedisOptions {
        urls: servers.map(|s| format!("redis://{CLIENT_USER}:{password}@{s}")).collect(),
        require_replica: fleet.deployment.members.len() > 1,
        ..RedisOptions::default()
    }
}

/// As of an inode record.
fn key(number: u64) -> Vec<u8> {
    [b"I".as_slice(), &number.to_be_bytes()].concat()
}

fn put(engine: &RedisEngine, partition: u16, number: u64) {
    let mutation = Mutation::Put(key(number).as_slice().into(), b"value".as_slice().into());
    let op = OpId { session: 1, number };
    let outcome = engine.commit(PartitionId(partition), op, &[], vec![mutation]).unwrap();
    assert_eq!(outcome, CommitOutcome::Applied);
}

#[test]
fn commits_go_on_over_the_death_of_a_primary() {
    if program().is_none() {
        return;
    }
    for hosts in [1, 2, 3] {
        let fleet = Fleet::new(hosts);
        let watch = |n| {
            common::watch(&fleet, &fleet.host(n), Begin::Form(Start::Empty), Duration::from_secs(3))
        };
        let supervisors: Vec<Supervisor> = (0..usize::from(hosts)).map(watch).collect();
        form(&fleet.deployment, &fleet.keeper(), PATIENCE).unwrap();
        let engine = RedisEngine::open(&options(&fleet)).unwrap();
        let partitions = engine.partitions();
        for partition in 0..partitions {
            put(&engine, partition, u64::from(partition));
        }
        let first = &supervisors[0].states()[0].0;
        fleet.process(first).unwrap().signal(Signal::KILL);
        for partition in 0..partitions {
            put(&engine, partition, 10_000 + u64::from(partition));
        }
        for partition in 0..partitions {
            for number in [u64::from(partition), 10_000 + u64::from(partition)] {
                let found = engine.get(PartitionId(partition), &key(number)).unwrap();
                assert!(found.is_some(), "{hosts} hosts, partition {partition}, {number}");
            }
        }
        engine.stats();
    }
}
