//! Hints that say where files go: beside their group, dealt over all hosts, in regions.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use deployment::{
    Deployment, MIB, ROOT_CALLER, close_all, close_writer, content_of, crash, get, hint, home,
    metric, no_kernel, overwrite, pattern, put_in, records, regular, wait_until, write_and_close,
};
use intarsia_meta::{CommitOutcome, Inode, Mutation, OpId, keys};
use intarsia_node::{AttrChange, KernelBacking, NewName, Node, SetMode, SetTime};
use intarsia_types::{FileKind, HintKey, InodeId, Timestamp};

const KIB: usize = 1 << 10;

/// A directory whose files have these hints.
fn directory(node: &Node, name: &str, hints: &[(&str, &str)]) -> InodeId {
    let new = NewName { kind: FileKind::Directory, perm: 0o755, ..regular() };
    let (attr, _) = node.make(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &new).unwrap();
    for (key, value) in hints {
        let key = format!("user.intarsia.{key}");
        node.set_xattr(attr.ino, key.as_bytes(), value.as_bytes(), SetMode::Either).unwrap();
    }
    attr.ino
}

#[test]
fn files_of_a_group_lie_on_one_host_whoever_makes_them() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 64), ("b", 64), ("c", 64)]);
    let groups = ["x", "y", "z"];
    let mut homes = BTreeMap::new();
    for group in groups {
        let place = format!("collocate:{group}");
        let dir = directory(&nodes[0], group, &[("place", &place)]);
        for (n, node) in nodes.iter().enumerate() {
            let content = pattern(200 * KIB + n, u8::try_from(n).unwrap());
            let ino = put_in(node, dir, &format!("f{n}"), &content);
            for reader in &nodes {
                assert_eq!(content_of(reader, ino).unwrap(), content);
            }
            let home = home(node, &format!("{group}/f{n}"));
            assert_eq!(homes.entry(group).or_insert_with(|| home.clone()), &home, "{group} {n}");
        }
    }
    let mut used: Vec<_> = homes.values().cloned().collect();
    used.sort();
    assert_eq!(used, ["a", "b", "c"], "three groups on three hosts");
    let sum = |name| nodes.iter().map(|node| metric(node, name)).sum::<u64>();
    assert_eq!(sum("files_placed_as_hinted_total"), 9);
    assert_eq!(sum("files_placed_otherwise_total"), 0);
    close_all(&nodes);
}

#[test]
fn a_group_can_name_its_host_and_goes_on_without_it() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 64), ("b", 64), ("c", 8)]);
    let [a, b, c] = &nodes;
    let at_b = directory(a, "at-b", &[("place", "collocate:sums@b")]);
    put_in(a, at_b, "one", &pattern(300 * KIB, 1));
    put_in(c, at_b, "two", &pattern(300 * KIB, 2));
    assert_eq!((home(a, "at-b/one"), home(a, "at-b/two")), ("b".into(), "b".into()));

    let nowhere = directory(a, "nowhere", &[("place", "collocate:sums@elsewhere")]);
    let ino = put_in(a, nowhere, "f", &pattern(300 * KIB, 3));
    assert_eq!(home(b, "nowhere/f"), "a", "advice that cannot be followed");
    assert_eq!(content_of(b, ino).unwrap(), pattern(300 * KIB, 3));
    assert_eq!(metric(a, "files_placed_otherwise_total"), 1);

    // A host that is full takes none either.
    let at_c = directory(a, "at-c", &[("place", "collocate:more@c")]);
    put_in(c, InodeId::ROOT, "filling", &pattern(7 * MIB + 256 * KIB, 7));
    wait_until("the others know that it is full", || {
        let hosts = a.status().unwrap().hosts;
        hosts.iter().any(|host| host.host == "c" && host.free_bytes < (2 * MIB) as u64)
    });
    put_in(a, at_c, "f", &pattern(300 * KIB, 4));
    assert_ne!(home(b, "at-c/f"), "c");
    assert_eq!(get(c, "filling").unwrap().len(), 7 * MIB + 256 * KIB);
    close_all(&nodes);
}

