//! The namespace, one behaviour a test, on both engines.

#![allow(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/counted.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod counted;
#[path = "common/hooked.rs"]
mod hooked;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::{at, dir, each_engine, file, namespace};
use counted::Requests;
use hooked::{Hook, Hooked};
use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{
    CommitOutcome, Extra, FreeFile, Inode, MemberRecord, MemberState, MemberTier, MetaEngine,
    Mutation, Namespace, NewInode, OpId, Owner, RenameMode, SetMode, TierRecord, WriteLease, keys,
};
use intarsia_types::{
    BackingFileId, BackingRef, Error, FileKind, InodeId, Layout, NodeId, PartitionId, TierClass,
    TierId, Timestamp,
};

const ROOT: InodeId = InodeId::ROOT;

fn free_files(ns: &Namespace, tier: TierId) -> Vec<BackingFileId> {
    ns.free_files(tier).unwrap().into_iter().map(|free| free.file).collect()
}

#[test]
fn a_created_file_is_found_listed_and_counted() {
    each_engine(|ns| {
        let made = ns.create(ROOT, b"a", file(), at(1)).unwrap();
        assert_eq!(ns.lookup(ROOT, b"a").unwrap(), made);
        assert_eq!(ns.get(made.ino).unwrap(), made);
        let root = ns.get(ROOT).unwrap();
        assert_eq!((root.entries, root.nlink, root.mtime, root.ctime), (1, 2, at(1), at(1)));
        let names: Vec<_> = ns.list(ROOT, 0, 10).unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, [b"a"]);
        assert_eq!(ns.counts().unwrap().inodes, 2);
        assert!(matches!(ns.create(ROOT, b"a", file(), at(2)), Err(Error::Exists)));
        assert!(matches!(ns.lookup(ROOT, b"b"), Err(Error::NotFound)));
        assert!(matches!(ns.lookup(made.ino, b"b"), Err(Error::NotDirectory)));
        assert!(matches!(ns.create(made.ino, b"b", file(), at(2)), Err(Error::NotDirectory)));
        assert!(matches!(ns.create(InodeId(999), b"b", file(), at(2)), Err(Error::NotFound)));
        assert_eq!(ns.counts().unwrap().inodes, 2);
    });
}

#[test]
fn names_have_limits() {
    each_engine(|ns| {
        let long = [b'x'; 256];
        assert!(ns.create(ROOT, &long[..255], file(), at(1)).is_ok());
        assert!(matches!(ns.create(ROOT, &long, file(), at(1)), Err(Error::NameTooLong)));
        assert!(matches!(ns.lookup(ROOT, &long), Err(Error::NameTooLong)));
        assert!(matches!(ns.create(ROOT, b"", file(), at(1)), Err(Error::NotFound)));
        assert!(matches!(ns.create(ROOT, b"a/b", file(), at(1)), Err(Error::Invalid(_))));
        assert!(matches!(ns.create(ROOT, b"..", file(), at(1)), Err(Error::Exists)));
    });
}

#[test]
fn directories_count_their_links_and_go_only_when_empty() {
    each_engine(|ns| {
        let d = ns.create(ROOT, b"d", dir(), at(1)).unwrap();
        assert_eq!((d.nlink, d.parent), (2, ROOT));
        assert_eq!(ns.get(ROOT).unwrap().nlink, 3);
        assert_eq!(ns.lookup(d.ino, b"..").unwrap().ino, ROOT);
        assert_eq!(ns.lookup(d.ino, b".").unwrap().ino, d.ino);
        ns.create(d.ino, b"f", file(), at(2)).unwrap();
        assert!(matches!(ns.rmdir(ROOT, b"d", at(3)), Err(Error::NotEmpty)));
        assert!(matches!(ns.unlink(ROOT, b"d", |_| false, at(3)), Err(Error::IsDirectory)));
        assert!(matches!(ns.rmdir(d.ino, b"f", at(3)), Err(Error::NotDirectory)));
        ns.unlink(d.ino, b"f", |_| false, at(4)).unwrap();
        assert_eq!(ns.rmdir(ROOT, b"d", at(5)).unwrap().nlink, 0);
        assert_eq!(ns.get(ROOT).unwrap().nlink, 2);
        assert!(matches!(ns.get(d.ino), Err(Error::NotFound)));
        assert!(matches!(ns.create(d.ino, b"f", file(), at(6)), Err(Error::NotFound)));
    });
}

