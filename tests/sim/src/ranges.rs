//! Programs that allocate, punch holes, copy ranges, cut and write here and there, each in files of its own, of which they know
//! every byte.
//!
//! One host writes to a file at a time, so nothing is left open: who wrote it reads what it wrote, while it has it open and
//! afterwards, and so do all other hosts once it is closed. What a failed call may have done nobody knows; its file is
//! looked at no more, but by the tests of the end.

use std::collections::BTreeMap;
use std::io::Result as IoResult;
use std::ops::Range;
use std::sync::Arc;

use intarsia_history::System;
use intarsia_sync::Instant;
use intarsia_types::HintKey;
use parking_lot::Mutex;

use crate::calls::Allocation;
use crate::client::{ENOENT, Program};
use crate::content::put;
use crate::drawing::Draws;
use crate::host::Care;
use crate::open_file::OpenFile;
use crate::others::{Role, Shift};
use crate::uses::Hints;

const PLAIN: &str = "a";
const STRICT: &str = "as";
/// Files that a program writes at a time.
const SLOTS: usize = 3;
/// How long files become: beside an inode, in a few blocks that are summed, in many.
const LENGTHS: [u64; 4] = [3_000, 40_000, 200_000, 500_000];
/// Calls between an open and its close.
const CALLS: u64 = 6;

/// The directories, with what they say.
pub(crate) fn directories() -> [(String, Hints); 2] {
    let strict = vec![(HintKey::Integrity, "strict")];
    [(PLAIN.to_owned(), Hints::new()), (STRICT.to_owned(), strict)]
}

/// What all hosts know of these files.
// A lock of the system: whoever holds it gives no turn away.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<BTreeMap<String, Closed>>);

/// A file between two opens for writing.
#[derive(Clone, Debug, Default)]
struct Closed {
    /// How often it was opened to write.
    opens: u64,
    /// Nobody knows what is in it while somebody writes.
    content: Option<Arc<Vec<u8>>>,
}

impl Board {
    fn begin(&self, path: &str) {
        let mut files = self.0.lock();
        let file = files.entry(path.to_owned()).or_default();
        *file = Closed { opens: file.opens + 1, content: None };
    }

    fn close(&self, path: &str, content: Arc<Vec<u8>>) {
        if let Some(file) = self.0.lock().get_mut(path) {
            file.content = Some(content);
        }
    }

    fn of(&self, path: &str) -> Closed {
        self.0.lock().get(path).cloned().unwrap_or_default()
    }

    fn any(&self, draws: &mut Draws) -> Option<String> {
        let files = self.0.lock();
        let closed: Vec<_> = files.iter().filter(|(_, file)| file.content.is_some()).collect();
        draws.pick(&closed).map(|(path, _)| path.clone())
    }
}

/// A file that this program writes.
#[derive(Debug)]
struct Own {
    path: String,
    content: Vec<u8>,
    /// How long it may become.
    most: u64,
}

struct Writer<'a> {
    program: &'a Program,
    board: &'a Board,
    role: Role<'a>,
    made: u64,
    slots: [Option<Own>; SLOTS],
}

