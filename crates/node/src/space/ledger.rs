//! Backing files of this host that have no owner, and in-doubt files, of which nobody knows whether a record names them.
//!
//! A commit without an answer may have been made, or may still be made a little later. The file that it was to give an owner,
//! or to take from the ledger, must neither serve another inode nor be removed until that is known. After a while no such
//! commit can be under way any more. Then the file is taken out of the ledger, so that nobody can claim it, and if no record
//! names it, it is removed. All records have to be searched for that, once for all files that are in doubt at that time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use intarsia_codec::is_zeros;
use intarsia_meta::{FreeFile, Namespace};
use intarsia_store::{BackingFile, Tier};
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{BackingFileId, BackingRef, Error, InodeId, Result, TierId};

use crate::background::queue::Queue;
use crate::space::tiers::Tiers;

/// How much is copied at once.
const COPY_BYTES: usize = 1 << 20;

/// An in-doubt file, and since when it is one.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    backing: BackingRef,
    /// How the ledger names it, if it does.
    free: FreeFile,
    since: Instant,
}

/// Whoever counts the space that open files take.
pub(crate) trait FileEvents: Send + Sync {
    /// A file was removed. Returns whether the receiver has counted its space, and now has taken it off the count.
    fn note_gone(&self, backing: BackingRef) -> bool;
}

/// The backing files of this host without an owner.
pub(crate) struct Ledger {
    tiers: Arc<Tiers>,
    /// Has the ledger itself, and the records.
    namespace: Arc<Namespace>,
    queue: Arc<Queue>,
    events: Arc<dyn FileEvents>,
    /// Whether the store has several hosts. In a store of one host no doubts are kept, because the ledger lists all files
    /// without an owner, and the next start removes them.
    is_shared: bool,
    doubts: Mutex<Vec<Doubt>>,
}

/// Whether a commit that failed with this error may have been made nevertheless.
pub(crate) const fn is_uncertain(error: &Error) -> bool {
    matches!(error, Error::Engine(_))
}

impl Ledger {
    pub(crate) fn new(
        tiers: Arc<Tiers>,
        namespace: Arc<Namespace>,
        queue: Arc<Queue>,
        events: Arc<dyn FileEvents>,
        is_shared: bool,
    ) -> Self {
        Self { tiers, namespace, queue, events, is_shared, doubts: Mutex::default() }
    }

    /// Whether no file here is in doubt.
    pub(crate) fn is_sure(&self) -> bool {
        self.doubts.lock().is_empty()
    }

    fn add(&self, tier: TierId, files: &[FreeFile]) {
        let since = Instant::now();
        let backing = |free: &FreeFile| BackingRef { tier, file: free.file };
        let doubts = files.iter().map(|free| Doubt { backing: backing(free), free: *free, since });
        self.doubts.lock().extend(doubts);
    }

    /// Keeps a file as an in-doubt file: nobody knows whether a record names it. `accounted_512` is what the tier's accounting
    /// has for it, in units of 512 bytes.
    pub(crate) fn doubt(&self, backing: BackingRef, free: FreeFile, accounted_512: u64) {
        if !self.is_shared {
            return;
        }
        let measured = self.tiers.get(backing.tier).and_then(|tier| {
            let blocks_512 = tier.open_file(backing.file, false)?.stat()?.blocks_512;
            tier.account(accounted_512, blocks_512);
            Ok(())
        });
        if let Err(error) = measured {
            // The file is kept in doubt all the same: on a disk that fails now and then it may be there.
            tracing::debug!(file = %backing.file, %error, "the space of an in-doubt file is not known");
        }
        tracing::warn!(file = %backing.file, tier = %backing.tier, "nobody knows yet whether a file is named by a record");
        self.add(backing.tier, &[free]);
        self.queue.collect();
    }

    /// Removes a file that was to be the body of an inode by a change that failed with `error`. If the change may have been
    /// made all the same, the file is in doubt instead.
    pub(crate) fn discard_unrecorded(
        &self,
        ino: InodeId,
        backing: BackingRef,
        error: &Error,
    ) -> Result<()> {
        if is_uncertain(error) {
            self.doubt(backing, FreeFile::of(ino, backing.file), 0);
            return Ok(());
        }
        let free = FreeFile::reserved(backing.file);
        let removed = self.tiers.get(backing.tier).and_then(|tier| tier.remove(backing.file));
        if let Err(error) = removed {
            self.remove_later(backing.tier, free, &error);
            return Ok(());
        }
        // With several hosts no record names a file that is ready.
        if self.is_shared { Ok(()) } else { self.namespace.forget_file(backing.tier, free) }
    }