#[test]
fn hard_links_share_one_inode() {
    each_engine(|ns| {
        let a = ns.create(ROOT, b"a", file(), at(1)).unwrap();
        let linked = ns.link(a.ino, ROOT, b"b", at(2)).unwrap();
        assert_eq!((linked.nlink, linked.ctime, linked.mtime), (2, at(2), at(1)));
        assert!(matches!(ns.link(a.ino, ROOT, b"b", at(2)), Err(Error::Exists)));
        assert_eq!(ns.unlink(ROOT, b"a", |_| false, at(3)).unwrap().nlink, 1);
        assert_eq!(ns.lookup(ROOT, b"b").unwrap().ctime, at(3));
        let d = ns.create(ROOT, b"d", dir(), at(4)).unwrap();
        assert!(matches!(ns.link(d.ino, ROOT, b"e", at(5)), Err(Error::NotPermitted)));
        assert_eq!(ns.unlink(ROOT, b"b", |_| false, at(6)).unwrap().nlink, 0);
        assert!(matches!(ns.link(a.ino, ROOT, b"c", at(7)), Err(Error::NotFound)));
        ns.update(d.ino, |_| Ok(())).unwrap();
    });
}

#[test]
fn a_file_has_no_more_links_than_ext4_allows() {
    each_engine(|ns| {
        let a = ns.create(ROOT, b"a", file(), at(1)).unwrap();
        ns.update(a.ino, |inode| {
            inode.nlink = intarsia_meta::LINK_MAX;
            Ok(())
        })
        .unwrap();
        assert!(matches!(ns.link(a.ino, ROOT, b"b", at(2)), Err(Error::TooManyLinks)));
    });
}

#[test]
fn an_orphan_lives_until_it_is_reaped_and_frees_its_file() {
    each_engine(|ns| {
        let files = ns.reserve_files(TierId(1), 2).unwrap();
        let backing = BackingRef { tier: TierId(1), file: files[0] };
        let new = NewInode { layout: Layout::Local(backing), mark_writable: true, ..file() };
        let a = ns.create(ROOT, b"a", new, at(1)).unwrap();
        // A pooled file stands in the record of free files only where there is one partition.
        let pooled = if ns.records_reserved_files() { &files[1..] } else { &[] };
        assert_eq!(free_files(ns, TierId(1)), pooled);
        let owner = Owner::default();
        let writable = || ns.writable_inodes(&owner.node, None, 10).unwrap();
        assert_eq!(writable(), [(a.ino, owner.clone())]);
        assert_eq!(ns.unlink(ROOT, b"a", |ino| ino == a.ino, at(2)).unwrap().nlink, 0);
        assert_eq!(ns.orphans(None, 10).unwrap(), [a.ino]);
        ns.update(a.ino, |inode| {
            inode.size_bytes = 7;
            Ok(())
        })
        .unwrap();
        assert_eq!(ns.reap(a.ino).unwrap().size_bytes, 7);
        assert!(ns.orphans(None, 10).unwrap().is_empty());
        assert!(writable().is_empty());
        assert_eq!(free_files(ns, TierId(1)), [&files[..1], pooled].concat());
        assert_eq!(free_files(ns, TierId(2)), []);
        assert!(matches!(ns.get(a.ino), Err(Error::NotFound)));
        assert_eq!(ns.counts().unwrap().inodes, 1);
        ns.forget_file(TierId(1), FreeFile::of(a.ino, files[0])).unwrap();
        assert_eq!(free_files(ns, TierId(1)), pooled);
        assert_eq!(ns.reserve_files(TierId(1), 1).unwrap(), [BackingFileId(3)]);
    });
}

#[test]
fn a_named_inode_is_not_reaped() {
    each_engine(|ns| {
        let a = ns.create(ROOT, b"a", file(), at(1)).unwrap();
        assert!(matches!(ns.reap(a.ino), Err(Error::Busy(_))));
    });
}

