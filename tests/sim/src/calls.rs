//! Further calls of programs: ranges of files, times, attributes and questions.

use std::io::Result as IoResult;
use std::ops::Range;

use intarsia_node::{AttrChange, SetMode, SetTime};
use intarsia_types::{Attr, Error, InodeId, Timestamp};

use crate::client::{CALLER, PAGE, Program, call, io, of_inode};
use crate::findings::Findings;
use crate::open_file::{LettingGo, OpenFile};

/// What is read at once.
const PIECE: usize = 64 << 10;

/// What `fallocate` does to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocation {
    /// Room for it; the file is made as long.
    Extend,
    /// Room for it; the length stays.
    KeepLength,
    /// A hole.
    Punch,
}

impl Allocation {
    /// As `fallocate(2)` has it: `FALLOC_FL_KEEP_SIZE` is 1, `FALLOC_FL_PUNCH_HOLE` is 2.
    const fn mode(self) -> u32 {
        match self {
            Self::Extend => 0,
            Self::KeepLength => 1,
            Self::Punch => 3,
        }
    }
}

/// Times to set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewTimes {
    pub(crate) modified: Option<Timestamp>,
    pub(crate) accessed: Option<Timestamp>,
}

impl NewTimes {
    fn change(self) -> AttrChange {
        let (mtime, atime) = (self.modified.map(SetTime::At), self.accessed.map(SetTime::At));
        AttrChange { mtime, atime, ..AttrChange::default() }
    }
}

impl Program {
    pub(crate) fn write_at(&self, file: &OpenFile, at: u64, bytes: &[u8]) -> IoResult<()> {
        call(|| self.node.write(file.ino, at, bytes, false, false)).map_err(|e| io(&e))
    }

    /// All that the file has, by one call after the other.
    pub(crate) fn whole(&self, file: &OpenFile, findings: &Findings) -> IoResult<Vec<u8>> {
        let (mut content, mut buffer) = (Vec::new(), vec![0; PIECE]);
        loop {
            let at = content.len() as u64;
            let mut read = || call(|| self.node.read(file.ino, at, &mut buffer));
            match findings.call("read", &[], || read().map_err(|e| io(&e)))? {
                0 => return Ok(content),
                count => content.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            }
        }
    }

    pub(crate) fn allocate(
        &self,
        file: &OpenFile,
        kind: Allocation,
        range: &Range<u64>,
    ) -> IoResult<()> {
        let len = range.end.saturating_sub(range.start);
        call(|| self.node.allocate(file.ino, range.start, len, kind.mode())).map_err(|e| io(&e))
    }

    /// Copies `range` of a file to `to_at` of another or of the same; how many bytes that were.
    pub(crate) fn copy_range(
        &self,
        from: &OpenFile,
        range: &Range<u64>,
        to: &OpenFile,
        to_at: u64,
    ) -> IoResult<u64> {
        let len = range.end.saturating_sub(range.start);
        let copied = call(|| self.node.copy_range(from.ino, range.start, to.ino, to_at, len));
        copied.map(|count| count as u64).map_err(|e| io(&e))
    }

    /// The next hole from an offset on, or the next data; none behind the last.
    pub(crate) fn seek(&self, file: &OpenFile, at: u64, is_hole: bool) -> IoResult<Option<u64>> {
        match call(|| self.node.seek(file.ino, at, is_hole)) {
            Ok(found) => Ok(Some(found)),
            Err(Error::NoData) => Ok(None),
            Err(error) => Err(io(&error)),
        }
    }

    pub(crate) fn cut(&self, file: &OpenFile, size_bytes: u64) -> IoResult<()> {
        let change = AttrChange { size_bytes: Some(size_bytes), ..AttrChange::default() };
        self.change(file.ino, &change)
    }

    fn change(&self, ino: InodeId, change: &AttrChange) -> IoResult<()> {
        call(|| self.node.set_attributes(CALLER, ino, change)).map(drop).map_err(|e| io(&e))
    }

    /// Closes a file, and says what lets it go.
    pub(crate) fn close_and_let_go(&self, mut file: OpenFile) -> (IoResult<()>, LettingGo) {
        let (closed, letting_go) = file.close();
        (closed.map_err(|e| io(&e)), letting_go)
    }

    pub(crate) fn stat(&self, path: &str) -> IoResult<Attr> {
        let stat = || {
            let (dir, name) = self.place(path)?;
            Ok(self.node.lookup(dir, name)?.0)
        };
        call(|| Self::again(stat))
    }

    pub(crate) fn set_times(&self, path: &str, times: NewTimes) -> IoResult<()> {
        let set = || {
            let ino = self.find(path)?;
            of_inode(self.node.set_attributes(CALLER, ino, &times.change())).map(drop)
        };
        call(|| Self::again(set))
    }

    pub(crate) fn set_times_of(&self, file: &OpenFile, times: NewTimes) -> IoResult<()> {
        self.change(file.ino, &times.change())
    }

    pub(crate) fn set_attribute(&self, path: &str, name: &str, value: &str) -> IoResult<()> {
        let set = || {
            let (ino, name) = (self.find(path)?, name.as_bytes());
            of_inode(self.node.set_xattr(ino, name, value.as_bytes(), SetMode::Either))
        };
        call(|| Self::again(set))
    }

    pub(crate) fn attribute(&self, path: &str, name: &str) -> IoResult<Option<String>> {
        let get = || {
            let ino = self.find(path)?;
            match self.node.get_xattr(ino, name.as_bytes()) {
                Ok(value) => Ok(Some(String::from_utf8_lossy(&value).into_owned())),
                Err(Error::NoAttribute) => Ok(None),
                Err(error) => of_inode(Err(error)),
            }
        };
        call(|| Self::again(get))
    }

    /// All names of a directory, each with its attributes, by one call after the other.
    pub(crate) fn list_with_attributes(
        &self,
        directory: &str,
        findings: &Findings,
    ) -> IoResult<Vec<(String, Attr)>> {
        let find = || call(|| self.find(directory)).map_err(|e| io(&e));
        let dir = findings.call("opendir", &[], find)?;
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let list = || call(|| self.node.list_plus(dir, cookie, PAGE)).map_err(|e| io(&e));
            let page = findings.call("readdirplus", &[], list)?;
            let Some((last, ..)) = page.last() else { return Ok(names) };
            cookie = last.cookie;
            names.extend(
                page.into_iter().map(|(entry, attr, _)| {
                    (String::from_utf8_lossy(&entry.name).into_owned(), attr)
                }),
            );
        }
    }

    /// Bytes in use and free, as `statfs(2)` tells them.
    pub(crate) fn room(&self) -> IoResult<(u64, u64)> {
        let space = call(|| self.node.space());
        space.map(|(space, _)| (space.used_bytes, space.free_bytes)).map_err(|e| io(&e))
    }

    /// How many hosts have the bytes of a file.
    pub(crate) fn locate(&self, path: &str) -> IoResult<usize> {
        let locate = || {
            let (dir, name) = self.place(path)?;
            Ok(self.node.locate_in(dir, name)?.hosts.len())
        };
        call(|| Self::again(locate))
    }

    /// What `intarsia status` asks for. It is no system call, and has no bound but its own.
    pub(crate) fn status(&self) -> IoResult<()> {
        self.node.status().map(drop).map_err(|e| io(&e))
    }

    /// What `intarsia lost` asks for: how many files are at lost hosts only.
    pub(crate) fn lost(&self) -> IoResult<u64> {
        let lost = self.node.lost_files(false, &mut drop, &mut |_| {});
        lost.map(|summary| summary.files).map_err(|e| io(&e))
    }
}