    /// As [`discard_unrecorded`](Self::discard_unrecorded), for an empty file: it goes back to the pool instead of being
    /// removed. `free` is how the ledger may name it.
    pub(crate) fn untake_unrecorded(
        &self,
        tier: TierId,
        free: FreeFile,
        file: BackingFile,
        error: &Error,
    ) {
        let backing = BackingRef { tier, file: free.file };
        if is_uncertain(error) {
            self.doubt(backing, free, 0);
        } else {
            self.tiers.untake_file(backing, file);
        }
    }

    /// Takes `files` of a tier out of the ledger. Returns those that were in it. If no answer comes, they may be out of it, and
    /// are in doubt.
    pub(crate) fn take_files(&self, tier: TierId, files: &[FreeFile]) -> Result<Vec<FreeFile>> {
        let taken = self.namespace.take_free_files(tier, files);
        taken.inspect_err(|error| self.doubt_taken(tier, files, error))
    }

    /// As [`take_files`](Self::take_files), for one file; returns whether it was in the ledger.
    pub(crate) fn take_file(&self, tier: TierId, free: FreeFile) -> Result<bool> {
        let taken = self.namespace.take_free_file(tier, free);
        taken.inspect_err(|error| self.doubt_taken(tier, &[free], error))
    }

    fn doubt_taken(&self, tier: TierId, files: &[FreeFile], error: &Error) {
        if is_uncertain(error) {
            self.add(tier, files);
        }
    }

    /// Removes a file of this host that has no owner. The ledger does not name it any more, or the caller takes it out next.
    pub(crate) fn remove(&self, tier: &Tier, file: BackingFileId) -> Result<()> {
        if !self.is_shared {
            return tier.remove(file);
        }
        // Another host may have removed the inode, and has not taken the space off the count here.
        let stat = tier.open_file(file, false).and_then(|file| file.stat());
        tier.remove(file)?;
        let is_counted = self.events.note_gone(BackingRef { tier: tier.id(), file });
        match stat {
            Ok(_) if is_counted => {}
            Ok(stat) => tier.account(stat.blocks_512, 0),
            Err(error) => tracing::debug!(%file, %error, "a free file is gone already"),
        }
        Ok(())
    }

    /// A file without an owner could not be removed because of `error`. In a store of several hosts, where the ledger does not
    /// name it any more, it is kept as an in-doubt file, so that its removal is tried again. In a store of one host it stays
    /// in the ledger, and the next start removes it.
    pub(crate) fn remove_later(&self, tier: TierId, free: FreeFile, error: &Error) {
        tracing::warn!(file = %free.file, %tier, %error, "a file without an owner is removed later");
        if self.is_shared {
            self.add(tier, &[free]);
            self.queue.collect();
        }
    }

    /// Removes the in-doubt files that no record names. Only those are looked at that have been in doubt for `age`: no commit
    /// is under way for so long, so the records tell for sure.
    pub(crate) fn resolve_doubts(&self, age: Duration) -> Result<()> {
        let is_due = |doubt: &mut Doubt| doubt.since.elapsed() >= age;
        let due: Vec<_> = self.doubts.lock().extract_if(.., is_due).collect();
        if due.is_empty() {
            return Ok(());
        }
        let outcome = self.unnamed(&due);
        if outcome.is_err() {
            self.doubts.lock().extend_from_slice(&due);
        }
        let unnamed = outcome?;
        for doubt in due.iter().filter(|doubt| unnamed.contains(&doubt.backing)) {
            let BackingRef { tier, file } = doubt.backing;
            let removed = self.tiers.get(tier).and_then(|tier| self.remove(tier, file));
            if let Err(error) = removed {
                tracing::warn!(%file, %error, "a file that no record names is removed later");
                self.doubts.lock().push(*doubt);
            }
        }
        tracing::info!(
            files = due.len(),
            removed = unnamed.len(),
            "looked whether records name doubtful files"
        );
        Ok(())
    }

