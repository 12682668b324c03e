//! Checking the whole store: the tree, and every backing file against the tiers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{CheckProgress, CheckReport, Finding, Inode, Namespace, Outcome};
use intarsia_store::Tier;
use intarsia_sync::Instant;
use intarsia_types::{BackingFileId, BackingRef, Error, InodeId, Result};

use crate::body::integrity::{stored_sums, sum_file};
use crate::cache::remote_cache::RemoteCache;
use crate::inode::settling::Settler;
use crate::kernel::Kernel;
use crate::members::Members;
use crate::replication::copies::Copies;
use crate::space::tiers::Tiers;

/// What a check does beyond looking at names and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Mend what can be mended without guessing.
    pub repair: bool,
    /// Read every summed file and compare its content with its checksums.
    pub content: bool,
}

/// How long a check waits for background work to finish.
const REST: Duration = Duration::from_secs(10);

/// Checks the whole store.
pub(crate) struct Checker {
    pub(crate) members: Members,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) copies: Arc<Copies>,
    pub(crate) remote_cache: Arc<RemoteCache>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) kernel: Arc<Kernel>,
}

impl Checker {
    /// Checks the namespace and, for each tier, that every known backing file exists and every existing
    /// one is known; with `repair`, mends what can be mended without guessing.
    ///
    /// A store in use changes under the check, so there only what is found twice is reported.
    ///
    /// # Errors
    /// [`Error::Busy`] for a repair of a mounted store; the engine's or the system's own. Findings are
    /// no errors.
    pub(crate) fn check(
        &self,
        options: CheckOptions,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let is_mounted = self.kernel.is_mounted();
        if is_mounted && options.repair {
            return Err(Error::Busy(
                "a mounted store cannot be repaired; take it down first".into(),
            ));
        }
        // Whatever does not settle in time is left out of nothing: its mark says that it is unsettled.
        let _ = self.settler.wait_until_settled(Instant::now() + REST);
        let mut report = self.check_once(options.repair, progress)?;
        if is_mounted && !report.findings.is_empty() {
            let again = self.check_once(false, progress)?;
            report.findings.retain(|finding| again.findings.contains(finding));
        }
        if options.content {
            self.check_content(&mut report, progress)?;
        }
        Ok(report)
    }

    /// Reads every summed file that nobody may be writing to. A file that is opened for writing under the
    /// check loses its sums first, so it is looked at again before it is called damaged.
    fn check_content(
        &self,
        report: &mut CheckReport,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<()> {
        let mut summed = Vec::new();
        self.namespace.each_inode(|inode| {
            if inode.checksummed && inode.layout.backing().is_some() {
                summed.push(inode.ino);
            }
        })?;
        for (done, ino) in (1u64..).zip(summed) {
            if let Some(what) = self.damage_of(ino)? {
                report.findings.push(Finding {
                    what,
                    outcome: Outcome::Unrepairable("restore the file from its source".into()),
                });
            }
            progress(CheckProgress { stage: "content", records: done });
        }
        Ok(())
    }

    fn damage_of(&self, ino: InodeId) -> Result<Option<String>> {
        let Some(inode) = self.summed(ino)? else { return Ok(None) };
        let own = self.copies.own(&inode);
        let Some(backing) = own.or(inode.layout.backing().filter(|_| !self.members.is_shared()))
        else {
            return Ok(None);
        };
        let stored = match stored_sums(&self.namespace, ino) {
            Ok(sums) => sums,
            Err(Error::Corrupt { .. }) => {
                return Ok(Some(format!("the checksums of inode {ino} cannot be read")));
            }
            Err(e) => return Err(e),
        };
        let tier = self.tiers.get(backing.tier)?;
        let found = match tier.open_file(backing.file, false).and_then(|f| sum_file(&f)) {
            Ok(sums) => sums,
            Err(e) => return Ok(Some(format!("inode {ino} cannot be read: {e}"))),
        };
        let is_same_still = self.summed(ino)?.is_some_and(|now| now.version == inode.version);
        if found == stored || !is_same_still {
            return Ok(None);
        }
        let blocks = found.len().max(stored.len());
        let wrong = (0..blocks).filter(|i| found.get(*i) != stored.get(*i)).count();
        Ok(Some(format!(
            "the content of inode {ino} does not match its checksums in {wrong} of {blocks} blocks (backing file {} of tier {})",
            backing.file, backing.tier
        )))
    }

    /// The inode, if sums of its content are stored.
    fn summed(&self, ino: InodeId) -> Result<Option<Inode>> {
        match self.namespace.get(ino) {
            Ok(inode) => Ok(Some(inode).filter(|i| i.checksummed)),
            Err(Error::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn check_once(
        &self,
        repair: bool,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let mut report = self.namespace.check(repair, progress)?;
        for tier in self.tiers.iter() {
            self.check_tier(tier, repair, &mut report, progress)?;
        }
        Ok(report)
    }

    fn check_tier(
        &self,
        tier: &Tier,
        repair: bool,
        report: &mut CheckReport,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<()> {
        let mut on_disk: HashSet<BackingFileId> = HashSet::new();
        tier.scan(|id, _| {
            on_disk.insert(id);
        })?;
        progress(CheckProgress { stage: "backing files", records: on_disk.len() as u64 });
        let mut known = HashSet::new();
        self.namespace.each_known_file(|backing| {
            if backing.tier == tier.id() {
                known.insert(backing.file);
            }
        })?;
        // With several hosts cached copies and ready files stand in no record, and what is being filled stands in none yet.
        let is_held = |file: &BackingFileId| {
            let backing = BackingRef { tier: tier.id(), file: *file };
            self.remote_cache.holds(backing)
                || self.tiers.is_pooled(backing)
                || self.tiers.is_filling(backing)
        };
        for file in on_disk.difference(&known).filter(|file| !is_held(file)) {
            let what = format!("backing file {file} of tier {} belongs to no inode", tier.id());
            let outcome = if repair {
                tier.remove(*file)?;
                Outcome::Repaired("removed".into())
            } else {
                Outcome::Left
            };
            report.findings.push(Finding { what, outcome });
        }
        let free = self.namespace.free_files(tier.id())?.into_iter();
        let free: HashSet<_> = free.map(|free| free.file).collect();
        // A free file may be recorded before it exists; one that an inode owns must be there.
        for file in known.difference(&on_disk).filter(|file| !free.contains(file)) {
            report.findings.push(Finding {
                what: format!("backing file {file} of tier {} is missing", tier.id()),
                outcome: Outcome::Unrepairable(
                    "its bytes are lost; reading the file gives EIO".into(),
                ),
            });
        }
        if !self.kernel.is_mounted() {
            tier.recount()?;
        }
        Ok(())
    }
}
