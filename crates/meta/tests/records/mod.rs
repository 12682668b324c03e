//! Random inode records.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_wrap,
    dead_code,
    reason = "test code, not all used everywhere"
)]

use intarsia_meta::Inode;
use intarsia_types::{
    BackingFileId, BackingRef, Encoding, FileKind, InodeId, Layout, LowerStamp, RecordedHints,
    TierId, Timestamp,
};
use proptest::prelude::*;

fn layout() -> impl Strategy<Value = Layout> {
    let backing = (any::<u16>(), any::<u64>())
        .prop_map(|(tier, file)| BackingRef { tier: TierId(tier), file: BackingFileId(file) });
    prop_oneof![
        Just(Layout::Empty),
        Just(Layout::Inline),
        backing.clone().prop_map(Layout::Local),
        (backing.clone(), any::<u64>())
            .prop_map(|(pack, offset_bytes)| Layout::Packed { pack, offset_bytes }),
        prop::collection::vec(backing.clone(), 0..9)
            .prop_map(|copies| Layout::Replicated { copies }),
        (prop::collection::vec(backing, 0..9), number(), number())
            .prop_map(|(parts, chunk_bytes, cuts)| Layout::Striped { parts, chunk_bytes, cuts }),
        (prop::collection::vec(any::<u8>(), 0..300), number(), number(), time(), time()).prop_map(
            |(path, ino, size_bytes, mtime, ctime)| Layout::Lower {
                path,
                stamp: LowerStamp { ino, size_bytes, mtime, ctime },
            }
        ),
    ]
}

/// Any valid time.
pub(crate) fn time() -> impl Strategy<Value = Timestamp> {
    (signed(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Timestamp { secs, nanos })
}

/// Numbers, the first, the last and those beside a change of halves more often than others.
pub(crate) fn number() -> impl Strategy<Value = u64> {
    let half = u64::from(u32::MAX);
    prop_oneof![
        4 => any::<u64>(),
        1 => 0..3_u64,
        1 => (0..3_u64).prop_map(|n| u64::MAX - n),
        1 => (0..5_u64).prop_map(move |n| half - 2 + n),
        1 => any::<u32>().prop_map(|n| u64::from(n) << 32 | u64::from(u32::MAX)),
    ]
}

/// The same, and negative ones.
pub(crate) fn signed() -> impl Strategy<Value = i64> {
    number().prop_map(|n| n as i64)
}

fn encoding() -> impl Strategy<Value = Encoding> {
    prop_oneof![
        Just(Encoding::Plain),
        number().prop_map(|stored_bytes| Encoding::Zstd { stored_bytes })
    ]
}

/// Known names and others, and values that are followed and others.
fn hints() -> impl Strategy<Value = RecordedHints> {
    let name = prop_oneof![Just("tier".to_owned()), Just("place".to_owned()), "[a-z]{0,9}"];
    let value = prop_oneof![Just("disk".to_owned()), Just("local".to_owned()), ".{0,60}"];
    prop::collection::vec((name, value), 0..6).prop_map(|attributes| {
        let mut hints = RecordedHints::default();
        for (name, value) in attributes {
            hints.set_attribute(format!("user.intarsia.{name}").as_bytes(), value.as_bytes());
        }
        hints
    })
}

fn links() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), 0..3_u32, (0..3_u32).prop_map(|n| u32::MAX - n)]
}

prop_compose! {
    /// Any record that can be written.
    pub(crate) fn inode()(
        ino in any::<u64>(), kind in 0..7_u8, perm in 0..0o10000_u16,
        ids in (any::<u32>(), any::<u32>(), links(), any::<u32>()),
        sizes in (number(), number(), number(), number()),
        times in (time(), time(), time(), time()), flags in any::<(bool, bool)>(),
        layout in layout(), name in prop::collection::vec(any::<u8>(), 0..256),
        target in prop::option::of(prop::collection::vec(any::<u8>(), 0..4096)),
        parent in any::<u64>(), encoding in encoding(), hints in prop::option::of(hints()),
    ) -> Inode {
        Inode {
            ino: InodeId(ino), kind: FileKind::from_number(kind).unwrap(), perm,
            uid: ids.0, gid: ids.1, nlink: ids.2, rdev: ids.3,
            size_bytes: sizes.0, blocks_512: sizes.1, version: sizes.2, entries: sizes.3,
            atime: times.0, mtime: times.1, ctime: times.2, btime: times.3,
            parent: InodeId(parent), name, has_xattrs: flags.0, checksummed: flags.1,
            layout, target,
            encoding: if kind == 0 { encoding } else { Encoding::Plain },
            hints: if flags.0 { hints } else { Some(RecordedHints::default()) },
        }
    }
}
