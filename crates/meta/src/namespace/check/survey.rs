//! Reads all records once, and finds where they disagree.

use std::collections::BTreeMap;

use intarsia_types::{BackingRef, FileKind, InodeId, Layout, PartitionId, Result, TierId};

use super::damage::{Damage, Name};
use super::known::{Body, Known, KnownDir, Walk};
use super::{CheckProgress, CheckReport};
use crate::dentry::Dentry;
use crate::intent::Intent;
use crate::merge::decode_counter;
use crate::namespace::{Namespace, superblock};
use crate::pending::{Fate, Pending};
use crate::{Inode, Key, Value, keys};

const PAGE: usize = 4096;

type Progress<'p> = &'p mut dyn FnMut(CheckProgress);

/// The records as they were read, and the damage found.
#[derive(Default)]
pub(super) struct Survey {
    inodes: BTreeMap<InodeId, Known>,
    dirs: BTreeMap<InodeId, KnownDir>,
    /// The inode that each backing file belongs to alone.
    owners: BTreeMap<BackingRef, InodeId>,
    /// Pack files, each with one of the inodes that it has bytes of.
    packs: BTreeMap<BackingRef, InodeId>,
    /// The highest number of a backing file of each tier.
    last_file: BTreeMap<TierId, u64>,
    /// Names of directories that are not those which their records say.
    strangers: Vec<(InodeId, Name)>,
    names: u64,
    /// Whether a name or inode cannot be read. Then nothing is concluded from the absence of names.
    is_blind: bool,
    pub(super) damages: Vec<Damage>,
}

impl Survey {
    /// Reads all records. If there are unfinished transactions, these are the only damage that it reports.
    pub(super) fn of(ns: &Namespace, progress: Progress<'_>) -> Result<Self> {
        let mut survey = Self::default();
        survey.read(ns, "changes", keys::TRANSACTION, progress, Self::transaction)?;
        if !survey.damages.is_empty() {
            // Nothing can be said of the keys that unfinished transactions hold, nor of the counts.
            return Ok(survey);
        }
        survey.read(ns, "inodes", keys::INODE, progress, Self::inode)?;
        survey.read(ns, "names", keys::DENTRY, progress, Self::name)?;
        survey.read(ns, "orphans", keys::ORPHAN, progress, Self::orphan)?;
        survey.read(ns, "writable marks", keys::WRITABLE, progress, Self::writable)?;
        survey.read(ns, "lock masters", keys::LOCK_MASTER, progress, Self::lock_master)?;
        survey.read(ns, "extended attributes", keys::XATTR, progress, Self::xattr)?;
        survey.read(ns, "hidden names", keys::HIDDEN, progress, Self::hidden)?;
        survey.read(ns, "bodies", keys::BODY, progress, Self::body)?;
        survey.read(ns, "checksums", keys::CHECKSUM, progress, Self::checksums)?;
        survey.read(ns, "free files", keys::FREE, progress, Self::free)?;
        survey.judge_inodes();
        if !survey.is_blind {
            survey.judge_strangers();
            survey.judge_names();
            survey.judge_dirs();
            survey.judge_loops();
        }
        survey.judge_superblock(ns)?;
        Ok(survey)
    }

    pub(super) fn summary(&self) -> CheckReport {
        let orphans = self.inodes.values().filter(|known| known.found.orphan).count();
        CheckReport {
            inodes: self.inodes.len() as u64,
            names: self.names,
            orphans: orphans as u64,
            findings: Vec::new(),
        }
    }

    fn read(
        &mut self,
        ns: &Namespace,
        stage: &'static str,
        table: u8,
        progress: Progress<'_>,
        take: fn(&mut Self, &Namespace, PartitionId, &Key, &Value),
    ) -> Result<()> {
        let mut records = 0;
        for partition in ns.partitions() {
            let mut last: Option<Key> = None;
            loop {
                let page = ns.engine.scan(partition, &[table], last.as_deref(), PAGE)?;
                let Some((key, _)) = page.last() else { break };
                last = Some(key.clone());
                records += page.len() as u64;
                for (key, value) in &page {
                    take(self, ns, partition, key, value);
                }
                progress(CheckProgress { stage, records });
            }
        }
        Ok(())
    }

