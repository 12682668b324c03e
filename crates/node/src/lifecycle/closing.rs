//! How a node stops: what it does, what it says of it, and when it gives up waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use intarsia_meta::{Namespace, allowance};
use intarsia_store::Tier;
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Durability, Error, InodeId, Result};
use serde::Serialize;

use crate::cache::remote_cache::RemoteCache;
use crate::cache::spread::Spreads;
use crate::directory::directory_lease::DirectoryLeases;
use crate::inode::live::LiveTable;
use crate::inode::publication::Publisher;
use crate::inode::rights::Rights;
use crate::inode::settling::Settler;
use crate::lifecycle::presence::Presence;
use crate::lifecycle::threads::Background;
use crate::members::Members;
use crate::membership::gate::Gate;
use crate::space::ledger::Ledger;
use crate::space::tiers::{Tiers, clear_tier};
use crate::vfs::recording::Recording;
use crate::vfs::release::Releaser;

/// Between two reports of the progress.
const TOLD_EVERY: Duration = Duration::from_millis(500);
/// How long settling one file may wait for other hosts.
const FILE_PATIENCE: Duration = Duration::from_secs(4);
/// Files named that did not settle; all are counted.
const NAMED_MAX: usize = 5;

/// What a stop does with the data of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClosingMode {
    /// Keeps it: settles everything that can be settled, and writes what is in memory.
    #[default]
    Keep,
    /// Settles and sums nothing, since the data is about to be deleted. If it is not deleted after all, the next start finds it
    /// as after a crash.
    Discard,
}

impl ClosingMode {
    /// How long the metadata may leave questions unanswered, all in all.
    const fn patience(self) -> Duration {
        match self {
            Self::Keep => Duration::from_secs(8),
            Self::Discard => Duration::from_secs(2),
        }
    }
}

/// What a node that closes is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClosingStep {
    /// It ends its background work.
    #[default]
    EndingBackgroundWork,
    /// It settles files that were open or changed of late.
    SettlingFiles,
    /// It gives back its leases, and tells the other hosts that it stops.
    LeavingStore,
    /// It writes what is in memory to its disks.
    WritingBack,
}

impl ClosingStep {
    /// The step in words, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EndingBackgroundWork => "ending background work",
            Self::SettlingFiles => "settling files",
            Self::LeavingStore => "taking leave of the other hosts",
            Self::WritingBack => "writing back to disk",
        }
    }
}

/// How far a node that closes is. Field names are stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClosingProgress {
    /// What it is doing.
    pub step: ClosingStep,
    /// The inode of the file that it is at.
    pub inode: Option<u64>,
    /// Bytes of the files that it is done with.
    pub bytes_done: u64,
    /// Bytes of the files that it is not done with.
    pub bytes_left: u64,
    /// Files that it is not done with.
    pub files_left: u64,
    /// For how long, in milliseconds, the metadata has left questions of the closing node unanswered.
    pub metadata_silent_ms: u64,
}

/// What the thread that stops the node shares with the one that reports the progress.
#[derive(Default)]
struct Closing {
    state: Mutex<(ClosingProgress, bool)>,
    done: Condvar,
}

impl Closing {
    fn begin(&self, step: ClosingStep) {
        let progress = &mut self.state.lock().0;
        (progress.step, progress.inode) = (step, None);
    }

    fn change(&self, change: impl FnOnce(&mut ClosingProgress)) {
        change(&mut self.state.lock().0);
    }

    /// Waits a moment for the end; returns the progress if it has not come yet.
    fn wait(&self) -> Option<ClosingProgress> {
        let mut state = self.state.lock();
        let until = Instant::now() + TOLD_EVERY;
        while !state.1 {
            if self.done.wait_until(&mut state, until).timed_out() {
                return (!state.1).then_some(state.0);
            }
        }
        None
    }
}

/// Signals the end when it is dropped, so also if the thread panics.
struct Ended<'a>(&'a Closing);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.state.lock().1 = true;
        self.0.done.notify_all();
    }
}

/// Files that did not settle because something failed.
#[derive(Default)]
struct Unsettled {
    count: usize,
    named: Vec<String>,
}

impl Unsettled {
    fn add(&mut self, ino: InodeId) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(ino.to_string());
        }
    }

    /// How many and which, for people.
    fn in_words(&self) -> String {
        match (self.count, self.count - self.named.len()) {
            (0, _) => "no file is left unsettled".to_owned(),
            (n, 0) => format!("{n} files are left unsettled (inodes {})", self.named.join(", ")),
            (n, _) => {
                format!("{n} files are left unsettled (inodes {}, ...)", self.named.join(", "))
            }
        }
    }
}

