//! Opening a database: whose directory it is, which format it has, and how much it may use.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fjall::config::{BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions};
use intarsia_types::{Error, Result};

use super::failed;
use super::journal::{self, Cut};
use super::tables::Tables;

/// The file that says that the directory is a database of this program, and in which format. In a directory with other files
/// and without this one, nothing is touched.
const MARKER: &str = "intarsia-meta";
const FORMAT: &str = "1\n";

/// The LSM store does not seal tables in memory by itself; see `Tables::seal_full`.
const NEVER_BY_ITSELF: u64 = u64::MAX;
const BLOCK_CACHE_BYTES: u64 = 32 << 20;
/// Bounds both the disk space of the journals and the time to replay them after a crash.
const JOURNALS_BYTES: u64 = 128 << 20;
/// Longer bodies are kept out of the tree, so that compaction does not copy them again and again.
const BODY_SEPARATION_BYTES: u32 = 1024;
/// One worker of the LSM store: with more, the first hands compactions back to the queue until another one takes them, and
/// spins while that one is busy.
const WORKERS: usize = 1;

/// A process that is just ending may hold the lock for a moment.
const LOCK_ATTEMPTS: u32 = 4;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Opens the tables. Returns also how many bytes were cut off the unsound end of the journal.
pub(super) fn open(path: &Path, cut: Cut) -> Result<(Tables, u64)> {
    if is_absent(path)? {
        create(path)?;
    }
    check_format(path)?;
    let cut_bytes = {
        let _lock = lock(path)?;
        journal::cut_unsound_end(path, cut)?
    };
    Ok((open_tables(path)?, cut_bytes))
}

fn check_format(path: &Path) -> Result<()> {
    match fs::read_to_string(path.join(MARKER)) {
        Ok(format) if format == FORMAT => Ok(()),
        Ok(format) => {
            let why = format!("its format is {format:?}, this program knows {FORMAT:?}");
            Err(foreign(path, &why))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(foreign(path, "it holds other files"))
        }
        Err(e) => Err(io("read", path)(e)),
    }
}

fn foreign(path: &Path, why: &str) -> Error {
    Error::Engine(format!("'{}' is no metadata database of this program: {why}", path.display()))
}

/// Whether there is no directory, or an empty one.
fn is_absent(path: &Path) -> Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(Error::io(format!("read '{}'", path.display()), e)),
    }
}

/// Creates the database under another name, and renames it when it is whole. So a crash leaves nothing that looks like a
/// database and is none.
fn create(path: &Path) -> Result<()> {
    let draft = draft_path(path);
    if draft.exists() {
        fs::remove_dir_all(&draft).map_err(io("remove", &draft))?;
    }
    fs::create_dir_all(&draft).map_err(io("create", &draft))?;
    drop(open_tables(&draft)?);
    let marker = draft.join(MARKER);
    fs::write(&marker, FORMAT).map_err(io("write", &marker))?;
    sync_file(&marker)?;
    sync_file(&draft)?;
    fs::rename(&draft, path).map_err(io("create", path))?;
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        sync_file(parent)?;
    }
    Ok(())
}

fn sync_file(path: &Path) -> Result<()> {
    fs::File::open(path).and_then(|file| file.sync_all()).map_err(io("sync", path))
}

fn draft_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".creating");
    path.with_file_name(name)
}

fn io<'p>(what: &'static str, path: &'p Path) -> impl Fn(std::io::Error) -> Error + 'p {
    move |e| Error::io(format!("{what} '{}'", path.display()), e)
}

/// Takes the lock of the LSM store, to look at its files before the store does.
fn lock(path: &Path) -> Result<fs::File> {
    let file = path.join("lock");
    let lock = fs::File::options().write(true).open(&file).map_err(io("open", &file))?;
    for _ in 0..LOCK_ATTEMPTS {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(fs::TryLockError::WouldBlock) => intarsia_sync::thread::sleep(LOCK_PAUSE),
            Err(fs::TryLockError::Error(e)) => return Err(io("lock", &file)(e)),
        }
    }
    Err(Error::Busy(format!("another process has '{}' open", path.display())))
}

/// Opens the LSM store, which panics on some kinds of damage: the caller gets an error instead.
fn open_tables(path: &Path) -> Result<Tables> {
    catch_unwind(AssertUnwindSafe(|| try_open_tables(path))).unwrap_or_else(|_| {
        Err(Error::Engine(format!("the database in '{}' is damaged", path.display())))
    })
}

fn try_open_tables(path: &Path) -> Result<Tables> {
    let database = Database::builder(path)
        .cache_size(BLOCK_CACHE_BYTES)
        .max_journaling_size(JOURNALS_BYTES)
        .worker_threads(WORKERS)
        .open()
        .map_err(|e| in_path(path, e))?;
    let names = table(&database, "names", names_options)?;
    let bodies = table(&database, "bodies", bodies_options)?;
    Ok(Tables::new(database, names, bodies))
}

fn in_path(path: &Path, error: fjall::Error) -> Error {
    match failed("open")(error) {
        Error::Busy(_) => Error::Busy(format!("another process has '{}' open", path.display())),
        Error::Engine(what) => Error::Engine(format!("'{}': {what}", path.display())),
        other => other,
    }
}

fn table(
    database: &Database,
    name: &str,
    options: fn() -> KeyspaceCreateOptions,
) -> Result<Keyspace> {
    database.keyspace(name, options).map_err(failed("open"))
}

fn names_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER_BY_ITSELF)
        .data_block_size_policy(BlockSizePolicy::all(4096))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(
            BloomConstructionPolicy::BitsPerKey(10.0),
        )))
}

fn bodies_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(NEVER_BY_ITSELF).with_kv_separation(Some(
        KvSeparationOptions::default().separation_threshold(BODY_SEPARATION_BYTES),
    ))
}