    /// The files among `doubts` that no record names, nor can any more.
    fn unnamed(&self, doubts: &[Doubt]) -> Result<HashSet<BackingRef>> {
        for doubt in doubts {
            self.namespace.take_free_file(doubt.backing.tier, doubt.free)?;
        }
        let mut left: HashSet<BackingRef> = doubts.iter().map(|doubt| doubt.backing).collect();
        self.namespace.each_known_file(|backing| {
            left.remove(&backing);
        })?;
        Ok(left)
    }

    /// Fills a backing file with what another one of this host holds. Returns the length in bytes.
    pub(crate) fn copy(&self, from: BackingRef, to: BackingRef) -> Result<u64> {
        let source = self.tiers.get(from.tier)?.open_file(from.file, false)?;
        self.copy_from(to, |buffer, at| source.read_at(buffer, at))
    }

    /// Fills a backing file with what `read` reads, which is given a buffer and an offset. Returns the length in bytes. In a
    /// file that is empty at first, stretches of zeros stay holes, so that a sparse file stays sparse.
    pub(crate) fn copy_from(
        &self,
        to: BackingRef,
        read: impl Fn(&mut [u8], u64) -> Result<usize>,
    ) -> Result<u64> {
        let target = self.tiers.get(to.tier)?.open_file(to.file, true)?;
        let is_empty = target.stat()?.size_bytes == 0;
        let mut buffer = vec![0; COPY_BYTES];
        let mut at = 0;
        loop {
            let n = read(&mut buffer, at)?;
            if n == 0 {
                break;
            }
            if !(is_empty && is_zeros(&buffer[..n])) {
                target.write_all_at(&buffer[..n], at)?;
            }
            at += n as u64;
        }
        target.set_len(at)?;
        Ok(at)
    }

