//! Files that move between the tiers of a host, as fast as these are.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;
#[path = "../../meta/tests/common/hooked.rs"]
mod hooked;

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, close_all, crash, get, home, no_kernel, overwrite, pattern, put,
    wait_until,
};
use hooked::{Hook, Hooked};
use intarsia_meta::keys;
use intarsia_node::{CheckOptions, MoveOptions, MoveReport, Node, NodeOptions, SetMode};
use intarsia_policy::Speeds;
use intarsia_types::{ByteCount, Error, InodeId, PartitionId, Result, TierClass, TierSpec};
use parking_lot::Mutex;
use proptest::prelude::*;

const UNBOUNDED: MoveOptions = MoveOptions { bytes_per_s: None };

fn two_tiers(options: &mut NodeOptions) {
    let dir = options.dir.clone();
    let tier = |name: &str| TierSpec {
        dir: dir.join(name),
        class: None,
        capacity: Some(ByteCount::mib(64)),
    };
    options.tiers = vec![tier("fast"), tier("slow")];
    options.watermark = ByteCount::mib(1);
}

fn alone(dir: &Path) -> NodeOptions {
    let mut options = NodeOptions::new(dir.join("store"));
    two_tiers(&mut options);
    options
}

fn speeds(node: &Node, of: &[u64]) -> Speeds<String> {
    let status = node.status().unwrap();
    let dirs = status.tiers.iter().map(|tier| tier.dir.display().to_string());
    dirs.zip(of).map(|(dir, speed)| (dir, NonZeroU64::new(*speed).unwrap())).collect()
}

fn tier_of(node: &Node, name: &str) -> u16 {
    node.locate(&format!("/{name}")).unwrap().tier.expect("it has a backing file")
}

fn settle(node: &Node) {
    assert!(node.wait_until_settled(Instant::now() + Duration::from_secs(30)));
}

fn balance(node: &Arc<Node>, of: &[u64]) -> MoveReport {
    node.balance_tiers(&speeds(node, of), UNBOUNDED, &mut |_| {}).unwrap()
}

fn faults(node: &Node) -> u64 {
    let report = node.check(CheckOptions { repair: false, content: true }, &mut |_| {}).unwrap();
    report.findings.len() as u64
}

#[test]
fn bytes_are_spread_over_the_tiers_as_fast_as_these_are_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(alone(dir.path())).unwrap();
    let inos: Vec<InodeId> =
        (0..12).map(|n| put(&node, &format!("f{n}"), &pattern(MIB + n, 1))).collect();
    put(&node, "small", b"beside its inode");
    settle(&node);
    let before = node.attributes(inos[3]).unwrap().0;
    let first = tier_of(&node, "f0");
    assert!((0..12).all(|n| tier_of(&node, &format!("f{n}")) == first), "born in the first tier");

    let plan = node.plan_tiers(&speeds(&node, &[100, 100])).unwrap();
    assert_eq!(plan.len(), 1);
    assert!(plan[0].from.ends_with("fast") && plan[0].to.ends_with("slow"), "{plan:?}");
    node.open_file(ROOT_CALLER, inos[0], false, false, &no_kernel).unwrap();
    let report = balance(&node, &[100, 300]);
    assert!(matches!(report.files, 8..=9), "{report:?}");
    node.release(inos[0], false);
    assert_eq!(report.moved.len() as u64, report.files);
    let away = |node: &Node| (0..12).filter(|n| tier_of(node, &format!("f{n}")) != first).count();
    assert_eq!(away(&node) as u64, report.files);
    for n in 0..12 {
        assert_eq!(get(&node, &format!("f{n}")).unwrap(), pattern(MIB + n, 1));
    }
    let after = node.attributes(inos[3]).unwrap().0;
    assert_eq!((after.mtime, after.size_bytes), (before.mtime, before.size_bytes));
    assert_eq!(faults(&node), 0);
    wait_until("what moved away is free there", || {
        let tiers = node.status().unwrap().tiers;
        let used: Vec<u64> = tiers.iter().map(|tier| tier.space.used_bytes / MIB as u64).collect();
        used[0] < 5 && used[1] >= report.files && used[1] < report.files + 2
    });

    // What is written anew stays where it is; what was removed is no concern of undoing.
    overwrite(&node, inos[5], 0, b"changed", false).unwrap();
    settle(&node);
    node.unlink(InodeId::ROOT, b"f6").unwrap();
    let back = node.move_back(&report.moved, UNBOUNDED, &mut |_| {}).unwrap();
    assert_eq!(back.stuck, 0, "{back:?}");
    assert!((0..12).filter(|n| *n != 6).all(|n| tier_of(&node, &format!("f{n}")) == first));
    let again = node.move_back(&report.moved, UNBOUNDED, &mut |_| {}).unwrap();
    assert_eq!((again.files, again.stuck), (0, 0), "they are back already");
    let mut changed = pattern(MIB + 5, 1);
    changed[..7].copy_from_slice(b"changed");
    assert_eq!(get(&node, "f5").unwrap(), changed);

    // All of it outlives the node.
    balance(&node, &[1, 1]);
    node.close().unwrap();
    drop(node);
    let node = Node::open(alone(dir.path())).unwrap();
    for n in (0..12).filter(|n| ![5, 6].contains(n)) {
        assert_eq!(get(&node, &format!("f{n}")).unwrap(), pattern(MIB + n, 1));
    }
    assert_eq!(faults(&node), 0);
    node.close().unwrap();
}

