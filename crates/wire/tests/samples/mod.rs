//! One of every message, with values that show in the bytes.

#![allow(dead_code, reason = "not every test uses every sample")]

use intarsia_types::{
    BackingFileId, BackingRef, InodeId, NodeId, PartitionId, TierClass, TierId, Timestamp,
};
use intarsia_wire::{
    AllocateMode, Fault, Handle, Hello, Lane, LockAnswer, LockClaim, LockKind, LockMode, LockPlace,
    LockQuestion, LockSpan, PublishedFor, RecallKind, Request, Response, StoreId, Target, Welcome,
};

pub(crate) fn ino() -> InodeId {
    InodeId::new(PartitionId(3), 70_000)
}

pub(crate) fn backing() -> BackingRef {
    BackingRef { tier: TierId(2), file: BackingFileId(0x12a5) }
}

pub(crate) fn hello() -> Hello {
    Hello {
        node: NodeId("n1".into()),
        to: NodeId("n2".into()),
        store: StoreId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
        epoch: 9,
        session: 0xfeed_f00d,
        lane: Lane::Bulk,
        version: 1,
        protection: 2,
    }
}

pub(crate) fn welcome() -> Welcome {
    Welcome { node: NodeId("n2".into()), store: StoreId(1), epoch: 300 }
}

/// Every request, with a name for each.
pub(crate) fn requests() -> Vec<(&'static str, Request)> {
    let (ino, backing, handle) = (ino(), backing(), Handle(77));
    let target = Target::Handle(handle);
    let mut all = vec![
        ("ping", Request::Ping),
        ("open", Request::Open { ino, may_write: true }),
        ("close", Request::Close { handle }),
        (
            "read",
            Request::Read {
                handle,
                offset_bytes: 1 << 40,
                len_bytes: 1 << 20,
                read_ahead_bytes: 4 << 20,
            },
        ),
        ("write", Request::Write { target, offset_bytes: 4096 }),
        (
            "write-backing",
            Request::Write { target: Target::Backing { ino, backing }, offset_bytes: 0 },
        ),
        ("truncate", Request::Truncate { target, size_bytes: 12 }),
        (
            "allocate",
            Request::Allocate {
                target,
                offset_bytes: 1,
                len_bytes: 2,
                mode: AllocateMode::ZeroRangeKeepSize,
            },
        ),
        ("stat", Request::Stat { ino, backing }),
        (
            "push-begin",
            Request::PushBegin { ino, version: 5, class: TierClass::Disk, total_bytes: 1 << 30 },
        ),
        ("push-chunk", Request::PushChunk { handle, offset_bytes: 1 << 20 }),
        ("push-end", Request::PushEnd { handle, sum: u64::MAX }),
        ("drop", Request::Drop { ino, backing, version: 6 }),
        ("recall", Request::Recall { ino, kind: RecallKind::Directory, epoch: 8 }),
        ("invalidate", Request::Invalidate { ino }),
        (
            "reclaim",
            Request::Reclaim {
                tier: TierId(1),
                files: vec![BackingFileId(1), BackingFileId(0x12a5)],
            },
        ),
        ("status", Request::Status),
        ("locate", Request::Locate { ino }),
        ("flush", Request::Flush { handle }),
        ("open-read", Request::OpenRead { ino, len_bytes: 128 << 10 }),
        ("push-whole", Request::PushWhole { ino, class: TierClass::Memory, sum: 1 << 63 }),
        ("replicate", Request::Replicate { inos: vec![ino, InodeId::ROOT] }),
        ("fetch", Request::Fetch { ino }),
        ("open-part", Request::OpenPart { ino, backing, may_write: true }),
        ("stat-part", Request::StatPart { handle }),
        ("take-in", Request::TakeIn { ino }),
        ("open-vouched", Request::OpenVouched { ino, len_bytes: 128 << 10 }),
        (
            "spread",
            Request::Spread {
                ino,
                stamp: 9,
                landed: vec![0, 300],
                failed: vec![7],
                from: 2,
                until: 40,
                is_leaving: false,
            },
        ),
        (
            "read-spread",
            Request::ReadSpread {
                ino,
                home: NodeId("n1".into()),
                stamp: 9,
                offset_bytes: 1 << 20,
                len_bytes: 4096,
            },
        ),
        ("follow-tier", Request::FollowTier { ino }),
        ("hand-over", Request::HandOver { ino, epoch: 3, len_bytes: 1 << 17 }),
        (
            "lock-in-turn",
            Request::LockInTurn {
                place: LockPlace { ino, epoch: 3, life: 8 },
                number: 300,
                question: LockQuestion::Take { claim: claim(), ticket: None },
            },
        ),
        ("publish", Request::Publish { handle, call: 9, published_for: PublishedFor::SyncData }),
        (
            "change-records",
            Request::ChangeRecords { dir: ino, number: 300, keys: vec![vec![1, 2], vec![3]] },
        ),
        ("changes-over", Request::ChangesOver { numbers: vec![7, 300] }),
    ];
    all.extend(lock_questions().into_iter().map(|(name, question)| {
        (name, Request::Lock { place: LockPlace { ino, epoch: 3, life: 8 }, question })
    }));
    all
}

