//! A program on a host that changes files and logs what was acknowledged, whatever fails.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::time::{Duration, Instant};

use intarsia_posix_tests::{Mapping, Random, close, pattern};

use super::book::{Book, Line, Step, Tally};

const EIO: i32 = 5;
/// Between two steps, at most.
const PAUSE_MS: u64 = 20;
/// After one that failed.
const REST: Duration = Duration::from_millis(100);

/// Does steps in `dir` until the file `stop` is there or whoever started this is gone, and logs them. `book` is what
/// is in the directory already.
///
/// # Errors
/// Of the log and the book.
pub fn act(dir: &Path, book: &Path, log: &Path, stop: &Path, seed: u64) -> io::Result<()> {
    let mut book: Book = serde_json::from_reader(File::open(book)?)?;
    let mut log = OpenOptions::new().create_new(true).append(true).open(log)?;
    let mut random = Random::new(seed);
    let parent = parent_id();
    while !stop.exists() && parent_id() == parent {
        let step = book.next_step(&mut random);
        let (mut under_way, mut tally) = (None, Tally::default());
        let begin = Line::Begin(step.clone());
        write(&mut log, &begin)?;
        book.note(begin, &mut under_way, &mut tally);
        let mut calls = Calls::default();
        let outcome = perform(dir, &step, &mut calls);
        let errno = outcome.err().map(|error| error.raw_os_error().unwrap_or(EIO));
        let end = Line::End { errno, slowest_ms: calls.slowest_ms, call: calls.slowest.into() };
        write(&mut log, &end)?;
        book.note(end, &mut under_way, &mut tally);
        std::thread::sleep(match errno {
            Some(_) => REST,
            None => Duration::from_millis(random.below(PAUSE_MS)),
        });
    }
    Ok(())
}

fn write(log: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    log.write_all(text.as_bytes())
}

/// How long the slowest call took.
#[derive(Default)]
struct Calls {
    slowest_ms: u64,
    slowest: &'static str,
}

impl Calls {
    fn time<T>(
        &mut self,
        name: &'static str,
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let begun = Instant::now();
        let outcome = call();
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        if took_ms >= self.slowest_ms {
            (self.slowest_ms, self.slowest) = (took_ms, name);
        }
        outcome
    }
}

fn perform(dir: &Path, step: &Step, calls: &mut Calls) -> io::Result<()> {
    let at = |name: &String| dir.join(name);
    let both = |name: &String| OpenOptions::new().read(true).write(true).open(at(name));
    match step {
        Step::Put { name, seed, len } => {
            let mut file = calls.time("create", || File::create(at(name)))?;
            calls.time("write", || file.write_all(&pattern(*seed, *len)))?;
            calls.time("close", || close(file))
        }
        Step::Write { name, offset, seed, len, syncs } => {
            let file = calls.time("open", || both(name))?;
            calls.time("write", || file.write_all_at(&pattern(*seed, *len), *offset as u64))?;
            if *syncs {
                calls.time("fsync", || file.sync_all())?;
            }
            calls.time("close", || close(file))
        }
        Step::Map { name, offset, seed, len } => {
            let file = calls.time("open", || both(name))?;
            let mut mapping = calls.time("mmap", || Mapping::new(&file, 0, offset + len))?;
            calls.time("store", || {
                mapping.store(*offset, &pattern(*seed, *len));
                Ok(())
            })?;
            calls.time("msync", || mapping.sync())?;
            drop(mapping);
            calls.time("close", || close(file))
        }
        Step::Truncate { name, len } => {
            let file = calls.time("open", || both(name))?;
            calls.time("ftruncate", || file.set_len(*len as u64))?;
            calls.time("close", || close(file))
        }
        Step::Rename { from, to } => calls.time("rename", || std::fs::rename(at(from), at(to))),
        Step::Unlink { name } => calls.time("unlink", || std::fs::remove_file(at(name))),
    }
}
