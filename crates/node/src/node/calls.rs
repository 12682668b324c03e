//! What programs ask of attributes, extended ones among them, and of hints.

use std::sync::Arc;

use intarsia_meta::SetMode;
use intarsia_sync::Instant;
use intarsia_types::{Attr, Hint, InodeId, Result, RuleSet};

use crate::vfs::attributes::{AttrChange, Validity};
use crate::vfs::caller::Caller;
use crate::vfs::locating::Located;

use super::Node;

impl Node {
    /// How long the kernel may keep what a name in `dir` means, or that it means nothing, if that was read
    /// after `read_after`.
    #[must_use]
    pub fn name_validity(&self, dir: InodeId, read_after: Instant) -> Validity {
        self.calls.attributes.name_validity(dir, read_after)
    }

    /// Whether the store lies over a lower file system.
    #[must_use]
    pub fn has_lower(&self) -> bool {
        self.calls.attributes.has_lower()
    }

    /// How long the kernel may keep that a name in `dir` means nothing: the lower file system may bring it.
    #[must_use]
    pub fn absence_validity(&self, dir: InodeId, read_after: Instant) -> Validity {
        self.calls.attributes.absence_validity(dir, read_after)
    }

    /// The attributes of an inode, and how long they hold.
    ///
    /// # Errors
    /// [`Error::NotFound`](intarsia_types::Error::NotFound), or the system's own from a backing file.
    pub fn attributes(&self, ino: InodeId) -> Result<(Attr, Validity)> {
        self.calls.attributes.attributes(ino)
    }

    /// Clears the set-group-id bit, whoever asks.
    ///
    /// # Errors
    /// The engine's own.
    pub fn clear_set_group_id(&self, ino: InodeId) -> Result<()> {
        self.calls.attributes.clear_set_group_id(ino)
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// As `chmod`, `chown`, `truncate` and `utimensat`.
    pub fn set_attributes(
        &self,
        caller: Caller,
        ino: InodeId,
        change: &AttrChange,
    ) -> Result<(Attr, Validity)> {
        self.calls.setter.set_attributes(caller, ino, change)
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> Arc<RuleSet> {
        self.calls.hinting.rules()
    }

    /// Replaces the rules; files created from now on follow them.
    pub fn set_rules(&self, rules: RuleSet) {
        self.calls.hinting.set_rules(rules);
    }

    /// Sets an attribute. Hints are validated; the log says what a refused one should have been.
    ///
    /// # Errors
    /// [`Error::NotPermitted`](intarsia_types::Error::NotPermitted) for the read-only ones, [`Error::Invalid`](intarsia_types::Error::Invalid) for a malformed hint.
    pub fn set_xattr(&self, ino: InodeId, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        self.calls.xattrs.set_xattr(ino, name, value, mode)
    }

    /// The value of an attribute.
    ///
    /// # Errors
    /// [`Error::NoAttribute`](intarsia_types::Error::NoAttribute).
    pub fn get_xattr(&self, ino: InodeId, name: &[u8]) -> Result<Vec<u8>> {
        self.calls.xattrs.get_xattr(ino, name)
    }

    /// The names of the attributes; those that only answer questions are left out, so that copying
    /// tools do not try to write them.
    ///
    /// # Errors
    /// [`Error::NotFound`](intarsia_types::Error::NotFound).
    pub fn list_xattr(&self, ino: InodeId) -> Result<Vec<Vec<u8>>> {
        self.calls.xattrs.list_xattr(ino)
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// [`Error::NoAttribute`](intarsia_types::Error::NoAttribute), [`Error::NotPermitted`](intarsia_types::Error::NotPermitted) for the read-only ones.
    pub fn remove_xattr(&self, ino: InodeId, name: &[u8]) -> Result<()> {
        self.calls.xattrs.remove_xattr(ino, name)
    }

    /// Says where the file `name` of the directory `dir` lies.
    ///
    /// # Errors
    /// [`Error::NotFound`](intarsia_types::Error::NotFound); [`Error::Invalid`](intarsia_types::Error::Invalid) for what is no regular file.
    pub fn locate_in(&self, dir: InodeId, name: &[u8]) -> Result<Located> {
        self.calls.locator.locate_in(dir, name)
    }

    /// The directory at a path below the root, its names separated by `/`.
    ///
    /// # Errors
    /// [`Error::NotFound`](intarsia_types::Error::NotFound); [`Error::NotDirectory`](intarsia_types::Error::NotDirectory).
    pub fn directory_at(&self, path: &[u8]) -> Result<InodeId> {
        self.calls.locator.directory_at(path)
    }

    /// Sets hints on the entry `name` of `dir`, or on `dir` itself where `name` is empty. With a `caller` only for who
    /// owns the entry; others need what a call for each file finds out.
    ///
    /// # Errors
    /// [`Error::NotFound`](intarsia_types::Error::NotFound); [`Error::AccessDenied`](intarsia_types::Error::AccessDenied); [`Error::Invalid`](intarsia_types::Error::Invalid) for what is neither file nor directory, or a hint
    /// that does not go with others.
    pub fn tag_in(
        &self,
        dir: InodeId,
        name: &[u8],
        hints: &[Hint],
        caller: Option<Caller>,
    ) -> Result<()> {
        self.calls.locator.tag_in(dir, name, hints, caller)
    }

    /// Whether `caller` may look names of a directory up, as far as can be told without knowing all of his groups: who is
    /// let in by one of these only is not let in here.
    ///
    /// # Errors
    /// The engine's own.
    pub fn may_search(&self, caller: Caller, dir: InodeId) -> Result<bool> {
        self.calls.locator.may_search(caller, dir)
    }
}
