//! How many requests of the metadata servers an operation waits for.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

#[path = "../../meta/tests/common/counted.rs"]
mod counted;
mod deployment;
#[path = "../../meta/tests/common/hooked.rs"]
mod hooked;

use std::sync::Arc;
use std::time::{Duration, Instant};

use counted::Requests;
use deployment::{
    Deployment, ROOT_CALLER, close_all, content_of, crash, metric, overwrite, pattern, put_in,
    records, wait_until,
};
use hooked::Hooked;
use intarsia_meta::Recovered;
use intarsia_node::{NewName, Node, SetMode, begin_answering};
use intarsia_types::{Error, FileKind, InodeId};

/// A host, and what counts its requests.
type Host = (Arc<Node>, Arc<Hooked<Requests>>);

/// Hosts without leases on directories that count, each by itself.
fn hosts_named<const N: usize>(deployment: &Deployment, names: [&str; N]) -> [Host; N] {
    let hosts = names.map(|name| {
        let mut counted = None;
        let node = deployment.start_as(name, |options| {
            options.directory_leases = false;
            let cluster = options.cluster.as_mut().unwrap();
            let engine = Hooked::new(Arc::clone(&cluster.engine), Requests::default());
            cluster.engine = Arc::clone(&engine) as _;
            counted = Some(engine);
        });
        (node, counted.unwrap())
    });
    hosts.iter().for_each(|(node, _)| node.meet_members().unwrap());
    hosts
}

fn dir(node: &Node, parent: InodeId, name: &str) -> InodeId {
    let new = NewName { kind: FileKind::Directory, perm: 0o755, umask: 0, rdev: 0, target: None };
    node.make(ROOT_CALLER, parent, name.as_bytes(), &new).unwrap().0.ino
}

/// The same without what reserves numbers, which is for many.
fn without_reserving(asked: Vec<String>) -> Vec<String> {
    asked
        .into_iter()
        .filter(|request| !["get S", "scan S", "commit S"].contains(&&request[..]))
        .collect()
}

fn hosts(deployment: &Deployment) -> [Host; 2] {
    hosts_named(deployment, ["a", "b"])
}

/// A directory of the first host that the second one looks into.
fn world(deployment: &Deployment) -> ([Host; 2], InodeId) {
    let hosts = hosts(deployment);
    let top = dir(&hosts[0].0, InodeId::ROOT, "top");
    (hosts, top)
}

#[test]
fn a_directory_in_another_partition_is_made_in_two_commits() {
    let deployment = Deployment::new();
    let (hosts, top) = world(&deployment);
    let mut elsewhere = 0;
    for n in 0..10 {
        for (who, (node, counted)) in hosts.iter().enumerate() {
            let name = format!("{n}-{who}");
            let (ino, asked) = counted.hook.during(|| dir(node, top, &name));
            let expected: &[&str] = match ino.partition() == top.partition() {
                true => &["get I", "commit DIIS"],
                false => &["get I", "commit IST", "commit DIT"],
            };
            assert_eq!(without_reserving(asked), expected);
            elsewhere += u32::from(ino.partition() != top.partition());
            // What is there at once is there for the other host as well.
            let (other, of_other) = &hosts[1 - who];
            let found = other.lookup(top, name.as_bytes()).unwrap().0;
            assert_eq!((found.ino, found.kind), (ino, FileKind::Directory));
            let (_, asked) = of_other.hook.during(|| dir(other, ino, "in it"));
            assert_eq!(without_reserving(asked)[0], "get I", "nothing is in the way");
        }
    }
    assert!(elsewhere > 5);
    close_all(&hosts.map(|(node, _)| node));
    // Nothing of it stays behind.
    let names = records(deployment.engine());
    assert_eq!(names.recover_transactions(Duration::ZERO).unwrap(), Recovered::default());
    assert_eq!(names.check(false, &mut |_| {}).unwrap().findings, []);
}

