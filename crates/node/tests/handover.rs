//! A file that goes from host to host: who holds the right to write passes it on, in as few commits as it takes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use deployment::{Deployment, close_all, content_of, get, overwrite, pattern, put, records};
use intarsia_meta::{Namespace, Owner};
use intarsia_node::Node;
use intarsia_types::InodeId;

const KIB: usize = 1 << 10;

/// The life in which a host is now, by what it wrote.
fn life_of(names: &Namespace, node: &Node) -> Owner {
    let ino = put(node, "of-a-life", &pattern(200 * KIB, 9));
    names.writer(ino).unwrap().unwrap()
}

#[test]
fn each_host_in_turn_reads_and_writes_anew_what_the_one_before_wrote() {
    for len in [100, 20 * KIB, 200 * KIB] {
        let deployment = Deployment::new();
        let nodes = deployment.start_all(["a", "b", "c"]);
        let ino = put(&nodes[0], "f", &pattern(len, 0));
        let turns = 12u8;
        let mut commits = Vec::new();
        for turn in 1..=turns {
            let before = deployment.engine().stats().commits;
            let node = &nodes[usize::from(turn) % 3];
            assert_eq!(content_of(node, ino).unwrap(), pattern(len, turn - 1), "{len}, {turn}");
            overwrite(node, ino, 0, &pattern(len, turn), false).unwrap();
            commits.push(deployment.engine().stats().commits - before);
        }
        for node in &nodes {
            assert_eq!(get(node, "f").unwrap(), pattern(len, turns), "{len}");
        }
        // The holder's last word, which passes the right on; the bytes move; the close publishes. Beats of hosts come to it,
        // the more the slower the machine, but not in each turn.
        let least = *commits.iter().min().unwrap();
        assert!(least <= 3, "{commits:?} commits for the turns of a file of {len} bytes");
        close_all(&nodes);
    }
}

/// The answer of the host that passed it on may be lost.
#[test]
fn a_right_to_write_that_its_host_does_not_know_of_holds_nobody_up() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    let [a, b, c] = &nodes;
    let names = records(deployment.engine());
    let of_b = life_of(&names, b);
    for (turn, next) in [(1, a), (2, b), (3, c)] {
        let name = format!("f{turn}");
        let ino = put(a, &name, &pattern(200 * KIB, turn));
        // As if the host that wrote it had passed the right to one that has gone on to something else.
        overwrite(c, ino, 0, &pattern(10, 7), false).unwrap();
        overwrite(a, ino, 0, &pattern(10, 8), false).unwrap();
        assert!(
            a.wait_until_settled(std::time::Instant::now() + std::time::Duration::from_secs(30))
        );
        assert_eq!(names.writer(ino).unwrap(), None);
        pass(&deployment, ino, &of_b);
        assert_eq!(names.writer(ino).unwrap(), Some(of_b.clone()));
        let mut expected = pattern(200 * KIB, turn);
        expected[..10].copy_from_slice(&pattern(10, 8));
        for reader in &nodes {
            assert_eq!(content_of(reader, ino).unwrap(), expected, "{name}");
        }
        overwrite(next, ino, 0, &pattern(300 * KIB, 5), false).unwrap();
        for reader in &nodes {
            assert_eq!(content_of(reader, ino).unwrap(), pattern(300 * KIB, 5), "{name}");
        }
    }
    close_all(&nodes);
}

/// Gives a host the right to write a file without its knowing.
fn pass(deployment: &Deployment, ino: InodeId, to: &Owner) {
    let names = records(deployment.engine());
    names.set_owner(to.clone());
    drop(names.acquire_write(ino).unwrap());
}