#[test]
fn rename_covers_the_cases_of_posix() {
    each_engine(|ns| {
        let mv =
            |p, a: &[u8], q, b: &[u8]| ns.rename(p, a, q, b, RenameMode::Replace, |_| false, at(9));
        let d = ns.create(ROOT, b"d", dir(), at(1)).unwrap().ino;
        let e = ns.create(ROOT, b"e", dir(), at(1)).unwrap().ino;
        let f = ns.create(ROOT, b"f", file(), at(1)).unwrap().ino;
        let g = ns.create(ROOT, b"g", file(), at(1)).unwrap().ino;

        assert!(matches!(mv(ROOT, b"nope", d, b"x"), Err(Error::NotFound)));
        assert!(matches!(mv(ROOT, b"d", ROOT, b"f"), Err(Error::NotDirectory)));
        assert!(matches!(mv(ROOT, b"f", ROOT, b"d"), Err(Error::IsDirectory)));
        assert!(matches!(mv(ROOT, b"d", d, b"x"), Err(Error::Invalid(_))));
        assert!(matches!(mv(ROOT, b"f", g, b"x"), Err(Error::NotDirectory)));

        // A file over a file.
        let replaced = mv(ROOT, b"f", ROOT, b"g").unwrap().unwrap();
        assert_eq!((replaced.ino, replaced.nlink), (g, 0));
        let moved = ns.lookup(ROOT, b"g").unwrap();
        assert_eq!((moved.ino, moved.ctime), (f, at(9)));
        assert_eq!(ns.get(ROOT).unwrap().entries, 3);

        // Into another directory, and a directory over an empty one.
        assert!(mv(ROOT, b"g", d, b"g").unwrap().is_none());
        assert!(matches!(mv(ROOT, b"e", ROOT, b"d"), Err(Error::NotEmpty)));
        assert_eq!(mv(ROOT, b"d", ROOT, b"e").unwrap().unwrap().ino, e);
        let root = ns.get(ROOT).unwrap();
        assert_eq!((root.entries, root.nlink), (1, 3));
        assert_eq!(ns.path_of(d).unwrap(), b"/e");

        // A directory into another: both parents' links and the way up change.
        let h = ns.create(ROOT, b"h", dir(), at(1)).unwrap().ino;
        mv(ROOT, b"e", h, b"i").unwrap();
        assert_eq!(ns.get(ROOT).unwrap().nlink, 3);
        assert_eq!(ns.get(h).unwrap().nlink, 3);
        assert_eq!(ns.lookup(d, b"..").unwrap().ino, h);
        assert_eq!(ns.path_of(d).unwrap(), b"/h/i");
        assert_eq!(ns.resolve(b"/h/i/g").unwrap().ino, f);
        assert!(matches!(mv(ROOT, b"h", d, b"x"), Err(Error::Invalid(_))));
        assert!(matches!(mv(h, b"i", ROOT, b"h"), Err(Error::NotEmpty)));
    });
}

#[test]
fn renaming_one_inode_onto_itself_changes_nothing() {
    each_engine(|ns| {
        let a = ns.create(ROOT, b"a", file(), at(1)).unwrap();
        let a = ns.link(a.ino, ROOT, b"b", at(2)).unwrap();
        for (from, to) in [(b"a", b"b"), (b"a", b"a")] {
            let lost =
                ns.rename(ROOT, from, ROOT, to, RenameMode::Replace, |_| false, at(3)).unwrap();
            assert!(lost.is_none());
        }
        assert_eq!(ns.lookup(ROOT, b"a").unwrap(), a);
        assert_eq!(ns.lookup(ROOT, b"b").unwrap(), a);
    });
}

#[test]
fn rename_can_refuse_to_replace() {
    each_engine(|ns| {
        ns.create(ROOT, b"a", file(), at(1)).unwrap();
        ns.create(ROOT, b"b", file(), at(1)).unwrap();
        let mv = |a: &[u8], b: &[u8]| {
            ns.rename(ROOT, a, ROOT, b, RenameMode::NoReplace, |_| false, at(2))
        };
        assert!(matches!(mv(b"a", b"b"), Err(Error::Exists)));
        assert!(matches!(mv(b"a", b"a"), Err(Error::Exists)));
        assert!(matches!(mv(b"x", b"b"), Err(Error::NotFound)));
        assert!(mv(b"a", b"c").is_ok());
    });
}

#[test]
fn exchange_swaps_a_file_and_a_directory() {
    each_engine(|ns| {
        let swap = |p, a: &[u8], q, b: &[u8]| {
            ns.rename(p, a, q, b, RenameMode::Exchange, |_| false, at(5))
        };
        let d = ns.create(ROOT, b"d", dir(), at(1)).unwrap().ino;
        let e = ns.create(d, b"e", dir(), at(1)).unwrap().ino;
        let f = ns.create(ROOT, b"f", file(), at(1)).unwrap().ino;
        assert!(matches!(swap(ROOT, b"d", d, b"e"), Err(Error::Invalid(_))));
        assert!(matches!(swap(d, b"e", ROOT, b"d"), Err(Error::Invalid(_))));
        assert!(matches!(swap(ROOT, b"f", ROOT, b"x"), Err(Error::NotFound)));
        swap(ROOT, b"f", d, b"e").unwrap();
        assert_eq!(ns.lookup(ROOT, b"f").unwrap().ino, e);
        assert_eq!(ns.lookup(d, b"e").unwrap().ino, f);
        assert_eq!(ns.get(d).unwrap().nlink, 2);
        assert_eq!(ns.get(ROOT).unwrap().nlink, 4);
        assert_eq!(ns.path_of(e).unwrap(), b"/f");
    });
}

