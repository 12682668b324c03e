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
    BackingFileId, BackingRef, Encoding, Error, FileKind, InodeId, Layout, RecordedHints, TierId,
    Timestamp,
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
        let _ = Inode::decode(InodeId(1), &[&[4], bytes.as_slice()].concat());
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
        let merged = Inode::decode(dir.ino, &merged).unwrap();
        prop_assert_eq!(merged.version, 0);
        prop_assert_eq!(merged.hints, dir.hints);
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
        hints: None,
    }
}

fn hinted(attributes: &[(&str, &str)]) -> Inode {
    let mut hints = RecordedHints::default();
    for (name, value) in attributes {
        hints.set_attribute(format!("user.intarsia.{name}").as_bytes(), value.as_bytes());
    }
    Inode { hints: Some(hints), ..settled_file() }
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
fn the_record_of_format_4_never_changes() {
    let plain = hex(&settled_file().encode().unwrap());
    let golden = [
        // As format 2.
        &format!("04{}", &plain[2..]),
        // Three hints, of which one is known to another version only, and the plain encoding.
        "03 05 636c6f7365 04 66617374 06 636f6c6f7572 03 726564 04 74696572 06 6d656d6f7279 00",
    ];
    let inode = hinted(&[("tier", "memory"), ("colour", "red"), ("close", "fast")]);
    let record = inode.encode().unwrap();
    assert_eq!(hex(&record), golden.concat().replace(' ', ""));
    assert_eq!(Inode::decode(InodeId(9), &record).unwrap(), inode);
    let encoded = Inode { encoding: Encoding::Zstd { stored_bytes: 300 }, ..inode };
    let (record, plain) = (encoded.encode().unwrap(), hex(&record));
    assert_eq!(hex(&record), format!("{}01ac02", &plain[..plain.len() - 2]));
    assert_eq!(Inode::decode(InodeId(9), &record).unwrap(), encoded);
}

#[test]
fn a_record_with_hints_has_one_form() {
    let record = hinted(&[("tier", "disk"), ("close", "fast")]).encode().unwrap();
    let refused = |record: &[u8]| {
        let refused = Inode::decode(InodeId(9), record);
        assert!(matches!(refused, Err(Error::Corrupt { ino: InodeId(9), .. })), "{refused:?}");
    };
    let replaced = |from: &[u8], to: &[u8]| {
        let at = record.windows(from.len()).position(|window| window == from).unwrap();
        [&record[..at], to, &record[at + from.len()..]].concat()
    };
    // Out of order, twice, no text, and none without attributes.
    refused(&replaced(b"\x05close", b"\x05which"));
    refused(&replaced(b"\x05close", b"\x04tier"));
    refused(&replaced(b"close", b"\xfflose"));
    let has_none = Inode { has_xattrs: false, ..settled_file() }.encode().unwrap();
    refused(&[&[4], &has_none[1..], &[0, 0]].concat());
    // What is encoded is a file.
    let encoding = Encoding::Zstd { stored_bytes: 300 };
    let record = Inode { encoding, ..hinted(&[]) }.encode().unwrap();
    refused(&[&record[..1], &[1], &record[2..]].concat());
}

#[test]
fn a_record_that_notes_no_hints_says_so_unless_there_can_be_none() {
    for is_encoded in [false, true] {
        let stored_bytes = 300;
        let encoding = if is_encoded { Encoding::Zstd { stored_bytes } } else { Encoding::Plain };
        for (has_xattrs, hints) in [(true, None), (false, Some(RecordedHints::default()))] {
            let inode = Inode { has_xattrs, encoding, hints: None, ..settled_file() };
            let record = inode.encode().unwrap();
            assert_eq!(record[0], 2 + u8::from(is_encoded), "as an older version wrote it");
            assert_eq!(Inode::decode(InodeId(9), &record).unwrap().hints, hints);
        }
    }
    // Known to have none is another thing than not known.
    assert_eq!(hinted(&[]).encode().unwrap()[0], 4);
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
fn an_unknown_format_is_corrupt_and_named() {
    let record = hinted(&[("tier", "disk")]).encode().unwrap();
    let refused = Inode::decode(InodeId(7), &[&[5], &record[1..]].concat()).unwrap_err();
    assert!(matches!(refused, Error::Corrupt { ino: InodeId(7), .. }));
    assert!(refused.to_string().contains("unknown format 5"), "{refused}");
}
