//! The keys of the namespace: a table letter, then big-endian numbers, so that byte order is the order
//! of listings and scans. This is the on-disk format; see the table in docs/internals/format.md.

use intarsia_types::{BackingFileId, BackingRef, InodeId, TierId};

use crate::{Bytes, OpId};

/// Inode records: ino.
pub const INODE: u8 = b'I';
/// Dentries: parent ino, 63-bit hash of the name, name.
pub const DENTRY: u8 = b'D';
/// Extended attributes: ino, name.
pub const XATTR: u8 = b'X';
/// Inline bodies: ino.
pub const BODY: u8 = b'B';
/// Checksum lists: ino, index.
pub const CHECKSUM: u8 = b'C';
/// Orphans (unlinked, perhaps still open): ino.
pub const ORPHAN: u8 = b'O';
/// Inodes that may be being written: ino.
pub const WRITABLE: u8 = b'W';
/// Backing files on disk that belong to no inode: tier, file.
pub const FREE: u8 = b'F';
/// Leases on directories: ino.
pub const LEASE: u8 = b'L';
/// Names of the lower file system that are not to show any more: parent ino, name.
pub const HIDDEN: u8 = b'H';
/// Superblock values: name.
pub const SUPER: u8 = b'S';

/// Lock masters, of inodes that have one: ino.
pub const LOCK_MASTER: u8 = b'K';

/// Records of transactions over several partitions: session, number of the transaction.
pub const TRANSACTION: u8 = b'T';

/// Cookies below this are kept for the start of a listing, "." and "..".
pub const FIRST_COOKIE: u64 = 3;
/// Longest name of a dentry, in bytes.
pub const NAME_MAX: usize = 255;

const DENTRY_HEAD: usize = 1 + 8 + 8;

/// The 63-bit hash of a name that orders a directory and is its listing's cookie. The seed is the
/// store's own, so that nobody can prepare names that collide.
#[must_use]
pub fn hash63(seed: u64, name: &[u8]) -> u64 {
    let hash = xxhash_rust::xxh3::xxh3_64_with_seed(name, seed) & (u64::MAX >> 1);
    hash.max(FIRST_COOKIE)
}

/// A dentry's key, built without allocation.
pub struct DentryKey {
    bytes: [u8; DENTRY_HEAD + NAME_MAX],
    len: usize,
}

impl DentryKey {
    /// The key of `name` in `parent`. A name beyond [`NAME_MAX`] is cut: callers have refused it before.
    #[must_use]
    pub fn new(parent: InodeId, hash: u64, name: &[u8]) -> Self {
        let mut bytes = [0; DENTRY_HEAD + NAME_MAX];
        let name = &name[..name.len().min(NAME_MAX)];
        let len = DENTRY_HEAD + name.len();
        bytes[0] = DENTRY;
        bytes[1..9].copy_from_slice(&parent.0.to_be_bytes());
        bytes[9..17].copy_from_slice(&hash.to_be_bytes());
        bytes[17..len].copy_from_slice(name);
        Self { bytes, len }
    }

    /// The key as an owned value.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        Bytes::copy_from(self)
    }
}

impl std::ops::Deref for DentryKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Splits a dentry's key into parent, hash and name.
#[must_use]
pub fn split_dentry(key: &[u8]) -> Option<(InodeId, u64, &[u8])> {
    let (head, name) = key.split_at_checked(DENTRY_HEAD)?;
    let parent = number_at(head, 1)?;
    let hash = number_at(head, 9)?;
    (head[0] == DENTRY && !name.is_empty()).then_some((InodeId(parent), hash, name))
}

/// The key of table `table` that holds an inode number and nothing more.
#[must_use]
pub const fn by_inode(table: u8, ino: InodeId) -> [u8; 9] {
    let n = ino.0.to_be_bytes();
    [table, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]]
}

/// The key of an inode record.
#[must_use]
pub fn inode(ino: InodeId) -> Bytes {
    Bytes::copy_from(&by_inode(INODE, ino))
}

/// The inode number in the key of any table that starts with one.
#[must_use]
pub fn inode_of(key: &[u8]) -> Option<InodeId> {
    number_at(key, 1).map(InodeId)
}

