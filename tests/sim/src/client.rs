//! What a program of a host does to the store, through the calls that a mount makes.

use std::collections::BTreeMap;
use std::io::{Error as IoError, Result as IoResult};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use intarsia_history::System;
use intarsia_node::{
    AttrChange, Caller, CheckOptions, KernelBacking, MoveOptions, NewName, Node, RenameMode,
    SetMode, allowance, gone_twice,
};
use intarsia_sync::{Instant, thread};
use intarsia_types::{Error, FileKind, HintKey, InodeId, NodeId, Result};

use crate::look::Seen;
use crate::open_file::OpenFile;
use crate::programs::Programs;

pub(crate) const CALLER: Caller = Caller { uid: 0, gid: 0 };
pub(crate) const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
/// How long a call may wait for others in all, as a mount bounds it.
const CALL_LIMIT: Duration = Duration::from_secs(7);
/// As fast as they go.
const UNBOUND: MoveOptions = MoveOptions { bytes_per_s: None };
/// Entries that are asked for at once.
pub(crate) const PAGE: usize = 100;

/// The store as one program of a host sees it.
pub(crate) struct Program {
    pub(crate) node: Arc<Node>,
    begun: Instant,
    programs: Arc<Programs>,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.programs.end();
    }
}

/// Why a call ends as it does.
pub(crate) enum Refusal {
    /// An inode that was looked up is gone; a mount tells the kernel ESTALE.
    Gone,
    Told(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

/// What was said of an inode that was looked up before.
pub(crate) fn of_inode<T>(outcome: Result<T>) -> std::result::Result<T, Refusal> {
    outcome.map_err(|error| match error {
        Error::NotFound => Refusal::Gone,
        other => Refusal::Told(other),
    })
}

/// There is no kernel that a file could be passed to.
fn no_kernel(_: BorrowedFd<'_>) -> IoResult<KernelBacking> {
    Err(IoError::from_raw_os_error(95))
}

/// Makes one system call, as a mount does.
pub(crate) fn call<T>(work: impl FnOnce() -> T) -> T {
    let _limit = allowance::limit(Instant::now() + CALL_LIMIT);
    work()
}

pub(crate) fn io(error: &Error) -> IoError {
    tracing::debug!(%error, "a call fails");
    IoError::from_raw_os_error(error.errno())
}

impl Program {
    /// One of those of its host, which tells times since `begun`.
    pub(crate) fn among(programs: &Arc<Programs>, node: Arc<Node>, begun: Instant) -> Self {
        programs.begin();
        Self { node, begun, programs: Arc::clone(programs) }
    }

    /// Is at nothing for so long, and longer while it is called off.
    pub(crate) fn rest(&self, duration: Duration) {
        thread::sleep(duration);
        self.programs.wait_while_called_off();
    }

    /// The directory and the name in it.
    pub(crate) fn place<'n>(&self, path: &'n str) -> Result<(InodeId, &'n [u8])> {
        match path.split_once('/') {
            None => Ok((InodeId::ROOT, path.as_bytes())),
            Some((dir, name)) => {
                let (attr, _) = self.node.lookup(InodeId::ROOT, dir.as_bytes())?;
                Ok((attr.ino, name.as_bytes()))
            }
        }
    }

    pub(crate) fn find(&self, path: &str) -> Result<InodeId> {
        let (dir, name) = self.place(path)?;
        Ok(self.node.lookup(dir, name)?.0.ino)
    }

    pub(crate) fn make_directory(&self, name: &str) -> Result<()> {
        let new =
            NewName { kind: FileKind::Directory, perm: 0o755, umask: 0, rdev: 0, target: None };
        match self.node.make(CALLER, InodeId::ROOT, name.as_bytes(), &new) {
            Err(error) if error.errno() != EEXIST => Err(error),
            _ => Ok(()),
        }
    }

    /// Gives a hint to a file, or to a directory, whose hints what is made there has from then on.
    pub(crate) fn hint(&self, path: &str, hint: HintKey, value: &str) -> Result<()> {
        let (ino, name) = (self.find(path)?, hint.attribute());
        self.node.set_xattr(ino, name.as_bytes(), value.as_bytes(), SetMode::Either)
    }

    fn create(&self, path: &str) -> Result<OpenFile> {
        let (dir, name) = self.place(path)?;
        let new = NewName { kind: FileKind::Regular, perm: 0o644, umask: 0, rdev: 0, target: None };
        let (attr, _) = self.node.create_file(CALLER, dir, name, &new, true, &no_kernel)?;
        Ok(self.opened(attr.ino, true))
    }

    fn opened(&self, ino: InodeId, is_written: bool) -> OpenFile {
        OpenFile::new(&self.node, &self.programs, ino, is_written)
    }

    /// Opens a file to write into what it has; makes it if there is none.
    pub(crate) fn open_to_change(&self, path: &str) -> IoResult<OpenFile> {
        let open = || {
            let ino = self.find(path)?;
            of_inode(self.node.open_file(CALLER, ino, true, false, &no_kernel))?;
            Ok(self.opened(ino, true))
        };
        call(|| match Self::again(open) {
            Err(error) if error.raw_os_error() == Some(ENOENT) => self.create_new(path),
            outcome => outcome,
        })
    }

    pub(crate) fn truncate(&self, path: &str, size_bytes: u64) -> IoResult<()> {
        let truncate = || {
            let ino = self.find(path)?;
            let change = AttrChange { size_bytes: Some(size_bytes), ..AttrChange::default() };
            of_inode(self.node.set_attributes(CALLER, ino, &change)).map(drop)
        };
        call(|| Self::again(truncate))
    }

    pub(crate) fn read_all(&self, path: &str) -> IoResult<()> {
        let mut file = self.open(path)?;
        let mut buffer = vec![0; 64 << 10];
        while self.read(&mut file, &mut buffer)? > 0 {}
        self.close(file)
    }

    pub(crate) fn sync(&self, file: &OpenFile) -> IoResult<()> {
        call(|| self.node.fsync(file.ino, false)).map_err(|e| io(&e))
    }

    fn open_existing(
        &self,
        path: &str,
        is_written: bool,
    ) -> std::result::Result<OpenFile, Refusal> {
        let ino = self.find(path)?;
        let open = || {
            of_inode(self.node.open_file(CALLER, ino, is_written, is_written, &no_kernel))?;
            Ok(self.opened(ino, is_written))
        };
        if !is_written {
            return open();
        }
        self.programs.promises().begin_cut(ino);
        let opened = open();
        self.programs.promises().end_cut(ino);
        opened
    }

    /// As the kernel and the mount: what went between two questions is looked up once more.
    pub(crate) fn again<T>(work: impl Fn() -> std::result::Result<T, Refusal>) -> IoResult<T> {
        let first = work();
        let begun_again = Instant::now();
        let outcome = match first {
            Err(Refusal::Gone) => work(),
            outcome => outcome,
        };
        outcome.map_err(|refusal| match refusal {
            Refusal::Gone => io(&gone_twice(begun_again.elapsed())),
            Refusal::Told(error) => io(&error),
        })
    }

    /// Everything in a directory, with what is read of each file.
    pub(crate) fn tree(&self, directory: &str) -> Result<Vec<Seen>> {
        let seen = |(name, ino)| {
            let path = format!("{directory}/{name}");
            let content = self.content(&path);
            Seen { path, ino, content }
        };
        Ok(self.names(directory)?.into_iter().map(seen).collect())
    }

    /// Moves all files of a host elsewhere, and has it leave when it is taken down next.
    pub(crate) fn empty_host(&self, host: &NodeId) -> Result<()> {
        self.node.empty_host(host, UNBOUND, &mut |_| {}).map(drop)
    }

    /// Takes back that a host is to leave.
    pub(crate) fn keep_host(&self, host: &NodeId) -> Result<()> {
        self.node.keep_host(host)
    }

    /// Moves files so that all hosts are used to the same part.
    pub(crate) fn balance(&self) -> Result<()> {
        self.node.balance(&BTreeMap::new(), UNBOUND, &mut |_| {}).map(drop)
    }

    /// What the host still has to do, and what its check finds.
    pub(crate) fn unrest(&self) -> Result<Vec<String>> {
        let report = self.node.check(CheckOptions::default(), &mut |_| {})?;
        let mut unrest: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
        let status = self.node.status()?;
        let left = [
            (status.unsettled as u64, "unsettled"),
            (status.waiting_for_copies, "without all copies"),
        ];
        let left = left.into_iter().filter(|(files, _)| *files > 0);
        unrest.extend(left.map(|(files, how)| format!("{files} files {how}")));
        Ok(unrest)
    }

    fn content(&self, path: &str) -> Result<Vec<u8>> {
        let mut file = self.open_existing(path, false).map_err(|refusal| match refusal {
            Refusal::Gone => Error::NotFound,
            Refusal::Told(error) => error,
        })?;
        let (mut content, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match self.node.read(file.ino, file.offset_bytes, &mut buffer) {
                Ok(0) => return Ok(content),
                Ok(count) => {
                    content.extend_from_slice(buffer.get(..count).unwrap_or_default());
                    file.offset_bytes += count as u64;
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn names(&self, directory: &str) -> Result<Vec<(String, InodeId)>> {
        let dir = self.find(directory)?;
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let page = self.node.list(dir, cookie, PAGE)?;
            let Some(last) = page.last() else { return Ok(names) };
            cookie = last.cookie;
            let visible = page.iter().filter(|e| e.name != b"." && e.name != b"..");
            names.extend(visible.map(|e| (String::from_utf8_lossy(&e.name).into_owned(), e.ino)));
        }
    }
}

impl System for Program {
    type File = OpenFile;
    type Listing = std::vec::IntoIter<IoResult<String>>;

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) {
        self.rest(duration);
    }

    fn open_to_write(&self, name: &str) -> IoResult<OpenFile> {
        // What is there may go, and what is not may come, between the two.
        call(|| {
            for _ in 0..8 {
                match Self::again(|| self.open_existing(name, true)) {
                    Err(error) if error.raw_os_error() == Some(ENOENT) => {}
                    outcome => return outcome,
                }
                match self.create(name) {
                    Err(error) if error.errno() == EEXIST => {}
                    outcome => return outcome.map_err(|e| io(&e)),
                }
            }
            Err(IoError::from_raw_os_error(ENOENT))
        })
    }

    fn create_new(&self, name: &str) -> IoResult<OpenFile> {
        call(|| self.create(name)).map_err(|e| io(&e))
    }

    fn open(&self, name: &str) -> IoResult<OpenFile> {
        call(|| Self::again(|| self.open_existing(name, false)))
    }

    fn read(&self, file: &mut OpenFile, buffer: &mut [u8]) -> IoResult<usize> {
        let read = call(|| self.node.read(file.ino, file.offset_bytes, buffer));
        let count = read.map_err(|e| io(&e))?;
        file.offset_bytes += count as u64;
        Ok(count)
    }

    fn write_all(&self, file: &mut OpenFile, bytes: &[u8]) -> IoResult<()> {
        let written = call(|| self.node.write(file.ino, file.offset_bytes, bytes, false, false));
        written.map_err(|e| io(&e))?;
        file.offset_bytes += bytes.len() as u64;
        Ok(())
    }

    fn close(&self, mut file: OpenFile) -> IoResult<()> {
        file.close().0.map_err(|e| io(&e))
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        let remove = || {
            let (dir, name) = self.place(name)?;
            Ok(self.node.unlink(dir, name)?)
        };
        call(|| Self::again(remove))
    }

    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        let rename = || {
            let ((dir, name), (new_dir, new_name)) = (self.place(from)?, self.place(to)?);
            Ok(self.node.rename(dir, name, new_dir, new_name, RenameMode::Replace)?)
        };
        call(|| Self::again(rename))
    }

    fn link(&self, from: &str, to: &str) -> IoResult<()> {
        let link = || {
            let (ino, (dir, name)) = (self.find(from)?, self.place(to)?);
            of_inode(self.node.link(ino, dir, name)).map(drop)
        };
        call(|| Self::again(link))
    }

    fn size(&self, name: &str) -> IoResult<u64> {
        let size = || {
            let (dir, name) = self.place(name)?;
            let (attr, _) = self.node.lookup(dir, name)?;
            Ok(attr.size_bytes)
        };
        call(|| Self::again(size))
    }

    fn list(&self, directory: &str) -> IoResult<Self::Listing> {
        // Recorded as one call, with all lookups on the way.
        let names = call(|| self.names(directory)).map_err(|error| io(&error))?;
        Ok(names.into_iter().map(|(name, _)| Ok(name)).collect::<Vec<_>>().into_iter())
    }
}