/// Stops a node in order.
pub(crate) struct Closer {
    pub(crate) durability: Durability,
    /// In a store of several hosts: bounds what closing waits for.
    pub(crate) gate: Option<Arc<Gate>>,
    pub(crate) is_closed: AtomicBool,
    pub(crate) members: Members,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) directory_leases: Arc<DirectoryLeases>,
    pub(crate) remote_cache: Arc<RemoteCache>,
    pub(crate) spreads: Arc<Spreads>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) releaser: Arc<Releaser>,
    pub(crate) recording: Arc<Recording>,
    pub(crate) presence: Arc<Presence>,
    pub(crate) background: Arc<Background>,
}

impl Closer {
    /// Stops in order, as `mode` says; idempotent. `progress` is told about twice a second how far it is.
    ///
    /// The metadata of a store of several hosts is waited for some 10 s in all. If it does not answer, what is left
    /// keeps its durable marks, and the next start brings it into order as after a crash.
    ///
    /// # Errors
    /// With [`ClosingMode::Keep`] the first failure, with what is left undone where the metadata did not answer; the
    /// rest is tried all the same.
    pub(crate) fn close_with(
        &self,
        mode: ClosingMode,
        progress: &mut dyn FnMut(ClosingProgress),
    ) -> Result<()> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.recording.recorder.end();
        if let Some(gate) = &self.gate {
            gate.begin_closing(mode.patience());
        }
        let closing = Closing::default();
        intarsia_sync::thread::scope(|scope| {
            let work = || {
                let _ended = Ended(&closing);
                self.close_now(mode, &closing)
            };
            let worker = intarsia_sync::thread::Builder::new().name("closing".into());
            let Ok(worker) = worker.spawn_scoped(scope, work) else {
                // Without a second thread no progress is reported.
                return self.close_now(mode, &closing);
            };
            while let Some(now) = closing.wait() {
                let silence = self.gate.as_ref().map_or(Duration::ZERO, |gate| gate.silence());
                let metadata_silent_ms = u64::try_from(silence.as_millis()).unwrap_or(u64::MAX);
                progress(ClosingProgress { metadata_silent_ms, ..now });
            }
            let panicked = |_| Err(Error::Engine("the thread that stops the node panicked".into()));
            worker.join().unwrap_or_else(panicked)
        })
    }

    fn close_now(&self, mode: ClosingMode, closing: &Closing) -> Result<()> {
        closing.begin(ClosingStep::EndingBackgroundWork);
        self.background.stop();
        self.namespace.remove_remains();
        match mode {
            ClosingMode::Discard => {
                closing.begin(ClosingStep::LeavingStore);
                if let Err(error) = self.presence.leave() {
                    // No data depends on it.
                    tracing::warn!(%error, "the other hosts find out by themselves that this one is gone");
                }
                Ok(())
            }
            ClosingMode::Keep if self.durability == Durability::Memory => {
                closing.begin(ClosingStep::LeavingStore);
                let left = self.presence.leave();
                self.wipe().and(left)
            }
            ClosingMode::Keep => self.close_keeping(closing),
        }
    }

    /// Removes every backing file of a store that was not meant to last.
    fn wipe(&self) -> Result<()> {
        for tier in self.tiers.iter() {
            clear_tier(tier)?;
            tier.close()?;
        }
        Ok(())
    }

    /// Puts everything acknowledged so far on stable storage.
    ///
    /// # Errors
    /// The system's own.
    pub(crate) fn sync_all(&self) -> Result<()> {
        for live in self.live.entries() {
            match self.live.with_existing(live.ino, |state| self.publisher.persist(live.ino, state))
            {
                // Removed by another host.
                Some(Err(Error::NotFound)) if self.members.is_shared() => {}
                outcome => outcome.unwrap_or(Ok(()))?,
            }
        }
        self.tiers.iter().try_for_each(Tier::sync)?;
        self.namespace.sync()
    }

    fn is_cut_off(&self) -> bool {
        self.gate.as_deref().is_some_and(Gate::is_shut)
    }

    fn close_keeping(&self, closing: &Closing) -> Result<()> {
        let mut outcome = Ok(());
        let mut note = |result: Result<()>| {
            if let Err(error) = result {
                if !self.is_cut_off() {
                    tracing::error!(%error, "stopping");
                }
                if outcome.is_ok() {
                    outcome = Err(error);
                }
            }
        };
        self.spreads.close();
        closing.begin(ClosingStep::SettlingFiles);
        let mut unsettled = Unsettled::default();
        note(self.settle_all(closing, &mut unsettled));
        closing.begin(ClosingStep::LeavingStore);
        note(self.directory_leases.return_directories());
        note(self.presence.leave());
        closing.begin(ClosingStep::WritingBack);
        self.remote_cache.clear();
        // After a stop in order the next start does not look for files that no record names, so they are removed now.
        note(self.background.reclaimer.reclaim(&self.background.queue.take_reclaims()));
        note(self.tiers.drain(&self.namespace));
        if self.is_cut_off() {
            note(self.tiers.iter().try_for_each(Tier::sync));
        } else {
            note(self.sync_all());
        }
        note(self.background.replicas.note_end());
        if self.is_cut_off() || unsettled.count > 0 || !self.ledger.is_sure() {
            // So the next start compares the files on disk with all records, as after a crash.
            tracing::warn!(
                "not everything could be recorded; the next start looks at all files here"
            );
        } else {
            self.tiers.iter().for_each(|tier| note(tier.close()));
        }
        if self.is_cut_off() { Err(self.cut_off(&unsettled)) } else { outcome }
    }

    fn cut_off(&self, unsettled: &Unsettled) -> Error {
        let patience_s = ClosingMode::Keep.patience().as_secs();
        let what = format!(
            "it did not answer for {patience_s} s while the node stopped: {}; the next start brings them into order as after a crash, and nothing that was acknowledged is lost",
            unsettled.in_words()
        );
        tracing::error!(unsettled = unsettled.count, "{what}");
        Error::Engine(what)
    }

    /// Settles whatever can be, until the metadata has been silent for too long.
    fn settle_all(&self, closing: &Closing, unsettled: &mut Unsettled) -> Result<()> {
        let length = |ino: InodeId| {
            let known = self.live.with_existing(ino, |state| state.size_bytes());
            (ino, known.and_then(Result::ok).unwrap_or(0))
        };
        let files: Vec<_> = self.live.entries().iter().map(|live| length(live.ino)).collect();
        closing.change(|progress| {
            progress.files_left = files.len() as u64;
            progress.bytes_left = files.iter().map(|(_, bytes)| bytes).sum();
        });
        let mut outcome = Ok(());
        for (ino, bytes) in files {
            closing.change(|progress| progress.inode = Some(ino.0));
            if let Err(error) = self.settle_to_close(ino) {
                if unsettled.count < NAMED_MAX {
                    tracing::error!(%ino, %error, "a file could not be settled");
                }
                unsettled.add(ino);
                outcome = outcome.and(Err(error));
            }
            closing.change(|progress| {
                progress.files_left = progress.files_left.saturating_sub(1);
                progress.bytes_left = progress.bytes_left.saturating_sub(bytes);
                progress.bytes_done += bytes;
            });
        }
        outcome
    }

    fn settle_to_close(&self, ino: InodeId) -> Result<()> {
        let cut_off = || Err(Error::Engine("it did not answer".into()));
        if self.is_cut_off() {
            let is_idle = self.live.with_existing(ino, |state| state.is_idle());
            return if is_idle == Some(false) { cut_off() } else { Ok(()) };
        }
        let _limit = allowance::limit(Instant::now() + FILE_PATIENCE);
        if self.live.with_existing(ino, |state| state.remote_handles > 0) == Some(true) {
            // Other hosts are served no more.
            self.releaser.end_remote_handles(ino);
        }
        if self.live.with_existing(ino, |state| state.names.is_lingering()) == Some(true) {
            self.releaser.end_lingering(ino);
        }
        self.rights.with_right(ino, || {
            let persisted =
                match self.live.with_existing(ino, |state| self.publisher.persist(ino, state)) {
                    // Removed by another host, or never recorded: there is nothing to settle.
                    None | Some(Ok(()) | Err(Error::NotFound)) => Ok(()),
                    Some(Err(error)) => Err(error),
                };
            let settled = self.settler.settle_now(ino);
            persisted.and(settled)
        })?;
        self.settle_with_copies(ino)
    }

    /// Settles a file; one that is withheld for want of copies first gets these. If no host takes them the file keeps its mark,
    /// and the next start goes on with it.
    fn settle_with_copies(&self, ino: InodeId) -> Result<()> {
        if !self.publisher.is_withheld(ino) {
            return Ok(());
        }
        match self.publisher.publish_copies(ino) {
            Ok(()) => self.settler.settle_now(ino),
            Err(error) => {
                tracing::warn!(%ino, %error, "a file keeps the copies of before until the next start");
                Ok(())
            }
        }
    }
}