/// The key of an extended attribute.
#[must_use]
pub fn xattr(ino: InodeId, name: &[u8]) -> Bytes {
    let mut key = Vec::with_capacity(9 + name.len());
    key.extend_from_slice(&by_inode(XATTR, ino));
    key.extend_from_slice(name);
    key.into()
}

/// The name in the key of an extended attribute.
#[must_use]
pub fn xattr_name(key: &[u8]) -> &[u8] {
    key.get(9..).unwrap_or_default()
}

/// The key of a hidden name of the lower file system.
#[must_use]
pub fn hidden(parent: InodeId, name: &[u8]) -> Bytes {
    [&by_inode(HIDDEN, parent), name].concat().into()
}

/// The key of one checksum list of an inode.
#[must_use]
pub fn checksum(ino: InodeId, index: u32) -> [u8; 13] {
    let mut key = [0; 13];
    key[..9].copy_from_slice(&by_inode(CHECKSUM, ino));
    key[9..].copy_from_slice(&index.to_be_bytes());
    key
}

/// The prefix of the free files of one tier.
#[must_use]
pub const fn free_prefix(tier: TierId) -> [u8; 3] {
    let t = tier.0.to_be_bytes();
    [FREE, t[0], t[1]]
}

/// The key of a free backing file.
#[must_use]
pub fn free(backing: BackingRef) -> [u8; 11] {
    let mut key = [0; 11];
    key[..3].copy_from_slice(&free_prefix(backing.tier));
    key[3..].copy_from_slice(&backing.file.0.to_be_bytes());
    key
}

/// The backing file in the key of a free file.
#[must_use]
pub fn split_free(key: &[u8]) -> Option<BackingRef> {
    let tier = u16::from_be_bytes(key.get(1..3)?.try_into().ok()?);
    let file = number_at(key, 3)?;
    (key.len() == 11 && key[0] == FREE)
        .then_some(BackingRef { tier: TierId(tier), file: BackingFileId(file) })
}

/// The key of the record of a transaction over several partitions.
#[must_use]
pub fn transaction(id: OpId) -> Bytes {
    let mut key = [0; 17];
    key[0] = TRANSACTION;
    key[1..9].copy_from_slice(&id.session.to_be_bytes());
    key[9..].copy_from_slice(&id.number.to_be_bytes());
    Bytes::copy_from(&key)
}

/// The transaction in the key of such a record.
#[must_use]
pub fn split_transaction(key: &[u8]) -> Option<OpId> {
    let id = OpId { session: number_at(key, 1)?, number: number_at(key, 9)? };
    (key.len() == 17 && key[0] == TRANSACTION).then_some(id)
}

/// The key of a superblock value.
#[must_use]
pub fn superblock(name: &str) -> Bytes {
    let mut key = Vec::with_capacity(1 + name.len());
    key.push(SUPER);
    key.extend_from_slice(name.as_bytes());
    key.into()
}

fn number_at(key: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dentry_keys_sort_by_parent_then_hash() {
        let a = DentryKey::new(InodeId(1), 5, b"zz").to_bytes();
        let b = DentryKey::new(InodeId(1), 6, b"aa").to_bytes();
        let c = DentryKey::new(InodeId(2), 3, b"a").to_bytes();
        assert!(a < b && b < c);
        assert_eq!(split_dentry(&a), Some((InodeId(1), 5, b"zz".as_slice())));
    }

    #[test]
    fn the_first_cookies_stay_free() {
        for n in 0..10_000_u32 {
            let hash = hash63(9, &n.to_be_bytes());
            assert!((FIRST_COOKIE..1 << 63).contains(&hash));
        }
    }

    #[test]
    fn transaction_keys_survive_the_round_trip() {
        let id = OpId { session: 5, number: 6 };
        assert_eq!(split_transaction(&transaction(id)), Some(id));
        assert_eq!(split_transaction(b"T"), None);
    }

    #[test]
    fn free_keys_survive_the_round_trip() {
        let backing = BackingRef { tier: TierId(3), file: BackingFileId(77) };
        assert_eq!(split_free(&free(backing)), Some(backing));
        assert_eq!(split_free(b"F"), None);
    }
}
