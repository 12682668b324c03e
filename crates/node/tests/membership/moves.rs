//! Files that move because a host leaves, or because another has more room.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_node::{MoveOptions, MoveProgress, MoveReport, Node};
use intarsia_policy::Speeds;
use intarsia_types::{ByteCount, Error, InodeId, NodeId};

use crate::deployment::{
    Deployment, MIB, ROOT_CALLER, UNBOUNDED, get, no_kernel, pattern, put, state_of,
    wait_for_state, wait_until,
};

fn home(node: &Node, name: &str) -> String {
    node.locate(&format!("/{name}")).unwrap().nodes.concat()
}

fn empty(asked: &Arc<Node>, host: &str) -> MoveReport {
    asked.empty_host(&NodeId(host.into()), UNBOUNDED, &mut |_| {}).unwrap()
}

/// Settled files are where they are for good, until somebody writes.
fn settle(node: &Node) {
    assert!(node.wait_until_settled(Instant::now() + Duration::from_secs(20)));
}

#[test]
fn a_host_that_leaves_hands_over_what_is_not_open_and_then_the_rest() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    let names: Vec<String> = (0..12).map(|n| format!("f{n}")).collect();
    for (seed, name) in (0..).zip(&names) {
        put(&c, name, &pattern(MIB / 2 + usize::from(seed), seed));
    }
    // Longer than what is fetched while the asker waits.
    put(&c, "long", &pattern(20 * MIB, 99));
    put(&c, "small", b"beside its inode");
    settle(&c);
    let open = c.lookup(InodeId::ROOT, b"f7").unwrap().0.ino;
    c.open_file(ROOT_CALLER, open, false, false, &no_kernel).unwrap();

    let mut last = MoveProgress::default();
    let host = NodeId("c".into());
    let report = a.empty_host(&host, UNBOUNDED, &mut |progress| last = progress).unwrap();
    assert_eq!((report.files, report.stuck), (12, 1), "{report:?}");
    assert_eq!(report.stuck_files[0].path, "/f7");
    assert_eq!(report.stuck_files[0].why, "it is open");
    assert_eq!((last.files_done, last.files_left), (12, 0));
    wait_for_state(&b, "c", "leaving");
    assert_eq!(home(&a, "f7"), "c");
    c.release(open, false);
    assert_eq!(empty(&a, "c").files, 1, "it goes on where it was");
    let homes: Vec<String> = names.iter().map(|name| home(&a, name)).collect();
    assert!(homes.iter().all(|home| home == "a" || home == "b"), "{homes:?}");
    wait_until("its disk is empty", || c.status().unwrap().tiers[0].space.used_bytes == 0);
    for node in [&a, &b, &c] {
        for (seed, name) in (0..).zip(&names) {
            assert_eq!(get(node, name).unwrap(), pattern(MIB / 2 + usize::from(seed), seed));
        }
        assert_eq!(get(node, "long").unwrap(), pattern(20 * MIB, 99));
        assert_eq!(get(node, "small").unwrap(), b"beside its inode");
    }
    c.close().unwrap();
    wait_until("it is no member any more", || state_of(&a, "c").is_empty());
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_host_whose_metadata_is_needed_stays_a_member_although_it_was_told_to_leave() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    // On a busy machine a host may miss beats as soon as it has begun; nobody counts on its room then.
    wait_for_state(&a, "a", "serving");
    empty(&a, "b");
    b.stay_member();
    b.close().unwrap();
    wait_for_state(&a, "b", "stopped");
    a.close().unwrap();
}

