//! Programs that make files which go with their last reader, and read them, on all hosts.
//!
//! Nobody opens such a file who has not taken one of its readings, and there are no more of these than readers that it waits
//! for. So it is there for each of them, and is gone when the last one is counted.

use std::io::Result as IoResult;
use std::sync::Arc;
use std::time::Duration;

use intarsia_history::System;
use intarsia_sync::{Instant, thread};
use intarsia_types::HintKey;
use parking_lot::Mutex;

use crate::client::{ENOENT, Program};
use crate::drawing::Draws;
use crate::host::Care;
use crate::open_file::LettingGo;
use crate::others::{Role, Shift};
use crate::uses::Hints;

pub(crate) const DIRECTORY: &str = "r";
/// What the directory says; a file can say another number.
const READERS: u64 = 2;
const READERS_MAX: u64 = 4;
const LENGTHS: [u64; 5] = [100, 3_000, 20_000, 150_000, 600_000];
/// What the directory says besides.
const ALSO: [&[(HintKey, &str)]; 5] = [
    &[],
    &[(HintKey::Pattern, "broadcast")],
    &[(HintKey::Cache, "keep")],
    &[(HintKey::Place, "collocate:r")],
    &[(HintKey::Integrity, "strict")],
];

/// The directory, with what it says.
pub(crate) fn directory(draws: &mut Draws) -> (String, Hints) {
    let mut hints = vec![(HintKey::Lifetime, "reads:2")];
    hints.extend(draws.pick(&ALSO).unwrap_or_default());
    (DIRECTORY.to_owned(), hints)
}

#[derive(Clone, Debug)]
struct File {
    path: String,
    content: Arc<Vec<u8>>,
    /// With the close of so many it goes.
    most: u64,
    /// So many have taken a reading.
    taken: u64,
    /// So many are counted, as they were told.
    counted: u64,
}

impl File {
    const fn is_gone(&self) -> bool {
        self.counted == self.most
    }
}

/// These files, as all hosts know them.
// A lock of the system: whoever holds it gives no turn away.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Vec<File>>);

impl Board {
    fn add(&self, path: String, content: Vec<u8>, most: u64) {
        let content = Arc::new(content);
        self.0.lock().push(File { path, content, most, taken: 0, counted: 0 });
    }

    /// Takes a reading of one of the files.
    fn take(&self, draws: &mut Draws) -> Option<(usize, File)> {
        let mut files = self.0.lock();
        let open: Vec<usize> = (0..files.len())
            .filter(|at| files.get(*at).is_some_and(|f| f.taken < f.most))
            .collect();
        let index = draws.pick(&open)?;
        let file = files.get_mut(index)?;
        file.taken += 1;
        Some((index, file.clone()))
    }

    /// A reader is counted; whether the file has gone with it.
    fn count(&self, index: usize) -> bool {
        let mut files = self.0.lock();
        files.get_mut(index).is_some_and(|file| {
            file.counted += 1;
            file.is_gone()
        })
    }

    /// One that is gone.
    fn any_gone(&self, draws: &mut Draws) -> Option<String> {
        let files = self.0.lock();
        let gone: Vec<&File> = files.iter().filter(|file| file.is_gone()).collect();
        draws.pick(&gone).map(|file| file.path.clone())
    }

    /// Whether the file of this path has to be gone.
    pub(crate) fn is_gone(&self, path: &str) -> bool {
        self.0.lock().iter().any(|file| file.path == path && file.is_gone())
    }
}

struct Reader<'a> {
    program: &'a Program,
    board: &'a Board,
    role: Role<'a>,
    made: u64,
}

/// Makes and reads files until the shift ends.
pub(crate) fn read_until(program: &Program, board: &Board, role: Role<'_>, shift: Shift) {
    let mut reader = Reader { program, board, role, made: 0 };
    while Instant::now() < shift.end {
        shift.rest(program, &mut reader.role.draws);
        match reader.role.draws.below(5) {
            0 | 1 => reader.make(),
            2 => reader.look_for_gone(),
            _ => reader.read(),
        }
    }
}

impl Reader<'_> {
    fn make(&mut self) {
        self.made += 1;
        let path = format!("{DIRECTORY}/{}-{}", self.role.life, self.made);
        let len = self.role.draws.pick(&LENGTHS).unwrap_or(1);
        let content = self.role.draws.bytes(len);
        let own = (1 + self.role.draws.below(READERS_MAX), self.role.draws.is_one_in(2));
        match self.fill(&path, &content, own.1.then_some(own.0)) {
            Ok(()) => self.board.add(path, content, if own.1 { own.0 } else { READERS }),
            Err(error) => {
                tracing::debug!(%error, path, "a file for readers is not made");
                // Should it stay, nobody reads it.
                let _ = self.program.remove(&path);
            }
        }
    }

    fn fill(&self, path: &str, content: &[u8], readers: Option<u64>) -> IoResult<()> {
        let (program, findings) = (self.program, self.role.findings);
        let mut file = findings.call("open", &[], || program.create_new(path))?;
        if let Some(readers) = readers {
            let (name, value) = (HintKey::Lifetime.attribute(), format!("reads:{readers}"));
            findings.call("setxattr", &[], || program.set_attribute(path, &name, &value))?;
        }
        for part in content.chunks(60 << 10) {
            findings.call("write", &[], || program.write_all(&mut file, part))?;
        }
        findings.call("close", &[], || program.close(file))
    }

    fn read(&mut self) {
        let (program, findings) = (self.program, self.role.findings);
        let Some((index, known)) = self.board.take(&mut self.role.draws) else { return };
        let path = &known.path;
        let file = match findings.call("open", &[], || program.open(path)) {
            Ok(file) => file,
            Err(error) => {
                if error.raw_os_error() == Some(ENOENT) {
                    findings
                        .tell(format!("{path} is gone before its last reader, {}", self.role.life));
                }
                return;
            }
        };
        let ino = file.ino;
        let content = program.whole(&file, findings);
        if content.is_ok_and(|content| content != *known.content) && self.role.care != Care::Frail {
            findings.tell(format!("{} reads something else in {path}", self.role.life));
        }
        if self.role.draws.is_one_in(4) {
            thread::sleep(Duration::from_millis(self.role.draws.below(2_000)));
        }
        let mut letting_go = None;
        let _ = findings.call("close", &[], || {
            let (closed, going) = program.close_and_let_go(file);
            letting_go = Some(going);
            closed
        });
        let is_counted = letting_go.is_some_and(LettingGo::await_count);
        tracing::debug!(path, is_counted, ino = %ino, "a reader has closed its file");
        if is_counted && self.board.count(index) {
            self.require_gone(path);
        }
    }

    fn look_for_gone(&mut self) {
        if let Some(path) = self.board.any_gone(&mut self.role.draws) {
            self.require_gone(&path);
        }
    }

    fn require_gone(&self, path: &str) {
        if self.role.findings.call("stat", &[ENOENT], || self.program.stat(path)).is_ok() {
            self.role.findings.tell(format!(
                "{path} is there after its last reader, as {} sees it",
                self.role.life
            ));
        }
    }
}
