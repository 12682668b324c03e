//! Refuses commits that make the database grow when the disk is nearly full.
//!
//! If a write of the LSM store meets a full disk, the database takes no more writes until it is opened again. So it stops to
//! grow while there is still room for what frees space. If others use up that room too, a file of ballast is given up.

use std::fs::File;
use std::path::{Path, PathBuf};

use intarsia_sync::Mutex;
use intarsia_types::{Error, Result};

use super::log::LogFiles;
use crate::{Condition, Mutation};

/// With fewer free bytes than this, nothing may grow. It is room to write out tables from memory, and to merge some.
const LOW_BYTES: u64 = 96 << 20;
/// On a small disk it is one part in so many of the disk instead.
const LOW_FRACTION: u64 = 4;
/// How many times what is only in the log will still be written: to the journal of the LSM store, and then to a table.
const WRITES_OWED: u64 = 2;
/// With fewer free bytes than this, the ballast is given up.
const CRITICAL_BYTES: u64 = 1 << 20;
/// The size of the ballast: room for the tables that may wait in memory, which are written out while space is won back.
const BALLAST_BYTES: u64 = 64 << 20;
/// On a small disk it is one part in so many of the disk instead.
const BALLAST_FRACTION: u64 = 5;
/// While there is enough room, the free space is looked up only once in so many commits, or if the last look was longer ago
/// than [`LOOK_INTERVAL`]; otherwise before each commit.
const COMMITS_PER_LOOK: u32 = 32;
const LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(20);
/// A commit with a value longer than this is growth, whatever it is for.
const SMALL_VALUE_BYTES: usize = 2048;

/// Watches the free space of the database's file system.
pub(super) struct Space {
    path: PathBuf,
    seen: Mutex<Seen>,
    /// What the tables do not have yet: room to write it out is kept free.
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
    /// Looks at the free space for the first time, and lays out the ballast if there is room.
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

    /// Refuses a commit that is growth while there is little room. Calls `when_low` whenever there is little room.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when it refuses.
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

    /// Whether the disk is full, except for the last [`CRITICAL_BYTES`].
    pub(super) fn is_low(&self) -> Result<bool> {
        Ok(self.look()? == Room::Critical)
    }

    fn look(&self) -> Result<Room> {
        look(self.path.parent().unwrap_or(&self.path), WRITES_OWED * self.log.bytes())
    }

    /// Gives up the whole ballast at once, since the LSM store may have to write out a whole table from memory.
    fn give_up_ballast(&self, seen: &mut Seen) {
        let cut = File::options().write(true).open(&self.path).and_then(|file| file.set_len(0));
        match cut {
            Ok(()) => seen.ballast_bytes = 0,
            Err(error) => tracing::warn!(%error, "cannot give up ballast"),
        }
    }
}

/// Whether a commit makes a new name, a new file or a long value. Removals, renames to a name that exists, and small updates
/// are no growth.
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

/// Judges the room. `owed_bytes` will be written whatever is refused now. Without room for them the LSM store could neither
/// finish nor let go of its journal and the log, and a disk that nobody else uses would stay full.
fn judge(free_bytes: u64, total_bytes: u64, owed_bytes: u64) -> Room {
    let low_bytes = LOW_BYTES.min(total_bytes / LOW_FRACTION) + owed_bytes;
    match free_bytes {
        0..CRITICAL_BYTES => Room::Critical,
        _ if free_bytes < low_bytes => Room::Low,
        _ => Room::Enough,
    }
}

/// Makes the ballast and allocates it, since a sparse file would take no room. Returns its length in bytes.
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
