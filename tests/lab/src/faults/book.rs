//! What was acknowledged of the files of a directory, and what was tried.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use intarsia_posix_tests::Random;
use serde::{Deserialize, Serialize};

use super::content::Content;

/// Names in a directory, about.
const NAMES: usize = 20;
/// How long reading may fail after everything has been healed: connections are made anew.
const PATIENCE: Duration = Duration::from_secs(15);

/// One change of a directory, acknowledged when all its calls have returned 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Create or overwrite, then close.
    Put { name: String, seed: u64, len: usize },
    /// Write a piece, `fsync` or not, and close.
    Write { name: String, offset: usize, seed: u64, len: usize, syncs: bool },
    /// Store through a mapping, then `msync`, `munmap` and close.
    Map { name: String, offset: usize, seed: u64, len: usize },
    /// Set the length, then close.
    Truncate { name: String, len: usize },
    /// Rename, over what is there.
    Rename { from: String, to: String },
    /// Remove a name.
    Unlink { name: String },
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Line {
    /// A step begins.
    Begin(Step),
    /// It is over; acknowledged unless it failed with an errno.
    End { errno: Option<i32>, slowest_ms: u64, call: String },
}

/// What is known of a name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Known {
    /// The acknowledged content; none for a name that is not there.
    acknowledged: Option<Content>,
    /// What may be there instead, since a call failed.
    tried: Vec<Option<Content>>,
}

impl Known {
    fn allows(&self, found: Option<&[u8]>) -> bool {
        let all: Vec<_> = std::iter::once(&self.acknowledged).chain(&self.tried).collect();
        let Some(found) = found else { return all.iter().any(|content| content.is_none()) };
        let all: Vec<_> = all.into_iter().flatten().map(Content::bytes).collect();
        if self.tried.is_empty() {
            return all.iter().any(|content| content == found);
        }
        // Some of the bytes may have been written, each the old or the new one.
        let longest = all.iter().map(Vec::len).max();
        longest.is_some_and(|longest| found.len() <= longest)
            && found.iter().enumerate().all(|(i, byte)| all.iter().any(|c| c.get(i) == Some(byte)))
    }
}

/// A directory: all that was ever acknowledged or tried.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Book {
    names: BTreeMap<String, Known>,
    /// For names that were never used.
    next: u64,
}

/// What the logs of a round say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) acknowledged: u64,
    pub(crate) failed: u64,
    pub(crate) slowest_ms: u64,
    pub(crate) slowest_call: String,
    pub(crate) errnos: BTreeMap<i32, u64>,
}

/// What a comparison has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// Acknowledged and not there, or not to be read.
    pub(crate) lost: Vec<String>,
    /// There with another content, or never made.
    pub(crate) wrong: Vec<String>,
}

impl Book {
    /// Takes note of what was acknowledged, or with `fails` of what may have happened.
    fn apply(&mut self, step: &Step, fails: bool) {
        let old = |name: &String| self.names.get(name).and_then(|known| known.acknowledged.clone());
        let mut changes = Vec::new();
        match step {
            Step::Put { name, seed, len } => {
                if fails {
                    changes.push((name, Some(Content::default())));
                }
                changes.push((name, Some(Content::of(*seed, *len))));
            }
            Step::Write { name, offset, seed, len, .. } | Step::Map { name, offset, seed, len } => {
                let old = old(name).unwrap_or_default();
                changes.push((name, Some(old.written(*offset, *seed, *len))));
            }
            Step::Truncate { name, len } => {
                changes.push((name, Some(old(name).unwrap_or_default().cut(*len))));
            }
            Step::Rename { from, to } => changes.extend([(to, old(from)), (from, None)]),
            Step::Unlink { name } => changes.push((name, None)),
        }
        for (name, content) in changes {
            let known = self.names.entry(name.clone()).or_default();
            if fails {
                known.tried.push(content);
            } else {
                *known = Known { acknowledged: content, tried: Vec::new() };
            }
        }
        self.names.retain(|_, known| known.acknowledged.is_some() || !known.tried.is_empty());
        if let Step::Put { name, .. } | Step::Rename { to: name, .. } = step
            && let Some(number) = name.strip_prefix('f').and_then(|n| n.parse::<u64>().ok())
        {
            self.next = self.next.max(number + 1);
        }
    }

