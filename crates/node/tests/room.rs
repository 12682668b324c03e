//! Hosts without room: their new files go to other hosts, and what `df` shows is the store.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, close_all, content_of, crash, get, hint, home, metric, no_kernel,
    overwrite, pattern, put, regular, wait_until, write_and_close,
};
use intarsia_node::{AttrChange, Node};
use intarsia_types::{Error, InodeId};

const KIB: usize = 1 << 10;

/// Fills an eight-MiB host so far that it takes no new files.
fn fill(node: &Node, name: &str) {
    put(node, name, &pattern(7 * MIB + 256 * KIB, 7));
    assert!(node.status().unwrap().tiers[0].is_low);
}

#[test]
fn a_new_file_of_a_full_host_goes_to_the_one_with_most_room() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 8), ("b", 16), ("c", 64)]);
    let [a, b, c] = &nodes;
    put(a, "victim", &pattern(64 * KIB, 1));
    fill(a, "filling");
    assert_eq!((home(a, "victim"), home(a, "filling")), ("a".into(), "a".into()));

    let content = pattern(3 * MIB + 17, 2);
    put(a, "new", &content);
    assert_eq!(home(b, "new"), "c", "the roomiest");
    assert_eq!(a.locate("/new").unwrap().layout, "local");
    for node in &nodes {
        assert_eq!(get(node, "new").unwrap(), content);
    }
    assert_eq!(metric(a, "files_born_elsewhere_total"), 1);
    assert_eq!(metric(c, "files_taken_in_total"), 1);
    // It is a file of its home like any other.
    assert!(c.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    assert!(a.locate("/new").unwrap().checksummed);

    put(a, "small", b"beside its inode");
    assert_eq!(get(c, "small").unwrap(), b"beside its inode");
    assert_eq!(metric(a, "files_born_elsewhere_total"), 1, "it needs no tier");

    // One process creates, another writes.
    let (made, _) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"made", &regular(), true, &no_kernel).unwrap();
    a.flush(made.ino).unwrap();
    a.release(made.ino, true);
    overwrite(a, made.ino, 0, &content, false).unwrap();
    assert_eq!((home(a, "made"), get(b, "made").unwrap()), ("c".into(), content));

    // Cut to nothing, a file is as good as new.
    let victim = a.lookup(InodeId::ROOT, b"victim").unwrap().0.ino;
    let longer = pattern(4 * MIB, 3);
    overwrite(a, victim, 0, &longer, true).unwrap();
    assert_eq!((home(a, "victim"), get(b, "victim").unwrap()), ("c".into(), longer));
    wait_until("its file here is gone", || {
        a.status().unwrap().tiers[0].space.used_bytes < (7 * MIB + 320 * KIB) as u64
    });
    close_all(&nodes);
}

#[test]
fn many_small_writes_to_many_files_all_find_a_home() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 8), ("b", 64), ("c", 64)]);
    let [a, b, c] = &nodes;
    fill(a, "filling");
    let content = |n: u8| pattern(20_000 + usize::from(n), n);
    for n in 0..40 {
        let name = format!("f{n}");
        let (made, _) = a
            .create_file(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &regular(), true, &no_kernel)
            .unwrap();
        for (i, part) in content(n).chunks(1000).enumerate() {
            a.write(made.ino, (i * 1000) as u64, part, false, false).unwrap();
        }
        assert_eq!(a.attributes(made.ino).unwrap().0.size_bytes, 20_000 + u64::from(n));
        a.flush(made.ino).unwrap();
        a.release(made.ino, true);
    }
    for n in 0..40 {
        let name = format!("f{n}");
        assert_ne!(home(a, &name), "a");
        for node in [a, b, c] {
            assert_eq!(get(node, &name).unwrap(), content(n), "{name}");
        }
    }
    assert_eq!(metric(a, "files_born_elsewhere_total"), 40);
    let taken = |node| metric(node, "files_taken_in_total");
    assert_eq!(taken(b) + taken(c), 40);
    assert!(taken(b) > 0 && taken(c) > 0, "equals share them");
    close_all(&nodes);
}

