//! Opening the database again after a write to it failed, as on a full disk.
//!
//! The LSM store takes no more writes after one failed, because it cannot know what reached the disk. So the database is closed
//! and opened again, and what was being written out is written once more: our own log still has it.

use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};
use intarsia_types::{Error, Result};

use super::journal::Cut;
use super::{Core, Tables, closed, open};

/// The least time between two attempts to open the database again.
const PAUSE: Duration = Duration::from_millis(500);
/// How long threads that use the old tables, such as scans, may take to let go of them.
const SCANS_MAX: Duration = Duration::from_secs(5);

/// When the last attempt was.
#[derive(Default)]
pub(super) struct Pause(Mutex<Option<Instant>>);

impl Pause {
    fn is_over(&self) -> bool {
        let mut last = self.0.lock();
        let is_over = last.is_none_or(|at| at.elapsed() >= PAUSE);
        if is_over {
            *last = Some(Instant::now());
        }
        is_over
    }
}

impl Core {
    /// The tables, which are opened again if they have failed. The caller holds the commit lock.
    ///
    /// # Errors
    /// [`Error::Engine`] when they have failed and cannot be opened again now, [`Error::NoSpace`] when the disk is full.
    pub(super) fn usable(&self, slot: &mut Option<Arc<Tables>>) -> Result<Arc<Tables>> {
        match slot {
            Some(tables) if !tables.has_failed() => Ok(Arc::clone(tables)),
            _ if !self.reopen_pause.is_over() => Err(closed()),
            _ => self.reopen(slot),
        }
    }

    fn reopen(&self, slot: &mut Option<Arc<Tables>>) -> Result<Arc<Tables>> {
        self.space.check_room_to_reopen()?;
        if let Some(old) = slot.take()
            && let Err(old) = close(old)
        {
            *slot = Some(old);
            return Err(closed());
        }
        let (tables, _) = open::open(&self.path, Cut::Dropped)?;
        tracing::warn!(path = %self.path.display(), "opened the metadata again after a failed write");
        let tables = Arc::new(tables);
        *slot = Some(Arc::clone(&tables));
        Ok(tables)
    }
}

/// Waits until no other thread uses the tables, and closes them. Hands them back if they are still in use after
/// [`SCANS_MAX`].
fn close(mut tables: Arc<Tables>) -> std::result::Result<(), Arc<Tables>> {
    let deadline = Instant::now() + SCANS_MAX;
    loop {
        match Arc::try_unwrap(tables) {
            Ok(tables) => {
                drop(tables);
                return Ok(());
            }
            Err(still_used) if Instant::now() < deadline => tables = still_used,
            Err(still_used) => return Err(still_used),
        }
        intarsia_sync::thread::sleep(Duration::from_millis(1));
    }
}

impl super::Space {
    /// Refuses to open the database again on a full disk, since replaying its journal may write tables out.
    fn check_room_to_reopen(&self) -> Result<()> {
        if self.is_low()? {
            return Err(Error::NoSpace("the disk that holds the metadata is full".into()));
        }
        Ok(())
    }
}
