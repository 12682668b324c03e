//! What can be done, and how likely.

use proptest::prelude::*;

/// A path below the directory of the case: few names, so that operations meet.
pub(crate) type Path = String;

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Open { slot: usize, path: Path, how: How },
    Write { slot: usize, offset: u64, len: usize },
    Append { slot: usize, len: usize },
    Read { slot: usize, offset: u64, len: usize },
    SetLen { slot: usize, len: u64 },
    Allocate { slot: usize, offset: u64, len: u64, how: Allocate },
    Holes { slot: usize },
    CopyRange { from: usize, from_offset: u64, to: usize, to_offset: u64, len: usize },
    Map { slot: usize, offset: u64, len: usize },
    Sync { slot: usize },
    Close { slot: usize },
    Stat { path: Path },
    Truncate { path: Path, len: u64 },
    Rename { from: Path, to: Path, how: Rename },
    Link { from: Path, to: Path },
    Symlink { path: Path, to: Path },
    Unlink { path: Path },
    MakeDir { path: Path, perm: u32 },
    RemoveDir { path: Path },
    Chmod { path: Path, perm: u32 },
    SetTimes { path: Path, secs: i64, nanos: u32 },
    SetXattr { path: Path, name: usize, len: usize },
    GetXattr { path: Path, name: usize },
    RemoveXattr { path: Path, name: usize },
    ListXattr { path: Path },
    Hint { path: Path, is_valid: bool },
    List { path: Path },
    ListWhileRemoving { path: Path },
    CompareTrees,
    Remount,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) writes: bool,
    pub(crate) creates: bool,
    pub(crate) truncates: bool,
    pub(crate) is_exclusive: bool,
    pub(crate) appends: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Allocate {
    Grow,
    KeepSize,
    Punch,
    Zero,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Rename {
    Replace,
    NoReplace,
    Exchange,
}

/// Files kept open at a time.
pub(crate) const SLOTS: usize = 4;

pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(), 1..250)
}

fn path() -> impl Strategy<Value = Path> {
    "[abcd](/[ab](/[ab])?)?"
}

/// Around the length up to which a file is kept beside its inode, around pages, and far out.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..5000_u64,
        2 => 0..70_000_u64,
        1 => prop::sample::select(vec![0, 4095, 4096, 4097, 65_536, 1 << 20, (1 << 32) + 5]),
    ]
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 1..3000_usize, 1 => 1..100_000_usize, 1 => Just(4096_usize)]
}

fn how() -> impl Strategy<Value = How> {
    let often = prop::bool::weighted(0.8);
    let seldom = || prop::bool::weighted(0.2);
    (often, often, seldom(), seldom(), seldom()).prop_map(
        |(writes, creates, truncates, is_exclusive, appends)| How {
            writes,
            creates,
            truncates,
            is_exclusive,
            appends,
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation as O;
    let slot = || 0..SLOTS;
    let perm = || prop::sample::select(vec![0o700_u32, 0o755, 0o1777, 0o2775, 0o640, 0o4755, 0]);
    let renames = prop_oneof![4 => Just(Rename::Replace), 1 => Just(Rename::NoReplace), 2 => Just(Rename::Exchange)];
    let allocates = prop::sample::select(vec![
        Allocate::Grow,
        Allocate::KeepSize,
        Allocate::Punch,
        Allocate::Zero,
    ]);
    let on_files = prop_oneof![
        10 => (slot(), path(), how()).prop_map(|(slot, path, how)| O::Open { slot, path, how }),
        10 => (slot(), offset(), len()).prop_map(|(slot, offset, len)| O::Write { slot, offset, len }),
        4 => (slot(), len()).prop_map(|(slot, len)| O::Append { slot, len }),
        6 => (slot(), offset(), len()).prop_map(|(slot, offset, len)| O::Read { slot, offset, len }),
        4 => (slot(), offset()).prop_map(|(slot, len)| O::SetLen { slot, len }),
        3 => (slot(), 0..90_000_u64, 1..50_000_u64, allocates)
            .prop_map(|(slot, offset, len, how)| O::Allocate { slot, offset, len, how }),
        2 => slot().prop_map(|slot| O::Holes { slot }),
        4 => (slot(), 0..9000_u64, slot(), 0..9000_u64, len()).prop_map(
            |(from, from_offset, to, to_offset, len)| O::CopyRange { from, from_offset, to, to_offset, len }
        ),
        4 => (slot(), offset(), len()).prop_map(|(slot, offset, len)| O::Map { slot, offset, len }),
        2 => slot().prop_map(|slot| O::Sync { slot }),
        6 => slot().prop_map(|slot| O::Close { slot }),
    ];
    let on_names = prop_oneof![
        6 => path().prop_map(|path| O::Stat { path }),
        4 => (path(), offset()).prop_map(|(path, len)| O::Truncate { path, len }),
        8 => (path(), path(), renames).prop_map(|(from, to, how)| O::Rename { from, to, how }),
        4 => (path(), path()).prop_map(|(from, to)| O::Link { from, to }),
        2 => (path(), path()).prop_map(|(path, to)| O::Symlink { path, to }),
        5 => path().prop_map(|path| O::Unlink { path }),
        6 => (path(), perm()).prop_map(|(path, perm)| O::MakeDir { path, perm }),
        3 => path().prop_map(|path| O::RemoveDir { path }),
        3 => (path(), perm()).prop_map(|(path, perm)| O::Chmod { path, perm }),
        // All long past, so that times set and times of writes are told apart.
        3 => (path(), 0..1_000_000_000_i64, 0..1_000_000_000_u32)
            .prop_map(|(path, secs, nanos)| O::SetTimes { path, secs, nanos }),
    ];
    let on_attributes = prop_oneof![
        4 => (path(), 0..3_usize, 0..300_usize).prop_map(|(path, name, len)| O::SetXattr { path, name, len }),
        2 => (path(), 0..3_usize).prop_map(|(path, name)| O::GetXattr { path, name }),
        2 => (path(), 0..3_usize).prop_map(|(path, name)| O::RemoveXattr { path, name }),
        2 => path().prop_map(|path| O::ListXattr { path }),
        2 => (path(), any::<bool>()).prop_map(|(path, is_valid)| O::Hint { path, is_valid }),
        3 => path().prop_map(|path| O::List { path }),
        1 => path().prop_map(|path| O::ListWhileRemoving { path }),
        2 => Just(O::CompareTrees),
    ];
    prop_oneof![
        55 => on_files,
        45 => on_names,
        16 => on_attributes,
        1 => Just(O::Remount),
    ]
}
