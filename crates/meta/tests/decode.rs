//! Decoders: no bytes make them panic, and what was encoded comes back.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, outside of test functions"
)]

use intarsia_meta::{Inode, keys};
use intarsia_types::{
    BackingFileId, BackingRef, Error, FileKind, InodeId, Layout, NodeId, TierId, Timestamp,
};
use proptest::prelude::*;

fn layout() -> impl Strategy<Value = Layout> {
    let backing = (any::<u16>(), any::<u64>())
        .prop_map(|(tier, file)| BackingRef { tier: TierId(tier), file: BackingFileId(file) });
    prop_oneof![
        Just(Layout::Empty),
        Just(Layout::Inline),
        backing.clone().prop_map(Layout::Local),
        (backing, any::<u64>())
            .prop_map(|(pack, offset_bytes)| Layout::Packed { pack, offset_bytes }),
        prop::collection::vec(".{0,40}", 0..9).prop_map(|names| Layout::Replicated {
            nodes: names.into_iter().map(NodeId).collect()
        }),
    ]
}

fn time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Timestamp { secs, nanos })
}

prop_compose! {
    fn inode()(
        ino in any::<u64>(), kind in 0..7_u8, perm in 0..0o10000_u16,
        ids in any::<(u32, u32, u32, u32)>(), sizes in any::<(u64, u64, u64, u64)>(),
        times in (time(), time(), time(), time()), flags in any::<(bool, bool)>(),
        layout in layout(), name in prop::collection::vec(any::<u8>(), 0..256),
        target in prop::option::of(prop::collection::vec(any::<u8>(), 0..4096)),
        parent in any::<u64>(),
    ) -> Inode {
        Inode {
            ino: InodeId(ino), kind: FileKind::from_number(kind).unwrap(), perm,
            uid: ids.0, gid: ids.1, nlink: ids.2, rdev: ids.3,
            size_bytes: sizes.0, blocks_512: sizes.1, version: sizes.2, entries: sizes.3,
            atime: times.0, mtime: times.1, ctime: times.2, btime: times.3,
            parent: InodeId(parent), name, has_xattrs: flags.0, checksummed: flags.1,
            layout, target,
        }
    }
}

proptest! {
    #[test]
    fn an_inode_survives_the_round_trip(inode in inode()) {
        let record = inode.encode().unwrap();
        prop_assert_eq!(Inode::decode(inode.ino, &record).unwrap(), inode);
    }

    #[test]
    fn a_cut_or_longer_record_is_corrupt(inode in inode(), cut in any::<prop::sample::Index>()) {
        let record = inode.encode().unwrap();
        let cut = cut.index(record.len());
        prop_assert!(Inode::decode(inode.ino, &record[..cut]).is_err());
        let longer = [&record, b"x".as_slice()].concat();
        prop_assert!(Inode::decode(inode.ino, &longer).is_err());
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Inode::decode(InodeId(1), &bytes);
        let _ = Inode::decode(InodeId(1), &[&[1], bytes.as_slice()].concat());
        let _ = Inode::decode(InodeId(1), &[&[2], bytes.as_slice()].concat());
        let _ = keys::split_dentry(&bytes);
        let _ = keys::split_free(&bytes);
        let _ = keys::inode_of(&bytes);
        let delta = intarsia_meta::DirDelta { time: Timestamp::default(), nlink: -9, entries: i64::MIN };
        let _ = intarsia_meta::merge::merge_directory(InodeId(1), &bytes, delta);
        let _ = intarsia_meta::merge::merge_counter(Some(&bytes), i64::MIN);
    }
}

proptest! {
    #[test]
    fn the_last_version_is_followed_by_the_first(inode in inode()) {
        let dir = Inode { kind: FileKind::Directory, version: u64::MAX, ..inode };
        let delta = intarsia_meta::DirDelta { time: Timestamp::default(), nlink: 1, entries: 1 };
        let record = dir.encode().unwrap();
        let merged = intarsia_meta::merge::merge_directory(dir.ino, &record, delta).unwrap();
        prop_assert_eq!(Inode::decode(dir.ino, &merged).unwrap().version, 0);
    }
}

fn settled_file() -> Inode {
    let time = |secs| Timestamp { secs, nanos: 7 };
    let backing = BackingRef { tier: TierId(2), file: BackingFileId(300) };
    Inode {
        ino: InodeId(9),
        kind: FileKind::Regular,
        perm: 0o644,
        uid: 1000,
        gid: 100,
        nlink: 1,
        rdev: 0,
        size_bytes: 5000,
        blocks_512: 16,
        atime: time(1),
        mtime: time(2),
        ctime: time(3),
        btime: time(-4),
        version: 5,
        entries: 0,
        parent: InodeId(0),
        name: Vec::new(),
        has_xattrs: true,
        checksummed: false,
        layout: Layout::Local(backing),
        target: None,
    }
}

fn hex(record: &[u8]) -> String {
    record.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_record_of_format_2_never_changes() {
    let golden = [
        "02 00 0000000000000005 00000001 0000000000000000",
        "0000000000000002 00000007 0000000000000003 00000007",
        "a403 e807 64 00 8827 10 0207 0707 00 00 01 00 01 02ac02 00",
    ];
    assert_eq!(hex(&settled_file().encode().unwrap()), golden.concat().replace(' ', ""));
}

#[test]
fn a_record_of_format_1_is_still_read_and_merged() {
    let golden = "0100a403e807640100882710020704070607070705000000010001 02ac0200".replace(' ', "");
    let record: Vec<u8> = (0..golden.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&golden[at..at + 2], 16).unwrap())
        .collect();
    assert_eq!(Inode::decode(InodeId(9), &record).unwrap(), settled_file());
    assert!(Inode::decode(InodeId(9), &record[..record.len() - 1]).is_err());
    let delta =
        intarsia_meta::DirDelta { time: Timestamp { secs: 8, nanos: 0 }, nlink: 1, entries: 2 };
    let merge = |record: &[u8]| intarsia_meta::merge::merge_directory(InodeId(9), record, delta);
    assert!(matches!(merge(&record), Err(Error::NotDirectory)));
    let mut directory = record;
    directory[1] = 1;
    let merged = Inode::decode(InodeId(9), &merge(&directory).unwrap()).unwrap();
    assert_eq!((merged.nlink, merged.entries, merged.version, merged.mtime.secs), (2, 2, 6, 8));
}

#[test]
fn an_unknown_format_is_corrupt() {
    let refused = Inode::decode(InodeId(7), &[3, 0, 0]);
    assert!(matches!(refused, Err(Error::Corrupt { ino: InodeId(7), .. })));
}