    /// Gives a backing file the content `bytes`. Returns their number.
    pub(crate) fn write_whole(&self, to: BackingRef, bytes: &[u8]) -> Result<u64> {
        let target = self.tiers.get(to.tier)?.open_file(to.file, true)?;
        target.write_all_at(bytes, 0)?;
        target.set_len(bytes.len() as u64)?;
        Ok(bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::cluster::lone::lone;
    use crate::space::tiers::one_tier;

    /// Notes which files were removed.
    #[derive(Default)]
    struct Gone(Mutex<Vec<BackingRef>>);

    impl FileEvents for Gone {
        fn note_gone(&self, backing: BackingRef) -> bool {
            self.0.lock().push(backing);
            false
        }
    }

    /// A ledger over one tier in a directory that goes with the first value.
    fn ledger() -> (tempfile::TempDir, Ledger, Arc<Gone>) {
        let dir = tempfile::tempdir().unwrap();
        let tiers = Arc::new(one_tier(&dir.path().join("tier")));
        let (_, namespace) = lone();
        let (queue, gone) = (Arc::new(Queue::new(1024)), Arc::new(Gone::default()));
        let events = Arc::clone(&gone) as Arc<dyn FileEvents>;
        (dir, Ledger::new(tiers, Arc::new(namespace), queue, events, true), gone)
    }

    fn file(ledger: &Ledger) -> BackingRef {
        ledger.tiers.take_file(TierId(0), &ledger.namespace).unwrap().0
    }

    fn is_there(ledger: &Ledger, backing: BackingRef) -> bool {
        ledger.tiers.get(backing.tier).unwrap().open_file(backing.file, false).is_ok()
    }

    #[test]
    fn a_file_of_a_change_that_was_not_made_goes_and_one_of_a_doubtful_change_waits() {
        let (_dir, ledger, gone) = ledger();
        let (refused, doubtful) = (file(&ledger), file(&ledger));
        ledger.discard_unrecorded(InodeId(7), refused, &Error::NotFound).unwrap();
        assert!(!is_there(&ledger, refused) && ledger.is_sure());
        let no_answer = Error::Engine("no answer".into());
        ledger.discard_unrecorded(InodeId(7), doubtful, &no_answer).unwrap();
        assert!(is_there(&ledger, doubtful) && !ledger.is_sure());
        ledger.resolve_doubts(Duration::from_secs(60)).unwrap();
        assert!(is_there(&ledger, doubtful) && !ledger.is_sure(), "it may be made yet");
        ledger.resolve_doubts(Duration::ZERO).unwrap();
        assert!(!is_there(&ledger, doubtful) && ledger.is_sure());
        assert_eq!(*gone.0.lock(), [doubtful]);
    }

    fn path_of(dir: &tempfile::TempDir, backing: BackingRef) -> std::path::PathBuf {
        let group = dir.path().join(format!("tier/data/{:013x}", backing.file.0 >> 12));
        group.join(backing.file.to_string())
    }

    #[test]
    fn a_doubtful_file_that_cannot_be_opened_now_is_removed_all_the_same() {
        let (dir, ledger, _) = ledger();
        let backing = file(&ledger);
        let path = path_of(&dir, backing);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let no_answer = Error::Engine("no answer".into());
        ledger.discard_unrecorded(InodeId(7), backing, &no_answer).unwrap();
        assert!(!ledger.is_sure());
        ledger.resolve_doubts(Duration::ZERO).unwrap();
        assert!(path.symlink_metadata().is_err() && ledger.is_sure());
    }

    #[test]
    fn a_file_that_could_not_be_removed_is_removed_later() {
        let (dir, ledger, _) = ledger();
        let backing = file(&ledger);
        let path = path_of(&dir, backing);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let tier = ledger.tiers.get(backing.tier).unwrap();
        tier.account(0, 100);
        let error = ledger.remove(tier, backing.file).unwrap_err();
        ledger.remove_later(backing.tier, FreeFile::reserved(backing.file), &error);
        ledger.resolve_doubts(Duration::ZERO).unwrap();
        assert!(path.exists() && !ledger.is_sure(), "it is tried again");
        assert_eq!(tier.space().used_bytes, 51_200, "what it takes counts until it is gone");
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, b"").unwrap();
        ledger.resolve_doubts(Duration::ZERO).unwrap();
        assert!(!path.exists() && ledger.is_sure());
    }

    #[test]
    fn a_file_of_a_change_that_was_not_made_is_removed_later_if_it_cannot_be_now() {
        let (dir, ledger, _) = ledger();
        let backing = file(&ledger);
        let path = path_of(&dir, backing);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        ledger.discard_unrecorded(InodeId(7), backing, &Error::NotFound).unwrap();
        assert!(path.exists() && !ledger.is_sure(), "somebody knows of it");
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, b"").unwrap();
        ledger.resolve_doubts(Duration::ZERO).unwrap();
        assert!(!path.exists() && ledger.is_sure());
    }

    #[test]
    fn a_copy_is_as_long_as_what_it_is_of() {
        let (_dir, ledger, _) = ledger();
        let (from, to) = (file(&ledger), file(&ledger));
        let bytes = vec![7; COPY_BYTES + 5];
        ledger.write_whole(to, &[1; COPY_BYTES * 2]).unwrap();
        ledger.write_whole(from, &bytes).unwrap();
        assert_eq!(ledger.copy(from, to).unwrap(), bytes.len() as u64);
        let copied = ledger.tiers.get(to.tier).unwrap().open_file(to.file, false).unwrap();
        let mut found = vec![0; bytes.len() + 1];
        assert_eq!(copied.read_at(&mut found, 0).unwrap(), bytes.len());
        assert_eq!(found[..bytes.len()], bytes);

        // Holes stay holes in a new file, and are zeros in one that held something.
        let sparse = file(&ledger);
        let open = |backing: BackingRef| {
            ledger.tiers.get(backing.tier).unwrap().open_file(backing.file, true).unwrap()
        };
        open(sparse).write_all_at(b"end", 20 << 20).unwrap();
        let new = file(&ledger);
        for to in [new, from] {
            assert_eq!(ledger.copy(sparse, to).unwrap(), (20 << 20) + 3);
            let mut found = vec![1; (20 << 20) + 3];
            open(to).read_at(&mut found, 0).unwrap();
            assert!(found.ends_with(b"end") && found[..20 << 20].iter().all(|byte| *byte == 0));
        }
        assert!(open(new).stat().unwrap().blocks_512 < (10 << 20) / 512);
    }
}
