//! Refuses to grow when the disk is nearly full.
//!
//! A write of the store that meets a full disk stops the database until it is opened again. So growth
//! ends while there is still room for what frees space, and a file of ballast is given up for that when
//! others have taken even this room.

use std::fs::File;
use std::path::{Path, PathBuf};

use intarsia_sync::Mutex;
use intarsia_types::{Error, Result};

use super::log::LogFiles;
use crate::{Condition, Mutation};

/// Below this, nothing may grow: room to write out tables from memory and to merge some.
const LOW_BYTES: u64 = 96 << 20;
/// On a small disk, that much of it instead.
const LOW_FRACTION: u64 = 4;
/// How often the store will still write what is in the log only: to its journal, then to a table.
const WRITES_OWED: u64 = 2;
/// Below this, the ballast is given up.
const CRITICAL_BYTES: u64 = 1 << 20;
/// Room for the tables that may wait in memory: what the store writes out while it wins space back.
const BALLAST_BYTES: u64 = 64 << 20;
/// On a small disk, that much of it instead.
const BALLAST_FRACTION: u64 = 5;
/// While there is enough, the free space is looked up once in so many commits, or when commits come less
/// often than this; otherwise before each.
const COMMITS_PER_LOOK: u32 = 32;
const LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(20);
/// A value longer than this is growth, whatever the commit is for.
const SMALL_VALUE_BYTES: usize = 2048;

/// Watches the free space of the database's file system.
pub(super) struct Space {
    path: PathBuf,
    seen: Mutex<Seen>,
    /// What the tables do not have yet: room for writing it out stays free.
    log: LogFiles,
}

struct Seen {
    room: Room,
    commits: u32,
    looked: intarsia_sync::Instant,
    ballast_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    Low,
    Critical,
}

impl Space {
    /// Starts to watch, and lays out the ballast when there is room.
    pub(super) fn watch(database: &Path, log: LogFiles) -> Result<Self> {
        let path = database.join("ballast");
        let room = look(database, 0)?;
        let ballast_bytes = match room {
            Room::Enough => lay_out(&path).unwrap_or(0),
            _ => path.metadata().map_or(0, |meta| meta.len()),
        };
        let looked = intarsia_sync::Instant::now();
        let seen = Mutex::new(Seen { room, commits: 0, looked, ballast_bytes });
        Ok(Self { path, seen, log })
    }

    /// Whether a commit may be made now. Calls `when_low` if there is little room, even so.
    pub(super) fn admit(
        &self,
        conditions: &[Condition],
        mutations: &[Mutation],
        when_low: impl FnOnce(),
    ) -> Result<()> {
        if self.room()? == Room::Enough {
            return Ok(());
        }
        when_low();
        if is_growth(conditions, mutations) {
            return Err(Error::NoSpace("the disk that holds the metadata is nearly full".into()));
        }
        Ok(())
    }

    fn room(&self) -> Result<Room> {
        let mut seen = self.seen.lock();
        seen.commits += 1;
        let is_fresh = seen.commits < COMMITS_PER_LOOK && seen.looked.elapsed() < LOOK_INTERVAL;
        if seen.room == Room::Enough && is_fresh {
            return Ok(seen.room);
        }
        seen.commits = 0;
        seen.looked = intarsia_sync::Instant::now();
        seen.room = self.look()?;
        match seen.room {
            Room::Critical if seen.ballast_bytes > 0 => self.give_up_ballast(&mut seen),
            Room::Enough if seen.ballast_bytes == 0 => {
                seen.ballast_bytes = lay_out(&self.path).unwrap_or(0);
            }
            _ => {}
        }
        Ok(seen.room)
    }

    /// Whether there is too little room now.
    pub(super) fn is_low(&self) -> Result<bool> {
        Ok(self.look()? == Room::Critical)
    }

    fn look(&self) -> Result<Room> {
        look(self.path.parent().unwrap_or(&self.path), WRITES_OWED * self.log.bytes())
    }