#[test]
fn a_kept_replaced_file_becomes_an_orphan() {
    each_engine(|ns| {
        ns.create(ROOT, b"a", file(), at(1)).unwrap();
        let b = ns.create(ROOT, b"b", file(), at(1)).unwrap().ino;
        ns.rename(ROOT, b"a", ROOT, b"b", RenameMode::Replace, |_| true, at(2)).unwrap();
        assert_eq!(ns.orphans(None, 10).unwrap(), [b]);
        assert_eq!(ns.get(b).unwrap().nlink, 0);
    });
}

#[test]
fn attributes_follow_their_modes_and_limits() {
    each_engine(|ns| {
        let a = ns.create(ROOT, b"a", file(), at(1)).unwrap().ino;
        let set = |name: &[u8], value: &[u8], mode| ns.set_xattr(a, name, value, mode, at(2));
        assert!(matches!(ns.get_xattr(a, b"user.x"), Err(Error::NoAttribute)));
        assert!(matches!(set(b"user.x", b"1", SetMode::Replace), Err(Error::NoAttribute)));
        set(b"user.x", b"1", SetMode::Create).unwrap();
        assert!(ns.get(a).unwrap().has_xattrs);
        assert_eq!(ns.get(a).unwrap().ctime, at(2));
        assert!(matches!(set(b"user.x", b"2", SetMode::Create), Err(Error::Exists)));
        set(b"user.x", b"", SetMode::Replace).unwrap();
        set(b"user.y", b"3", SetMode::Either).unwrap();
        assert_eq!(&*ns.get_xattr(a, b"user.x").unwrap(), b"");
        assert_eq!(ns.list_xattr(a).unwrap(), [b"user.x", b"user.y"]);
        ns.remove_xattr(a, b"user.x", at(3)).unwrap();
        assert!(matches!(ns.remove_xattr(a, b"user.x", at(3)), Err(Error::NoAttribute)));
        assert!(ns.get(a).unwrap().has_xattrs);
        ns.remove_xattr(a, b"user.y", at(3)).unwrap();
        assert!(!ns.get(a).unwrap().has_xattrs);
        assert!(matches!(set(&[b'n'; 256], b"", SetMode::Either), Err(Error::Range)));
        assert!(matches!(set(b"", b"", SetMode::Either), Err(Error::Range)));
        assert!(matches!(set(b"user.z", &[0; 65_537], SetMode::Either), Err(Error::TooBig(_))));
        set(b"user.z", &[7; 65_536], SetMode::Either).unwrap();
        assert_eq!(ns.get_xattr(a, b"user.z").unwrap().len(), 65_536);
    });
}

#[test]
fn a_file_can_start_with_attributes_and_takes_them_along() {
    each_engine(|ns| {
        let new = NewInode { xattrs: vec![(b"user.a".to_vec(), b"1".to_vec())], ..file() };
        let a = ns.create(ROOT, b"a", new, at(1)).unwrap().ino;
        assert_eq!(&*ns.get_xattr(a, b"user.a").unwrap(), b"1");
        ns.unlink(ROOT, b"a", |_| false, at(2)).unwrap();
        assert!(matches!(ns.get_xattr(a, b"user.a"), Err(Error::NotFound)));
    });
}

/// What a record says of hints, if it does.
fn recorded(ns: &Namespace, ino: InodeId) -> Option<String> {
    ns.get(ino).unwrap().hints.map(|hints| hints.to_string())
}

