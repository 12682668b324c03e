//! Checking the whole store: the tree, and every backing file against the tiers.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use intarsia_meta::{CheckProgress, CheckReport, Finding, Outcome};
use intarsia_store::Tier;
use intarsia_types::{BackingFileId, Error, Result};

use crate::node::Node;

/// How long a check waits for background work to come to rest.
const REST: Duration = Duration::from_secs(10);

impl Node {
    /// Checks the namespace and, for each tier, that every known backing file exists and every existing
    /// one is known; with `repair`, mends what can be mended without guessing.
    ///
    /// A store in use changes under the check, so there only what is found twice is reported.
    ///
    /// # Errors
    /// [`Error::Busy`] for a repair of a mounted store; the engine's or the system's own. Findings are
    /// no errors.
    pub fn check(
        &self,
        repair: bool,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let is_mounted = self.is_mounted.load(Ordering::Acquire);
        if is_mounted && repair {
            return Err(Error::Busy(
                "a mounted store cannot be repaired; take it down first".into(),
            ));
        }
        // Whatever does not settle in time is left out of nothing: its mark says that it is unsettled.
        let _ = self.wait_until_settled(Instant::now() + REST);
        let mut report = self.check_once(repair, progress)?;
        if is_mounted && !report.findings.is_empty() {
            let again = self.check_once(false, progress)?;
            report.findings.retain(|finding| again.findings.contains(finding));
        }
        Ok(report)
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
        for file in on_disk.difference(&known) {
            let what = format!("backing file {file} of tier {} belongs to no inode", tier.id());
            let outcome = if repair {
                tier.remove(*file)?;
                Outcome::Repaired("removed".into())
            } else {
                Outcome::Left
            };
            report.findings.push(Finding { what, outcome });
        }
        let free: HashSet<_> = self.namespace.free_files(tier.id())?.into_iter().collect();
        // A free file may be recorded before it exists; one that an inode owns must be there.
        for file in known.difference(&on_disk).filter(|file| !free.contains(file)) {
            report.findings.push(Finding {
                what: format!("backing file {file} of tier {} is missing", tier.id()),
                outcome: Outcome::Unrepairable(
                    "its bytes are lost; reading the file gives EIO".into(),
                ),
            });
        }
        if !self.is_mounted.load(Ordering::Acquire) {
            tier.recount()?;
        }
        Ok(())
    }
}
