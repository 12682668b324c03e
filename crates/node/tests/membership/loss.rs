//! What the others do about a host that is lost, and what it does when it is back.

use std::time::{Duration, Instant};

use intarsia_node::{AttrChange, LostFile, LostSummary, NewName, Node, RenameMode, SetMode};
use intarsia_transport::Peers;
use intarsia_types::{Error, FileKind, InodeId, NodeId};
use intarsia_wire::{Request, Response, Target};

use crate::deployment::{
    Deployment, MIB, ROOT_CALLER, UNBOUNDED, crash, create, get, no_kernel, overwrite, pattern,
    put, size, state_of, wait_for_state, wait_until, write,
};

const EIO: i32 = 5;

#[test]
fn a_host_that_beats_is_never_lost_and_one_that_is_taken_down_is_not_either() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    wait_until("all have met", || a.hosts_alive().len() == 3);
    // Much longer than a host may be silent.
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        for (node, other) in [(&a, "b"), (&b, "c"), (&c, "a")] {
            assert_eq!(state_of(node, other), "serving");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    c.close().unwrap();
    wait_for_state(&a, "c", "stopped");
    wait_until("b has heard of it too", || b.hosts_alive().len() == 2);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_host_that_joined_since_the_last_look_is_not_taken_for_dead() {
    let deployment = Deployment::new();
    let [a] = deployment.start_all(["a"]);
    a.hold_beats(true);
    let b = deployment.start("b");
    let ino = create(&b, "f");
    write(&b, ino, 0, b"by b").unwrap();
    a.hold_beats(false);
    overwrite(&a, ino, 4, b" and a", false).unwrap();
    write(&b, ino, 10, b", and b again").unwrap();
    b.flush(ino).unwrap();
    assert_eq!(get(&a, "f").unwrap(), b"by b and a, and b again");
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn what_a_lost_host_alone_held_gives_eio_and_the_rest_goes_on() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    let content = pattern(MIB, 4);
    let ino = put(&a, "large", &content);
    let small = put(&a, "small", b"kept with the metadata");
    wait_until("the small file is beside its inode", || {
        a.locate("/small").unwrap().layout == "inline"
    });
    let open_here = put(&c, "elsewhere", &content);
    crash(a);
    wait_for_state(&b, "a", "lost");
    for _ in 0..2 {
        let begun = Instant::now();
        let error = get(&b, "large").unwrap_err();
        assert_eq!(error.errno(), EIO, "{error}");
        assert!(error.to_string().contains("host a is lost since"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(1), "at once");
    }
    assert_eq!(size(&b, "large"), MIB as u64, "a length is not forgotten");
    assert_eq!(overwrite(&b, ino, 5, b"x", false).unwrap_err().errno(), EIO, "nothing to add to");
    assert_eq!(get(&b, "small").unwrap(), b"kept with the metadata");
    overwrite(&b, small, 0, b"KEPT", false).unwrap();
    assert_eq!(get(&c, "small").unwrap(), b"KEPT with the metadata");
    overwrite(&b, open_here, 0, b"more", false).unwrap();
    // Who wants none of it can have the name, at once.
    overwrite(&b, ino, 0, &pattern(MIB, 9), true).unwrap();
    assert_eq!(get(&c, "large").unwrap(), pattern(MIB, 9));
    b.close().unwrap();
    c.close().unwrap();
}

#[test]
fn a_file_being_written_at_a_host_that_dies_can_be_rewritten_within_ten_seconds() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let large = create(&a, "large");
    write(&a, large, 0, &pattern(MIB, 1)).unwrap();
    let small = create(&a, "small");
    write(&a, small, 0, b"published").unwrap();
    a.flush(small).unwrap();
    crash(a);
    let begun = Instant::now();
    // Nobody has said yet that the host is lost: the call waits for that.
    overwrite(&b, large, 0, b"anew", true).unwrap();
    overwrite(&b, small, 9, b" and more", false).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(get(&b, "large").unwrap(), b"anew");
    assert_eq!(get(&b, "small").unwrap(), b"published and more");
    b.close().unwrap();
}

/// What it had on its way comes too late: others have the file by now, and have been told that it is lost.
#[test]
fn a_write_of_a_host_that_was_given_up_is_refused_where_the_file_is() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = create(&a, "f");
    write(&a, ino, 0, b"here.....").unwrap();
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    write(&b, ino, 4, b" and there").unwrap();
    b.hold_beats(true);
    wait_for_state(&a, "b", "lost");
    write(&a, ino, 0, b"HERE").unwrap();
    let cut = AttrChange { size_bytes: Some(0), ..AttrChange::default() };
    let late = [write(&b, ino, 0, b"late"), b.set_attributes(ROOT_CALLER, ino, &cut).map(|_| ())];
    for refused in late {
        assert_eq!(refused.unwrap_err().errno(), EIO);
    }
    a.flush(ino).unwrap();
    assert_eq!(get(&a, "f").unwrap(), b"HERE and there");
    b.hold_beats(false);
    wait_for_state(&a, "b", "serving");
    write(&b, ino, 9, b"again").unwrap();
    b.flush(ino).unwrap();
    for node in [&a, &b] {
        node.release(ino, true);
    }
    assert_eq!(get(&a, "f").unwrap(), b"HERE and again");
    a.close().unwrap();
    b.close().unwrap();
}