#[test]
fn the_record_says_what_the_attributes_say_of_hints() {
    each_engine(|ns| {
        let attribute = |name: &str, value: &str| {
            (format!("user.intarsia.{name}").into_bytes(), value.as_bytes().to_vec())
        };
        let xattrs = vec![attribute("tier", "disk"), (b"user.a".to_vec(), b"1".to_vec())];
        for new in [file(), dir()] {
            let a = ns.create(ROOT, b"a", NewInode { xattrs: xattrs.clone(), ..new }, at(1));
            let a = a.unwrap().ino;
            let says = |expected: &str| assert_eq!(recorded(ns, a).as_deref(), Some(expected));
            let set = |name: &str, value: &str, mode| {
                let (name, value) = attribute(name, value);
                ns.set_xattr(a, &name, &value, mode, at(2))
            };
            says("tier=disk");
            set("close", "fast", SetMode::Create).unwrap();
            assert!(matches!(set("close", "safe", SetMode::Create), Err(Error::Exists)));
            says("close=fast tier=disk");
            set("tier", "memory", SetMode::Replace).unwrap();
            ns.set_xattr(a, b"user.b", b"2", SetMode::Either, at(2)).unwrap();
            says("close=fast tier=memory");
            ns.update(a, |inode| {
                inode.perm = 0o700;
                Ok(())
            })
            .unwrap();
            says("close=fast tier=memory");
            ns.remove_xattr(a, b"user.intarsia.close", at(3)).unwrap();
            ns.remove_xattr(a, b"user.a", at(3)).unwrap();
            says("tier=memory");
            ns.remove_xattr(a, b"user.intarsia.tier", at(3)).unwrap();
            says("");
            ns.remove_xattr(a, b"user.b", at(3)).unwrap();
            says("");
            ns.rename(ROOT, b"a", ROOT, b"was", RenameMode::Replace, |_| true, at(4)).unwrap();
            assert_eq!(ns.check(false, &mut |_| {}).unwrap().findings, []);
            match ns.get(a).unwrap().is_directory() {
                true => ns.rmdir(ROOT, b"was", at(5)).unwrap(),
                false => ns.unlink(ROOT, b"was", |_| false, at(5)).unwrap(),
            };
        }
    });
}

#[test]
fn a_record_of_an_older_version_notes_the_hints_when_it_is_written_next() {
    let engine = Hooked::new(Arc::new(MemoryEngine::default()), Requests::default());
    let ns = namespace(Arc::clone(&engine) as Arc<dyn MetaEngine>);
    let hinted = |new| {
        let attribute = |name: &str, value: &str| (name.into(), value.into());
        let mut xattrs = vec![attribute("user.intarsia.tier", "disk"), attribute("user.a", "1")];
        // More than are read at once.
        xattrs.extend((0..20).map(|n| attribute(&format!("user.intarsia.name-{n:02}"), "x")));
        NewInode { xattrs, ..new }
    };
    let a = ns.create(ROOT, b"a", hinted(file()), at(1)).unwrap().ino;
    let d = ns.create(ROOT, b"d", hinted(dir()), at(1)).unwrap().ino;
    let all = recorded(&ns, a);
    // As a version that notes no hints writes it.
    let make_older = |ino: InodeId| {
        let older = Inode { hints: None, ..ns.get(ino).unwrap() };
        let change = Mutation::Put(keys::inode(ino), older.encode().unwrap());
        let op = OpId { session: 0, number: 0 };
        let done = engine.commit(ino.partition(), op, &[], vec![change]);
        assert_eq!(done.unwrap(), CommitOutcome::Applied);
    };
    let asked_for_hints = |ino: InodeId| {
        let inode = ns.get(ino).unwrap();
        let (hints, asked) = engine.hook.during(|| ns.hints_of(&inode).unwrap().into_owned());
        assert_eq!(Some(hints.to_string()), all);
        asked
    };
    assert!(asked_for_hints(a).is_empty());
    let change = |ino: InodeId| {
        let change = |inode: &mut Inode| {
            inode.perm ^= 1;
            Ok(())
        };
        ns.update(ino, change).map(|_| ())
    };
    let (x, either) = (b"user.x", SetMode::Either);
    let rename = |from: &[u8], to: &[u8]| {
        ns.rename(ROOT, from, ROOT, to, RenameMode::Replace, |_| false, at(3)).map(|_| ())
    };
    let changes: [&dyn Fn() -> Result<(), Error>; 6] = [
        &|| change(a),
        &|| ns.set_xattr(a, x, b"1", either, at(3)),
        &|| ns.remove_xattr(a, x, at(3)),
        &|| ns.link(a, ROOT, b"second", at(3)).map(|_| ()),
        &|| rename(b"a", b"b"),
        &|| ns.set_xattr(a, b"user.intarsia.tier", b"disk", either, at(3)),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        make_older(a);
        assert_eq!(asked_for_hints(a), ["scan X", "scan X"], "{number}");
        assert_eq!(recorded(&ns, a), None, "who asks changes nothing");
        change().unwrap();
        assert_eq!(recorded(&ns, a), all, "{number}");
        assert!(asked_for_hints(a).is_empty());
    }
    // What is made in a directory changes only the head of its record.
    make_older(d);
    ns.create(d, b"f", file(), at(4)).unwrap();
    assert_eq!(recorded(&ns, d), None);
    assert_eq!(asked_for_hints(d), ["scan X", "scan X"]);
    change(d).unwrap();
    assert_eq!(recorded(&ns, d), all);
    assert_eq!(ns.check(false, &mut |_| {}).unwrap().findings, []);
}

