//! What a writer did, as it logged it: each step before it begins, and that it was acknowledged.
//!
//! After a crash every acknowledged step must show, and the one step under way has happened or not.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Mapping, Random, close, pattern};

/// One change of a directory, acknowledged when it returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Create or overwrite, then close.
    Put { name: String, seed: u64, len: usize },
    /// Write a piece, then close, or `fsync` and stay open.
    Write { name: String, offset: usize, seed: u64, len: usize, stays_open: bool },
    /// Store through a mapping, then `msync`, `munmap` and close.
    Map { name: String, offset: usize, seed: u64, len: usize },
    /// Set the length.
    Truncate { name: String, len: usize },
    /// Rename, over what is there.
    Rename { from: String, to: String },
    /// A second name.
    Link { from: String, to: String },
    /// Remove a name.
    Unlink { name: String },
    /// Set the permissions.
    Chmod { name: String, perm: u32 },
}

/// A line of the log.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// A step begins.
    Begin(Step),
    /// It was acknowledged.
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    bytes: Vec<u8>,
    perm: u32,
}

/// The names of a directory and what they stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    names: BTreeMap<String, usize>,
    inodes: Vec<Content>,
}

impl Expected {
    fn content(&self, name: &str) -> Option<&Content> {
        self.names.get(name).map(|id| &self.inodes[*id])
    }

    fn content_mut(&mut self, name: &str) -> &mut Content {
        &mut self.inodes[self.names[name]]
    }

    /// Takes note of a step.
    pub(crate) fn apply(&mut self, step: &Step) {
        match step {
            Step::Put { name, seed, len } => {
                let bytes = pattern(*seed, *len);
                if self.names.contains_key(name) {
                    self.content_mut(name).bytes = bytes;
                } else {
                    self.inodes.push(Content { bytes, perm: 0o644 });
                    self.names.insert(name.clone(), self.inodes.len() - 1);
                }
            }
            Step::Write { name, offset, seed, len, .. } | Step::Map { name, offset, seed, len } => {
                let bytes = &mut self.content_mut(name).bytes;
                bytes.resize(bytes.len().max(offset + len), 0);
                bytes[*offset..offset + len].copy_from_slice(&pattern(*seed, *len));
            }
            Step::Truncate { name, len } => self.content_mut(name).bytes.resize(*len, 0),
            Step::Rename { from, to } => {
                // Two names of one inode: rename does nothing.
                if self.names.get(from) != self.names.get(to)
                    && let Some(id) = self.names.remove(from)
                {
                    self.names.insert(to.clone(), id);
                }
            }
            Step::Link { from, to } => {
                self.names.insert(to.clone(), self.names[from]);
            }
            Step::Unlink { name } => {
                self.names.remove(name);
            }
            Step::Chmod { name, perm } => self.content_mut(name).perm = *perm,
        }
    }

    /// A step that makes sense now.
    pub(crate) fn next_step(&self, random: &mut Random) -> Step {
        let names: Vec<&String> = self.names.keys().collect();
        let fresh = format!("f{}", random.below(1000));
        let (seed, roll) = (random.next(), random.below(100));
        // Around the length that is kept beside the inode, around a page, and longer.
        let sizes = [0, 1, 700, 4095, 4096, 4097, 20_000, 300_000];
        let len = *random.choose(&sizes);
        if names.len() < 10 || roll < 30 {
            return Step::Put { name: fresh, seed, len };
        }
        let name = (*random.choose(&names)).clone();
        let size = self.content(&name).map_or(0, |c| c.bytes.len());
        let offset = usize::try_from(random.below(size as u64 + 5000)).unwrap_or(0);
        let piece = usize::try_from(random.below(6000)).unwrap_or(0) + 1;
        match roll {
            30..50 => Step::Write { name, offset, seed, len: piece, stays_open: roll < 40 },
            50..60 if size > 0 => {
                let offset = offset % size;
                Step::Map { name, offset, seed, len: piece.min(size - offset) }
            }
            60..68 => Step::Truncate { name, len },
            68..80 => Step::Rename { from: name, to: fresh },
            80..85 if !self.names.contains_key(&fresh) => Step::Link { from: name, to: fresh },
            85..90 => Step::Chmod { name, perm: *random.choose(&[0o600, 0o640, 0o755]) },
            _ => Step::Unlink { name },
        }
    }

    /// What differs between a directory and this, if anything.
    fn difference(&self, dir: &Path, unknown: &[&str]) -> io::Result<Option<String>> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let (meta, bytes) = (entry.metadata()?, std::fs::read(entry.path())?);
            if meta.len() != bytes.len() as u64 {
                return Ok(Some(format!("{name}: {} bytes of {}", bytes.len(), meta.len())));
            }
            found.insert(name, Content { bytes, perm: meta.permissions().mode() & 0o7777 });
        }
        let is_known = |name: &&String| !unknown.contains(&name.as_str());
        let names = self.names.keys().filter(is_known).chain(found.keys().filter(is_known));
        let wrong = |name: &String| self.content(name) != found.get(name);
        let describe = |name: &String| {
            let show = |c: Option<&Content>| c.map(|c| (c.bytes.len(), c.perm, checksum(&c.bytes)));
            format!(
                "{name}: expected {:?}, found {:?}",
                show(self.content(name)),
                show(found.get(name))
            )
        };
        Ok(names.filter(|n| wrong(n)).map(describe).next())
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, b| sum * 31 % 0xffff_ffff_ffc5 + u64::from(*b))
}