/// Its connection may still bring what a process sent that was killed, when the next one of that host is at work.
#[test]
fn a_write_of_a_process_that_has_ended_is_refused_once_the_next_one_is_there() {
    let deployment = Deployment::new();
    let [a] = deployment.start_all(["a"]);
    let ino = put(&a, "f", &pattern(MIB, 1));
    let open = |of: &Peers| {
        let open = Request::Open { ino, may_write: true };
        match of.call(&NodeId("a".into()), open, None).unwrap().response {
            Response::Opened { handle, .. } => handle,
            other => panic!("{other:?}"),
        }
    };
    let write = |of: &Peers, handle| {
        let write = Request::Write { target: Target::Handle(handle), offset_bytes: 0 };
        of.call(&NodeId("a".into()), write, Some(of.copy(b"written")))
    };
    let before = deployment.process_of("b", 1, &a);
    let by_before = open(&before);
    write(&before, by_before).unwrap();
    let after = deployment.process_of("b", 2, &a);
    let by_after = open(&after);
    let refused = write(&before, by_before).unwrap_err();
    assert_eq!(Error::from(refused).errno(), EIO);
    write(&after, by_after).unwrap();
    drop((before, after));
    a.close().unwrap();
}

#[test]
fn a_host_that_slept_goes_on_with_what_nobody_has_taken_over() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let kept = create(&a, "kept");
    let taken = create(&a, "taken");
    let removed = create(&a, "removed");
    for ino in [kept, taken, removed] {
        write(&a, ino, 0, &pattern(MIB, 1)).unwrap();
        a.flush(ino).unwrap();
    }
    let closed = put(&a, "closed", &pattern(MIB, 7));
    a.hold_beats(true);
    wait_for_state(&b, "a", "lost");
    overwrite(&b, taken, 0, b"taken over", true).unwrap();
    b.unlink(InodeId::ROOT, b"removed").unwrap();
    // What the sleeper writes meanwhile counts for nothing where it has lost the right to it.
    write(&a, taken, MIB as u64, b"late").unwrap();
    let refused = a.flush(taken).unwrap_err();
    assert_eq!(refused.errno(), EIO, "{refused}");
    write(&a, kept, MIB as u64, b"late").unwrap();

    a.hold_beats(false);
    wait_for_state(&b, "a", "serving");
    a.flush(kept).unwrap();
    write(&a, kept, MIB as u64 + 4, b"r").unwrap();
    a.flush(kept).unwrap();
    for outcome in [
        a.flush(taken),
        write(&a, taken, 0, b"again"),
        a.allocate(taken, 0, 2 * MIB as u64, 0),
        a.copy_range(kept, 0, taken, 0, 4).map(|_| ()),
        a.copy_range(taken, 0, kept, 0, 4).map(|_| ()),
        a.fsync(taken, false),
    ] {
        assert_eq!(outcome.unwrap_err().errno(), EIO);
    }
    assert_eq!(a.read(taken, 0, &mut [0; 4]).unwrap_err().errno(), EIO);
    let open = a.open_file(ROOT_CALLER, taken, true, false, &no_kernel);
    assert_eq!(open.unwrap_err().errno(), EIO, "while a handle from before is open");
    let mut buffer = [0; 4];
    assert_eq!(a.read(removed, 0, &mut buffer).unwrap(), 4, "an open file outlives its name");
    for ino in [kept, taken, removed] {
        a.release(ino, true);
    }
    let mut expected = pattern(MIB, 1);
    expected.extend_from_slice(b"later");
    for node in [&a, &b] {
        assert_eq!(get(node, "kept").unwrap(), expected);
        assert_eq!(get(node, "taken").unwrap(), b"taken over");
        assert_eq!(get(node, "closed").unwrap(), pattern(MIB, 7));
    }
    overwrite(&a, taken, 0, b"both write", false).unwrap();
    assert_eq!(get(&b, "taken").unwrap(), b"both write");
    overwrite(&b, closed, 0, b"too", true).unwrap();
    wait_until("what is no file's any more is gone from a", || {
        a.status().unwrap().tiers[0].space.used_bytes < 2 * MIB as u64
    });
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(20)));
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_file_without_a_name_that_was_taken_over_goes_with_its_last_handle() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = create(&a, "f");
    write(&a, ino, 0, &pattern(MIB, 1)).unwrap();
    a.flush(ino).unwrap();
    b.lookup(InodeId::ROOT, b"f").unwrap();
    a.unlink(InodeId::ROOT, b"f").unwrap();
    a.hold_beats(true);
    wait_for_state(&b, "a", "lost");
    // It was looked up by its name before.
    b.open_file(ROOT_CALLER, ino, true, true, &no_kernel).unwrap();
    write(&b, ino, 0, &pattern(MIB, 2)).unwrap();
    b.flush(ino).unwrap();
    a.hold_beats(false);
    wait_for_state(&b, "a", "serving");
    assert_eq!(a.read(ino, 0, &mut [0; 4]).unwrap_err().errno(), EIO, "it was taken over");
    b.release(ino, true);
    a.release(ino, true);
    wait_until("nothing is left of it", || {
        [&a, &b].iter().all(|node| node.status().unwrap().tiers[0].space.used_bytes == 0)
    });
    a.close().unwrap();
    b.close().unwrap();
    assert_eq!(deployment.files("a") + deployment.files("b"), 0);
}

