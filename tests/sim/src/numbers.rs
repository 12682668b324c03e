//! Programs that keep numbers in the times and in an attribute of files, which all hosts look at.
//!
//! Each file is changed by one host, by one call after the other, and the numbers rise. So whoever looks sees a number that is
//! not below the last one that was acknowledged before, nor above the last one that was asked for by then. A file of which
//! a change has failed is changed and looked at no more.

use std::time::Duration;

use intarsia_history::System;
use intarsia_sync::Instant;
use intarsia_types::{Attr, Timestamp};
use parking_lot::Mutex;

use crate::calls::NewTimes;
use crate::client::{ENOENT, Program};
use crate::host::Care;
use crate::others::{Role, Shift};

pub(crate) const DIRECTORY: &str = "n";
const ATTRIBUTE: &str = "user.number";
/// Files that a program changes at a time.
const SLOTS: usize = 2;
/// Time of the number 0, in seconds; the nanoseconds are the number too.
const FIRST_S: i64 = 1_000_000;
const KINDS: [Kind; 3] = [Kind::Modified, Kind::Accessed, Kind::Attribute];

/// What a number is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Modified,
    Accessed,
    Attribute,
}

/// What is known of a number.
#[derive(Clone, Copy, Debug, Default)]
struct Number {
    acknowledged: u64,
    asked: u64,
    /// The file is written to, which sets its time of change as well.
    is_disturbed: bool,
    /// How often that was.
    disturbances: u64,
}

#[derive(Clone, Debug)]
struct File {
    path: String,
    numbers: [Number; KINDS.len()],
    /// A change has failed.
    is_given_up: bool,
}

impl File {
    fn number(&mut self, kind: Kind) -> Option<&mut Number> {
        self.numbers.get_mut(kind as usize)
    }
}

/// These files, as all hosts know them. None is ever removed.
// A lock of the system: whoever holds it gives no turn away.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Vec<File>>);

impl Board {
    fn add(&self, path: String) -> usize {
        let mut files = self.0.lock();
        files.push(File { path, numbers: Default::default(), is_given_up: false });
        files.len() - 1
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut File)) {
        if let Some(file) = self.0.lock().get_mut(index) {
            change(file);
        }
    }

    fn all(&self) -> Vec<File> {
        self.0.lock().clone()
    }
}

struct Keeper<'a> {
    program: &'a Program,
    board: &'a Board,
    role: Role<'a>,
    made: u64,
    last: u64,
    slots: [Option<(usize, String)>; SLOTS],
}

/// Sets numbers and looks at those of others until the shift ends.
pub(crate) fn keep_until(program: &Program, board: &Board, role: Role<'_>, shift: Shift) {
    let slots = [const { None }; SLOTS];
    let mut keeper = Keeper { program, board, role, made: 0, last: 0, slots };
    while Instant::now() < shift.end {
        let pause = 10 + keeper.role.draws.below(shift.pause_ms / 2);
        program.rest(Duration::from_millis(pause));
        match keeper.role.draws.below(8) {
            0..3 => keeper.set(),
            3 => keeper.list(),
            _ => keeper.look(),
        }
    }
}