    fn transaction(&mut self, ns: &Namespace, partition: PartitionId, key: &Key, value: &Value) {
        let Some(transaction) = keys::split_transaction(key) else { return };
        // A decision has only to be removed, and so has the record of an unknown part once the decision was to commit.
        let is_over = match Pending::decode(value) {
            Ok(Pending::Committed { .. } | Pending::Aborted) => true,
            Ok(Pending::Prepared(prepared)) if prepared.on_commit.is_empty() => {
                let intent = Intent { transaction, coordinator: prepared.coordinator };
                matches!(ns.fate(intent), Ok(Some(Fate::Committed)))
            }
            _ => false,
        };
        if is_over {
            return;
        }
        self.damages.push(Damage::Unfinished { partition, transaction });
    }

    /// Whether the value is an intent. If so it is damage, since this is called only while no transaction is unfinished.
    fn is_held(&mut self, partition: PartitionId, key: &Key, value: &Value) -> bool {
        if Intent::of(key, value).is_none() {
            return false;
        }
        self.is_blind = true;
        self.damages.push(Damage::LostIntent { partition, key: key.clone() });
        true
    }

    fn inode(&mut self, ns: &Namespace, partition: PartitionId, key: &Key, value: &Value) {
        let Some(ino) = keys::inode_of(key) else { return };
        if self.is_held(partition, key, value) {
            self.inodes.insert(ino, Known::of(None));
            return;
        }
        let inode = Inode::decode(ino, value);
        self.inodes.insert(ino, Known::of(inode.as_ref().ok()));
        match inode {
            Ok(inode) => self.readable_inode(ns, &inode),
            Err(error) => {
                self.is_blind = true;
                self.damages.push(Damage::UnreadableInode { ino, error: error.to_string() });
            }
        }
    }

    fn readable_inode(&mut self, ns: &Namespace, inode: &Inode) {
        if inode.is_directory() {
            self.dirs.insert(inode.ino, KnownDir::of(inode, ns.hash(&inode.name)));
        }
        if let Layout::Packed { pack, .. } = inode.layout {
            self.note_file(pack);
            let owner = self.owners.get(&pack).copied();
            self.judge_owner(pack, owner, inode.ino);
            self.packs.insert(pack, inode.ino);
        }
        for backing in inode.layout.files().iter().copied() {
            self.note_file(backing);
            let owner = self.owners.get(&backing).or_else(|| self.packs.get(&backing)).copied();
            self.judge_owner(backing, owner, inode.ino);
            self.owners.insert(backing, inode.ino);
        }
    }

    fn judge_owner(&mut self, backing: BackingRef, owner: Option<InodeId>, other: InodeId) {
        if let Some(one) = owner {
            self.damages.push(Damage::SharedFile { backing, one, other });
        }
    }

    fn note_file(&mut self, backing: BackingRef) {
        let last = self.last_file.entry(backing.tier).or_default();
        *last = backing.file.0.max(*last);
    }

    fn name(&mut self, ns: &Namespace, partition: PartitionId, key: &Key, value: &Value) {
        if self.is_held(partition, key, value) {
            return;
        }
        self.names += 1;
        let dir = keys::inode_of(key).unwrap_or(InodeId(0));
        let (Some((_, hash, name)), Ok(dentry)) =
            (keys::split_dentry(key), Dentry::decode(dir, value))
        else {
            self.is_blind = true;
            self.damages.push(Damage::UnreadableName { dir, key: key.clone() });
            return;
        };
        let right_hash = ns.hash(name);
        let name = Name { dir, name: name.to_vec(), key: key.clone() };
        if self.is_unreadable(dir) {
            return;
        }
        if !self.dirs.contains_key(&dir) {
            self.damages.push(Damage::NameInNoDirectory(name));
            return;
        }
        if hash != right_hash {
            let value = value.clone();
            self.damages.push(Damage::Misplaced { name: name.clone(), value });
        }
        self.readable_name(name, dentry, (hash == right_hash).then_some(hash));
    }

