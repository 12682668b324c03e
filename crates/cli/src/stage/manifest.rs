//! What has been copied, in a file: JSON, a line each, appended as it is done.
//!
//! The last line may be cut by a crash and is then overlooked; of several lines of one path the last counts.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::attributes::Xattrs;
use crate::exit::{Failure, Outcome};

const FORMAT: u32 = 1;

/// A path as text, or as bytes where it is no text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum PathText {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Path> for PathText {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl PathText {
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => std::ffi::OsStr::from_bytes(bytes).into(),
        }
    }
}

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    /// Version of this format.
    intarsia_manifest: u32,
    /// What the sums are.
    sum: String,
    destination: PathText,
}

/// What a copied thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Directory,
    File,
    Symlink,
    Hardlink,
}

/// One thing that was copied and verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Relative to the destination.
    pub(crate) path: PathText,
    pub(crate) kind: Kind,
    /// Length of a file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) bytes: u64,
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds since 1970, and nanoseconds.
    pub(crate) mtime: (i64, i64),
    /// BLAKE3 of a file's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sum: Option<String>,
    /// Of a symbolic link its target, of a hard link the path of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<PathText>,
    /// Extended attributes: name, and value in hexadecimal digits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) xattrs: BTreeMap<String, String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
const fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl Entry {
    pub(super) fn new(path: &Path, kind: Kind, meta: &Metadata) -> Self {
        Self {
            path: path.into(),
            kind,
            bytes: if kind == Kind::File { meta.len() } else { 0 },
            mode: meta.mode() & 0o7777,
            uid: meta.uid(),
            gid: meta.gid(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            sum: None,
            target: None,
            xattrs: BTreeMap::new(),
        }
    }

    pub(super) fn with_xattrs(mut self, xattrs: &Xattrs) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.xattrs = xattrs.iter().map(|(n, value)| (name(n), hex(value))).collect();
        self
    }

    /// Whether a file at the source is what it was when this was recorded.
    pub(super) fn fits(&self, meta: &Metadata) -> bool {
        self.kind == Kind::File
            && self.bytes == meta.len()
            && self.mtime == (meta.mtime(), meta.mtime_nsec())
    }
}

/// What a manifest says.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) destination: PathBuf,
    pub(crate) entries: BTreeMap<PathBuf, Entry>,
}

impl Recorded {
    /// Reads a manifest.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let file = File::open(path).map_err(|e| Failure::io(path.display(), &e))?;
        Self::parse(path, file).map(|(recorded, _)| recorded)
    }

    /// What is recorded, and where its last whole line ends.
    fn parse(path: &Path, file: impl Read) -> Outcome<(Self, u64)> {
        let refuse = |line: usize, why: String| {
            Failure::usage(format!("{}:{line}: {why}", path.display()))
                .with_help("name another file with --manifest, or remove this one to begin anew")
        };
        let mut recorded = Self::default();
        let mut end = 0;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        for at in 0_usize.. {
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(|e| Failure::io(path.display(), &e))?;
            // Without its end it was cut by a crash.
            if line.last() != Some(&b'\n') {
                if at == 0 {
                    return Err(refuse(1, "no manifest of 'intarsia stage' (a cut line)".into()));
                }
                break;
            }
            let parsed = if at == 0 {
                serde_json::from_slice::<Header>(&line).map(|header| {
                    recorded.destination = header.destination.path();
                    (header.intarsia_manifest != FORMAT).then(|| {
                        format!(
                            "format {}, which this version does not know",
                            header.intarsia_manifest
                        )
                    })
                })
            } else {
                serde_json::from_slice::<Entry>(&line).map(|entry| {
                    recorded.entries.insert(entry.path.path(), entry);
                    None
                })
            };
            match parsed {
                Ok(None) => end += line.len() as u64,
                Ok(Some(why)) => return Err(refuse(at + 1, why)),
                Err(e) if at == 0 => {
                    return Err(refuse(1, format!("no manifest of 'intarsia stage' ({e})")));
                }
                Err(e) => return Err(refuse(at + 1, e.to_string())),
            }
        }
        Ok((recorded, end))
    }
}