#[test]
fn a_file_of_a_group_stays_there_whoever_writes_it_anew() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 64), ("b", 64), ("c", 64)]);
    let [a, _, c] = &nodes;
    let dir = directory(a, "d", &[("place", "collocate:g@b")]);
    let ino = put_in(a, dir, "f", &pattern(300 * KIB, 1));
    assert_eq!(home(a, "d/f"), "b");
    overwrite(c, ino, 1000, &pattern(5000, 9), false).unwrap();
    let mut expected = pattern(300 * KIB, 1);
    expected[1000..6000].copy_from_slice(&pattern(5000, 9));
    assert_eq!((home(a, "d/f"), content_of(a, ino).unwrap()), ("b".into(), expected));
    overwrite(c, ino, 0, &pattern(400 * KIB, 2), true).unwrap();
    assert_eq!((home(a, "d/f"), content_of(a, ino).unwrap()), ("b".into(), pattern(400 * KIB, 2)));
    close_all(&nodes);
}

#[test]
fn what_is_reduced_together_lies_together_without_a_name_for_it() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 64), ("b", 64)]);
    let dir = directory(&nodes[0], "partial", &[("pattern", "reduce")]);
    let mut homes = Vec::new();
    for (n, node) in nodes.iter().enumerate() {
        put_in(node, dir, &format!("f{n}"), &pattern(200 * KIB, 1));
        homes.push(home(node, &format!("partial/f{n}")));
    }
    assert_eq!(homes[0], homes[1]);
    close_all(&nodes);
}

#[test]
fn files_that_are_distributed_are_dealt_over_all_hosts() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 64), ("b", 64), ("c", 64)]);
    hint(&nodes[0], "pattern", "distribute");
    let mut files: BTreeMap<String, u32> = BTreeMap::new();
    for n in 0..60u8 {
        let name = format!("f{n}");
        put_in(&nodes[0], InodeId::ROOT, &name, &pattern(100 * KIB, n));
        assert_eq!(get(&nodes[1], &name).unwrap(), pattern(100 * KIB, n));
        *files.entry(home(&nodes[0], &name)).or_default() += 1;
    }
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(files.values().all(|count| *count == 20), "they are equally long: {files:?}");
    close_all(&nodes);
}

#[test]
fn the_regions_of_a_scattered_file_lie_on_hosts_that_one_can_read() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 64), ("b", 64), ("c", 64)]);
    let dir = directory(&nodes[0], "d", &[("place", "scatter:20000")]);
    let content = pattern(170_001, 5);
    let ino = put_in(&nodes[0], dir, "f", &content);
    for node in &nodes {
        assert_eq!(content_of(node, ino).unwrap(), content);
    }
    let layout = nodes[1].get_xattr(ino, b"user.intarsia.layout").unwrap();
    let layout = String::from_utf8(layout).unwrap();
    assert!(layout.starts_with("striped parts=3 chunk=20000 "), "{layout}");
    let hosts = layout.rsplit_once("hosts=").unwrap().1;
    let mut hosts: Vec<_> = hosts.split(',').collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["a", "b", "c"]);
    close_all(&nodes);
}