    /// All at once: the store may have to write out a whole table from memory.
    fn give_up_ballast(&self, seen: &mut Seen) {
        let cut = File::options().write(true).open(&self.path).and_then(|file| file.set_len(0));
        match cut {
            Ok(()) => seen.ballast_bytes = 0,
            Err(error) => tracing::warn!(%error, "cannot give up ballast"),
        }
    }
}

/// A commit that makes a name, a file or a long value. Removing, renaming over and small updates are not.
fn is_growth(conditions: &[Condition], mutations: &[Mutation]) -> bool {
    conditions.iter().any(|condition| matches!(condition, Condition::Absent(_)))
        || mutations
            .iter()
            .any(|mutation| matches!(mutation, Mutation::Put(_, v) if v.len() > SMALL_VALUE_BYTES))
}

fn look(path: &Path, owed_bytes: u64) -> Result<Room> {
    let (free_bytes, total_bytes) =
        space_of(path).map_err(|e| Error::io("look up the free space", e))?;
    Ok(judge(free_bytes, total_bytes, owed_bytes))
}

fn space_of(path: &Path) -> std::io::Result<(u64, u64)> {
    let fs = rustix::fs::statvfs(path)?;
    Ok((fs.f_bavail * fs.f_frsize, fs.f_blocks * fs.f_frsize))
}

/// `owed_bytes` will be written whatever is refused now: without room for it, the store could neither
/// finish nor let its journal and the log go, and a disk that nobody else uses would stay full.
fn judge(free_bytes: u64, total_bytes: u64, owed_bytes: u64) -> Room {
    let low_bytes = LOW_BYTES.min(total_bytes / LOW_FRACTION) + owed_bytes;
    match free_bytes {
        0..CRITICAL_BYTES => Room::Critical,
        _ if free_bytes < low_bytes => Room::Low,
        _ => Room::Enough,
    }
}

/// Allocates the ballast for real, as a sparse file would hold no room. Returns its length.
fn lay_out(path: &Path) -> std::io::Result<u64> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    let (_, total_bytes) = space_of(path)?;
    let length = BALLAST_BYTES.min(total_bytes / BALLAST_FRACTION);
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length)?;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_judged_by_what_is_free_and_how_large_the_disk_is() {
        let gib = 1 << 30;
        assert_eq!(judge(gib, 100 * gib, 0), Room::Enough);
        assert_eq!(judge(90 << 20, 100 * gib, 0), Room::Low);
        assert_eq!(judge(20 << 20, 64 << 20, 0), Room::Enough);
        assert_eq!(judge(15 << 20, 64 << 20, 0), Room::Low);
        assert_eq!(judge(0, 64 << 20, 0), Room::Critical);
    }

    #[test]
    fn room_for_writing_the_log_out_is_not_given_away() {
        let gib = 1 << 30;
        assert_eq!(judge(200 << 20, 100 * gib, 100 << 20), Room::Enough);
        assert_eq!(judge(190 << 20, 100 * gib, 100 << 20), Room::Low);
    }

    #[test]
    fn ballast_is_given_up_and_comes_back() {
        let home = tempfile::tempdir().unwrap();
        let space = Space::watch(home.path(), LogFiles::default()).unwrap();
        let length = || space.path.metadata().unwrap().len();
        assert_eq!(length(), BALLAST_BYTES);
        space.give_up_ballast(&mut space.seen.lock());
        assert_eq!(length(), 0);
        for _ in 0..=COMMITS_PER_LOOK {
            space.admit(&[], &[], || {}).unwrap();
        }
        assert_eq!(length(), BALLAST_BYTES);
    }

    #[test]
    fn making_a_name_is_growth_and_removing_one_is_not() {
        let key = || b"I".as_slice().into();
        let put = |len| Mutation::Put(key(), vec![0; len].into());
        assert!(is_growth(&[Condition::Absent(key())], &[]));
        assert!(is_growth(&[], &[put(4096)]));
        assert!(!is_growth(&[Condition::Present(key())], &[put(100), Mutation::Delete(key())]));
    }
}