fn claim() -> LockClaim {
    LockClaim {
        kind: LockKind::Record,
        owner: 0x0bad_cafe,
        pid: 4711,
        mode: LockMode::Exclusive,
        span: LockSpan { first: 512, last: u64::MAX },
    }
}

fn lock_questions() -> Vec<(&'static str, LockQuestion)> {
    let claim = claim();
    let (kind, owner, span) = (LockKind::Whole, claim.owner, LockSpan::ALL);
    vec![
        ("lock-take", LockQuestion::Take { claim, ticket: None }),
        ("lock-wait", LockQuestion::Take { claim, ticket: Some(6) }),
        ("lock-release", LockQuestion::Release { kind, owner, span }),
        ("lock-test", LockQuestion::Test { claim }),
        ("lock-cancel", LockQuestion::Cancel { ticket: 6 }),
        ("lock-assert", LockQuestion::Assert { claims: vec![claim], tickets: vec![6] }),
        ("lock-report", LockQuestion::Report),
        ("lock-wake", LockQuestion::Wake { ticket: 6 }),
    ]
}

fn lock_answers() -> Vec<(&'static str, LockAnswer)> {
    vec![
        ("lock-done", LockAnswer::Done),
        ("lock-granted", LockAnswer::Granted),
        ("lock-denied", LockAnswer::Denied),
        ("lock-queued", LockAnswer::Queued),
        ("lock-deadlock", LockAnswer::Deadlock),
        ("lock-held", LockAnswer::Held { node: NodeId("n2".into()), claim: claim() }),
        ("lock-claims", LockAnswer::Claims { life: 8, claims: vec![claim()] }),
        ("lock-not-master", LockAnswer::NotMaster { life: 9 }),
    ]
}

/// Every response, with a name for each.
pub(crate) fn responses() -> Vec<(&'static str, Response)> {
    let time = |secs| Timestamp { secs, nanos: 999_999_999 };
    let mut all = vec![
        ("done", Response::Done),
        ("opened", Response::Opened { handle: Handle(77), size_bytes: 300 }),
        ("data", Response::Data { size_bytes: 1 << 33 }),
        ("written", Response::Written { size_bytes: 4097 }),
        (
            "status",
            Response::Status {
                size_bytes: 5,
                blocks_512: 8,
                mtime: time(-1),
                ctime: time(1_700_000_000),
            },
        ),
        ("pushed", Response::Pushed { backing: backing() }),
        ("released", Response::Released),
        ("busy", Response::Busy { retry_ms: 250 }),
        ("json", Response::Json),
        ("vouched", Response::Vouched { handle: Handle(77), size_bytes: 300, stamp: 1 << 60 }),
        (
            "spread",
            Response::Spread {
                piece_bytes: 1 << 18,
                takes: vec![(3, None), (300, Some(NodeId("n2".into())))],
            },
        ),
        ("handed-over", Response::HandedOver { record: vec![2, 0, 255] }),
    ];
    all.extend(lock_answers().into_iter().map(|(name, answer)| (name, Response::Lock(answer))));
    all.extend(faults().into_iter().map(|(name, fault)| (name, Response::Failed(fault))));
    all
}

/// Every error, with a name for each.
pub(crate) fn faults() -> Vec<(&'static str, Fault)> {
    let why = || "why".to_owned();
    vec![
        ("fault-not-found", Fault::NotFound),
        ("fault-exists", Fault::Exists),
        ("fault-not-directory", Fault::NotDirectory),
        ("fault-is-directory", Fault::IsDirectory),
        ("fault-not-empty", Fault::NotEmpty),
        ("fault-invalid", Fault::Invalid(why())),
        ("fault-not-permitted", Fault::NotPermitted),
        ("fault-access-denied", Fault::AccessDenied),
        ("fault-name-too-long", Fault::NameTooLong),
        ("fault-too-many-links", Fault::TooManyLinks),
        ("fault-no-attribute", Fault::NoAttribute),
        ("fault-range", Fault::Range),
        ("fault-too-big", Fault::TooBig(why())),
        ("fault-file-too-large", Fault::FileTooLarge),
        ("fault-no-space", Fault::NoSpace(why())),
        ("fault-read-only", Fault::ReadOnly(why())),
        ("fault-not-supported", Fault::NotSupported(why())),
        ("fault-bad-handle", Fault::BadHandle),
        ("fault-no-data", Fault::NoData),
        ("fault-cross-device", Fault::CrossDevice),
        ("fault-busy", Fault::Busy(why())),
        ("fault-corrupt", Fault::Corrupt { ino: ino(), what: why() }),
        ("fault-engine", Fault::Engine(why())),
        ("fault-io", Fault::Io { what: why(), errno: Some(110), text: String::new() }),
        ("fault-io-text", Fault::Io { what: why(), errno: None, text: "text".into() }),
    ]
}
