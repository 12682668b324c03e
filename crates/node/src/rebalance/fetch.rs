//! How this host makes itself the home of a file because another host asks it to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::Namespace;
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{Error, InodeId, NodeId, Result};

use crate::background::queue::Queue;
use crate::inode::attempt::Attempt;
use crate::inode::lease::{Content, Leases};
use crate::inode::{InodeParts, Inodes};
use crate::members::Members;
use crate::replication::copies::Copies;
use crate::space::placing::Placing;

use super::mover::NO_OTHERS;

/// A longer file is fetched by a thread of its own, and the host that asked is told to ask again: it would not wait for the answer
/// until then.
const LONG_BYTES: u64 = 8 << 20;
/// How many long files may be on their way to this host at the same time.
const LONG_AT_ONCE: usize = 2;
/// The pause after which to ask again for a long file.
const LONG_PAUSE: Duration = Duration::from_millis(50);

/// What became of a request to fetch a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// The file is here now.
    Here,
    /// A program has the file open, so it stays where it is.
    InUse,
    /// The file is on its way, or waits for others; ask again after this time.
    Later(Duration),
}

/// For so long the outcome of a fetch is kept for the host that asked, which asks every [`LONG_PAUSE`]. After that it asks no more,
/// and what it would hear might not be true any more.
const KEPT: Duration = Duration::from_secs(10);

/// The fetch of a long file.
enum Fetch {
    Running,
    /// It has ended at this moment, and nobody has asked for the outcome since.
    Over(Instant, Result<Fetched>),
}

/// What is known of the fetch of a file. The outcome of one that is over is told once, and forgotten.
fn known_of(fetches: &mut HashMap<InodeId, Fetch>, ino: InodeId) -> Option<Result<Fetched>> {
    fetches.retain(|_, fetch| !matches!(fetch, Fetch::Over(ended, _) if ended.elapsed() > KEPT));
    match fetches.remove(&ino)? {
        Fetch::Over(_, outcome) => Some(outcome),
        running @ Fetch::Running => {
            fetches.insert(ino, running);
            Some(Ok(Fetched::Later(LONG_PAUSE)))
        }
    }
}

/// Fetches files to this host.
pub(crate) struct Fetches {
    /// The name of this host.
    me: NodeId,
    members: Members,
    namespace: Arc<Namespace>,
    placing: Arc<Placing>,
    copies: Arc<Copies>,
    leases: Arc<Leases>,
    /// The finalizer's.
    queue: Arc<Queue>,
    /// The fetches of long files.
    long: Mutex<HashMap<InodeId, Fetch>>,
}

impl Fetches {
    /// Built with the parts that live inodes are made of, and with what changes these.
    pub(crate) fn new(of: &InodeParts, inode: &Inodes) -> Self {
        Self {
            me: of.me.clone(),
            members: of.members.clone(),
            namespace: Arc::clone(&of.namespace),
            placing: Arc::clone(&of.placing),
            copies: Arc::clone(&of.copies),
            leases: Arc::clone(&inode.leases),
            queue: Arc::clone(&of.queue),
            long: Mutex::default(),
        }
    }

    /// Makes this host the home of a file; of a long file in the background.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a file that was removed, [`Error::NoSpace`] if the tiers here are full; those of an open to write.
    pub(crate) fn fetch(self: &Arc<Self>, ino: InodeId) -> Result<Fetched> {
        if !self.members.is_shared() {
            return Err(NO_OTHERS);
        }
        if let Some(known) = known_of(&mut self.long.lock(), ino) {
            return known;
        }
        if self.namespace.get(ino)?.size_bytes <= LONG_BYTES {
            return self.bring_here(ino);
        }
        let mut fetches = self.long.lock();
        // Another thread may have begun it meanwhile.
        if let Some(known) = known_of(&mut fetches, ino) {
            return known;
        }
        let running = fetches.values().filter(|fetch| matches!(fetch, Fetch::Running)).count();
        if running < LONG_AT_ONCE {
            let this = Arc::clone(self);
            let fetch = move || {
                let outcome = this.bring_here(ino);
                this.long.lock().insert(ino, Fetch::Over(Instant::now(), outcome));
            };
            intarsia_sync::thread::Builder::new()
                .name("fetch".into())
                .spawn(fetch)
                .map_err(|e| Error::io("start a thread that fetches a file", e))?;
            fetches.insert(ino, Fetch::Running);
        }
        Ok(Fetched::Later(LONG_PAUSE))
    }

    /// Takes the lease and the bytes of a file that no program has open.
    fn bring_here(&self, ino: InodeId) -> Result<Fetched> {
        self.members.await_membership()?;
        let inode = self.namespace.get(ino)?;
        if self.copies.own(&inode).is_none() && !self.placing.has_room_here() {
            return Err(Error::NoSpace(format!("the tiers of {} are full", self.me)));
        }
        self.leases.with_live(ino, |state| {
            if state.is_open() {
                return Ok(Attempt::Done(Fetched::InUse));
            }
            match self.leases.prepare(ino, state, Some(Content::Kept))? {
                Attempt::Again(retry) => return Ok(Attempt::Again(retry)),
                Attempt::Done(_) => {}
            }
            if state.writes_remotely() {
                // The file is open at its home, which only lets this host write through it.
                state.body = None;
                return Ok(Attempt::Done(Fetched::InUse));
            }
            state.enqueue_settle(&self.queue, ino);
            Ok(Attempt::Done(Fetched::Here))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_told_once_and_not_after_it_may_be_untrue() {
        let ino = InodeId(7);
        let ago = |age: Duration| Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
        let mut fetches = HashMap::from([(ino, Fetch::Over(Instant::now(), Ok(Fetched::Here)))]);
        assert!(matches!(known_of(&mut fetches, ino), Some(Ok(Fetched::Here))));
        assert!(known_of(&mut fetches, ino).is_none());
        for (age, is_known) in [(KEPT / 2, true), (KEPT * 2, false)] {
            fetches.insert(ino, Fetch::Over(ago(age), Ok(Fetched::Here)));
            assert_eq!(known_of(&mut fetches, ino).is_some(), is_known, "{age:?}");
        }
        fetches.insert(ino, Fetch::Running);
        assert!(matches!(known_of(&mut fetches, ino), Some(Ok(Fetched::Later(_)))));
        assert!(fetches.contains_key(&ino), "it goes on");
    }
}