#[test]
fn who_has_looked_removes_in_one_commit() {
    let deployment = Deployment::new();
    let ([(a, of_a), (b, of_b)], top) = world(&deployment);
    for n in 0..6 {
        put_in(&a, top, &format!("f{n}"), &pattern(100, 1));
    }
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    let remove = |name: &str| of_b.hook.during(|| b.unlink(top, name.as_bytes()).unwrap()).1;
    assert_eq!(remove("f0"), ["follow D", "commit DIISWB"]);
    b.lookup(top, b"f1").unwrap();
    assert_eq!(remove("f1"), ["commit DIISWB"]);
    // What has changed since is looked at again.
    for (n, name) in ["f2", "f3", "f4", "f5"].into_iter().enumerate() {
        let looked = b.lookup(top, name.as_bytes()).unwrap().0.ino;
        if n % 2 == 0 {
            overwrite(&a, looked, 0, &pattern(300, 2), false).unwrap();
        } else {
            a.unlink(top, name.as_bytes()).unwrap();
            put_in(&a, top, name, &pattern(100, 3));
        }
        assert!(remove(name).contains(&"follow D".into()));
        assert!(matches!(a.lookup(top, name.as_bytes()), Err(Error::NotFound)));
    }
    // A directory too.
    dir(&a, top, "d");
    b.lookup(top, b"d").unwrap();
    let (_, asked) = of_b.hook.during(|| b.rmdir(top, b"d").unwrap());
    assert!(
        asked.iter().all(|request| request.starts_with("commit")) && asked.len() <= 3,
        "{asked:?}"
    );
    for n in 0..4 {
        let (_, asked) = of_a.hook.during(|| a.lookup(top, format!("f{n}").as_bytes()).is_err());
        assert_eq!(asked, ["follow D"]);
    }
    close_all(&[a, b]);
}

/// The least that a turn cost of several, in which nothing else came between: questions and commits of both hosts.
#[test]
fn a_file_goes_from_host_to_host_in_few_requests() {
    let deployment = Deployment::new();
    let (hosts, top) = world(&deployment);
    // Beside its inode: look, open, body; right to write asked for, passed on; body; published. Bytes that move come with the
    // right, if they are few: look, open; right asked for, passed on; moved; published. Else the old host asks where they are.
    for (len, expected) in [(100, 7), (60_000, 6), (200_000, 7)] {
        let name = format!("f{len}");
        let ino = put_in(&hosts[0].0, top, &name, &pattern(len, 0));
        let turns = (1..=12u8).map(|turn| {
            let (node, _) = &hosts[usize::from(turn) % 2];
            let before: Vec<usize> =
                hosts.iter().map(|(_, counted)| counted.hook.all().len()).collect();
            node.lookup(top, name.as_bytes()).unwrap();
            assert_eq!(content_of(node, ino).unwrap(), pattern(len, turn - 1));
            overwrite(node, ino, 0, &pattern(len, turn), false).unwrap();
            let asked = hosts.iter().zip(before).map(|((_, counted), before)| {
                without_reserving(counted.hook.all().split_off(before))
            });
            asked.collect::<Vec<_>>()
        });
        let turns: Vec<_> = turns.collect();
        // Where the reader's handle was still open at the old host, it was written there.
        let passed_on = turns.iter().map(|asked| asked.concat());
        let passed_on = passed_on.filter(|asked| asked.contains(&"commit WI".into()));
        let least = passed_on.map(|asked| asked.len()).min().unwrap();
        assert_eq!(least, expected, "{turns:?}");
    }
    close_all(&hosts.map(|(node, _)| node));
}