#[test]
fn a_host_that_returns_has_its_files_again_and_collects_what_others_did_away_with() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let content = pattern(MIB, 3);
    for name in ["kept", "removed", "rewritten"] {
        put(&a, name, &content);
    }
    let unsettled = create(&a, "unsettled");
    write(&a, unsettled, 0, &content).unwrap();
    crash(a);
    wait_for_state(&b, "a", "lost");
    b.unlink(InodeId::ROOT, b"removed").unwrap();
    let (attr, _) = b.lookup(InodeId::ROOT, b"rewritten").unwrap();
    overwrite(&b, attr.ino, 0, b"anew", true).unwrap();
    assert!(matches!(get(&b, "removed"), Err(Error::NotFound)));

    let a = deployment.start("a");
    wait_for_state(&b, "a", "serving");
    assert_eq!(get(&b, "kept").unwrap(), content);
    assert_eq!(get(&a, "rewritten").unwrap(), b"anew");
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(20)));
    assert_eq!(get(&b, "unsettled").unwrap(), content, "its own disk tells what it has become");
    assert_eq!(size(&b, "unsettled"), MIB as u64);
    let used = || a.status().unwrap().tiers[0].space.used_bytes;
    wait_until("two files are left", || used() == 2 * MIB as u64);
    overwrite(&b, unsettled, 0, b"gone", true).unwrap();
    a.unlink(InodeId::ROOT, b"kept").unwrap();
    wait_until("none is left", || used() == 0);
    a.close().unwrap();
    b.close().unwrap();
    assert_eq!(deployment.files("a"), 0);
}

/// The paths of lost files, and how many were removed.
fn lost(node: &Node, removes: bool) -> (Vec<String>, LostSummary) {
    let mut paths = Vec::new();
    let mut each = |file: LostFile| {
        assert_eq!(file.hosts, ["a"]);
        paths.push(file.path);
        paths.extend(file.other_paths);
    };
    let summary = node.lost_files(removes, &mut each, &mut |_| {}).unwrap();
    paths.sort();
    (paths, summary)
}