/// As `intarsia run` does before a task begins, on the host where it will run.
#[test]
fn a_file_that_gets_its_hints_after_it_was_made_and_before_it_is_written_is_where_they_say() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 64), ("b", 64)]);
    let [a, b] = &nodes;
    let dir = directory(a, "d", &[]);
    nodes.iter().for_each(|node| node.set_kernel_mode(true, false));
    let kernel = |_: BorrowedFd<'_>| -> std::io::Result<KernelBacking> { Ok(Arc::new(())) };
    let content = pattern(300 * KIB, 4);
    let cases = [
        (a, true, "collocate:g@b", &["b"][..]),
        (b, true, "collocate:g@b", &["b"][..]),
        (a, false, "collocate:g@b", &["b"][..]),
        (b, false, "collocate:g@b", &["b"][..]),
        (a, true, "stripe:2", &["a", "b"]),
        (b, false, "stripe:2", &["a", "b"]),
    ];
    for (number, (writer, is_truncated, place, hosts)) in cases.into_iter().enumerate() {
        let name = format!("f{number}");
        let made = a.create_file(ROOT_CALLER, dir, name.as_bytes(), &regular(), true, &kernel);
        let (ino, opened) = made.map(|(attr, opened)| (attr.ino, opened)).unwrap();
        assert!(opened.passthrough.is_some(), "it has a backing file here already");
        let value = place.as_bytes();
        a.set_xattr(ino, b"user.intarsia.place", value, SetMode::Either).unwrap();
        close_writer(a, ino);
        writer.open_file(ROOT_CALLER, ino, true, is_truncated, &kernel).unwrap();
        write_and_close(writer, ino, 0, &content);
        let mut found = a.locate(&format!("/d/{name}")).unwrap().nodes;
        found.sort();
        assert_eq!(found, hosts, "{number}");
        assert_eq!(content_of(a, ino).unwrap(), content);
    }
    assert_eq!(metric(a, "files_placed_as_hinted_total"), 2);
    // What is written stays where it is.
    let ino = put_in(a, dir, "written", &content);
    a.set_xattr(ino, b"user.intarsia.place", b"collocate:g@b", SetMode::Either).unwrap();
    overwrite(a, ino, 0, &pattern(200 * KIB, 5), true).unwrap();
    assert_eq!(home(b, "d/written"), "a");
    close_all(&nodes);
}

#[test]
fn hints_that_another_host_gives_a_closed_file_are_followed_where_it_is_opened_next() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all_sized([("a", 64), ("b", 64)]);
    let [a, b] = &nodes;
    let dir = directory(a, "d", &[]);
    a.set_kernel_mode(true, false);
    let kernel = |_: BorrowedFd<'_>| -> std::io::Result<KernelBacking> { Ok(Arc::new(())) };
    let content = pattern(300 * KIB, 4);
    for (place, hosts) in [("collocate:g@b", &["b"][..]), ("stripe:2", &["a", "b"])] {
        let made = a.create_file(ROOT_CALLER, dir, place.as_bytes(), &regular(), true, &kernel);
        let ino = made.map(|(attr, _)| attr.ino).unwrap();
        close_writer(a, ino);
        b.set_xattr(ino, b"user.intarsia.place", place.as_bytes(), SetMode::Either).unwrap();
        // At once: its host still knows it as it was closed.
        a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
        write_and_close(a, ino, 0, &content);
        let mut found = a.locate(&format!("/d/{place}")).unwrap().nodes;
        found.sort();
        assert_eq!(found, hosts, "{place}");
        assert_eq!(content_of(b, ino).unwrap(), content);
    }
    close_all(&nodes);
}

#[test]
fn hints_are_followed_that_an_older_version_did_not_note_in_the_record() {
    let deployment = Deployment::new();
    let hosts = || deployment.start_all_sized([("a", 64), ("b", 64)]);
    let nodes = hosts();
    let dir = directory(&nodes[0], "d", &[("place", "collocate:g@b")]);
    let old = put_in(&nodes[0], dir, "old", &pattern(300 * KIB, 1));
    close_all(&nodes);
    drop(nodes);
    let (engine, names) = (deployment.engine(), records(deployment.engine()));
    for ino in [dir, old] {
        let older = Inode { hints: None, ..names.get(ino).unwrap() };
        let change = Mutation::Put(keys::inode(ino), older.encode().unwrap());
        let op = OpId { session: 0, number: 0 };
        let done = engine.commit(ino.partition(), op, &[], vec![change]).unwrap();
        assert_eq!(done, CommitOutcome::Applied);
    }
    let nodes = hosts();
    let [a, b] = &nodes;
    nodes.iter().for_each(|node| node.meet_members().unwrap());
    put_in(a, dir, "new", &pattern(300 * KIB, 2));
    for name in ["old", "new"] {
        let hints = a.locate(&format!("/d/{name}")).unwrap().hints;
        let said: Vec<_> = hints.iter().map(|hint| (hint.name, hint.value.as_str())).collect();
        assert_eq!(said, [(HintKey::Place, "collocate:g@b")], "{name}");
        assert_eq!(home(b, &format!("d/{name}")), "b");
    }
    overwrite(a, old, 0, &pattern(200 * KIB, 3), false).unwrap();
    close_all(&nodes);
    assert!(names.get(old).unwrap().hints.is_some(), "it was written");
    assert_eq!(names.check(false, &mut |_| {}).unwrap().findings, []);
}

