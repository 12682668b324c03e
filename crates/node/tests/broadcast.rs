//! Files with `pattern=broadcast` spread over the hosts that read them: these take pieces from each other, never old ones.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::sync::Arc;
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, close_all, crash, get, hint, metric, no_kernel, overwrite,
    pattern, put, wait_until,
};
use intarsia_node::Node;

/// All nodes read a file at the same time.
fn get_at_all(nodes: &[Arc<Node>], name: &str) -> Vec<Vec<u8>> {
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            nodes.iter().map(|node| scope.spawn(|| get(node, name).unwrap())).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    })
}

fn sum(nodes: &[Arc<Node>], name: &str) -> u64 {
    nodes.iter().map(|node| metric(node, name)).sum()
}

#[test]
fn readers_of_a_broadcast_file_take_most_of_it_from_each_other() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c", "d", "e", "f"]);
    let (home, readers) = nodes.split_first().unwrap();
    hint(home, "pattern", "broadcast");
    let content = pattern(12 * MIB + 77, 1);
    put(home, "f", &content);
    assert!(get_at_all(readers, "f").iter().all(|read| *read == content));
    let from_home = sum(readers, "broadcast_home_bytes_total");
    let from_readers = sum(readers, "broadcast_reader_bytes_total");
    assert_eq!(from_home + from_readers, 5 * content.len() as u64, "each took all of it once");
    assert!(from_home < 2 * content.len() as u64, "{from_home} of {}", content.len());
    let given = sum(readers, "broadcast_given_bytes_total");
    assert!(given >= from_readers);
    for reader in readers {
        assert_eq!(metric(reader, "patterns_total{pattern=\"broadcast\",met=\"yes\"}"), 1);
        let before = metric(reader, "remote_read_bytes_total");
        assert!(get(reader, "f").unwrap() == content);
        assert_eq!(metric(reader, "remote_read_bytes_total"), before, "it is here");
    }
    // Who comes late takes it from readers too.
    let late = deployment.start("late");
    late.meet_members().unwrap();
    nodes.iter().for_each(|node| node.meet_members().unwrap());
    assert!(get(&late, "f").unwrap() == content);
    assert!(metric(&late, "broadcast_reader_bytes_total") > 0);
    late.close().unwrap();
    close_all(&nodes);
    for name in ["a", "b", "late"] {
        wait_until("no copy is left", || deployment.files(name) <= usize::from(name == "a"));
    }
}

#[test]
fn a_copy_of_a_broadcast_file_is_never_shown_once_the_file_has_changed() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    let (home, readers) = nodes.split_first().unwrap();
    hint(home, "pattern", "broadcast");
    let mut content = pattern(2 * MIB, 1);
    let ino = put(home, "f", &content);
    for (round, writer) in nodes.iter().cycle().take(6).enumerate() {
        assert!(get_at_all(readers, "f").iter().all(|read| *read == content), "round {round}");
        // Open while it is written.
        let open = &readers[round % 2];
        open.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
        let new = [u8::try_from(round).unwrap(); 5];
        overwrite(writer, ino, 4097, &new, false).unwrap();
        content[4097..4102].copy_from_slice(&new);
        let mut read = [0; 5];
        assert_eq!(open.read(ino, 4097, &mut read).unwrap(), 5);
        assert_eq!(read, new, "round {round}");
        open.release(ino, false);
    }
    assert!(get_at_all(&nodes, "f").iter().all(|read| *read == content));
    close_all(&nodes);
}

#[test]
fn the_loss_of_a_reader_that_gives_keeps_nobody_waiting_for_long() {
    let deployment = Deployment::new();
    let [home, b, c, d] = deployment.start_all(["a", "b", "c", "d"]);
    hint(&home, "pattern", "broadcast");
    let content = pattern(8 * MIB, 3);
    put(&home, "f", &content);
    assert!(get(&b, "f").unwrap() == content);
    assert!(get(&c, "f").unwrap() == content);
    crash(b);
    let begun = Instant::now();
    assert!(get(&d, "f").unwrap() == content);
    assert!(begun.elapsed() < Duration::from_secs(60));
    close_all(&[home, c, d]);
}

#[test]
fn who_reads_a_part_neither_takes_all_nor_keeps_others_waiting() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c", "d", "e"]);
    let (home, readers) = nodes.split_first().unwrap();
    hint(home, "pattern", "broadcast");
    let content = pattern(64 * MIB, 3);
    let ino = put(home, "f", &content);
    let begun = Instant::now();
    // Each reads a region, and some here and there.
    std::thread::scope(|scope| {
        for (number, reader) in readers.iter().enumerate() {
            let content = &content;
            scope.spawn(move || {
                reader.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
                let region = (0..8).map(|n| (number * 16 * 8 + n) * MIB / 8);
                let strewn = (0..40).map(|n| (n * 7 + number) % 64 * MIB + 12_345);
                for at in region.chain(strewn) {
                    let mut read = vec![0; MIB / 8];
                    assert_eq!(
                        reader.read(ino, at as u64, &mut read[..]).unwrap(),
                        read.len().min(content.len() - at)
                    );
                    assert!(
                        content[at..].starts_with(&read[..(content.len() - at).min(read.len())])
                    );
                }
                reader.release(ino, false);
            });
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(30), "somebody has waited for who is gone");
    let taken =
        sum(readers, "broadcast_home_bytes_total") + sum(readers, "broadcast_reader_bytes_total");
    assert!(taken < 4 * 16 * MIB as u64, "{taken}");
    assert!(get(&readers[0], "f").unwrap() == content);
    close_all(&nodes);
}

#[test]
fn a_host_without_room_reads_a_broadcast_file_as_any_other_and_says_so() {
    let deployment = Deployment::new();
    // Copies may take half of the room in the small one's tier.
    let [home, small] = deployment.start_all_sized([("a", 512), ("b", 70)]);
    hint(&home, "pattern", "broadcast");
    let content = pattern(40 * MIB, 3);
    put(&home, "f", &content);
    assert!(get(&small, "f").unwrap() == content);
    assert_eq!(metric(&small, "patterns_total{pattern=\"broadcast\",met=\"no\"}"), 1);
    assert_eq!(metric(&small, "broadcast_files_total"), 0);
    close_all(&[home, small]);
}

#[test]
fn gathered_files_are_on_all_hosts_and_reused_ones_are_read_here_the_second_time() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    let (home, readers) = nodes.split_first().unwrap();
    hint(home, "pattern", "gather");
    put(home, "parts", &pattern(4 * MIB, 5));
    assert_eq!(home.locate("/parts").unwrap().nodes.len(), 3);
    assert_eq!(metric(home, "patterns_total{pattern=\"gather\",met=\"yes\"}"), 1);
    hint(home, "pattern", "reuse");
    let content = pattern(MIB, 6);
    put(home, "again", &content);
    wait_until("it is summed", || home.locate("/again").unwrap().checksummed);
    let reader = &readers[0];
    assert!(get(reader, "again").unwrap() == content);
    let before = metric(reader, "remote_read_bytes_total");
    assert!(get(reader, "again").unwrap() == content);
    assert_eq!(metric(reader, "remote_read_bytes_total"), before);
    assert!(metric(reader, "patterns_total{pattern=\"reuse\",met=\"yes\"}") > 0);
    // Advice that excludes a promise is not followed, and the file is made.
    hint(home, "pattern", "gather");
    hint(home, "replicas", "2");
    put(home, "whole", &content);
    assert_eq!(metric(home, "patterns_total{pattern=\"gather\",met=\"no\"}"), 1);
    close_all(&nodes);
}