    /// Takes in a name of a known directory. `hash` is `None` if the name's key has the wrong one.
    fn readable_name(&mut self, name: Name, dentry: Dentry, hash: Option<u64>) {
        let ino = dentry.ino;
        let Some(known) = self.inodes.get_mut(&ino) else {
            self.damages.push(Damage::NameWithoutInode { name, ino });
            return;
        };
        known.names += 1;
        let kind = known.kind.unwrap_or(dentry.kind);
        if let Some(dir) = self.dirs.get_mut(&name.dir) {
            dir.found_entries += 1;
            dir.found_subdirs += u32::from(kind == FileKind::Directory);
        }
        if kind != dentry.kind {
            self.damages.push(Damage::WrongKind { name: name.clone(), ino, kind });
        }
        if let Some(dir) = self.dirs.get_mut(&ino) {
            if dir.parent == name.dir && Some(dir.name_hash) == hash {
                dir.has_own_name = true;
            } else {
                self.strangers.push((ino, name));
            }
        }
    }

    fn orphan(&mut self, _: &Namespace, _: PartitionId, key: &Key, _: &Value) {
        self.beside(keys::ORPHAN, key, |known| {
            known.found.orphan = true;
            known.names == 0 && known.kind != Some(FileKind::Directory)
        });
    }

    fn writable(&mut self, _: &Namespace, _: PartitionId, key: &Key, _: &Value) {
        self.beside(keys::WRITABLE, key, |known| known.kind == Some(FileKind::Regular));
    }

    fn lock_master(&mut self, _: &Namespace, _: PartitionId, key: &Key, _: &Value) {
        self.beside(keys::LOCK_MASTER, key, |known| known.kind == Some(FileKind::Regular));
    }

    fn xattr(&mut self, _: &Namespace, _: PartitionId, key: &Key, value: &Value) {
        self.beside(keys::XATTR, key, |known| {
            known.found.xattrs = true;
            known.found.hints.set_attribute(keys::xattr_name(key), value);
            true
        });
    }

    fn hidden(&mut self, _: &Namespace, _: PartitionId, key: &Key, _: &Value) {
        self.beside(keys::HIDDEN, key, |known| known.kind == Some(FileKind::Directory));
    }

    fn body(&mut self, _: &Namespace, _: PartitionId, key: &Key, _: &Value) {
        self.beside(keys::BODY, key, |known| {
            known.found.body = true;
            known.has_body != Body::None
        });
    }

    fn checksums(&mut self, _: &Namespace, _: PartitionId, key: &Key, _: &Value) {
        self.beside(keys::CHECKSUM, key, |known| {
            known.found.checksums = true;
            known.checksummed
        });
    }

    /// Takes in a record that belongs to an inode. `fits` notes that and says whether the inode should have it.
    fn beside(&mut self, table: u8, key: &Key, fits: impl FnOnce(&mut Known) -> bool) {
        let Some(ino) = keys::inode_of(key) else { return };
        let is_stray = match self.inodes.get_mut(&ino) {
            Some(known) => !fits(known) && known.kind.is_some(),
            None => true,
        };
        let is_reported = matches!(
            self.damages.last(),
            Some(Damage::Stray { table: t, ino: i }) if *t == table && *i == ino
        );
        if is_stray && !is_reported {
            self.damages.push(Damage::Stray { table, ino });
        }
    }

    fn free(&mut self, _: &Namespace, partition: PartitionId, key: &Key, _: &Value) {
        let Some(backing) = keys::split_free(key) else { return };
        self.note_file(backing);
        if let Some(&ino) = self.owners.get(&backing).or_else(|| self.packs.get(&backing)) {
            self.damages.push(Damage::UsedButFree { backing, partition, ino });
        }
    }

    /// Decides about names of directories that their records do not say: if the name that the record says was found, or it is
    /// the root, the other is a second name; else the record says the wrong one.
    fn judge_strangers(&mut self) {
        for (ino, name) in std::mem::take(&mut self.strangers) {
            let Some(dir) = self.dirs.get_mut(&ino) else { continue };
            if dir.has_own_name || ino == InodeId::ROOT {
                self.damages.push(Damage::SecondName { name, ino });
            } else {
                dir.has_own_name = true;
                self.damages.push(Damage::WrongParent { name, ino });
            }
        }
    }