#[test]
fn speeds_that_are_not_those_of_the_tiers_are_refused_and_a_broken_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(alone(dir.path())).unwrap();
    let refused = |speeds: &Speeds<String>| match node.plan_tiers(speeds) {
        Err(Error::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(&Speeds::new()).contains("none is given"));
    let mut wrong = speeds(&node, &[1]);
    assert!(refused(&wrong).contains("has none"));
    wrong.insert("/elsewhere".into(), NonZeroU64::MIN);
    assert!(refused(&wrong).contains("no tier '/elsewhere'"));

    let content = pattern(4 * MIB, 3);
    put(&node, "f", &content);
    put(&node, "g", &pattern(MIB, 4));
    settle(&node);
    wait_until("it is summed", || node.locate("/f").unwrap().checksummed);
    let file = node.locate("/f").unwrap().backing_file.unwrap();
    let group = u64::from_str_radix(&file, 16).unwrap() >> 12;
    let path = dir.path().join(format!("store/fast/data/{group:013x}/{file}"));
    let mut broken = content;
    broken[MIB] ^= 1;
    std::fs::write(&path, &broken).unwrap();
    let report = balance(&node, &[1, 1_000_000]);
    assert_eq!((report.files, report.stuck), (0, 1), "{report:?}");
    assert_eq!(report.stuck_files[0].path, "/f");
    assert!(report.stuck_files[0].why.contains("differs from what was written"), "{report:?}");
    assert_eq!(
        node.status().unwrap().tiers[1].space.used_bytes / MIB as u64,
        0,
        "its copy is gone"
    );
    node.close().unwrap();
}

#[test]
fn a_host_of_several_moves_its_own_files_between_its_tiers() {
    let deployment = Deployment::new();
    let a = deployment.start_as("a", two_tiers);
    let b = deployment.start("b");
    for n in 0..8 {
        put(&a, &format!("f{n}"), &pattern(MIB, n));
    }
    settle(&a);
    let open = b.lookup(InodeId::ROOT, b"f2").unwrap().0.ino;
    b.open_file(ROOT_CALLER, open, false, false, &no_kernel).unwrap();
    let report = balance(&a, &[1, 1_000_000]);
    assert_eq!((report.files, report.stuck), (6, 1), "{report:?}");
    assert_eq!((&*report.stuck_files[0].path, &*report.stuck_files[0].why), ("/f2", "it is open"));
    b.release(open, false);
    wait_until("it may move now", || balance(&a, &[1, 1_000_000]).stuck == 0);
    settle(&a);
    for n in 0..8 {
        let name = format!("f{n}");
        assert_eq!(get(&b, &name).unwrap(), pattern(MIB, n));
        assert_eq!(home(&b, &name), "a");
    }
    overwrite(&b, open, 0, b"from b", false).unwrap();
    assert_eq!(&get(&a, "f2").unwrap()[..6], b"from b");
    close_all(&[a, b]);
}

/// A fast tier of class memory, and a slow one of class disk.
fn two_classes(options: &mut NodeOptions) {
    two_tiers(options);
    for (tier, class) in options.tiers.iter_mut().zip([TierClass::Memory, TierClass::Disk]) {
        tier.class = Some(class);
    }
}

fn set_tier(node: &Node, ino: InodeId, class: &[u8]) {
    node.set_xattr(ino, b"user.intarsia.tier", class, SetMode::Either).unwrap();
}