#[test]
fn all_parts_of_a_striped_file_are_its_own_and_free_when_it_goes() {
    each_engine(|ns| {
        let files = ns.reserve_files(TierId(0), 3).unwrap();
        let parts: Vec<_> =
            files.iter().map(|file| BackingRef { tier: TierId(0), file: *file }).collect();
        let layout = Layout::Striped { parts: parts.clone(), chunk_bytes: 4096, cuts: 0 };
        let a = ns.create(ROOT, b"a", NewInode { layout, ..file() }, at(1)).unwrap();
        assert!(free_files(ns, TierId(0)).is_empty());
        let mut known = Vec::new();
        ns.each_known_file(|backing| known.push(backing)).unwrap();
        assert_eq!(known, parts);
        assert!(matches!(ns.acquire_write(a.ino).unwrap(), WriteLease::Unneeded(_)));
        assert!(!ns.is_marked_writable(a.ino).unwrap(), "nobody has to give anything back");
        ns.unlink(ROOT, b"a", |_| false, at(2)).unwrap();
        assert_eq!(free_files(ns, TierId(0)), files);
    });
}

#[test]
fn an_update_brings_its_extras() {
    each_engine(|ns| {
        let file_id = ns.reserve_files(TierId(0), 1).unwrap()[0];
        let backing = BackingRef { tier: TierId(0), file: file_id };
        let new = NewInode { layout: Layout::Local(backing), mark_writable: true, ..file() };
        let a = ns.create(ROOT, b"a", new, at(1)).unwrap();
        let folded = ns
            .update_with(
                a.ino,
                &[
                    Extra::ClearWritable,
                    Extra::PutFree(backing),
                    Extra::PutBody(b"hello".as_slice().into()),
                    Extra::PutChecksums { index: 0, list: b"sum0".as_slice().into() },
                    Extra::PutChecksums { index: 1, list: b"sum1".as_slice().into() },
                ],
                |inode| {
                    inode.layout = Layout::Inline;
                    inode.size_bytes = 5;
                    Ok(())
                },
            )
            .unwrap();
        assert!(folded.checksummed && folded.version > a.version);
        assert_eq!(ns.get_body(a.ino).unwrap().unwrap(), b"hello".as_slice().into());
        assert_eq!(ns.get_checksums(a.ino, 1).unwrap().unwrap(), b"sum1".as_slice().into());
        assert_eq!(free_files(ns, TierId(0)), [file_id]);
        assert!(!ns.is_marked_writable(a.ino).unwrap());

        let cut = Extra::DeleteChecksums { from: 1 };
        assert!(ns.update_with(a.ino, &[cut], |_| Ok(())).unwrap().checksummed);
        assert!(ns.get_checksums(a.ino, 1).unwrap().is_none());
        let opened = ns
            .change(a.ino, |inode, extras| {
                inode.layout = Layout::Local(backing);
                extras.extend([
                    Extra::TakeFree(backing),
                    Extra::DeleteBody,
                    Extra::MarkWritable,
                    Extra::DeleteChecksums { from: 0 },
                ]);
                Ok(())
            })
            .unwrap();
        assert!(!opened.checksummed);
        assert!(ns.get_body(a.ino).unwrap().is_none());
        assert!(free_files(ns, TierId(0)).is_empty());
        assert!(ns.is_marked_writable(a.ino).unwrap());
    });
}

#[test]
fn a_file_that_is_said_to_have_no_checksums_leaves_none_behind() {
    each_engine(|ns| {
        let a = ns.create(ROOT, b"a", file(), at(1)).unwrap();
        let lists =
            (0..3).map(|index| Extra::PutChecksums { index, list: b"sum".as_slice().into() });
        ns.update_with(a.ino, &lists.collect::<Vec<_>>(), |_| Ok(())).unwrap();
        // By somebody who does not know that there are any.
        let unsummed = ns.update(a.ino, |inode| {
            inode.checksummed = false;
            Ok(())
        });
        assert!(!unsummed.unwrap().checksummed);
        for index in 0..3 {
            assert!(ns.get_checksums(a.ino, index).unwrap().is_none(), "list {index}");
        }
    });
}