#[test]
fn a_small_file_keeps_what_was_published_until_it_has_grown_and_is_closed() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 8), ("b", 64)]);
    let [a, b] = &nodes;
    fill(a, "filling");
    let ino = put(a, "f", b"old");
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    let content = pattern(MIB, 5);
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, 0, &content[..2000], false, false).unwrap();
    a.write(ino, 2000, &content[2000..], false, false).unwrap();
    assert_eq!(content_of(a, ino).unwrap(), content, "its own host reads what it wrote");
    assert_eq!(b.locate("/f").unwrap().layout, "inline");
    a.flush(ino).unwrap();
    a.release(ino, true);
    assert_eq!((home(b, "f"), get(b, "f").unwrap()), ("b".into(), content));
    close_all(&nodes);
}

#[test]
fn whatever_makes_a_file_grow_finds_it_a_home() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 8), ("b", 64)]);
    let [a, b] = &nodes;
    fill(a, "filling");
    let make = |name: &str| {
        let name = name.as_bytes();
        a.create_file(ROOT_CALLER, InodeId::ROOT, name, &regular(), true, &no_kernel).unwrap().0.ino
    };
    let allocated = make("allocated");
    a.allocate(allocated, 0, 2 * MIB as u64, 0).unwrap();
    a.allocate(allocated, 0, 3 * MIB as u64, 0).unwrap();
    write_and_close(a, allocated, 10, b"data");
    assert_eq!(get(b, "allocated").unwrap().len(), 3 * MIB);
    assert_eq!(get(b, "allocated").unwrap()[10..14], *b"data");

    let cut = make("cut");
    let change = AttrChange { size_bytes: Some(5 * MIB as u64), ..AttrChange::default() };
    a.set_attributes(ROOT_CALLER, cut, &change).unwrap();
    write_and_close(a, cut, 0, b"head");
    assert_eq!(get(b, "cut").unwrap().len(), 5 * MIB);

    let copied = make("copied");
    let source = a.lookup(InodeId::ROOT, b"filling").unwrap().0.ino;
    a.open_file(ROOT_CALLER, source, false, false, &no_kernel).unwrap();
    let mut at = 0;
    while at < 2 * MIB as u64 {
        at += a.copy_range(source, at, copied, at, 2 * MIB as u64 - at).unwrap() as u64;
    }
    a.release(source, false);
    write_and_close(a, copied, at, b"end");
    assert_eq!(get(b, "copied").unwrap()[..2 * MIB], get(a, "filling").unwrap()[..2 * MIB]);
    for name in ["allocated", "cut", "copied"] {
        assert_eq!(home(a, name), "b", "{name}");
    }
    close_all(&nodes);
}

#[test]
fn a_file_of_another_host_is_written_through_it_when_there_is_no_room_here() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 8), ("b", 64)]);
    let [a, b] = &nodes;
    fill(a, "filling");
    let mut content = pattern(3 * MIB, 4);
    let ino = put(b, "f", &content);
    assert!(b.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    overwrite(a, ino, 100, b"from a", false).unwrap();
    content[100..106].copy_from_slice(b"from a");
    assert_eq!((home(a, "f"), get(b, "f").unwrap()), ("b".into(), content));
    overwrite(a, ino, 0, &pattern(2 * MIB, 6), true).unwrap();
    assert_eq!((home(a, "f"), get(b, "f").unwrap()), ("b".into(), pattern(2 * MIB, 6)));
    close_all(&nodes);
}