/// The same for a program's own call, which looks the file up and opens it: whoever wrote it a moment ago is asked first.
#[test]
fn who_has_just_looked_asks_the_last_writer_at_once() {
    let deployment = Deployment::new();
    let (hosts, top) = world(&deployment);
    let ino = put_in(&hosts[0].0, top, "f", &pattern(60_000, 0));
    begin_answering(4711);
    let turns = (1..=24u8).map(|turn| {
        let (node, _) = &hosts[usize::from(turn) % 2];
        let before: Vec<usize> =
            hosts.iter().map(|(_, counted)| counted.hook.all().len()).collect();
        node.lookup(top, b"f").unwrap();
        overwrite(node, ino, 0, &pattern(30_000, turn), false).unwrap();
        let asked = hosts
            .iter()
            .zip(before)
            .map(|((_, counted), before)| without_reserving(counted.hook.all().split_off(before)));
        let asked = asked.collect::<Vec<_>>().concat();
        // What the last writer did not touch came with the right, byte for byte.
        let mut expected = pattern(30_000, turn);
        expected.extend_from_slice(&pattern(60_000, 0)[30_000..]);
        assert_eq!(content_of(node, ino).unwrap(), expected);
        asked
    });
    let turns: Vec<_> = turns.collect();
    let fewest = turns.iter().min_by_key(|asked| asked.len()).unwrap();
    let sorted = |mut asked: Vec<String>| {
        asked.sort_unstable();
        asked
    };
    let expected = ["commit FFI", "commit I", "commit WI", "follow D"].map(String::from);
    assert_eq!(sorted(fewest.clone()), expected, "{turns:?}");
    begin_answering(0);
    // A file that nobody has written for long is asked of the metadata, and its home is asked to give the bytes up.
    assert!(
        hosts
            .iter()
            .all(|(node, _)| node.wait_until_settled(Instant::now() + Duration::from_secs(30)))
    );
    overwrite(&hosts[1].0, ino, 0, &pattern(60_000, 99), false).unwrap();
    assert_eq!(content_of(&hosts[0].0, ino).unwrap(), pattern(60_000, 99));
    close_all(&hosts.map(|(node, _)| node));
}

/// They stand in the record, so a file with hints costs the requests of one without, whatever is done with it.
#[test]
fn nobody_asks_for_hints_whose_record_is_known() {
    let deployment = Deployment::watchful();
    let [(a, of_a), (b, of_b), (c, of_c)] = hosts_named(&deployment, ["a", "b", "c"]);
    let plain = dir(&a, InodeId::ROOT, "plain");
    let hinted = dir(&a, InodeId::ROOT, "hinted");
    for (name, value) in [("close", "fast"), ("cache", "64MiB"), ("lifetime", "reads:99")] {
        let name = format!("user.intarsia.{name}");
        a.set_xattr(hinted, name.as_bytes(), value.as_bytes(), SetMode::Either).unwrap();
    }
    let settled = || {
        let deadline = Instant::now() + Duration::from_secs(30);
        assert!([&a, &b].iter().all(|node| node.wait_until_settled(deadline)));
    };
    for (n, len) in [(0, 100), (1, 300_000)] {
        let [plain, hinted] =
            [plain, hinted].map(|dir| put_in(&a, dir, &n.to_string(), &pattern(len, 1)));
        settled();
        // Opened, read and closed; opened, written, published and closed; where it is.
        let of = |ino: InodeId, path: &str| {
            let read = of_b.hook.during(|| content_of(&b, ino).unwrap()).1;
            let write = || overwrite(&a, ino, 0, &pattern(len, 2), false).unwrap();
            let written = of_a.hook.during(write).1;
            let mut located = of_a.hook.during(|| a.locate(path).unwrap()).1;
            // A directory in another partition costs the way there one more.
            located.retain(|asked| !["follow D", "get I"].contains(&asked.as_str()));
            [read, written, located].map(without_reserving)
        };
        let [of_plain, of_hinted] =
            [of(plain, &format!("/plain/{n}")), of(hinted, &format!("/hinted/{n}"))];
        assert_eq!(of_hinted, of_plain, "{len} bytes");
        assert!(of_hinted[0].len() < 4, "{of_hinted:?}");
        settled();
    }

    // A survey, and repair, after a host is lost.
    for (name, value) in [("replicas", "2"), ("close", "safe")] {
        let name = format!("user.intarsia.{name}");
        a.set_xattr(hinted, name.as_bytes(), value.as_bytes(), SetMode::Either).unwrap();
    }
    let files = (0..6).map(|n| put_in(&c, hinted, &format!("c{n}"), &pattern(200_000, n)));
    let files: Vec<_> = files.collect();
    assert!(c.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    let before = [&of_a, &of_b].map(|counted| counted.hook.all().len());
    crash(c);
    drop(of_c);
    let repaired = || metric(&a, "copies_repaired_total") + metric(&b, "copies_repaired_total");
    wait_until("all have two copies again", || repaired() == files.len() as u64);
    settled();
    for (counted, before) in [&of_a, &of_b].into_iter().zip(before) {
        let asked = counted.hook.all().split_off(before);
        let for_hints = |request: &&String| !request.starts_with("commit") && request.contains('X');
        assert_eq!(asked.iter().find(for_hints), None);
    }
    close_all(&[a, b]);
}
