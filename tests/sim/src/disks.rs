//! The hosts' disks: they keep what was forced out or is old when the power fails, and can be full or broken.
//!
//! Bytes lie in real files. What is known beside them: when a file changed on the simulation's clock, and what of it
//! the disk has. The kernel writes out what is 30 s old, and some of it sooner.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use intarsia_store::{Access, Device, Times};
use intarsia_sync::{Instant, coarse_simulated_now, simulation, system_now};
use intarsia_types::Timestamp;
use parking_lot::Mutex;

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
/// What is older is on the disk (`vm.dirty_expire_centisecs`).
const EXPIRES: Duration = Duration::from_secs(30);
/// For each so many bytes of a file it is written out sooner at one change less.
const EARLY_GRAIN: u64 = 32 << 10;

/// What a disk does instead of what it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sickness {
    /// Nothing more fits.
    Full,
    /// One access in three fails.
    Broken,
}

/// What there is of a file at a moment.
#[derive(Clone, Debug)]
struct Content {
    bytes: Vec<u8>,
    times: Times,
}

#[derive(Debug)]
struct Backing {
    path: PathBuf,
    times: Times,
    /// Since when the disk lacks something of it.
    dirty_since: Option<Instant>,
    /// What it has instead; `None`: not even the name.
    on_disk: Option<Content>,
}

impl Backing {
    fn content(&self) -> Content {
        Content { bytes: std::fs::read(&self.path).unwrap_or_default(), times: self.times }
    }

    fn write_out(&mut self, keeps_bytes: bool) {
        if self.dirty_since.is_none() && self.on_disk.is_some() {
            return;
        }
        let bare = Content { bytes: Vec::new(), times: self.times };
        self.on_disk = Some(if keeps_bytes { self.content() } else { bare });
        self.dirty_since = None;
    }

    /// Whether the kernel writes it out sooner: of a large file less often, which is read whole each time.
    fn is_early(&self) -> bool {
        let len = std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        simulation::below(4 + len / EARLY_GRAIN) == 0
    }

    fn is_due(&self) -> bool {
        self.dirty_since.is_some_and(|since| since.elapsed() > EXPIRES)
    }

    /// Some of its blocks were written out, or only its length.
    fn tear(&self) -> io::Result<()> {
        let mut bytes = std::fs::read(&self.path)?;
        let len = bytes.len() as u64;
        let at = usize::try_from(simulation::below(len + 1)).unwrap_or(0) / 4096 * 4096;
        if simulation::below(2) == 0 {
            bytes.truncate(at);
        } else {
            bytes.iter_mut().skip(at).for_each(|byte| *byte = 0);
        }
        std::fs::write(&self.path, bytes)
    }
}

#[derive(Debug, Default)]
struct State {
    /// By number of the real inode; the file system gives none out twice.
    files: HashMap<u64, Backing>,
    /// By directory of the host.
    sick: BTreeMap<PathBuf, Sickness>,
    /// Whether it may be asked what a disk has; else nobody takes the trouble to keep it.
    keeps_bytes: bool,
}

/// All disks of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disks(Arc<Mutex<State>>);

impl Disks {
    /// Those of this process, empty; whether the power may fail.
    pub(crate) fn begin(may_lose_power: bool) -> Self {
        static DISKS: OnceLock<Disks> = OnceLock::new();
        let disks = DISKS.get_or_init(|| {
            let disks = Self::default();
            intarsia_store::simulate(Box::new(disks.clone()));
            disks
        });
        *disks.0.lock() = State { keeps_bytes: may_lose_power, ..State::default() };
        disks.clone()
    }

    /// The disk of the host whose files lie below `place` is so from now on.
    pub(crate) fn set(&self, place: &Path, sickness: Option<Sickness>) {
        let mut state = self.0.lock();
        match sickness {
            Some(sickness) => state.sick.insert(place.to_owned(), sickness),
            None => state.sick.remove(place),
        };
    }

    /// The disks of the host whose files lie below `place` are gone.
    pub(crate) fn forget(&self, place: &Path) {
        let mut state = self.0.lock();
        state.files.retain(|_, file| !file.path.starts_with(place) || file.path.exists());
    }

    pub(crate) fn mend(&self) {
        self.0.lock().sick.clear();
    }

