//! Emptying a host: its files move to the other hosts so that it can leave, or it is removed from the store if it is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{Inode, MemberState};
use intarsia_sync::Instant;
use intarsia_types::{Error, InodeId, Layout, NodeId, Result};

use crate::inode::live::Forgotten;
use crate::membership::cluster::Cluster;

use super::mover::{MoveOptions, MoveProgress, MoveReport, Mover, assign, bytes_of, require_room};

/// How long to wait for copies on other hosts while no further one gets made, and the pause between two looks at them.
const COPY_PATIENCE: Duration = Duration::from_secs(10);
const COPY_PAUSE: Duration = Duration::from_millis(500);
const STRIPED: &str = "a part of the striped file is there, and parts do not move; copy it to a new file, and remove it";
const TOO_FEW_HOSTS: &str = "a copy of it is there, and could not be made elsewhere";

impl Mover {
    /// Moves all files of `host` to the other hosts, and has it leave the store when it is taken down after that. What could not
    /// move is in the report; calling this again goes on with it. Of a lost host the copies that it had are made anew elsewhere,
    /// and it is forgotten if no file has its home or a part there then.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown host, [`Error::NoSpace`] when the others have no room, [`Error::Busy`] for a host that is
    /// down, or lost with files; the engine's own.
    pub(crate) fn empty_host(
        &self,
        host: &NodeId,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        let cluster = self.others()?;
        cluster.meet()?;
        let members = cluster.members();
        let Some((_, member)) = members.iter().find(|(node, _)| node == host) else {
            return Err(Error::Invalid(format!("no host of this store has the name {host}")));
        };
        match member.state {
            MemberState::Lost => return self.forget_host(cluster, host, progress),
            MemberState::Stopped | MemberState::Joining => {
                return Err(Error::Busy(format!(
                    "{host} is {}; only a host that is up can hand over its files",
                    member.state.name()
                )));
            }
            MemberState::Serving | MemberState::Leaving => {}
        }
        require_room(&members, host)?;
        cluster.order(host, true)?;
        self.drain(cluster, host, options, progress)
    }

    /// Takes back that a host is to leave.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown host, [`Error::Busy`] for one that is not up; the engine's own.
    pub(crate) fn keep_host(&self, host: &NodeId) -> Result<()> {
        self.others()?.order(host, false).map(|_| ())
    }

    /// Whether a tier of this host has a copy or a part of some file.
    pub(crate) fn holds_files(&self) -> Result<bool> {
        let mut holds = false;
        self.namespace.each_inode(|inode| {
            holds |= inode.layout.files().iter().any(|copy| self.tiers.has(copy.tier));
        })?;
        Ok(holds)
    }

    /// Removes a lost host from the store, unless files still have their home or a part there.
    fn forget_host(
        &self,
        cluster: &Arc<Cluster>,
        host: &NodeId,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        self.make_up_for(cluster, host, progress)?;
        let mut files = 0_u64;
        self.each_file_at(cluster, host, |_| files += 1)?;
        self.each_striped_at(cluster, host, |_| files += 1)?;
        if files > 0 {
            return Err(Error::Busy(format!(
                "{host} is lost and {files} files were there; if it will not come back, 'intarsia lost --forget' removes those that no other host has"
            )));
        }
        for ino in self.namespace.orphans_of(host)? {
            self.removal.reap(ino, Forgotten::default());
        }
        cluster.forget(host)?;
        Ok(MoveReport::default())
    }