#[test]
fn times_that_are_set_while_a_file_is_written_through_its_home_stay_after_the_close() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b"]);
    let [a, b] = &nodes;
    let dir = directory(a, "d", &[("place", "collocate:g@a")]);
    let ino = put_in(b, dir, "f", &pattern(200 * KIB, 1));
    assert_eq!(home(b, "d/f"), "a");
    let at = Timestamp { secs: 1_000_000, nanos: 7 };
    let (time, none) = (Some(SetTime::At(at)), AttrChange::default());
    let seen = |node: &Node| node.lookup(dir, b"f").unwrap().0.mtime;
    let open = || b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    for change in
        [AttrChange { mtime: time, ..none }, AttrChange { mtime: time, atime: time, ..none }]
    {
        open();
        b.write(ino, 0, b"new", false, false).unwrap();
        b.set_attributes(ROOT_CALLER, ino, &change).unwrap();
        close_writer(b, ino);
        assert_eq!((seen(a), seen(b)), (at, at));
        wait_until("it has settled", || a.status().unwrap().unsettled == 0);
        assert_eq!((seen(a), seen(b)), (at, at));
        open();
        b.set_attributes(ROOT_CALLER, ino, &change).unwrap();
        write_and_close(b, ino, 0, b"newer");
        assert!(seen(a) > at && seen(b) > at, "written to since");
    }
    close_all(&nodes);
}

/// The new home gets its bytes as it opens it, or has a copy.
#[test]
fn a_file_that_moved_has_the_time_of_its_last_write_also_after_a_crash_of_its_new_home() {
    for replicas in ["1", "2"] {
        let deployment = Deployment::new();
        let [a, b] = deployment.start_all(["a", "b"]);
        let ino = put_in(&a, InodeId::ROOT, "f", &pattern(200 * KIB, 1));
        let at = Timestamp { secs: 1_000_000, nanos: 7 };
        let change = AttrChange { mtime: Some(SetTime::At(at)), ..AttrChange::default() };
        wait_until("it has settled", || a.status().unwrap().unsettled == 0);
        a.set_attributes(ROOT_CALLER, ino, &change).unwrap();
        let wanted = replicas.as_bytes();
        a.set_xattr(ino, b"user.intarsia.replicas", wanted, SetMode::Either).unwrap();
        let copies = || a.locate("/f").unwrap().nodes.len().to_string();
        wait_until("it has its copies", || copies() == replicas);
        b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
        assert_eq!(a.locate("/f").unwrap().nodes[0], "b");
        crash(b);
        let b = deployment.start("b");
        let seen = |node: &Node| node.lookup(InodeId::ROOT, b"f").unwrap().0.mtime;
        assert_eq!(seen(&b), at, "{replicas} copies");
        // The other host sets a time while nobody knows what was written before the crash.
        let later = Timestamp { secs: 2_000_000, nanos: 8 };
        let change = AttrChange { mtime: Some(SetTime::At(later)), ..change };
        a.set_attributes(ROOT_CALLER, ino, &change).unwrap();
        assert_eq!(seen(&b), later, "{replicas} copies");
        wait_until("it has settled", || b.status().unwrap().unsettled == 0);
        for node in [&a, &b] {
            assert_eq!(seen(node), later, "{replicas} copies");
        }
        close_all(&[a, b]);
    }
}