    /// Takes note of a line; `under_way` is the step that has begun.
    pub(crate) fn note(&mut self, line: Line, under_way: &mut Option<Step>, tally: &mut Tally) {
        match line {
            Line::Begin(step) => *under_way = Some(step),
            Line::End { errno, slowest_ms, call } => {
                if slowest_ms > tally.slowest_ms {
                    (tally.slowest_ms, tally.slowest_call) = (slowest_ms, call);
                }
                match errno {
                    None => tally.acknowledged += 1,
                    Some(errno) => {
                        tally.failed += 1;
                        *tally.errnos.entry(errno).or_default() += 1;
                    }
                }
                if let Some(step) = under_way.take() {
                    self.apply(&step, errno.is_some());
                }
            }
        }
    }

    /// Takes note of a whole log, also of one whose writer died within a step.
    ///
    /// # Errors
    /// That it cannot be read.
    pub(crate) fn read(&mut self, log: &Path, tally: &mut Tally) -> io::Result<()> {
        let mut under_way = None;
        for line in std::fs::read_to_string(log)?.lines() {
            self.note(serde_json::from_str(line)?, &mut under_way, tally);
        }
        if let Some(step) = under_way {
            self.apply(&step, true);
        }
        Ok(())
    }

    /// A step that makes sense now. Names about which something is not known are let alone.
    pub(crate) fn next_step(&self, random: &mut Random) -> Step {
        let known: Vec<_> = self.names.iter().filter(|(_, k)| k.tried.is_empty()).collect();
        let fresh = format!("f{}", self.next);
        let (seed, roll) = (random.next(), random.below(100));
        // Beside the inode, in one message, in several.
        let sizes = [0, 1, 700, 4096, 5000, 20_000, 100_000, 100_000, 300_000, 1_500_000];
        let len = *random.choose(&sizes);
        if known.len() < NAMES / 2 || (roll < 20 && known.len() < NAMES) {
            return Step::Put { name: fresh, seed, len };
        }
        let (name, content) = *random.choose(&known);
        let (name, size) = (name.clone(), content.acknowledged.as_ref().map_or(0, Content::len));
        let place = usize::try_from(random.below(size as u64 + 1)).unwrap_or(0);
        let piece = usize::try_from(random.below(9000)).unwrap_or(0) + 1;
        match roll {
            0..35 => Step::Put { name, seed, len },
            35..50 => Step::Write { name, offset: place, seed, len: piece, syncs: roll < 42 },
            50..60 => Step::Write { name, offset: size, seed, len: piece, syncs: roll < 55 },
            60..70 if size > 0 => {
                let offset = place.min(size - 1);
                Step::Map { name, offset, seed, len: piece.min(size - offset) }
            }
            70..78 => Step::Truncate { name, len: *random.choose(&[place, len]) },
            78..84 => Step::Rename { from: name, to: fresh },
            84..92 => {
                let (to, _) = *random.choose(&known);
                if *to == name {
                    Step::Put { name, seed, len }
                } else {
                    Step::Rename { from: name, to: to.clone() }
                }
            }
            _ => Step::Unlink { name },
        }
    }

    /// Compares a directory with what was acknowledged.
    pub(crate) fn verify(&self, dir: &Path, findings: &mut Findings) {
        let listed = match patiently(|| list(dir)) {
            Ok(listed) => listed,
            Err(error) => return findings.lost.push(format!("{}: {error}", dir.display())),
        };
        let names: BTreeSet<_> = self.names.keys().chain(&listed).collect();
        for name in names {
            let path = dir.join(name);
            let found = match patiently(|| content(&path)) {
                Ok(found) => found,
                Err(error) => {
                    // What was only tried may be left at a host alone, without its copies.
                    findings.lost.push(format!("{}: {error}", path.display()));
                    continue;
                }
            };
            let unknown = Known::default();
            let known = self.names.get(name).unwrap_or(&unknown);
            if known.allows(found.as_deref()) && found.is_some() == listed.contains(name) {
                continue;
            }
            let what = format!("{}: {}", path.display(), known.against(found.as_deref()));
            let is_lost = found.is_none();
            if is_lost { &mut findings.lost } else { &mut findings.wrong }.push(what);
        }
    }

    /// The names about which something is not known, which from now on are as if they had never been.
    pub(crate) fn take_unknown(&mut self) -> Vec<String> {
        let unknown: Vec<_> = self
            .names
            .iter()
            .filter(|(_, k)| !k.tried.is_empty())
            .map(|(n, _)| n.clone())
            .collect();
        unknown.iter().for_each(|name| drop(self.names.remove(name)));
        unknown
    }