    /// Has the copies that were at a lost host made anew, for files of which a living host has a copy. Waits until that is done, or
    /// makes no progress any more.
    fn make_up_for(
        &self,
        cluster: &Arc<Cluster>,
        host: &NodeId,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<()> {
        let (mut most, mut changed) = (0, (usize::MAX, Instant::now()));
        loop {
            let mut by_host: BTreeMap<NodeId, Vec<(InodeId, u64)>> = BTreeMap::new();
            let mut outcome = Ok(());
            self.namespace.each_inode(|inode| match self.second_copy(cluster, &inode, host) {
                Ok(Some(other)) => {
                    by_host.entry(other).or_default().push((inode.ino, bytes_of(&inode)));
                }
                Ok(None) => {}
                Err(error) => outcome = Err(error),
            })?;
            outcome?;
            let left: usize = by_host.values().map(Vec::len).sum();
            if left < changed.0 {
                changed = (left, Instant::now());
            }
            if left == 0 || changed.1.elapsed() > COPY_PATIENCE {
                return Ok(());
            }
            most = most.max(left);
            let bytes_left = by_host.values().flatten().map(|(_, bytes)| bytes).sum();
            progress(MoveProgress {
                files_done: (most - left) as u64,
                files_left: left as u64,
                bytes_left,
                ..MoveProgress::default()
            });
            for (other, files) in by_host {
                self.replicas.tell_lacking(cluster, &other, files);
            }
            intarsia_sync::thread::sleep(COPY_PAUSE);
        }
    }

    /// A living host that has another copy of a file with a copy at the lost host `host`; none if there is no such host, or no copy
    /// at `host`.
    fn second_copy(
        &self,
        cluster: &Cluster,
        inode: &Inode,
        host: &NodeId,
    ) -> Result<Option<NodeId>> {
        let copies = inode.layout.copies();
        if copies.len() < 2 {
            return Ok(None);
        }
        let homes = copies.iter().map(|copy| cluster.home_of(copy.tier));
        let homes: Vec<NodeId> = homes.collect::<Result<_>>()?;
        let other = homes.iter().find(|home| !cluster.has_given_up(home));
        Ok(other.filter(|_| homes.contains(host)).cloned())
    }

    /// Moves files away from `host` until none is left there, or none moves any more.
    fn drain(
        &self,
        cluster: &Arc<Cluster>,
        host: &NodeId,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        let mut total = MoveReport::default();
        loop {
            let mut files = Vec::new();
            self.each_file_at(cluster, host, |inode| files.push((inode.ino, bytes_of(inode))))?;
            let (errands, homeless) = assign(host, files, cluster.roomy_hosts());
            let pass = self.run_errands(errands, options, &total, progress);
            let moved = pass.files;
            let stuck: Vec<_> = pass.stuck.into_iter().chain(homeless).collect();
            total.files += pass.files;
            total.bytes += pass.bytes;
            // As long as some files have moved, all are looked at once more: others may have come to the host, and a file that was
            // open may have been closed.
            if moved == 0 {
                let copies = self.replace_copies(cluster, host)?;
                let short = copies.into_iter().map(|ino| (ino, TOO_FEW_HOSTS.to_owned()));
                let mut stuck: Vec<_> = stuck.into_iter().chain(short).collect();
                self.each_striped_at(cluster, host, |inode| {
                    stuck.push((inode.ino, STRIPED.to_owned()));
                })?;
                total.stuck = stuck.len() as u64;
                total.stuck_files = self.name_stuck(stuck)?;
                return Ok(total);
            }
        }
    }

    /// Has the copies at `host` of files whose home is another host made elsewhere. Returns the files for which that was not done.
    fn replace_copies(&self, cluster: &Arc<Cluster>, host: &NodeId) -> Result<Vec<InodeId>> {
        let mut changed = (usize::MAX, Instant::now());
        loop {
            let mut by_home: BTreeMap<NodeId, Vec<(InodeId, u64)>> = BTreeMap::new();
            self.each_copy_at(cluster, host, |inode, home| {
                by_home.entry(home).or_default().push((inode.ino, bytes_of(inode)));
            })?;
            let left: usize = by_home.values().map(Vec::len).sum();
            if left < changed.0 {
                changed = (left, Instant::now());
            }
            if left == 0 || changed.1.elapsed() > COPY_PATIENCE {
                return Ok(by_home.into_values().flatten().map(|(ino, _)| ino).collect());
            }
            for (home, files) in by_home {
                self.replicas.tell_lacking(cluster, &home, files);
            }
            intarsia_sync::thread::sleep(COPY_PAUSE);
        }
    }

    /// Calls `each` with every file that has a copy at `host` and its home at another host, and with that home.
    fn each_copy_at(
        &self,
        cluster: &Cluster,
        host: &NodeId,
        mut each: impl FnMut(&Inode, NodeId),
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.namespace.each_inode(|inode| {
            let copies = inode.layout.copies();
            if copies.len() < 2 {
                return;
            }
            let homes: Result<Vec<_>> =
                copies.iter().map(|copy| cluster.home_of(copy.tier)).collect();
            match homes.as_deref() {
                Ok([first, others @ ..]) if first != host && others.contains(host) => {
                    each(&inode, first.clone());
                }
                Ok(_) => {}
                Err(_) => outcome = homes.map(|_| ()),
            }
        })?;
        outcome
    }

    /// Calls `each` with every striped file that has a part at `host`.
    fn each_striped_at(
        &self,
        cluster: &Cluster,
        host: &NodeId,
        mut each: impl FnMut(&Inode),
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.namespace.each_inode(|inode| {
            let Layout::Striped { parts, .. } = &inode.layout else { return };
            let homes: Result<Vec<_>> =
                parts.iter().map(|part| cluster.home_of(part.tier)).collect();
            match homes {
                Ok(homes) if homes.contains(host) => each(&inode),
                Ok(_) => {}
                Err(error) => outcome = Err(error),
            }
        })?;
        outcome
    }
}