#[test]
fn what_a_host_makes_after_it_was_told_to_leave_is_born_elsewhere() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    wait_until("both have told their room", || {
        let hosts = a.status().unwrap().hosts;
        hosts.len() == 2 && hosts.iter().all(|host| host.free_bytes > 0)
    });
    empty(&a, "b");
    // It hears of the order with its next beat.
    let mut numbers = 0..;
    wait_until("a new file is not at the host that leaves", || {
        let name = format!("new{}", numbers.next().unwrap_or_default());
        put(&b, &name, &pattern(2 * MIB, 5));
        settle(&b);
        assert_eq!(get(&a, &name).unwrap(), pattern(2 * MIB, 5));
        home(&a, &name) == "a"
    });
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn nobody_leaves_without_room_for_his_files_and_who_stays_after_all_serves_on() {
    let deployment = Deployment::new();
    let a = deployment.start_with("a", ByteCount::mib(2));
    let b = deployment.start("b");
    let content = pattern(4 * MIB, 6);
    put(&b, "f", &content);
    settle(&b);
    wait_until("a has heard how full b is", || {
        let hosts = a.status().unwrap().hosts;
        hosts.iter().any(|h| h.host == "b" && h.capacity_bytes - h.free_bytes >= 4 * MIB as u64)
    });
    let host = NodeId("b".into());
    let refused = a.empty_host(&host, UNBOUNDED, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
    assert_eq!(state_of(&a, "b"), "serving");
    put(&a, "g", &pattern(MIB, 1));
    settle(&a);
    let (node, host) = (&b, NodeId("a".into()));
    assert_eq!(empty(node, "a").files, 1);
    wait_for_state(&b, "a", "leaving");
    node.keep_host(&host).unwrap();
    wait_for_state(&b, "a", "serving");
    a.close().unwrap();
    wait_for_state(&b, "a", "stopped");
    b.close().unwrap();
}

#[test]
fn moving_keeps_to_its_rate() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    for n in 0..8 {
        put(&b, &format!("f{n}"), &pattern(MIB / 4, n));
    }
    settle(&b);
    let begun = Instant::now();
    let slowly = MoveOptions { bytes_per_s: Some(MIB as u64) };
    let report = a.empty_host(&NodeId("b".into()), slowly, &mut |_| {}).unwrap();
    assert_eq!((report.files, report.bytes), (8, 2 * MIB as u64));
    assert!(begun.elapsed() > Duration::from_millis(1900), "{:?}", begun.elapsed());
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_fast_host_gets_more_than_a_slow_one() {
    let deployment = Deployment::new();
    let a = deployment.start_with("a", ByteCount::mib(64));
    for n in 0..24 {
        put(&a, &format!("f{n}"), &pattern(MIB, n));
    }
    settle(&a);
    let b = deployment.start_with("b", ByteCount::mib(64));
    let speed = |host: &str, speed| (NodeId(host.into()), NonZeroU64::new(speed).unwrap());
    let speeds = Speeds::from([speed("a", 100), speed("b", 300)]);
    let told = || {
        a.plan_balance(&speeds).is_ok_and(|p| p.first().is_some_and(|t| t.bytes == 18 * MIB as u64))
    };
    wait_until("both have told how full they are", told);
    let refused = a.plan_balance(&Speeds::from([speed("a", 100)])).unwrap_err();
    assert!(
        matches!(&refused, Error::Invalid(why) if why.contains("host 'b' has none")),
        "{refused}"
    );
    let report = b.balance(&speeds, UNBOUNDED, &mut |_| {}).unwrap();
    assert_eq!((report.files, report.stuck), (18, 0));
    wait_until("they hold what they are due", || a.plan_balance(&speeds).unwrap().is_empty());
    let at_b = (0..24).filter(|n| home(&a, &format!("f{n}")) == "b").count();
    assert_eq!(at_b, 18);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn an_empty_host_that_joins_gets_its_part() {
    let deployment = Deployment::new();
    let a = deployment.start_with("a", ByteCount::mib(64));
    for n in 0..24 {
        put(&a, &format!("f{n}"), &pattern(MIB, n));
    }
    settle(&a);
    let b = deployment.start_with("b", ByteCount::mib(64));
    let told = || {
        a.plan_balance(&Speeds::new()).unwrap().first().is_some_and(|t| t.bytes == 12 * MIB as u64)
    };
    wait_until("both have told how full they are", told);
    let report = b.balance(&Speeds::new(), UNBOUNDED, &mut |_| {}).unwrap();
    assert_eq!((report.files, report.stuck), (12, 0));
    wait_until("it is even", || a.plan_balance(&Speeds::new()).unwrap().is_empty());
    let at_b = (0..24).filter(|n| home(&a, &format!("f{n}")) == "b").count();
    assert_eq!(at_b, 12);
    for n in 0..24 {
        assert_eq!(get(&a, &format!("f{n}")).unwrap(), pattern(MIB, n));
    }
    settle(&b);
    assert_eq!(b.balance(&Speeds::new(), UNBOUNDED, &mut |_| {}).unwrap(), MoveReport::default());
    a.close().unwrap();
    b.close().unwrap();
}