/// Writes until the shift ends.
pub(crate) fn write_until(program: &Program, board: &Board, role: Role<'_>, shift: Shift) {
    let slots = [const { None }; SLOTS];
    let mut writer = Writer { program, board, role, made: 0, slots };
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
    /// Reads what some host has closed.
    fn look(&mut self) {
        let Some(path) = self.board.any(&mut self.role.draws) else { return };
        let before = self.board.of(&path);
        // Who wrote it removes it after a call that failed.
        let read = self.program.read_whole(&path, self.role.findings);
        let now = self.board.of(&path);
        let Some(expected) = before.content.filter(|_| before.opens == now.opens) else { return };
        if self.role.care == Care::Frail {
            return;
        }
        match read {
            Ok(content) => self.role.compare(&path, "another host has closed", &content, &expected),
            Err(error) if error.raw_os_error() == Some(ENOENT) => {
                self.role.findings.tell(format!("{path} was closed and is gone"));
            }
            Err(_) => {}
        }
    }

    /// Opens one of its files, changes it, and closes it.
    fn write(&mut self) {
        let index = usize::try_from(self.role.draws.below(SLOTS as u64)).unwrap_or(0);
        let slot = self.slots.get_mut(index).and_then(Option::take);
        let mut own = slot.unwrap_or_else(|| self.new_file());
        self.board.begin(&own.path);
        match self.change(&mut own) {
            Ok(()) => {
                tracing::trace!(own.path, bytes = own.content.len(), "a file is closed");
                self.board.close(&own.path, Arc::new(own.content.clone()));
                let is_kept = self.verify(&own);
                if is_kept && let Some(slot) = self.slots.get_mut(index) {
                    *slot = Some(own);
                }
            }
            Err(error) => {
                tracing::debug!(%error, own.path, "a file is given up");
                // Should it stay, nobody looks at it.
                let _ = self.program.remove(&own.path);
            }
        }
    }

    fn new_file(&mut self) -> Own {
        self.made += 1;
        let directory = if self.role.draws.is_one_in(2) { PLAIN } else { STRICT };
        let path = format!("{directory}/{}-{}", self.role.life, self.made);
        let most = self.role.draws.pick(&LENGTHS).unwrap_or(1);
        Own { path, content: Vec::new(), most }
    }

    fn change(&mut self, own: &mut Own) -> IoResult<()> {
        let (program, findings) = (self.program, self.role.findings);
        let file = findings.call("open", &[], || program.open_to_change(&own.path))?;
        tracing::trace!(own.path, ino = %file.ino, bytes = own.content.len(), "a file is opened to change it");
        let source = self.open_source()?;
        for _ in 0..=self.role.draws.below(CALLS) {
            self.change_once(&file, own, source.as_ref())?;
        }
        if self.role.draws.is_one_in(3) {
            findings.call("fsync", &[], || program.sync(&file))?;
        }
        // Elsewhere it may go with the disks of the host that it is written at, until it is closed.
        if self.role.care == Care::Usual && self.role.draws.is_one_in(2) {
            let content = program.whole(&file, findings)?;
            self.role.compare(&own.path, "was written", &content, &own.content);
        }
        findings.call("close", &[], || program.close(file))
    }

    /// Another of its files, to copy from.
    fn open_source(&mut self) -> IoResult<Option<(OpenFile, Vec<u8>)>> {
        let (program, findings) = (self.program, self.role.findings);
        let known: Vec<&Own> = self.slots.iter().flatten().collect();
        let Some(own) = self.role.draws.pick(&known).filter(|_| self.role.care == Care::Usual)
        else {
            return Ok(None);
        };
        let file = findings.call("open", &[], || program.open(&own.path))?;
        Ok(Some((file, own.content.clone())))
    }

    fn change_once(
        &mut self,
        file: &OpenFile,
        own: &mut Own,
        source: Option<&(OpenFile, Vec<u8>)>,
    ) -> IoResult<()> {
        let (program, findings) = (self.program, self.role.findings);
        let at = self.role.draws.below(own.most);
        let range = at..(at + 1 + self.role.draws.below(own.most / 2));
        tracing::trace!(own.path, ?range, "a range is changed");
        match self.role.draws.below(8) {
            0 | 1 => self.allocate(file, own, Allocation::Punch, &range),
            2 => self.allocate(file, own, Allocation::Extend, &range),
            3 => self.allocate(file, own, Allocation::KeepLength, &range),
            4 | 5 => match source {
                Some(source) => self.copy(source, &range, file, own),
                None => Ok(()),
            },
            // What was cut no close has acknowledged.
            6 if self.role.care != Care::Safe => {
                findings.call("ftruncate", &[], || program.cut(file, at))?;
                own.content.resize(usize::try_from(at).unwrap_or(0), 0);
                Ok(())
            }
            _ => {
                let bytes = self.role.draws.bytes(range.end - range.start);
                findings.call("write", &[], || program.write_at(file, at, &bytes))?;
                put(&mut own.content, at, &bytes);
                Ok(())
            }
        }
    }

    fn allocate(
        &self,
        file: &OpenFile,
        own: &mut Own,
        kind: Allocation,
        range: &Range<u64>,
    ) -> IoResult<()> {
        self.role.findings.call("fallocate", &[], || self.program.allocate(file, kind, range))?;
        let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap_or(0));
        match kind {
            Allocation::KeepLength => {}
            Allocation::Extend => own.content.resize(own.content.len().max(end), 0),
            Allocation::Punch => {
                let end = end.min(own.content.len());
                if let Some(punched) = own.content.get_mut(start..end) {
                    punched.fill(0);
                }
            }
        }
        Ok(())
    }

    /// Copies from somewhere in another file.
    fn copy(
        &mut self,
        (source, known): &(OpenFile, Vec<u8>),
        range: &Range<u64>,
        file: &OpenFile,
        own: &mut Own,
    ) -> IoResult<()> {
        let (program, findings) = (self.program, self.role.findings);
        let from = self.role.draws.below(known.len() as u64 + 1000);
        let wanted = from..(from + range.end - range.start);
        let copy = || program.copy_range(source, &wanted, file, range.start);
        let count = findings.call("copy_file_range", &[], copy)?;
        let end = wanted.end.min(known.len() as u64);
        let there = end.saturating_sub(from);
        if count > there || (count == 0 && there > 0) {
            let path = &own.path;
            findings
                .tell(format!("{count} bytes are copied into {path} of {there} that are there"));
        }
        if count > 0 {
            let [from, end] = [from, from + count].map(|at| usize::try_from(at).unwrap_or(0));
            put(&mut own.content, range.start, known.get(from..end).unwrap_or_default());
        }
        Ok(())
    }

    /// Reads a file that was just closed, as what follows begins from there; whether it is what it should be.
    fn verify(&mut self, own: &Own) -> bool {
        if self.role.care == Care::Frail || !self.role.draws.is_one_in(2) {
            return true;
        }
        let (program, findings) = (self.program, self.role.findings);
        let Ok(file) = findings.call("open", &[], || program.open(&own.path)) else { return true };
        let Ok(content) = program.whole(&file, findings) else { return true };
        self.role.compare(&own.path, "was closed", &content, &own.content);
        if content == own.content {
            let _ = self.find_holes(&file, own);
        }
        content == own.content
    }

    /// Nothing but zeros may be where a hole is said to be.
    fn find_holes(&self, file: &OpenFile, own: &Own) -> IoResult<()> {
        let (program, findings) = (self.program, self.role.findings);
        let len = own.content.len() as u64;
        let mut at = 0;
        while at < len {
            let hole = findings.call("lseek", &[], || program.seek(file, at, true))?;
            let hole = hole.unwrap_or(len).min(len);
            let data = findings.call("lseek", &[], || program.seek(file, hole, false))?;
            let data = data.unwrap_or(len).min(len);
            let [begin, end] = [hole, data].map(|at| usize::try_from(at).unwrap_or(0));
            let in_hole = own.content.get(begin..end).unwrap_or_default();
            if hole < at || data < hole || in_hole.iter().any(|byte| *byte != 0) {
                let path = &own.path;
                findings.tell(format!("a hole of {path} is said to be at {hole} to {data}"));
                return Ok(());
            }
            // A hole of no length is one that was filled meanwhile, which nobody does.
            at = data.max(at + 1);
        }
        Ok(())
    }
}
