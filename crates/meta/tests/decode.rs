//! Decoders: no bytes make them panic, and what was encoded comes back.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, outside of test functions"
)]

mod records;

use intarsia_meta::{Inode, keys};
use intarsia_types::{
    BackingFileId, BackingRef, Encoding, Error, FileKind, InodeId, Layout, TierId, Timestamp,
};
use proptest::prelude::*;

use records::inode;

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
        let _ = Inode::decode(InodeId(1), &[&[3], bytes.as_slice()].concat());
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
        let dir = Inode { kind: FileKind::Directory, version: u64::MAX, encoding: Encoding::Plain, ..inode };
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
        encoding: Encoding::Plain,
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
fn a_record_of_an_encoded_file_has_a_format_of_its_own() {
    let encoded = Inode { encoding: Encoding::Zstd { stored_bytes: 300 }, ..settled_file() };
    let (plain, record) = (settled_file().encode().unwrap(), encoded.encode().unwrap());
    let golden = format!("03{}01ac02", &hex(&plain)[2..]);
    assert_eq!(hex(&record), golden);
    assert_eq!(Inode::decode(InodeId(9), &record).unwrap(), encoded);
    let twice = [&[3], &plain[1..], &[0]].concat();
    assert!(Inode::decode(InodeId(9), &twice).is_err(), "a plain file has one form");
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