/// A manifest that grows.
#[derive(Debug)]
pub(crate) struct Manifest {
    path: PathBuf,
    file: Mutex<File>,
}

impl Manifest {
    /// Opens a manifest for this destination, or begins one; with what it says already.
    pub(crate) fn open(path: &Path, destination: &Path) -> Outcome<(Self, Recorded)> {
        let failed = |e: std::io::Error| Failure::io(format!("manifest {}", path.display()), &e);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(
            |e| {
                Failure::busy(format!("manifest {}: {}", path.display(), std::io::Error::from(e)))
                    .with_help("another 'intarsia stage' writes it")
            },
        )?;
        let is_new = file.metadata().map_err(failed)?.len() == 0;
        let manifest = |file| Self { path: path.to_owned(), file: Mutex::new(file) };
        if is_new {
            let header = Header {
                intarsia_manifest: FORMAT,
                sum: "blake3".into(),
                destination: destination.into(),
            };
            write_line(&mut file, &header).map_err(failed)?;
            return Ok((manifest(file), Recorded::default()));
        }
        let (recorded, end) = Recorded::parse(path, &file)?;
        if recorded.destination != destination {
            return Err(Failure::usage(format!(
                "manifest {} is of the destination {}",
                path.display(),
                recorded.destination.display()
            ))
            .with_help("name another file with --manifest"));
        }
        file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok((manifest(file), recorded))
    }

    /// Records one thing that is done.
    pub(super) fn add(&self, entry: &Entry) -> std::io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        write_line(&mut file, entry).map_err(|e| {
            std::io::Error::new(e.kind(), format!("manifest {}: {e}", self.path.display()))
        })
    }

    /// Puts all that is recorded on stable storage.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).sync_all()
    }
}

/// In one write, so that a crash leaves whole lines but for the last.
fn write_line(file: &mut File, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::exit::Exit;

    fn entry(name: &str) -> Entry {
        let meta = std::fs::metadata("/").unwrap();
        Entry { sum: Some("00".into()), ..Entry::new(Path::new(name), Kind::File, &meta) }
    }

    /// Opens a manifest that nobody writes: a child process of another test holds its lock until it runs its program.
    fn open(path: &Path) -> (Manifest, Recorded) {
        opened(path, "/dest").unwrap()
    }

    fn opened(path: &Path, destination: &str) -> Outcome<(Manifest, Recorded)> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match Manifest::open(path, Path::new(destination)) {
                Err(failure) if failure.exit == Exit::Busy && Instant::now() < deadline => {
                    std::thread::yield_now();
                }
                outcome => return outcome,
            }
        }
    }

    #[test]
    fn a_cut_line_is_overlooked_and_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest");
        let (manifest, recorded) = open(&path);
        assert!(recorded.entries.is_empty());
        for name in ["a", "b"] {
            manifest.add(&entry(name)).unwrap();
        }
        drop(manifest);
        let whole = std::fs::read(&path).unwrap();
        for cut in 1..40 {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let (manifest, recorded) = open(&path);
            assert_eq!(recorded.entries.len(), 1, "cut by {cut}");
            manifest.add(&entry("c")).unwrap();
            drop(manifest);
            assert_eq!(Recorded::read(&path).unwrap().entries.len(), 2, "cut by {cut}");
        }
    }

    #[test]
    fn what_is_no_manifest_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest");
        std::fs::write(&path, "my data\n").unwrap();
        let refused = opened(&path, "/dest").unwrap_err();
        assert!(refused.message.contains("manifest:1: no manifest"), "{}", refused.message);
        assert_eq!(std::fs::read(&path).unwrap(), b"my data\n");
        std::fs::remove_file(&path).unwrap();
        drop(open(&path));
        let refused = opened(&path, "/other").unwrap_err();
        assert!(refused.message.contains("is of the destination /dest"), "{}", refused.message);
    }

    #[test]
    fn any_name_survives() {
        let path = Path::new(std::ffi::OsStr::from_bytes(b"a\xff\n\"b"));
        let text = serde_json::to_string(&PathText::from(path)).unwrap();
        assert_eq!(serde_json::from_str::<PathText>(&text).unwrap().path(), path);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = Recorded::parse(Path::new("manifest"), bytes.as_slice());
        }
    }
}