#[test]
fn a_file_moves_to_the_tier_that_its_hint_asks_for_as_soon_as_nobody_has_it_open() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = alone(dir.path());
    two_classes(&mut options);
    let node = Node::open(options).unwrap();
    let inos = [0, 1].map(|n| put(&node, &format!("f{n}"), &pattern(MIB, n)));
    let small = put(&node, "small", b"beside its inode");
    settle(&node);
    let before = node.attributes(inos[0]).unwrap().0;
    let [fast, slow] = [0, 1].map(|n| node.status().unwrap().tiers[n].tier);
    assert_eq!(tier_of(&node, "f0"), fast);

    node.open_file(ROOT_CALLER, inos[1], false, false, &no_kernel).unwrap();
    for ino in [inos[0], inos[1], small] {
        set_tier(&node, ino, b"disk");
    }
    wait_until("it moves", || tier_of(&node, "f0") == slow);
    assert_eq!(tier_of(&node, "f1"), fast, "it is open");
    node.release(inos[1], false);
    wait_until("it moves once it is closed", || tier_of(&node, "f1") == slow);
    let after = node.attributes(inos[0]).unwrap().0;
    assert_eq!((after.mtime, after.size_bytes), (before.mtime, before.size_bytes));

    // Also one that is just written, and what asks for nothing stays.
    let written = put(&node, "written", &pattern(MIB, 2));
    set_tier(&node, written, b"disk");
    wait_until("it moves after it was written", || tier_of(&node, "written") == slow);
    node.remove_xattr(inos[0], b"user.intarsia.tier").unwrap();
    set_tier(&node, inos[1], b"ssd");
    settle(&node);
    assert_eq!([tier_of(&node, "f0"), tier_of(&node, "f1")], [slow, slow], "there is no such tier");
    for n in 0..2 {
        assert_eq!(get(&node, &format!("f{n}")).unwrap(), pattern(MIB, n));
    }
    assert_eq!(faults(&node), 0);
    node.close().unwrap();
}

#[test]
fn the_home_of_a_file_moves_it_when_another_host_sets_the_hint() {
    let deployment = Deployment::new();
    let a = deployment.start_as("a", two_classes);
    let b = deployment.start_as("b", two_classes);
    a.meet_members().unwrap();
    put(&a, "f", &pattern(MIB, 7));
    settle(&a);
    let before = tier_of(&a, "f");
    let ino = b.lookup(InodeId::ROOT, b"f").unwrap().0.ino;
    set_tier(&b, ino, b"disk");
    wait_until("its home has moved it", || tier_of(&a, "f") != before);
    assert_eq!(home(&b, "f"), "a");
    assert_eq!(get(&b, "f").unwrap(), pattern(MIB, 7));
    overwrite(&b, ino, 0, b"from b", false).unwrap();
    assert_eq!(&get(&a, "f").unwrap()[..6], b"from b");
    close_all(&[a, b]);
}

type Work = Box<dyn FnOnce() + Send>;

/// Does something once the sums of a file are read, as they are when its copy in another tier is compared.
#[derive(Default)]
struct WhenCopied(Mutex<Option<Work>>);

impl Hook for WhenCopied {
    fn before_request(&self, what: &str, of: &mut dyn Iterator<Item = &[u8]>) {
        let mut is_of_sums = false;
        for key in of {
            is_of_sums |= what == "get" && key.starts_with(&[keys::CHECKSUM]);
        }
        let work = self.0.lock().take_if(|_| is_of_sums);
        if let Some(work) = work {
            work();
        }
    }

    fn before_commit(&self, _: PartitionId) -> Result<()> {
        Ok(())
    }
}

/// Has a file of 1 MiB of `pattern(1)` go to another tier, with something done by another thread while it is copied. The host, the
/// file, and whether that was done within half a minute.
fn moved_while(
    deployment: &Deployment,
    work: impl FnOnce(&Arc<Node>, InodeId) + Send + 'static,
) -> (Arc<Node>, InodeId, bool) {
    let mut engine = None;
    let a = deployment.start_as("a", |options| {
        two_classes(options);
        let cluster = options.cluster.as_mut().unwrap();
        let hooked = Hooked::new(Arc::clone(&cluster.engine), WhenCopied::default());
        cluster.engine = Arc::clone(&hooked) as _;
        engine = Some(hooked);
    });
    let engine = engine.unwrap();
    let ino = put(&a, "f", &pattern(MIB, 1));
    wait_until("it is summed", || a.locate("/f").unwrap().checksummed);
    let before = tier_of(&a, "f");
    let (sender, receiver) = channel();
    let host = Arc::clone(&a);
    *engine.hook.0.lock() = Some(Box::new(move || {
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            work(&host, ino);
            let _ = done.send(());
        });
        sender.send(is_done.recv_timeout(Duration::from_secs(30)).is_ok()).unwrap();
    }));
    set_tier(&a, ino, b"disk");
    let is_done = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
    wait_until("it moves", || tier_of(&a, "f") != before);
    (a, ino, is_done)
}

