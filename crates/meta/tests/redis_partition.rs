//! A host is cut off with a primary, a replica and a client on it, while other clients work on the other
//! side: whether each is told the truth. Needs root and network namespaces. 50 rounds with
//! `INTARSIA_TEST_LONG=1`; `--nocapture` prints figures.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests, outside of test functions"
)]

mod load;
mod servers;

use std::fs::File;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use intarsia_lab::{Lab, Node, Spec, Subnet};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use load::Load;
use servers::{Server, Servers, Settings, wait_for};

const HOSTS: u16 = 3;

fn rounds() -> usize {
    let is_long = std::env::var("INTARSIA_TEST_LONG").is_ok_and(|value| value == "1");
    if is_long { 50 } else { 1 }
}

/// Three hosts and a fourth node that watches; `None` where no lab can be made.
fn lab() -> Option<Lab> {
    let must = std::env::var_os("INTARSIA_TEST_REQUIRE_ALL").is_some_and(|v| v == "1");
    let name = format!("t{}-cut", std::process::id()).parse().unwrap();
    match Lab::create(Spec::new(name, HOSTS + 1, Subnet::default(), None).unwrap()) {
        Ok(lab) => Some(lab),
        Err(error) => {
            assert!(!must, "no lab, and INTARSIA_TEST_REQUIRE_ALL=1: {error}");
            println!("SKIPPED: no lab can be made here: {error}");
            None
        }
    }
}

/// Moves this thread, and those that it starts, into the network of a node.
fn enter(node: Node) {
    let path = format!("/run/netns/intarsia-lab-t{}-cut-{node}", std::process::id());
    let namespace = File::open(&path).unwrap();
    move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&namespace),
        Some(LinkNameSpaceType::Network),
    )
    .unwrap();
}

/// Runs `work` in the network of a node.
fn within<T: Send>(node: Node, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter(node);
            work()
        });
        inside.join().unwrap()
    })
}

fn is_whole(servers: &Servers) -> bool {
    servers.all.iter().filter(|server| server.is_primary_with(1)).count() == 3
        && servers.all.iter().filter(|server| server.is_synced_replica()).count() == 3
}

#[test]
fn a_client_cut_off_with_a_primary_is_told_nothing_that_the_others_lack() {
    if !servers::are_there() {
        return;
    }
    let Some(lab) = lab() else { return };
    let nodes: Vec<Node> = lab.nodes().collect();
    let hosts: Vec<String> = nodes[..3].iter().map(|&node| lab.address(node).to_string()).collect();
    let settings = Settings { appends: true, ..Settings::CLUSTER };
    enter(nodes[3]);
    let start = |host: usize, server: &mut Server| within(nodes[host], || server.start());
    let servers = Servers::start_on(&hosts, settings, start);
    let options = servers.options();
    // Made by one, so that the others do not race for it.
    drop(intarsia_meta::engines::RedisEngine::open(&options).unwrap());
    // The same keys in another order would collide: each side has its own store.
    let others = servers.options();
    let cut_off = within(nodes[0], || Load::start(&options));
    let outside = within(nodes[1], || Load::start(&others));

    let (mut lost, mut in_the_dark) = (0, 0);
    for round in 0..rounds() {
        let (before, before_outside) = (cut_off.acknowledged(), outside.acknowledged());
        wait_for("some load", || {
            cut_off.acknowledged() > before + 300 && outside.acknowledged() > before_outside + 300
        });
        lab.isolate(nodes[0]).unwrap();
        // Until the replicas of what is cut off have taken over, and for longer than a call may take.
        wait_for("the others to take over", || {
            servers.all.iter().filter(|server| server.is_primary()).count() >= 3
        });
        let dark = cut_off.acknowledged();
        thread::sleep(Duration::from_secs(if round % 2 == 0 { 1 } else { 8 }));
        in_the_dark += cut_off.acknowledged() - dark;
        lab.heal().unwrap();
        wait_for("the cluster to be whole", || is_whole(&servers));
        lost += cut_off.lost(before).len() + outside.lost(before_outside).len();
        println!("cut round {round}: lost {lost}, acknowledged in the dark {in_the_dark}");
        println!("  cut off: {}\n  outside: {}", cut_off.seen.summary(), outside.seen.summary());
    }
    for (name, load) in [("cut off", cut_off), ("outside", outside)] {
        let (engine, seen) = load.stop();
        lost += seen.lost(&engine, 0).len();
        println!("{name}: {} rounds, {}, lost {lost}", rounds(), seen.summary());
        assert_eq!(lost, 0, "acknowledged commits are lost");
        assert_eq!(seen.repeated.load(SeqCst), 0, "a commit was applied twice");
        seen.check_counts(&engine);
        assert_eq!(seen.absent.load(SeqCst), 0, "a read said absent of what was acknowledged");
    }
    assert_eq!(in_the_dark, 0, "a client without any replica in reach was told of success");
}
