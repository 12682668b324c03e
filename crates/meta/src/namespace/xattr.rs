//! Extended attributes.

use std::borrow::Cow;

use intarsia_types::{Error, HINT_PREFIX, InodeId, RecordedHints, Result, Timestamp};

use super::{Namespace, Transaction};
use crate::{Bytes, Condition, Inode, Key, keys};

/// Longest name of an extended attribute, as in the kernel.
pub const XATTR_NAME_MAX: usize = 255;
/// Longest value of an extended attribute, as in the kernel.
pub const XATTR_VALUE_MAX: usize = 64 << 10;

/// Attributes that are read at once to find hints: a few more than there are hints.
const HINTS_PAGE: usize = 16;

/// The key beside a file's attributes of the number of readers that have closed it, for files where these are counted: 8 bytes,
/// least significant first. No attribute has a zero byte in its name, so none collides.
const READERS: &[u8] = b"\0readers";

/// Whether setting an attribute may create or replace it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetMode {
    /// Both.
    #[default]
    Either,
    /// It must not exist (`XATTR_CREATE`).
    Create,
    /// It must exist (`XATTR_REPLACE`).
    Replace,
}

/// Refuses a name that is empty or too long with [`Error::Range`], and a value that is too long with [`Error::TooBig`].
pub(super) fn check(name: &[u8], value: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        return Err(Error::Range);
    }
    if value.len() > XATTR_VALUE_MAX {
        return Err(Error::TooBig(format!("an attribute value beyond {XATTR_VALUE_MAX} bytes")));
    }
    Ok(())
}

impl Namespace {
    /// Sets an extended attribute.
    pub fn set_xattr(
        &self,
        ino: InodeId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
        now: Timestamp,
    ) -> Result<()> {
        check(name, value)?;
        let key = keys::xattr(ino, name);
        self.retry(|| {
            let stored = self.stored(ino)?;
            let mut transaction = Transaction::at(ino);
            transaction.expect_unchanged(&stored);
            match mode {
                SetMode::Either => {}
                SetMode::Create => {
                    transaction.of(ino).require(Condition::Absent(key.clone()), || Error::Exists);
                }
                SetMode::Replace => {
                    transaction
                        .of(ino)
                        .require(Condition::Present(key.clone()), || Error::NoAttribute);
                }
            }
            let mut hints = self.hints_of(&stored.inode)?.into_owned();
            hints.set_attribute(name, value);
            let mut inode = stored.inode;
            inode.has_xattrs = true;
            inode.hints = Some(hints);
            inode.ctime = now;
            inode.version = inode.version.wrapping_add(1);
            transaction.put_inode(&inode)?;
            transaction.of(ino).put(key.clone(), Bytes::copy_from(value));
            Ok(self.commit(transaction)?.then_some(()))
        })
    }

    /// The value of an extended attribute.
    pub fn get_xattr(&self, ino: InodeId, name: &[u8]) -> Result<Bytes> {
        if !self.get(ino)?.has_xattrs {
            return Err(Error::NoAttribute);
        }
        let value = self.engine.get(ino.partition(), &keys::xattr(ino, name))?;
        value.ok_or(Error::NoAttribute)
    }

    /// The hints of an inode: what its attributes `user.intarsia.*` say. The record notes them, unless an older version wrote
    /// it: then the attributes are read.
    pub fn hints_of<'i>(&self, inode: &'i Inode) -> Result<Cow<'i, RecordedHints>> {
        match &inode.hints {
            Some(hints) => Ok(Cow::Borrowed(hints)),
            None if inode.has_xattrs => self.hints_in_attributes(inode.ino).map(Cow::Owned),
            None => Ok(Cow::default()),
        }
    }

    fn hints_in_attributes(&self, ino: InodeId) -> Result<RecordedHints> {
        let prefix = keys::xattr(ino, HINT_PREFIX.as_bytes());
        let (mut hints, mut last) = (RecordedHints::default(), None::<Key>);
        loop {
            let page = self.engine.scan(ino.partition(), &prefix, last.as_deref(), HINTS_PAGE)?;
            for (key, value) in &page {
                hints.set_attribute(keys::xattr_name(key), value);
            }
            last = page.last().map(|(key, _)| key.clone());
            if page.len() < HINTS_PAGE {
                return Ok(hints);
            }
        }
    }

    /// Has a record that is about to be written note its hints, if it does not yet. No attribute changes without the record, so
    /// what is noted is right if the commit finds the record as it was read.
    pub(super) fn note_hints(&self, inode: &mut Inode) -> Result<()> {
        if inode.hints.is_none() {
            inode.hints = Some(self.hints_of(inode)?.into_owned());
        }
        Ok(())
    }

    /// Counts one reader more of a file, and returns how many there are now. The number is kept beside the file's attributes.
    /// The record does not change, so cached copies of the content, which are of one version of it, stay valid.
    pub fn count_reader(&self, ino: InodeId) -> Result<u64> {
        let key = keys::xattr(ino, READERS);
        self.retry(|| {
            let stored = self.stored(ino)?;
            if stored.inode.nlink == 0 {
                return Err(Error::NotFound);
            }
            let before = self.engine.get(ino.partition(), &key)?;
            let count = before.as_ref().and_then(|bytes| bytes.as_ref().try_into().ok());
            let readers = count.map_or(0, u64::from_le_bytes).saturating_add(1);
            let mut transaction = Transaction::at(ino);
            transaction.expect_unchanged(&stored);
            transaction.of(ino).expect(Condition::still(key.clone(), before));
            transaction.of(ino).put(key.clone(), Bytes::copy_from(&readers.to_le_bytes()));
            if !stored.inode.has_xattrs {
                // The last attribute was removed while the reader had the file open. Who removes the file has to know of the count.
                let version = stored.inode.version.wrapping_add(1);
                transaction.put_inode(&Inode { has_xattrs: true, version, ..stored.inode })?;
            }
            Ok(self.commit(transaction)?.then_some(readers))
        })
    }

    /// The names of all extended attributes, in the order of their bytes.
    pub fn list_xattr(&self, ino: InodeId) -> Result<Vec<Vec<u8>>> {
        if !self.get(ino)?.has_xattrs {
            return Ok(Vec::new());
        }
        let prefix = keys::by_inode(keys::XATTR, ino);
        let keys = self.keys_of(ino.partition(), &prefix, None)?;
        let names = keys.iter().map(|key| key[prefix.len()..].to_vec());
        Ok(names.filter(|name| name != READERS).collect())
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, ino: InodeId, name: &[u8], now: Timestamp) -> Result<()> {
        let key = keys::xattr(ino, name);
        self.retry(|| {
            let stored = self.stored(ino)?;
            if !stored.inode.has_xattrs {
                return Err(Error::NoAttribute);
            }
            let mut transaction = Transaction::at(ino);
            transaction.expect_unchanged(&stored);
            transaction.of(ino).require(Condition::Present(key.clone()), || Error::NoAttribute);
            let prefix = keys::by_inode(keys::XATTR, ino);
            let left = self.engine.scan(ino.partition(), &prefix, None, 2)?;
            let mut hints = self.hints_of(&stored.inode)?.into_owned();
            hints.remove_attribute(name);
            let mut inode = stored.inode;
            inode.hints = Some(hints);
            inode.has_xattrs = left.iter().any(|(other, _)| *other != key);
            inode.ctime = now;
            inode.version = inode.version.wrapping_add(1);
            transaction.put_inode(&inode)?;
            transaction.of(ino).delete(key.clone());
            Ok(self.commit(transaction)?.then_some(()))
        })
    }
}