impl Keeper<'_> {
    fn set(&mut self) {
        let slot = usize::try_from(self.role.draws.below(SLOTS as u64)).unwrap_or(0);
        let Some((index, path)) = self.slots.get(slot).cloned().flatten() else {
            return self.make(slot);
        };
        self.last += 1;
        let number = self.last;
        let kinds: &[Kind] = match self.role.draws.below(5) {
            0 => &[Kind::Modified],
            1 => &[Kind::Accessed],
            2 => &[Kind::Modified, Kind::Accessed],
            3 => &[Kind::Attribute],
            _ => return self.rewrite(slot, index, &path, number),
        };
        self.ask(index, kinds, number);
        let set = if kinds == [Kind::Attribute] {
            let value = number.to_string();
            let set = || self.program.set_attribute(&path, ATTRIBUTE, &value);
            self.role.findings.call("setxattr", &[], set)
        } else {
            let set = || self.program.set_times(&path, times(kinds, number));
            self.role.findings.call("utimensat", &[], set)
        };
        self.note(slot, index, kinds, number, set.is_ok());
    }

    fn make(&mut self, slot: usize) {
        self.made += 1;
        let path = format!("{DIRECTORY}/{}-{}", self.role.life, self.made);
        let len = if self.role.draws.is_one_in(2) { 100 } else { 20_000 };
        let bytes = self.role.draws.bytes(len);
        let fill = || {
            let mut file = self.program.create_new(&path)?;
            self.program.write_all(&mut file, &bytes)?;
            self.program.close(file)
        };
        // Several calls, of which each has its own time: none is judged.
        if let Err(error) = fill() {
            tracing::debug!(%error, path, "a file for numbers is not made");
            return;
        }
        let index = self.board.add(path.clone());
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = Some((index, path));
        }
    }

    /// Writes to the file and sets its times while it is open, as who copies files with their times does.
    fn rewrite(&mut self, slot: usize, index: usize, path: &str, number: u64) {
        let kinds: &[Kind] = match self.role.draws.below(2) {
            0 => &[Kind::Modified],
            _ => &[Kind::Modified, Kind::Accessed],
        };
        self.board.change(index, |file| {
            if let Some(number) = file.number(Kind::Modified) {
                number.is_disturbed = true;
                number.disturbances += 1;
            }
        });
        self.ask(index, kinds, number);
        let len = 1 + self.role.draws.below(3_000);
        let (bytes, times) = (self.role.draws.bytes(len), times(kinds, number));
        let (program, findings) = (self.program, self.role.findings);
        let rewrite = || {
            let file = findings.call("open", &[], || program.open_to_change(path))?;
            findings.call("write", &[], || program.write_at(&file, 0, &bytes))?;
            findings.call("futimens", &[], || program.set_times_of(&file, times))?;
            findings.call("close", &[], || program.close(file))
        };
        let rewritten = rewrite();
        self.note(slot, index, kinds, number, rewritten.is_ok());
    }

    fn ask(&self, index: usize, kinds: &[Kind], number: u64) {
        self.board.change(index, |file| {
            for kind in kinds {
                if let Some(known) = file.number(*kind) {
                    known.asked = number;
                }
            }
        });
    }

    /// Takes note of how a change ended.
    fn note(&mut self, slot: usize, index: usize, kinds: &[Kind], number: u64, is_well: bool) {
        if !is_well {
            self.board.change(index, |file| file.is_given_up = true);
            if let Some(slot) = self.slots.get_mut(slot) {
                *slot = None;
            }
            return;
        }
        self.board.change(index, |file| {
            for kind in kinds {
                if let Some(known) = file.number(*kind) {
                    known.acknowledged = number;
                    known.is_disturbed = false;
                }
            }
        });
    }

    /// Looks at the numbers of one file.
    fn look(&mut self) {
        let before = self.board.all();
        let all: Vec<usize> = (0..before.len()).collect();
        let Some(index) = self.role.draws.pick(&all) else { return };
        let Some(file) = before.get(index) else { return };
        let (program, findings, path) = (self.program, self.role.findings, &file.path);
        if self.role.draws.is_one_in(3) {
            let got = findings.call("getxattr", &[], || program.attribute(path, ATTRIBUTE));
            let Ok(value) = got else { return };
            let number = value.and_then(|value| value.parse().ok()).unwrap_or(0);
            self.judge(index, file, Kind::Attribute, number, "getxattr");
        } else {
            match findings.call("stat", &[], || program.stat(path)) {
                Ok(attr) => self.judge_times(index, file, &attr, "stat"),
                Err(error) if error.raw_os_error() == Some(ENOENT) => {
                    findings.tell(format!(
                        "{path}, which nobody removes, is gone for {}",
                        self.role.life
                    ));
                }
                Err(_) => {}
            }
        }
    }

    /// Looks at those of all files. What is there during the whole listing is listed once.
    fn list(&self) {
        let before = self.board.all();
        let listed = self.program.list_with_attributes(DIRECTORY, self.role.findings);
        let Ok(listed) = listed else { return };
        for (index, file) in before.iter().enumerate() {
            let of = |name: &str| file.path.split_once('/').is_some_and(|(_, own)| own == name);
            let found: Vec<&Attr> =
                listed.iter().filter(|(name, _)| of(name)).map(|(_, attr)| attr).collect();
            match found[..] {
                [attr] => self.judge_times(index, file, attr, "readdirplus"),
                _ => {
                    let (path, times) = (&file.path, found.len());
                    self.role
                        .findings
                        .tell(format!("{path} is listed {times} times to {}", self.role.life));
                }
            }
        }
    }

    fn judge_times(&self, index: usize, before: &File, attr: &Attr, how: &str) {
        tracing::trace!(path = before.path, ino = %attr.ino, mtime = ?attr.mtime, atime = ?attr.atime, how, "times are seen");
        // Where the power may fail, so may the time that a disk has of a file.
        if self.role.care == Care::Usual {
            self.judge(index, before, Kind::Modified, number_of(attr.mtime), how);
        }
        self.judge(index, before, Kind::Accessed, number_of(attr.atime), how);
    }

    fn judge(&self, index: usize, before: &File, kind: Kind, seen: u64, how: &str) {
        let at = kind as usize;
        let now = self.board.all();
        let Some(now) = now.get(index).filter(|file| !file.is_given_up) else { return };
        let (Some(was), Some(is)) = (before.numbers.get(at), now.numbers.get(at)) else { return };
        let is_disturbed = was.is_disturbed || was.disturbances != is.disturbances;
        // Nobody knows the times with which a file is made.
        if is_disturbed || was.acknowledged == 0 {
            return;
        }
        if !(was.acknowledged..=is.asked).contains(&seen) {
            self.role.findings.tell(format!(
                "{} sees by {how} the number {seen} in {kind:?} of {}, not one from {} to {}",
                self.role.life, before.path, was.acknowledged, is.asked
            ));
        }
    }
}

fn times(kinds: &[Kind], number: u64) -> NewTimes {
    let time = |kind| kinds.contains(&kind).then(|| time_of(number));
    NewTimes { modified: time(Kind::Modified), accessed: time(Kind::Accessed) }
}

fn time_of(number: u64) -> Timestamp {
    let secs = FIRST_S + i64::try_from(number).unwrap_or(0);
    Timestamp { secs, nanos: u32::try_from(number).unwrap_or(0) }
}

/// The number that stands in a time; of any other time one that nobody asked for.
fn number_of(time: Timestamp) -> u64 {
    let number = u64::try_from(time.secs - FIRST_S).unwrap_or(u64::MAX);
    if u64::from(time.nanos) == number { number } else { u64::MAX }
}
