//! Programs of all hosts that write long files by turns.
//!
//! A file of more than 8 MiB comes to the host that opens it for writing while nothing is locked, and others go on meanwhile.
//! Whoever takes a file has it alone until it is closed, so each knows every byte that the one before has left. What a
//! failed call may have done nobody knows; such a file is removed.

use std::io::Result as IoResult;
use std::sync::Arc;

use intarsia_history::System;
use intarsia_sync::Instant;
use parking_lot::Mutex;

use crate::client::{ENOENT, Program};
use crate::content::put;
use crate::drawing::Draws;
use crate::host::Care;
use crate::open_file::OpenFile;
use crate::others::{Role, Shift};

pub(crate) const DIRECTORY: &str = "l";
/// Files that there are at a time, and how many are made in a run: those that a dead host has taken stay taken.
const FILES: usize = 2;
const MADE_MAX: u64 = 6;
const LENGTHS: [u64; 3] = [(8 << 20) + 1, 9 << 20, 12 << 20];
/// What is written at once.
const PIECE: usize = 1 << 20;
/// Changes between an open and its close, and how long they are.
const CHANGES: u64 = 4;
const CHANGE_BYTES: u64 = 300_000;

/// A file that nobody writes.
#[derive(Clone, Debug)]
struct Free {
    path: String,
    content: Arc<Vec<u8>>,
    /// How often it was taken.
    turns: u64,
}

/// What all hosts know of these files.
// A lock of the system: whoever holds it gives no turn away.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Files>);

#[derive(Debug, Default)]
struct Files {
    free: Vec<Free>,
    made: u64,
}

impl Board {
    /// Takes one of the files, or a new one, of which nothing is there yet.
    fn take(&self, draws: &mut Draws) -> Option<Free> {
        let mut files = self.0.lock();
        if files.free.len() < FILES && files.made < MADE_MAX && draws.is_one_in(3) {
            files.made += 1;
            let path = format!("{DIRECTORY}/{}", files.made);
            return Some(Free { path, content: Arc::default(), turns: 0 });
        }
        let count = files.free.len();
        let at = usize::try_from(draws.below(count as u64)).unwrap_or(0);
        (at < count).then(|| files.free.swap_remove(at))
    }

    fn give_back(&self, file: Free) {
        self.0.lock().free.push(Free { turns: file.turns + 1, ..file });
    }

    /// One of the files, to look at.
    fn any(&self, draws: &mut Draws) -> Option<Free> {
        let files = self.0.lock();
        let at = usize::try_from(draws.below(files.free.len() as u64)).unwrap_or(0);
        files.free.get(at).cloned()
    }

    /// Whether nobody has taken the file since it was looked at.
    fn is_as_it_was(&self, file: &Free) -> bool {
        let is_same = |one: &Free| one.path == file.path && one.turns == file.turns;
        self.0.lock().free.iter().any(is_same)
    }
}

struct Writer<'a> {
    program: &'a Program,
    board: &'a Board,
    role: Role<'a>,
}

/// Writes until the shift ends.
pub(crate) fn write_until(program: &Program, board: &Board, role: Role<'_>, shift: Shift) {
    let mut writer = Writer { program, board, role };
    while Instant::now() < shift.end {
        shift.rest(program, &mut writer.role.draws);
        if writer.role.draws.is_one_in(3) {
            writer.look();
        } else {
            writer.write();
        }
    }
}

impl Writer<'_> {
    fn write(&mut self) {
        let Some(mut file) = self.board.take(&mut self.role.draws) else { return };
        let mut content = file.content.to_vec();
        match self.change(&file.path, &mut content) {
            Ok(()) => {
                tracing::debug!(file.path, bytes = content.len(), "a long file is closed");
                file.content = Arc::new(content);
                self.board.give_back(file);
            }
            Err(error) => {
                tracing::debug!(%error, file.path, "a long file is given up");
                // Should it stay, nobody looks at it.
                let _ = self.program.remove(&file.path);
            }
        }
    }

    fn change(&mut self, path: &str, content: &mut Vec<u8>) -> IoResult<()> {
        let (program, findings) = (self.program, self.role.findings);
        let file = findings.call("open", &[], || program.open_to_change(path))?;
        tracing::debug!(path, ino = %file.ino, life = self.role.life, "a long file is opened to write");
        if !content.is_empty() && self.role.draws.is_one_in(2) {
            let found = program.whole(&file, findings)?;
            self.compare(path, &found, content);
        }
        if content.is_empty() {
            let len = self.role.draws.pick(&LENGTHS).unwrap_or(1);
            let bytes = self.role.draws.bytes(len);
            self.write_at(&file, content, 0, &bytes)?;
        }
        for _ in 0..self.role.draws.below(CHANGES) {
            let at = self.role.draws.below(content.len() as u64);
            let len = 1 + self.role.draws.below(CHANGE_BYTES);
            let bytes = self.role.draws.bytes(len);
            self.write_at(&file, content, at, &bytes)?;
        }
        if self.role.draws.is_one_in(4) {
            findings.call("fsync", &[], || program.sync(&file))?;
        }
        findings.call("close", &[], || program.close(file))
    }

    fn write_at(
        &self,
        file: &OpenFile,
        content: &mut Vec<u8>,
        at: u64,
        bytes: &[u8],
    ) -> IoResult<()> {
        let mut to = at;
        for piece in bytes.chunks(PIECE) {
            self.role.findings.call("write", &[], || self.program.write_at(file, to, piece))?;
            to += piece.len() as u64;
        }
        put(content, at, bytes);
        Ok(())
    }

    /// Reads a file that nobody writes.
    fn look(&mut self) {
        let Some(known) = self.board.any(&mut self.role.draws) else { return };
        let read = self.program.read_whole(&known.path, self.role.findings);
        if !self.board.is_as_it_was(&known) {
            return;
        }
        match read {
            Ok(content) => self.compare(&known.path, &content, &known.content),
            Err(error) if error.raw_os_error() == Some(ENOENT) => {
                self.role.findings.tell(format!("{} was closed and is gone", known.path));
            }
            Err(_) => {}
        }
    }

    fn compare(&self, path: &str, found: &[u8], expected: &[u8]) {
        if self.role.care != Care::Frail {
            self.role.compare(path, "was closed", found, expected);
        }
    }
}