    /// The names that are there, with their lengths.
    pub(crate) fn present(&self) -> impl Iterator<Item = (&str, usize)> {
        let present = self.names.iter().filter(|(_, known)| known.tried.is_empty());
        present.filter_map(|(name, k)| Some((name.as_str(), k.acknowledged.as_ref()?.len())))
    }
}

impl Known {
    fn against(&self, found: Option<&[u8]>) -> String {
        let expected = self.acknowledged.as_ref().map(Content::bytes);
        let len =
            |bytes: Option<&[u8]>| bytes.map_or("nothing".into(), |b| format!("{} bytes", b.len()));
        let differs = expected.as_deref().zip(found).and_then(|(expected, found)| {
            let at = expected.iter().zip(found).position(|(a, b)| a != b)?;
            let zeros = found[at..].iter().take_while(|byte| **byte == 0).count();
            Some(format!(", different from byte {at} on ({zeros} zeros)"))
        });
        let tried: Vec<_> = self.tried.iter().map(|t| t.as_ref().map(Content::len)).collect();
        format!(
            "{} acknowledged, {} found{}; tried {tried:?}",
            len(expected.as_deref()),
            len(found),
            differs.unwrap_or_default(),
        )
    }
}

/// Repeats what fails, for a bounded time.
fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(200)),
            outcome => return outcome,
        }
    }
}

fn list(dir: &Path) -> io::Result<BTreeSet<String>> {
    std::fs::read_dir(dir)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let len = std::fs::metadata(path)?.len();
    if len != bytes.len() as u64 {
        let read = bytes.len();
        return Err(io::Error::other(format!("{read} bytes were read of {len}, {}", place(path))));
    }
    Ok(Some(bytes))
}

/// The inode of a file, and where the store says that it is.
fn place(path: &Path) -> String {
    let ino = std::fs::metadata(path).map_or(0, |meta| meta.ino());
    format!("inode {ino}: {}", location(path).unwrap_or_else(|error| error.to_string()))
}

/// Where the store says that a file is: its hosts, the home first.
pub(crate) fn location(file: &Path) -> io::Result<String> {
    let mut value = vec![0; 256];
    let n = rustix::fs::getxattr(file, "user.intarsia.location", &mut value)?;
    value.truncate(n);
    Ok(String::from_utf8_lossy(&value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(name: &str, seed: u64, len: usize) -> Step {
        Step::Put { name: name.into(), seed, len }
    }

    fn end(errno: Option<i32>) -> Line {
        Line::End { errno, slowest_ms: 1, call: "close".into() }
    }

    fn book(steps: &[(Step, Option<i32>)]) -> Book {
        let (mut book, mut under_way) = (Book::default(), None);
        for (step, errno) in steps {
            book.note(Line::Begin(step.clone()), &mut under_way, &mut Tally::default());
            book.note(end(*errno), &mut under_way, &mut Tally::default());
        }
        book
    }

    fn findings(book: &Book, name: &str, bytes: Option<&[u8]>) -> (usize, usize) {
        let dir = tempfile::tempdir().unwrap();
        if let Some(bytes) = bytes {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let mut found = Findings::default();
        book.verify(dir.path(), &mut found);
        (found.lost.len(), found.wrong.len())
    }

    #[test]
    fn what_was_acknowledged_must_be_there_and_nothing_else() {
        let book = book(&[(put("f0", 1, 100), None)]);
        let content = Content::of(1, 100).bytes();
        assert_eq!(findings(&book, "f0", Some(&content)), (0, 0));
        assert_eq!(findings(&book, "f0", None), (1, 0));
        assert_eq!(findings(&book, "f0", Some(&content[..99])), (0, 1));
        assert_eq!(findings(&book, "f0", Some(&[0; 100])), (0, 1), "never zeros");
        assert_eq!(findings(&book, "g", Some(b"invented")), (1, 1));
    }

    #[test]
    fn what_failed_is_old_or_new_byte_by_byte() {
        let book = book(&[(put("f0", 1, 100), None), (put("f0", 2, 80), Some(113))]);
        let (old, new) = (Content::of(1, 100).bytes(), Content::of(2, 80).bytes());
        for allowed in [&old[..], &new, &new[..50], &[]] {
            assert_eq!(findings(&book, "f0", Some(allowed)), (0, 0));
        }
        assert_eq!(findings(&book, "f0", Some(&[0; 80])), (0, 1));
        assert_eq!(findings(&book, "f0", None), (1, 0), "it was there before");
        let book = self::book(&[(put("f0", 1, 100), Some(5))]);
        assert_eq!(findings(&book, "f0", None), (0, 0), "it never was");
    }
}