    /// Leaves of a tier what its disk has; how many files lack something. Nobody has one open.
    pub(crate) fn lose_power(&self, tier: &Path) -> io::Result<u64> {
        let mut state = self.0.lock();
        if !state.keeps_bytes {
            return Err(io::Error::other("this run keeps nothing of what the disks have"));
        }
        let files = state.files.values_mut();
        let mut files: Vec<_> = files.filter(|file| file.path.starts_with(tier)).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut lost = 0;
        for file in files {
            if file.dirty_since.is_none() || file.is_due() || !file.path.exists() {
                continue;
            }
            lost += 1;
            match (simulation::below(4), &file.on_disk) {
                // It was just written out.
                (0, _) => {}
                (1, _) => file.tear()?,
                (2, None) if simulation::below(2) == 0 => std::fs::remove_file(&file.path)?,
                (_, Some(old)) => {
                    std::fs::write(&file.path, &old.bytes)?;
                    file.times = old.times;
                }
                (_, None) => std::fs::write(&file.path, [])?,
            }
            file.dirty_since = None;
            file.on_disk = Some(file.content());
        }
        // Another mount of the same disk.
        let identity = tier.join("tier.json");
        let text = std::fs::read_to_string(&identity)?;
        let mut value: serde_json::Value = serde_json::from_str(&text)?;
        if let Some(mount) = value.get_mut("mount") {
            *mount = "before the power failed".into();
        }
        std::fs::write(identity, serde_json::to_string(&value)?)?;
        Ok(lost)
    }
}

fn now() -> Timestamp {
    coarse_simulated_now().unwrap_or_else(system_now).into()
}

fn number(file: &File) -> Option<u64> {
    file.metadata().ok().map(|metadata| metadata.ino())
}

impl State {
    fn of(&mut self, file: &File) -> Option<&mut Backing> {
        self.files.get_mut(&number(file)?)
    }

    fn refuse(&mut self, path: &Path, access: Access) -> io::Result<()> {
        let sick = self.sick.iter().find(|(place, _)| path.starts_with(place));
        let Some((_, sickness)) = sick else { return Ok(()) };
        let errno = match (sickness, access) {
            (Sickness::Full, Access::Write) => ENOSPC,
            (Sickness::Broken, _) if simulation::below(3) == 0 => EIO,
            _ => return Ok(()),
        };
        Err(io::Error::from_raw_os_error(errno))
    }
}

impl Device for Disks {
    fn create(&self, path: &Path) -> io::Result<()> {
        self.0.lock().refuse(path, Access::Write)
    }

    fn opened(&self, path: &Path, file: &File) {
        let Some(number) = number(file) else { return };
        let times = Times { mtime: now(), ctime: now() };
        self.0.lock().files.entry(number).or_insert_with(|| Backing {
            path: path.to_owned(),
            times,
            dirty_since: Some(Instant::now()),
            on_disk: None,
        });
    }

    fn admit(&self, file: &File, access: Access) -> io::Result<()> {
        let mut state = self.0.lock();
        let keeps_bytes = state.keeps_bytes;
        let Some(backing) = state.of(file) else { return Ok(()) };
        if matches!(access, Access::Write | Access::Resize)
            && (backing.is_due() || backing.is_early())
        {
            backing.write_out(keeps_bytes);
        }
        let path = backing.path.clone();
        state.refuse(&path, access)
    }

    fn done(&self, file: &File, access: Access) {
        let mut state = self.0.lock();
        let keeps_bytes = state.keeps_bytes;
        let Some(backing) = state.of(file) else { return };
        match access {
            Access::Read => {}
            Access::Write | Access::Resize => {
                backing.times = Times { mtime: now(), ctime: now() };
                backing.dirty_since.get_or_insert_with(Instant::now);
            }
            Access::Sync => backing.write_out(keeps_bytes),
        }
    }

    fn names_synced(&self, directory: &Path) {
        let mut state = self.0.lock();
        let here = |file: &&mut Backing| file.path.parent() == Some(directory);
        for file in state.files.values_mut().filter(here) {
            let times = file.times;
            file.on_disk.get_or_insert_with(|| Content { bytes: Vec::new(), times });
        }
    }

    fn set_mtime(&self, file: &File, mtime: Timestamp) {
        let mut state = self.0.lock();
        if let Some(backing) = state.of(file) {
            backing.times = Times { mtime, ctime: now() };
            backing.dirty_since.get_or_insert_with(Instant::now);
        }
    }

    fn times(&self, file: &File) -> Option<Times> {
        self.0.lock().of(file).map(|backing| backing.times)
    }
}