/// What a log says.
#[derive(Debug, Default)]
pub struct History {
    acknowledged: Expected,
    under_way: Option<Step>,
    /// Steps acknowledged.
    pub steps: usize,
}

impl History {
    /// Reads a log.
    ///
    /// # Panics
    /// When it is no log.
    #[must_use]
    pub fn read(log: &Path) -> Self {
        let mut history = Self::default();
        for line in std::fs::read_to_string(log).expect("the writer's log").lines() {
            match serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")) {
                Line::Begin(step) => history.under_way = Some(step),
                Line::End => {
                    let step = history.under_way.take().expect("a step that began");
                    history.acknowledged.apply(&step);
                    history.steps += 1;
                }
            }
        }
        history
    }

    /// Compares a directory with what was acknowledged.
    ///
    /// # Panics
    /// When anything acknowledged is missing, or anything else is there.
    pub fn verify(&self, dir: &Path) {
        let fail = |e: io::Error| -> ! { panic!("{}: {e}; {:?}", dir.display(), self.under_way) };
        let before = self.acknowledged.difference(dir, &self.unknown()).unwrap_or_else(|e| fail(e));
        let Some(before) = before else { return };
        let after = self.under_way.as_ref().map(|step| {
            let mut expected = self.acknowledged.clone();
            expected.apply(step);
            expected.difference(dir, &self.unknown()).unwrap_or_else(|e| fail(e))
        });
        assert!(
            after == Some(None),
            "{} after {} steps: {before}; with {:?}: {after:?}",
            dir.display(),
            self.steps,
            self.under_way
        );
    }

    /// The names whose content the step under way may have left half done.
    fn unknown(&self) -> Vec<&str> {
        let Some(step) = &self.under_way else { return Vec::new() };
        let (Step::Put { name, .. }
        | Step::Write { name, .. }
        | Step::Map { name, .. }
        | Step::Truncate { name, .. }
        | Step::Chmod { name, .. }) = step
        else {
            return Vec::new();
        };
        let id = self.acknowledged.names.get(name);
        let same = self.acknowledged.names.iter().filter(|(_, other)| Some(*other) == id);
        same.map(|(name, _)| name.as_str()).chain([name.as_str()]).collect()
    }
}

/// Does steps in a directory and logs them, until one fails.
///
/// # Errors
/// Of the log.
pub fn write_until_failure(dir: &Path, log: &Path, seed: u64) -> io::Result<()> {
    let mut log = File::create(log)?;
    let (mut random, mut expected) = (Random::new(seed), Expected::default());
    let mut open = Vec::new();
    loop {
        let step = expected.next_step(&mut random);
        note(&mut log, &Line::Begin(step.clone()))?;
        if perform(dir, &step, &mut open).is_err() {
            return Ok(());
        }
        note(&mut log, &Line::End)?;
        expected.apply(&step);
        if open.len() > 8 {
            open.clear();
        }
    }
}

fn note(log: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    log.write_all(text.as_bytes())
}

fn perform(dir: &Path, step: &Step, open: &mut Vec<File>) -> io::Result<()> {
    let at = |name: &String| dir.join(name);
    let both = |name: &String| OpenOptions::new().read(true).write(true).open(at(name));
    match step {
        Step::Put { name, seed, len } => {
            let mut file = File::create(at(name))?;
            file.write_all(&pattern(*seed, *len))?;
            close(file)
        }
        Step::Write { name, offset, seed, len, stays_open } => {
            let file = both(name)?;
            file.write_all_at(&pattern(*seed, *len), *offset as u64)?;
            if *stays_open {
                file.sync_all()?;
                open.push(file);
                return Ok(());
            }
            close(file)
        }
        Step::Map { name, offset, seed, len } => {
            let file = both(name)?;
            let mut mapping = Mapping::new(&file, 0, offset + len)?;
            mapping.store(*offset, &pattern(*seed, *len));
            mapping.sync()?;
            drop(mapping);
            close(file)
        }
        Step::Truncate { name, len } => {
            let file = both(name)?;
            file.set_len(*len as u64)?;
            close(file)
        }
        Step::Rename { from, to } => std::fs::rename(at(from), at(to)),
        Step::Link { from, to } => std::fs::hard_link(at(from), at(to)),
        Step::Unlink { name } => std::fs::remove_file(at(name)),
        Step::Chmod { name, perm } => {
            std::fs::set_permissions(at(name), PermissionsExt::from_mode(*perm))
        }
    }
}