#[test]
fn an_update_that_changes_nothing_or_fails_commits_nothing() {
    each_engine(|ns| {
        let a = ns.create(ROOT, b"a", file(), at(1)).unwrap();
        let commits = ns.engine_stats().commits;
        assert_eq!(ns.update(a.ino, |_| Ok(())).unwrap().version, a.version);
        let refused = ns.update(a.ino, |inode| {
            inode.uid = 9;
            Err(Error::NotPermitted)
        });
        assert!(matches!(refused, Err(Error::NotPermitted)));
        assert_eq!(ns.get(a.ino).unwrap(), a);
        assert_eq!(ns.engine_stats().commits, commits);
    });
}

#[test]
fn a_listing_in_small_pages_is_complete_and_keeps_its_place() {
    each_engine(|ns| {
        let d = ns.create(ROOT, b"d", dir(), at(1)).unwrap().ino;
        for n in 0..500_u32 {
            let kind = if n % 10 == 0 { FileKind::Directory } else { FileKind::Regular };
            let new = NewInode::new(kind, 0o644, 0, 0);
            ns.create(d, n.to_string().as_bytes(), new, at(1)).unwrap();
        }
        let mut seen = Vec::new();
        let mut after = 0;
        loop {
            let page = ns.list_plus(d, after, 7, |_| ()).unwrap();
            let Some((last, ..)) = page.last() else { break };
            after = last.cookie;
            for (entry, inode, ()) in page {
                assert_eq!((entry.ino, entry.kind), (inode.ino, inode.kind));
                // What goes behind the reader does not move it.
                if !inode.is_directory() {
                    ns.unlink(d, &entry.name, |_| false, at(2)).unwrap();
                }
                seen.push(entry.name);
            }
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 500);
        assert_eq!(ns.get(d).unwrap().entries, 50);
        assert!(matches!(ns.list(InodeId(12345), 0, 5), Err(Error::NotFound)));
    });
}

#[test]
fn a_free_file_is_taken_once() {
    each_engine(|ns| {
        let free = FreeFile::reserved(ns.reserve_files(TierId(1), 1).unwrap()[0]);
        assert_eq!(ns.records_reserved_files(), ns.take_free_file(TierId(1), free).unwrap());
        assert!(!ns.take_free_file(TierId(1), free).unwrap());
        assert_eq!(free_files(ns, TierId(1)), []);
    });
}

#[test]
fn a_tier_keeps_its_number() {
    each_engine(|ns| {
        let tier = |host: &str, dir: &str, capacity_bytes| TierRecord {
            host: host.into(),
            dir: dir.into(),
            class: TierClass::Ssd,
            capacity_bytes,
        };
        assert_eq!(ns.register_tier(&tier("a", "/x", 1)).unwrap(), TierId(0));
        assert_eq!(ns.register_tier(&tier("b", "/x", 2)).unwrap(), TierId(1));
        assert_eq!(ns.register_tier(&tier("a", "/y", 3)).unwrap(), TierId(2));
        assert_eq!(ns.register_tier(&tier("b", "/x", 4)).unwrap(), TierId(1));
        assert_eq!(ns.register_tier(&tier("b", "/x", 4)).unwrap(), TierId(1));
        let expected = [tier("a", "/x", 1), tier("b", "/x", 4), tier("a", "/y", 3)];
        let expected: Vec<_> = (0..).map(TierId).zip(expected).collect();
        assert_eq!(ns.tiers().unwrap(), expected);
    });
}

#[test]
fn tiers_that_were_given_up_are_taken_back_and_the_lost_host_ends_with_the_last_of_them() {
    each_engine(|ns| {
        let node = |name: &str| NodeId(name.into());
        let record = |host: &str, dir: &str| TierRecord {
            host: host.into(),
            dir: dir.into(),
            class: TierClass::Ssd,
            capacity_bytes: 1,
        };
        for (host, dir) in [("a", "/x"), ("a", "/y"), ("b", "/x")] {
            ns.register_tier(&record(host, dir)).unwrap();
        }
        let (x, y, of_b) = (TierId(0), TierId(1), TierId(2));
        let now = Timestamp { secs: 1, nanos: 0 };
        ns.put_member(&node("a"), None, &MemberRecord::new(1, now)).unwrap();
        let retired = ns.retire_tiers(&node("a"), &[x, y], now).unwrap();
        assert_eq!(retired, Some(node("a.former1")));
        let members = || ns.members().unwrap().into_iter().map(|(m, _)| m.0).collect::<Vec<_>>();
        assert_eq!(members(), ["a", "a.former1"]);

        let found = |id, dir: &str| (id, dir.to_owned());
        let take = |found: &[(TierId, String)]| ns.take_back_tiers(&node("a"), found).unwrap();
        assert_eq!(take(&[found(x, "/x"), found(of_b, "/z")]), [x], "what is b's stays b's");
        assert_eq!(members(), ["a", "a.former1"], "it has one more");
        assert_eq!(take(&[found(x, "/x")]), [], "nothing is new");
        assert_eq!(take(&[found(x, "/x"), found(y, "/moved")]), [y]);
        assert_eq!(members(), ["a"]);
        let all = [record("a", "/x"), record("a", "/moved"), record("b", "/x")];
        assert_eq!(ns.tiers().unwrap(), (0..).map(TierId).zip(all).collect::<Vec<_>>());
        // Hosts whose names begin alike are others.
        ns.register_tier(&record("a.former1x", "/v")).unwrap();
        assert_eq!(take(&[found(TierId(3), "/v")]), []);
    });
}

