//! Attributes that the kernel was sent under leases on directories that have changed lately. The kernel caches them for a
//! moment, so that one call of a program asks for them once; when a lease is given back the kernel is made to drop them.
//!
//! Dropping them takes no lock in the kernel, so it does not wait for calls. Of the answers that are on their way at that
//! moment the kernel ignores those about inodes that it knows already. An answer about an inode that it does not know yet makes
//! the inode known, with the old attributes: such an inode is dropped again and again until the kernel knows it, or the answer
//! has expired.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};
use intarsia_types::InodeId;

use crate::directory::directory_lease::{KEPT_BY_KERNEL, ON_ITS_WAY};

/// Makes the kernel drop the attributes of an inode, so that it asks anew; false if it does not know the inode.
pub type AttributeDropper = dyn Fn(InodeId) -> bool + Send + Sync;

/// The pause between two attempts to drop attributes of an inode that the kernel does not know yet.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(1);
/// With fewer inodes than this, expired ones are not searched for.
const FEW: usize = 1024;

/// The answers that the kernel may still have.
#[derive(Default)]
pub(crate) struct Told {
    inodes: Mutex<Inodes>,
    dropper: OnceLock<Box<AttributeDropper>>,
}

/// An answer with the attributes of one inode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer {
    /// The directory whose lease covers it.
    dir: InodeId,
    at: Instant,
}

impl Answer {
    /// Whether the kernel may still have the answer, or has yet to receive it.
    fn is_kept(&self, now: Instant) -> bool {
        now <= self.at + KEPT_BY_KERNEL + ON_ITS_WAY
    }
}

#[derive(Default)]
struct Inodes {
    told: HashMap<InodeId, Answer>,
    /// When `told` has more entries than this, those that have expired in the kernel are removed.
    many: usize,
}

impl Inodes {
    fn note(&mut self, ino: InodeId, answer: Answer) {
        self.told.insert(ino, answer);
        if self.told.len() > self.many.max(FEW) {
            self.told.retain(|_, told| told.is_kept(answer.at));
            self.many = self.told.len() * 2;
        }
    }

    fn take(&mut self, is_meant: impl Fn(InodeId, &Answer) -> bool) -> Vec<(InodeId, Answer)> {
        self.told.extract_if(|ino, told| is_meant(*ino, told)).collect()
    }
}

impl Told {
    /// Whether the kernel can be made to drop attributes.
    pub(super) fn can_be_taken_back(&self) -> bool {
        self.dropper.get().is_some()
    }

    /// The kernel is about to be sent the attributes of an inode that the lease on `dir` covers.
    pub(super) fn note(&self, dir: InodeId, ino: InodeId) {
        self.inodes.lock().note(ino, Answer { dir, at: Instant::now() });
    }

    /// To be called when an inode is gone: nobody changes its attributes any more, so the kernel need not drop them.
    pub(crate) fn forget(&self, ino: InodeId) {
        self.inodes.lock().told.remove(&ino);
    }
}

impl Told {
    /// What makes the kernel ask for attributes again. Without it the kernel is allowed to cache fewer.
    pub(crate) fn set_dropper(&self, dropper: Box<AttributeDropper>) {
        // The mount sets it, once.
        let _ = self.dropper.set(dropper);
    }

    /// Makes the kernel drop all attributes that the lease on `dir` covers; from here on it must be sent no more of them. For
    /// inodes that the kernel does not know yet this is repeated until it knows them, or their answers have expired.
    pub(super) fn take_attributes_back(&self, dir: InodeId) {
        self.drop_until_known(self.drop_attributes(dir));
    }

    /// The same of some inodes alone.
    pub(super) fn take_attributes_of(&self, inos: &[InodeId]) {
        self.drop_until_known(self.drop_all(|ino, _| inos.contains(&ino)));
    }

    fn drop_until_known(&self, mut left: Vec<(InodeId, Answer)>) {
        loop {
            let now = Instant::now();
            left.retain(|(ino, told)| told.is_kept(now) && !self.drop_attributes_of(*ino));
            if left.is_empty() {
                return;
            }
            intarsia_sync::thread::sleep(UNKNOWN_PAUSE);
        }
    }

    /// Makes the kernel drop what it knows of these attributes; returns the inodes that it does not know yet.
    pub(super) fn drop_attributes(&self, dir: InodeId) -> Vec<(InodeId, Answer)> {
        self.drop_all(|_, told| told.dir == dir)
    }

    fn drop_all(&self, is_meant: impl Fn(InodeId, &Answer) -> bool) -> Vec<(InodeId, Answer)> {
        let mut told = self.inodes.lock().take(is_meant);
        let now = Instant::now();
        told.retain(|(ino, told)| told.is_kept(now) && !self.drop_attributes_of(*ino));
        told
    }

    /// Makes the kernel drop the attributes of a file; false if the kernel does not know it.
    pub(crate) fn drop_attributes_of(&self, ino: InodeId) -> bool {
        self.dropper.get().is_none_or(|drop_attributes| drop_attributes(ino))
    }

    /// Another host has changed a file through this one: makes the kernel drop its attributes, if it may have them.
    pub(crate) fn outdate_attributes(&self, ino: InodeId) {
        if self.inodes.lock().told.contains_key(&ino) {
            self.drop_attributes_of(ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: InodeId = InodeId(7);

    #[test]
    fn what_the_kernel_has_given_up_by_itself_is_forgotten_when_there_is_much() {
        let (begun, mut inodes) = (Instant::now(), Inodes::default());
        for number in 0..FEW as u64 {
            inodes.note(InodeId(number), Answer { dir: DIR, at: begun });
        }
        let at = begun + KEPT_BY_KERNEL + ON_ITS_WAY + UNKNOWN_PAUSE;
        inodes.note(InodeId(FEW as u64), Answer { dir: DIR, at });
        assert_eq!(inodes.told.len(), 1);
        for number in 0..FEW as u64 * 4 {
            inodes.note(InodeId(number), Answer { dir: DIR, at });
        }
        assert_eq!(inodes.told.len(), FEW * 4 + 1 - 1);
    }

    #[test]
    fn what_one_lease_covers_is_taken_back_alone() {
        let (at, mut inodes) = (Instant::now(), Inodes::default());
        let other = InodeId(8);
        inodes.note(InodeId(20), Answer { dir: DIR, at });
        inodes.note(InodeId(21), Answer { dir: other, at });
        // It was moved to the other directory.
        inodes.note(InodeId(22), Answer { dir: DIR, at });
        inodes.note(InodeId(22), Answer { dir: other, at });
        let of =
            |told: Vec<(InodeId, Answer)>| told.iter().map(|(ino, _)| ino.0).collect::<Vec<_>>();
        assert_eq!(of(inodes.take(|_, told| told.dir == DIR)), [20]);
        let mut left = of(inodes.take(|_, told| told.dir == other));
        left.sort_unstable();
        assert_eq!(left, [21, 22]);
        assert!(inodes.told.is_empty());
    }
}