#[test]
fn a_striped_file_is_lost_with_any_of_its_hosts_and_comes_back_with_it() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    let place = |value: &[u8]| {
        b.set_xattr(InodeId::ROOT, b"user.intarsia.place", value, SetMode::Either).unwrap();
    };
    place(b"stripe:3");
    let content = pattern(4 * MIB, 2);
    let ino = put(&c, "striped", &content);
    put(&c, "gone", &content);
    place(b"local");
    put(&c, "whole", &content);
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    crash(a);
    wait_for_state(&c, "a", "lost");
    wait_for_state(&b, "a", "lost");
    let begun = Instant::now();
    assert_eq!(get(&c, "striped").unwrap_err().errno(), EIO);
    assert_eq!(overwrite(&c, ino, 0, b"x", true).unwrap_err().errno(), EIO);
    let mut buffer = vec![0; 3 * MIB];
    assert_eq!(b.read(ino, 0, &mut buffer).unwrap_err().errno(), EIO);
    assert_eq!(write(&b, ino, 0, &buffer).unwrap_err().errno(), EIO);
    assert!(begun.elapsed() < Duration::from_secs(2), "at once");
    b.release(ino, true);
    assert_eq!(get(&b, "whole").unwrap(), content);
    assert_eq!(lost(&b, false).0, ["/gone", "/striped"]);
    b.unlink(InodeId::ROOT, b"gone").unwrap();
    assert_eq!(lost(&b, false).0, ["/striped"]);
    let a = deployment.start("a");
    wait_for_state(&c, "a", "serving");
    wait_for_state(&b, "a", "serving");
    assert!(get(&c, "striped").unwrap() == content);
    assert_eq!(lost(&b, false).0, [""; 0]);
    [a, b, c].iter().for_each(|node| node.close().unwrap());
}

#[test]
fn lost_files_are_listed_by_path_exactly_and_removed_only_when_asked() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let content = pattern(MIB, 2);
    assert_eq!(lost(&b, false).0, [""; 0], "nobody is lost");
    let dir = NewName { kind: FileKind::Directory, perm: 0o755, umask: 0, rdev: 0, target: None };
    let dir = a.make(ROOT_CALLER, InodeId::ROOT, b"dir", &dir).unwrap().0.ino;
    let inner = put(&a, "inner", &content);
    a.rename(InodeId::ROOT, b"inner", dir, b"inner", RenameMode::Replace).unwrap();
    a.link(inner, InodeId::ROOT, b"link").unwrap();
    put(&a, "rewritten", &content);
    put(&a, "last", &content);
    put(&a, "small", b"small");
    wait_until("the small file is beside its inode", || {
        a.locate("/small").unwrap().layout == "inline"
    });
    put(&b, "elsewhere", &content);
    crash(a);
    wait_for_state(&b, "a", "lost");
    let (attr, _) = b.lookup(InodeId::ROOT, b"rewritten").unwrap();
    overwrite(&b, attr.ino, 0, &content, true).unwrap();
    let (paths, summary) = lost(&b, false);
    assert_eq!(paths, ["/dir/inner", "/last", "/link"]);
    assert_eq!((summary.files, summary.bytes, summary.removed), (2, 2 * MIB as u64, 0));
    assert_eq!(summary.hosts[0].host, "a");
    let refused = b.empty_host(&NodeId("a".into()), UNBOUNDED, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("2 files were there"), "{refused}");
    assert_eq!(size(&b, "last"), MIB as u64);

    assert_eq!(lost(&b, true).1.removed, 2);
    assert_eq!(lost(&b, false).0, [""; 0]);
    assert!(matches!(get(&b, "last"), Err(Error::NotFound)));
    for (name, content) in [("small", &b"small"[..]), ("elsewhere", &content)] {
        assert_eq!(get(&b, name).unwrap(), content);
    }
    b.empty_host(&NodeId("a".into()), UNBOUNDED, &mut |_| {}).unwrap();
    assert_eq!(state_of(&b, "a"), "", "no member any more");
    b.close().unwrap();
}
