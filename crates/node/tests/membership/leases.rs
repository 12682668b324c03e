//! Leases on directories of hosts that die, or can reach only the metadata any more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use intarsia_node::Node;
use intarsia_types::InodeId;

use crate::deployment::{Deployment, crash, get, put, wait_until};

/// Uses the root until the node keeps what it reads of it.
fn lease_root(deployment: &Deployment, node: &Node) {
    wait_until("names are answered from what is kept", || {
        // Other hosts' beats read and write too; a look that takes no read shows that nothing was asked.
        let before = deployment.engine.stats().gets;
        for n in 0..40 {
            drop(node.lookup(InodeId::ROOT, format!("absent{n}").as_bytes()));
        }
        deployment.engine.stats().gets - before < 20
    });
}

#[test]
fn the_leases_of_a_host_that_died_hold_nobody_up_for_long() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    put(&a, "old", b"old");
    lease_root(&deployment, &a);
    crash(a);
    let begun = Instant::now();
    put(&b, "new", b"new");
    assert!(begun.elapsed() < Duration::from_secs(10));
    let begun = Instant::now();
    put(&b, "newer", b"newer");
    assert!(begun.elapsed() < Duration::from_secs(1), "its lease is gone");
    // The next life of the host knows what happened meanwhile.
    let a = deployment.start("a");
    assert_eq!(get(&a, "newer").unwrap(), b"newer");
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_host_that_others_cannot_reach_tells_nothing_old() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    put(&b, "before", b"");
    lease_root(&deployment, &a);
    // It goes on serving its own programs, and knows of nothing.
    a.stop_serving();
    a.hold_beats(true);
    let is_there = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            put(&b, "after", b"");
            is_there.store(true, Ordering::SeqCst);
        });
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut looks_after = 0;
        while looks_after < 100 {
            assert!(Instant::now() < deadline, "the change never came");
            let must_be_there = is_there.load(Ordering::SeqCst);
            let is_seen = a.lookup(InodeId::ROOT, b"after").is_ok();
            assert!(is_seen || !must_be_there, "what is long there is not seen");
            looks_after += u32::from(must_be_there);
        }
    });
    a.hold_beats(false);
    a.close().unwrap();
    b.close().unwrap();
}