#[test]
fn a_host_that_does_not_answer_is_passed_over_and_copies_are_made_as_ever() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 8), ("b", 32), ("c", 64)]);
    let [a, b, c] = &nodes;
    fill(a, "filling");
    c.stop_serving();
    let content = pattern(2 * MIB, 8);
    put(a, "f", &content);
    assert_eq!((home(a, "f"), get(b, "f").unwrap()), ("b".into(), content.clone()));
    c.serve_again().unwrap();
    a.meet_members().unwrap();
    b.meet_members().unwrap();
    hint(a, "replicas", "2");
    hint(a, "close", "safe");
    put(a, "copied", &content);
    let holders = a.locate("/copied").unwrap().nodes;
    assert_eq!(holders.len(), 2, "{holders:?}");
    assert!(!holders.contains(&"a".to_owned()));
    close_all(&nodes);
}

#[test]
fn a_store_of_full_hosts_gives_enospc() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 8), ("b", 8)]);
    let [a, b] = &nodes;
    fill(a, "at a");
    fill(b, "at b");
    wait_until("a knows that b is full", || {
        let hosts = a.status().unwrap().hosts;
        hosts.iter().any(|host| host.host == "b" && host.free_bytes < MIB as u64)
    });
    let (made, _) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    let refused = a.write(made.ino, 0, &pattern(2 * MIB, 1), false, false).unwrap_err();
    assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
    assert_eq!(metric(a, "writes_refused_for_room_total"), 1);
    a.release(made.ino, true);
    put(a, "small", b"still fits");
    a.unlink(InodeId::ROOT, b"at a").unwrap();
    wait_until("there is room again", || !a.status().unwrap().tiers[0].is_low);
    put(a, "g", &pattern(2 * MIB, 2));
    assert_eq!(home(b, "g"), "a");
    close_all(&nodes);
}

#[test]
fn an_open_file_that_meets_the_end_of_its_tier_stays_and_gets_enospc() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 8), ("b", 64)]);
    let [a, _] = &nodes;
    let (made, _) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    a.write(made.ino, 0, &pattern(MIB, 1), false, false).unwrap();
    fill(a, "filling");
    let refused = a.write(made.ino, MIB as u64, &pattern(MIB, 1), false, false).unwrap_err();
    assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
    a.flush(made.ino).unwrap();
    a.release(made.ino, true);
    assert_eq!((home(a, "f"), get(a, "f").unwrap()), ("a".into(), pattern(MIB, 1)));
    close_all(&nodes);
}

#[test]
fn space_is_that_of_all_hosts_that_are_alive() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all_sized([("a", 8), ("b", 16), ("c", 64)]);
    put(&b, "f", &pattern(4 * MIB, 1));
    let mib = |node: &Node| {
        let (space, _) = node.space().unwrap();
        assert_eq!(space.capacity_bytes, space.used_bytes + space.free_bytes);
        (space.capacity_bytes >> 20, space.used_bytes >> 20)
    };
    for node in [&a, &b, &c] {
        wait_until("every host tells the same", || mib(node) == (88, 4));
    }
    crash(c);
    wait_until("a lost host counts no more", || mib(&a) == (24, 4));
    close_all(&[a, b]);
}

#[test]
fn a_file_that_another_host_has_no_room_for_stays_where_it_is_while_that_one_writes_it() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 64), ("b", 16)]);
    let [a, b] = &nodes;
    let mut content = pattern(20 * MIB, 1);
    let ino = put(a, "f", &content);
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    overwrite(b, ino, 0, b"by b", false).unwrap();
    content[..4].copy_from_slice(b"by b");
    assert_eq!(home(a, "f"), "a");
    nodes.iter().for_each(|node| assert!(content_of(node, ino).unwrap() == content));
    // What is cut to nothing needs no room.
    overwrite(b, ino, 0, &pattern(MIB, 2), true).unwrap();
    assert_eq!(home(a, "f"), "b");
    nodes.iter().for_each(|node| assert!(content_of(node, ino).unwrap() == pattern(MIB, 2)));
    close_all(&nodes);
}