    fn judge_names(&mut self) {
        for (&ino, known) in &self.inodes {
            if known.names == 0 && !known.found.orphan && ino != InodeId::ROOT {
                self.damages.push(Damage::Unnamed { ino });
            } else if known.kind != Some(FileKind::Directory) && known.links != known.names {
                let (is, should) = (known.links, known.names);
                self.damages.push(Damage::WrongLinks { ino, is, should });
            }
        }
    }

    fn judge_inodes(&mut self) {
        for (&ino, known) in self.inodes.iter().filter(|(_, known)| known.kind.is_some()) {
            if known.has_xattrs != known.found.xattrs {
                self.damages.push(Damage::XattrFlag { ino, should: known.found.xattrs });
            } else if let Some(is) = known.hints.as_ref().filter(|is| **is != known.found.hints) {
                let (is, should) = (is.clone(), known.found.hints.clone());
                self.damages.push(Damage::WrongHints { ino, is, should });
            }
            if known.checksummed && !known.found.checksums {
                self.damages.push(Damage::ChecksumFlag { ino });
            }
            if known.has_body == Body::Some && !known.found.body {
                self.damages.push(Damage::LostBody { ino });
            }
        }
    }

    fn judge_dirs(&mut self) {
        for (&ino, dir) in &self.dirs {
            let is = self.inodes.get(&ino).map_or(0, |known| known.links);
            let should = 2 + dir.found_subdirs;
            if is != should {
                self.damages.push(Damage::WrongLinks { ino, is, should });
            }
            if dir.entries != dir.found_entries {
                let (is, should) = (dir.entries, dir.found_entries);
                self.damages.push(Damage::WrongEntries { ino, is, should });
            }
        }
    }

    /// Follows the parents of every directory, and those of each directory only once. A directory without a name ends that: it
    /// is reported as such.
    fn judge_loops(&mut self) {
        let all: Vec<InodeId> = self.dirs.keys().copied().collect();
        for ino in all {
            let mut way = Vec::new();
            let mut at = ino;
            while let Some(dir) = self.dirs.get_mut(&at) {
                match dir.walk {
                    Walk::Done => break,
                    Walk::Now => {
                        self.damages.push(Damage::Loop { ino: at });
                        break;
                    }
                    Walk::Not if at == InodeId::ROOT || !dir.has_own_name => break,
                    Walk::Not => dir.walk = Walk::Now,
                }
                way.push(at);
                at = dir.parent;
            }
            for ino in way {
                if let Some(dir) = self.dirs.get_mut(&ino) {
                    dir.walk = Walk::Done;
                }
            }
        }
    }

    fn judge_superblock(&mut self, ns: &Namespace) -> Result<()> {
        for partition in ns.partitions() {
            let here = InodeId::new(partition, 0)..=InodeId::new(partition, u64::MAX);
            let mut inodes = self.inodes.range(here).map(|(ino, _)| ino);
            let last = inodes.next_back().map_or(0, |ino| ino.sequence());
            let count = inodes.count() as u64 + u64::from(last > 0);
            let is = read_counter(ns, partition, &superblock::inodes_key())?;
            if is != count {
                self.damages.push(Damage::WrongCount { partition, is, should: count });
            }
            // The root has a number of its own, before the first block.
            if last > InodeId::ROOT.sequence() {
                self.judge_mark(ns, partition, "sequence".into(), last)?;
            }
        }
        for (tier, last) in self.last_file.clone() {
            self.judge_mark(ns, InodeId::ROOT.partition(), superblock::file_mark(tier), last)?;
        }
        Ok(())
    }

    fn judge_mark(
        &mut self,
        ns: &Namespace,
        partition: PartitionId,
        mark: String,
        last: u64,
    ) -> Result<()> {
        let is = read_counter(ns, partition, &keys::superblock(&mark))?;
        if is <= last {
            self.damages.push(Damage::LowMark { partition, mark, is, should: last });
        }
        Ok(())
    }

    fn is_unreadable(&self, ino: InodeId) -> bool {
        self.inodes.get(&ino).is_some_and(|known| known.kind.is_none())
    }
}

fn read_counter(ns: &Namespace, partition: PartitionId, key: &Key) -> Result<u64> {
    ns.engine.get(partition, key)?.as_deref().map_or(Ok(0), decode_counter)
}
