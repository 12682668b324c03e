//! What the node's recorder is told of requests; nothing while nothing is recorded.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{FileHandle, INodeNo, OpenFlags, RenameFlags, Request};
use intarsia_node::{
    Access, ChangedName, Direction, NameChange, OpTimer, Opened, OpenedFile, RenameMode,
    recorded_as,
};
use intarsia_types::Result;

use super::Adapter;
use super::opening::{may_write, number};
use crate::convert::{ino, rename_mode};

impl Adapter {
    /// A file was opened, or made and opened.
    pub(super) fn record_open(
        &self,
        req: &Request,
        timer: &OpTimer,
        n: INodeNo,
        handle: FileHandle,
        (flags, is_new): (OpenFlags, bool),
        opened: &Opened,
    ) {
        let access = Access {
            reads: flags.0 & libc::O_ACCMODE != libc::O_WRONLY,
            writes: may_write(flags),
            is_new,
            truncates: flags.0 & libc::O_TRUNC != 0,
            is_passthrough: opened.passthrough.is_some(),
        };
        self.node.record_open(&OpenedFile {
            handle: number(handle),
            thread: req.pid(),
            ino: ino(n),
            access,
            came: timer.started(),
        });
    }

    /// Bytes were read or written through us.
    pub(super) fn record_moved(
        &self,
        handle: FileHandle,
        direction: Direction,
        bytes: (u64, usize),
        timer: &OpTimer,
    ) {
        self.node.recorder().moved(number(handle), direction, bytes, timer.started());
    }

    /// A name was made or removed.
    pub(super) fn record_name<T>(
        &self,
        req: &Request,
        timer: &OpTimer,
        change: NameChange,
        (directory, name): (INodeNo, &OsStr),
        result: &Result<T>,
    ) {
        if result.is_ok() {
            let old = (ino(directory), name.as_bytes());
            let (thread, came) = (req.pid(), timer.started());
            self.node.record_name(&ChangedName { thread, change, old, new: None, came });
        }
    }

    /// A name was moved, or two were exchanged.
    pub(super) fn record_rename(
        &self,
        req: &Request,
        timer: &OpTimer,
        (directory, name): (INodeNo, &OsStr),
        (new_directory, new_name): (INodeNo, &OsStr),
        flags: RenameFlags,
        result: &Result<()>,
    ) {
        if result.is_ok() {
            self.node.record_name(&ChangedName {
                thread: req.pid(),
                change: recorded_as(rename_mode(flags).unwrap_or(RenameMode::Replace)),
                old: (ino(directory), name.as_bytes()),
                new: Some((ino(new_directory), new_name.as_bytes())),
                came: timer.started(),
            });
        }
    }
}