#[test]
fn a_member_changes_only_from_what_it_was() {
    each_engine(|ns| {
        let (a, b) = (NodeId("a".into()), NodeId("b".into()));
        let at = |beat| MemberRecord { beat, ..MemberRecord::new(7, Timestamp::default()) };
        assert!(ns.put_member(&b, None, &at(1)).unwrap());
        assert!(!ns.put_member(&b, None, &at(2)).unwrap());
        assert!(!ns.put_member(&b, Some(&at(2)), &at(3)).unwrap());
        let tier = MemberTier {
            id: TierId(3),
            class: TierClass::Ssd,
            capacity_bytes: 1 << 40,
            free_bytes: 5,
            is_low: true,
        };
        let full = MemberRecord {
            address: Some(([10, 0, 0, 1], 7400).into()),
            state: MemberState::Leaving,
            tiers: vec![tier],
            is_leaving: true,
            ..at(2)
        };
        assert!(ns.put_member(&b, Some(&at(1)), &full).unwrap());
        assert!(!ns.put_member(&b, None, &at(2)).unwrap());
        assert!(ns.put_member(&a, None, &at(0)).unwrap());
        assert_eq!(ns.members().unwrap(), [(a, at(0)), (b.clone(), full.clone())]);
        assert_eq!(ns.member(&b).unwrap(), Some(full.clone()));
        assert!(!ns.remove_member(&b, &at(1)).unwrap());
        assert!(ns.remove_member(&b, &full).unwrap());
        assert!(ns.member(&b).unwrap().is_none());
        assert!(ns.tiers().unwrap().is_empty());
    });
}

/// Looks for records in vain while it is told to.
#[derive(Default)]
struct Unanswered {
    is_silent: AtomicBool,
    scans: AtomicU32,
}

impl Hook for Unanswered {
    fn before_scan(&self) -> Result<(), Error> {
        self.scans.fetch_add(1, Ordering::Relaxed);
        match self.is_silent.load(Ordering::Relaxed) {
            true => Err(Error::Engine("no answer in time".into())),
            false => Ok(()),
        }
    }

    fn before_commit(&self, _: PartitionId) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn a_change_of_what_is_known_waits_once_for_servers_that_do_not_answer() {
    let engine = Hooked::new(Arc::new(MemoryEngine::new(1)), Unanswered::default());
    let ns = namespace(Arc::clone(&engine) as _);
    let ino = ns.create(ROOT, b"f", file(), at(1)).unwrap().ino;
    let sums = [Extra::PutChecksums { index: 0, list: vec![7; 8].as_slice().into() }];
    let known = ns.update_with(ino, &sums, |_| Ok(())).unwrap();
    let forget_sums = || {
        ns.change_known(&known, |inode, _| {
            inode.checksummed = false;
            Ok(())
        })
    };
    let before = engine.hook.scans.load(Ordering::Relaxed);
    engine.hook.is_silent.store(true, Ordering::Relaxed);
    assert!(matches!(forget_sums(), Err(Error::Engine(_))));
    assert_eq!(engine.hook.scans.load(Ordering::Relaxed) - before, 1);
    engine.hook.is_silent.store(false, Ordering::Relaxed);
    assert!(!forget_sums().unwrap().checksummed);
    // Of what it is not any more nothing is believed.
    let grown = ns.change_known(&known, |inode, _| match inode.checksummed {
        true => Err(Error::Engine("it has sums".into())),
        false => {
            inode.size_bytes = 1;
            Ok(())
        }
    });
    assert_eq!(grown.unwrap().size_bytes, 1);
}
