//! Damaged metadata: one record of a small namespace is replaced, or overwritten in part, by what the input says. Every
//! operation then ends with a result or an error.
#![no_main]

use std::sync::Arc;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{
    LockMaster, MemberRecord, MetaEngine, Mutation, Namespace, NewInode, OpId, Owner, RenameMode,
    RootSpec, TierRecord, keys,
};
use intarsia_types::{FileKind, InodeId, NodeId, PartitionId, TierClass, Timestamp};
use libfuzzer_sys::fuzz_target;

const NOW: Timestamp = Timestamp { secs: 1, nanos: 0 };
const ROOT: InodeId = InodeId::ROOT;
const PARTITIONS: u16 = 2;
const MANY: usize = 1000;

type Key = Vec<u8>;

fn new(kind: FileKind) -> NewInode {
    NewInode::new(kind, 0o755, 0, 0)
}

/// A namespace with a record of each kind.
fn furnished(engine: &Arc<dyn MetaEngine>) -> intarsia_types::Result<(Namespace, InodeId)> {
    let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
    let names = Namespace::open(Arc::clone(engine), root, NOW)?.with_owner(Owner::new("a", 1));
    let dir = names.create(ROOT, b"dir", new(FileKind::Directory), NOW)?.ino;
    let file = names.create(dir, b"file", new(FileKind::Regular), NOW)?.ino;
    names.link(file, ROOT, b"link", NOW)?;
    names.set_xattr(file, b"user.a", b"value", intarsia_meta::SetMode::Either, NOW)?;
    names.acquire_write(file)?;
    names.create(dir, b"open", new(FileKind::Regular), NOW)?;
    names.unlink(dir, b"open", |_| true, NOW)?;
    names.put_member(&NodeId("a".into()), None, &MemberRecord::new(1, NOW))?;
    names.register_tier(&TierRecord {
        host: "a".into(),
        dir: "/tier".into(),
        class: TierClass::Ssd,
        capacity_bytes: 1 << 30,
    })?;
    let master = LockMaster { node: NodeId("a".into()), life: 1, epoch: 1 };
    names.set_lock_master(file, None, Some(&master))?;
    Ok((names, file))
}

fn records(engine: &Arc<dyn MetaEngine>) -> Vec<(PartitionId, Key, Vec<u8>)> {
    let tables = (0..PARTITIONS)
        .flat_map(|partition| (b'A'..=b'Z').map(move |table| (PartitionId(partition), table)));
    let all = tables.flat_map(|(partition, table)| {
        let records = engine.scan(partition, &[table], None, MANY).expect("an engine in memory");
        records.into_iter().map(move |(key, value)| (partition, key.to_vec(), value.to_vec()))
    });
    let unfinished = keys::transaction(OpId { session: 3, number: 4 }).to_vec();
    all.chain([(PartitionId(0), unfinished, Vec::new())]).collect()
}

fn damage(engine: &Arc<dyn MetaEngine>, which: u8, at: u8, bytes: &[u8]) {
    let mut records = records(engine);
    let index = usize::from(which) % records.len();
    let (partition, key, old) = records.swap_remove(index);
    let start = usize::from(at).min(old.len());
    // From some place on, or up to the end of the input only.
    let tail = old.get(start + bytes.len()..).filter(|_| at % 2 == 0).unwrap_or_default();
    let value = [&old[..start], bytes, tail].concat();
    let put = Mutation::Put(key.into(), value.into());
    let op = OpId { session: 1 << 60, number: 1 };
    let _ = engine.commit(partition, op, &[], vec![put]).expect("an engine in memory");
}

fn use_all(names: &Namespace, file: InodeId) {
    let _ = names.members();
    let _ = names.tiers();
    let _ = names.lock_master(file);
    let _ = names.writer(file);
    let _ = names.orphans_of(&NodeId("a".into()));
    let _ = names.resolve(b"/dir/file");
    let _ = names.list_plus(ROOT, 0, MANY, |_| ());
    let _ = names.get_body(file);
    let _ = names.list_xattr(file);
    let _ = names.recover_transactions(std::time::Duration::ZERO);
    let _ = names.check(true, &mut |_| ());
    let _ = names.acquire_write(file);
    let _ = names.rename(ROOT, b"link", ROOT, b"dir", RenameMode::Exchange, |_| false, NOW);
    let _ = names.create(ROOT, b"new", new(FileKind::Regular), NOW);
    let _ = names.unlink(ROOT, b"link", |_| false, NOW);
    let _ = names.rmdir(ROOT, b"dir", NOW);
    let _ = names.check(false, &mut |_| ());
}

fuzz_target!(|input: &[u8]| {
    let [which, at, bytes @ ..] = input else { return };
    let engine: Arc<dyn MetaEngine> = Arc::new(MemoryEngine::new(PARTITIONS));
    let (names, file) = furnished(&engine).expect("a namespace in memory");
    damage(&engine, *which, *at, bytes);
    use_all(&names, file);
});
