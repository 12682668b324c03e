//! Records of format 1: the format byte and `postcard` of all fields.

use intarsia_types::{Encoding, FileKind, InodeId, Layout, Result, Timestamp};
use serde::Deserialize;

use super::{Inode, decode_fields, no_hints};

pub(super) const FORMAT: u8 = 1;

#[derive(Deserialize)]
struct Record {
    kind: FileKind,
    perm: u16,
    uid: u32,
    gid: u32,
    nlink: u32,
    rdev: u32,
    size_bytes: u64,
    blocks_512: u64,
    atime: Timestamp,
    mtime: Timestamp,
    ctime: Timestamp,
    btime: Timestamp,
    version: u64,
    entries: u64,
    parent: InodeId,
    name: Vec<u8>,
    has_xattrs: bool,
    checksummed: bool,
    layout: Layout,
    target: Option<Vec<u8>>,
}

pub(super) fn decode(ino: InodeId, record: &[u8]) -> Result<Inode> {
    let r: Record = decode_fields(ino, record.get(1..).unwrap_or_default())?;
    Ok(Inode {
        ino,
        kind: r.kind,
        perm: r.perm,
        uid: r.uid,
        gid: r.gid,
        nlink: r.nlink,
        rdev: r.rdev,
        size_bytes: r.size_bytes,
        blocks_512: r.blocks_512,
        atime: r.atime,
        mtime: r.mtime,
        ctime: r.ctime,
        btime: r.btime,
        version: r.version,
        entries: r.entries,
        parent: r.parent,
        name: r.name,
        has_xattrs: r.has_xattrs,
        checksummed: r.checksummed,
        layout: r.layout,
        target: r.target,
        encoding: Encoding::Plain,
        hints: no_hints(r.has_xattrs),
    })
}