#[test]
fn nobody_waits_for_a_file_while_it_is_copied_into_another_tier() {
    let deployment = Deployment::new();
    let (a, _, is_read) = moved_while(&deployment, |a, ino| {
        assert_eq!(a.attributes(ino).unwrap().0.size_bytes, MIB as u64);
        a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
        let mut start = [0; 100];
        assert_eq!(a.read(ino, 0, &mut start).unwrap(), 100);
        assert_eq!(start, pattern(MIB, 1)[..100]);
        a.release(ino, true);
    });
    assert!(is_read, "it was read meanwhile");
    assert_eq!(get(&a, "f").unwrap(), pattern(MIB, 1));
    close_all(&[a]);
}

#[test]
fn a_check_takes_a_copy_on_its_way_to_another_tier_for_no_leftover() {
    let deployment = Deployment::new();
    let (a, _, is_checked) = moved_while(&deployment, |a, _| assert_eq!(faults(a), 0));
    assert!(is_checked, "no fault was found meanwhile");
    close_all(&[a]);
}

#[test]
fn what_is_written_while_a_file_is_copied_into_another_tier_goes_there_too() {
    let deployment = Deployment::new();
    let (a, _, is_written) = moved_while(&deployment, |a, ino| {
        overwrite(a, ino, 5, b"of the same length", false).unwrap();
    });
    assert!(is_written, "it was written meanwhile");
    let mut expected = pattern(MIB, 1);
    expected[5..23].copy_from_slice(b"of the same length");
    assert_eq!(get(&a, "f").unwrap(), expected);
    settle(&a);
    assert_eq!(faults(&a), 0);
    close_all(&[a]);
}

#[test]
fn a_crash_after_moving_loses_nothing() {
    let deployment = Deployment::new();
    let a = deployment.start_as("a", two_tiers);
    for n in 0..6 {
        put(&a, &format!("f{n}"), &pattern(MIB, n));
    }
    settle(&a);
    assert!(balance(&a, &[1, 5]).files > 0);
    crash(a);
    let a = deployment.start_as("a", two_tiers);
    for n in 0..6 {
        assert_eq!(get(&a, &format!("f{n}")).unwrap(), pattern(MIB, n));
    }
    wait_until("nothing is left over", || {
        let tiers = a.status().unwrap().tiers;
        tiers.iter().map(|tier| tier.space.used_bytes).sum::<u64>() < 7 * MIB as u64
    });
    a.close().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]
    #[test]
    fn whatever_moves_between_writes_the_content_is_what_was_written(
        steps in proptest::collection::vec((0..5_u8, 0..4_u8, 0..200_000_usize), 1..25),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::open(alone(dir.path())).unwrap();
        let mut model: Vec<(InodeId, Vec<u8>)> = (0..4)
            .map(|n| {
                let content = pattern(50_000 * (usize::from(n) + 1), n);
                (put(&node, &format!("f{n}"), &content), content)
            })
            .collect();
        for (kind, which, at) in steps {
            let (ino, content) = &mut model[usize::from(which)];
            match kind {
                0 => { balance(&node, &[1, 1_000_000]); }
                1 => { balance(&node, &[1_000_000, 1]); }
                2 => settle(&node),
                _ => {
                    let piece = pattern(1 + at / 3, which);
                    let at = at.min(content.len());
                    overwrite(&node, *ino, at as u64, &piece, false).unwrap();
                    let end = at + piece.len();
                    content.resize(content.len().max(end), 0);
                    content[at..end].copy_from_slice(&piece);
                }
            }
        }
        for (n, (_, content)) in model.iter().enumerate() {
            prop_assert!(get(&node, &format!("f{n}")).unwrap() == *content, "f{n}");
        }
        settle(&node);
        prop_assert_eq!(faults(&node), 0);
        node.close().unwrap();
    }
}

#[test]
fn a_file_that_went_with_the_disks_of_its_writer_is_open_nowhere_and_can_be_removed() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start_sized("a", 64), deployment.start("b"));
    a.meet_members().unwrap();
    let ino = put(&a, "f", &pattern(MIB, 1));
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, 0, b"more", false, false).unwrap();
    crash(a);
    std::fs::remove_dir_all(deployment.home.path().join("a/store/tier")).unwrap();
    let a = deployment.start_sized("a", 64);
    b.meet_members().unwrap();
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    assert!(a.lookup(InodeId::ROOT, b"f").is_ok() && b.lookup(InodeId::ROOT, b"f").is_ok());
    assert_eq!(get(&b, "f").unwrap_err().errno(), 5);
    b.unlink(InodeId::ROOT, b"f").unwrap();
    a.close().unwrap();
}
