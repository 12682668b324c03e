//! What programs ask of names and open files.

use intarsia_meta::{DirEntry, RenameMode};
use intarsia_types::{Attr, InodeId, Result};

use crate::vfs::attributes::Validity;
use crate::vfs::caller::Caller;
use crate::vfs::names::NewName;
use crate::vfs::open::{Opened, Registrar};
use crate::vfs::read::Reading;
use crate::vfs::sync::Wait;

use super::Node;

impl Node {
    /// The entry `name` of a directory; of any inode "." is itself.
    ///
    /// # Errors
    /// [`Error::NotFound`](intarsia_types::Error::NotFound) and its like.
    pub fn lookup(&self, parent: InodeId, name: &[u8]) -> Result<(Attr, Validity)> {
        self.calls.names.lookup(parent, name)
    }

    /// Creates an entry that is not opened: directory, symbolic link, special or empty regular file.
    ///
    /// # Errors
    /// As `mkdir(2)`, `mknod(2)`, `symlink(2)`.
    pub fn make(
        &self,
        caller: Caller,
        parent: InodeId,
        name: &[u8],
        new: &NewName,
    ) -> Result<(Attr, Validity)> {
        self.calls.names.make(caller, parent, name, new)
    }

    /// Creates a regular file and opens it.
    ///
    /// # Errors
    /// [`Error::Exists`](intarsia_types::Error::Exists), [`Error::NoSpace`](intarsia_types::Error::NoSpace) and the others of `open(2)` with `O_CREAT`.
    pub fn create_file(
        &self,
        caller: Caller,
        parent: InodeId,
        name: &[u8],
        new: &NewName,
        write: bool,
        registrar: &Registrar<'_>,
    ) -> Result<(Attr, Opened)> {
        self.calls.names.create_file(caller, parent, name, new, write, registrar)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Error::Invalid`](intarsia_types::Error::Invalid) for anything else.
    pub fn read_link(&self, ino: InodeId) -> Result<Vec<u8>> {
        self.calls.names.read_link(ino)
    }

    /// Gives an inode another name.
    ///
    /// # Errors
    /// As `link(2)`.
    pub fn link(&self, ino: InodeId, parent: InodeId, name: &[u8]) -> Result<(Attr, Validity)> {
        self.calls.names.link(ino, parent, name)
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// As `unlink(2)`.
    pub fn unlink(&self, parent: InodeId, name: &[u8]) -> Result<()> {
        self.calls.names.unlink(parent, name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As `rmdir(2)`.
    pub fn rmdir(&self, parent: InodeId, name: &[u8]) -> Result<()> {
        self.calls.names.rmdir(parent, name)
    }

    /// Renames, replacing, refusing to replace, or exchanging.
    ///
    /// # Errors
    /// As `renameat2(2)`.
    pub fn rename(
        &self,
        parent: InodeId,
        name: &[u8],
        new_parent: InodeId,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.calls.names.rename(parent, name, new_parent, new_name, mode)
    }

    /// The entries after a cookie, about `limit` of them.
    ///
    /// # Errors
    /// [`Error::NotDirectory`](intarsia_types::Error::NotDirectory) and its like. The listing is complete or fails.
    pub fn list(&self, dir: InodeId, after_cookie: u64, limit: usize) -> Result<Vec<DirEntry>> {
        self.calls.names.list(dir, after_cookie, limit)
    }

    /// Whether a listing of a directory brings attributes that the kernel may keep. Of one that other hosts may change at
    /// any moment it brings none: each would be asked for again at once.
    #[must_use]
    pub fn is_listed_with_attributes(&self, dir: InodeId) -> bool {
        self.calls.names.is_listed_with_attributes(dir)
    }

    /// As [`list`](Self::list), with attributes.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn list_plus(
        &self,
        dir: InodeId,
        after_cookie: u64,
        limit: usize,
    ) -> Result<Vec<(DirEntry, Attr, Validity)>> {
        self.calls.names.list_plus(dir, after_cookie, limit)
    }

    /// Whether the kernel may keep a listing of a directory, and use one that it kept.
    ///
    /// Not of one that is just changing: with several programs listing and changing a directory at once, a listing that the
    /// kernel kept (Linux 6.18) showed a removed name about once in 10,000 listings.
    #[must_use]
    pub fn may_cache_listing(&self, dir: InodeId) -> bool {
        self.calls.names.may_cache_listing(dir)
    }

    /// The parent of a directory, for "..".
    ///
    /// # Errors
    /// [`Error::NotFound`](intarsia_types::Error::NotFound).
    pub fn parent_of(&self, dir: InodeId) -> Result<InodeId> {
        self.calls.names.parent_of(dir)
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// As `open(2)`; [`Error::Io`](intarsia_types::Error::Io) when the backing file is missing.
    pub fn open_file(
        &self,
        caller: Caller,
        ino: InodeId,
        write: bool,
        truncate: bool,
        registrar: &Registrar<'_>,
    ) -> Result<Opened> {
        self.calls.opener.open_file(caller, ino, write, truncate, registrar)
    }

    /// Reads into `buffer`; fewer bytes only at the end of the file. May wait for another host.
    ///
    /// # Errors
    /// [`Error::Corrupt`](intarsia_types::Error::Corrupt) when a checksum does not match, else the system's own.
    pub fn read(&self, ino: InodeId, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        self.calls.reader.read(ino, offset_bytes, buffer)
    }

    /// Reads anew what could not be read at the host where the file is open; none if its bytes are at no other host by now.
    /// May wait for another host.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_moved(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Option<Result<usize>> {
        self.calls.reader.read_moved(ino, offset_bytes, buffer)
    }

    /// Reads into `buffer` what is on this host, or begins to fetch it from another one.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn begin_read(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<Reading> {
        self.calls.reader.begin_read(ino, offset_bytes, buffer)
    }

    /// As [`begin_read`](Self::begin_read), for the kernel's pages of a file that is open through them while its bytes are
    /// at another host.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn begin_page_read(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<Reading> {
        self.calls.reader.begin_page_read(ino, offset_bytes, buffer)
    }

    /// Counts bytes that were read through the process.
    pub fn count_read(&self, bytes: usize) -> usize {
        self.calls.reader.count_read(bytes)
    }

    /// What [`seek`](Self::seek) may wait for.
    #[must_use]
    pub fn seek_waits_for(&self, ino: InodeId) -> Wait {
        self.calls.reader.seek_waits_for(ino)
    }

    /// The next data or hole at or after an offset.
    ///
    /// # Errors
    /// [`Error::NoData`](intarsia_types::Error::NoData) past the end, or the kernel's written pages could not be had.
    pub fn seek(&self, ino: InodeId, offset_bytes: u64, hole: bool) -> Result<u64> {
        self.calls.reader.seek(ino, offset_bytes, hole)
    }

    /// Writes all of `data`. `is_write_back` means that the kernel flushes pages whose times it keeps
    /// itself; `kills_set_id` that it leaves clearing the set-id bits to us.
    ///
    /// # Errors
    /// [`Error::NoSpace`](intarsia_types::Error::NoSpace), else the system's own. Nothing is half-written within a tier's capacity.
    pub fn write(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        data: &[u8],
        is_write_back: bool,
        kills_set_id: bool,
    ) -> Result<()> {
        self.calls.writer.write(ino, offset_bytes, data, is_write_back, kills_set_id)
    }

    /// `fallocate(2)`: allocate, punch or zero a range.
    ///
    /// # Errors
    /// [`Error::NoSpace`](intarsia_types::Error::NoSpace), or EOPNOTSUPP from the file system below.
    pub fn allocate(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        len_bytes: u64,
        mode: u32,
    ) -> Result<()> {
        self.calls.writer.allocate(ino, offset_bytes, len_bytes, mode)
    }

    /// Copies a range between two files without bringing it to user space, sharing blocks where the
    /// file system below can. May copy less than asked.
    ///
    /// # Errors
    /// [`Error::NoSpace`](intarsia_types::Error::NoSpace), [`Error::NotSupported`](intarsia_types::Error::NotSupported) to make the kernel fall back to read and write.
    pub fn copy_range(
        &self,
        from: InodeId,
        from_offset_bytes: u64,
        to: InodeId,
        to_offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<usize> {
        self.calls.writer.copy_range(from, from_offset_bytes, to, to_offset_bytes, len_bytes)
    }

    /// The kernel has opened a file to run it, until [`end_running`](Self::end_running): who opens it to read does not cut it.
    pub fn begin_running(&self, ino: InodeId) {
        self.calls.opener.executed.begin(ino);
    }

    /// The kernel has closed it.
    pub fn end_running(&self, ino: InodeId) {
        self.calls.opener.executed.end(ino);
    }
}
