//! The locks of one family on one file: ranges, owners, who stands in whose way. No I/O, no clock.

use intarsia_wire::{LockMode, LockSpan};

/// A lock of `owner`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock<O> {
    pub(crate) owner: O,
    /// For whoever asks what stands in the way.
    pub(crate) pid: u32,
    pub(crate) mode: LockMode,
    pub(crate) span: LockSpan,
}

/// All locks of one family on one file.
///
/// What one owner has is disjoint, and neighbours of the same mode are one lock.
#[derive(Clone, Debug)]
pub(crate) struct LockTable<O> {
    locks: Vec<Lock<O>>,
}

impl<O> Default for LockTable<O> {
    fn default() -> Self {
        Self { locks: Vec::new() }
    }
}

impl<O: Clone + Eq> LockTable<O> {
    /// The locks that `wanted` cannot stand beside.
    pub(crate) fn conflicts<'a>(
        &'a self,
        wanted: &'a Lock<O>,
    ) -> impl Iterator<Item = &'a Lock<O>> {
        self.locks.iter().filter(|lock| {
            lock.owner != wanted.owner
                && overlap(lock.span, wanted.span)
                && (lock.mode == LockMode::Exclusive || wanted.mode == LockMode::Exclusive)
        })
    }

    /// Gives the lock to its owner in the place of what he had of that range. The caller has looked for
    /// conflicts.
    pub(crate) fn set(&mut self, mut lock: Lock<O>) {
        self.clear(&lock.owner, lock.span);
        self.locks.retain(|old| {
            let joins =
                old.owner == lock.owner && old.mode == lock.mode && touch(old.span, lock.span);
            if joins {
                lock.span.first = lock.span.first.min(old.span.first);
                lock.span.last = lock.span.last.max(old.span.last);
            }
            !joins
        });
        self.locks.push(lock);
    }

    /// Takes from an owner what he has of a range; returns whether he had anything there.
    pub(crate) fn clear(&mut self, owner: &O, span: LockSpan) -> bool {
        let mut rests = Vec::new();
        let before = self.locks.len();
        self.locks.retain(|lock| {
            let is_hit = lock.owner == *owner && overlap(lock.span, span);
            if is_hit {
                rests.extend(parts_outside(lock, span));
            }
            !is_hit
        });
        let was_hit = self.locks.len() < before;
        self.locks.append(&mut rests);
        was_hit
    }

    /// Drops the locks of all owners but those that `stays` says.
    pub(crate) fn retain_owners(&mut self, mut stays: impl FnMut(&O) -> bool) {
        self.locks.retain(|lock| stays(&lock.owner));
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lock<O>> {
        self.locks.iter()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }
}

const fn overlap(a: LockSpan, b: LockSpan) -> bool {
    a.first <= b.last && b.first <= a.last
}

/// Whether they overlap or follow each other without a gap.
const fn touch(a: LockSpan, b: LockSpan) -> bool {
    a.first <= b.last.saturating_add(1) && b.first <= a.last.saturating_add(1)
}

/// What is left of `lock` when `span` is cut out of it: at most a part before and a part after.
fn parts_outside<O: Clone>(lock: &Lock<O>, span: LockSpan) -> impl Iterator<Item = Lock<O>> {
    let before = span.first.checked_sub(1).map(|last| LockSpan { last, ..lock.span });
    let after = span.last.checked_add(1).map(|first| LockSpan { first, ..lock.span });
    let parts = [before, after].into_iter().flatten();
    let parts: Vec<_> = parts
        .filter(|part| part.first <= part.last)
        .map(|part| Lock { span: part, ..lock.clone() })
        .collect();
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes of the naive model; the last stands for everything up to the end of all files.
    const BYTES: usize = 12;

    fn span(first: usize, last: usize) -> LockSpan {
        let last = if last == BYTES - 1 { u64::MAX } else { last as u64 };
        LockSpan { first: first as u64, last }
    }

    fn lock(owner: u8, mode: LockMode, span: LockSpan) -> Lock<u8> {
        Lock { owner, pid: u32::from(owner), mode, span }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(u8, LockMode, usize, usize),
        Clear(u8, usize, usize),
        Drop(u8),
    }

    fn steps() -> impl Strategy<Value = Step> {
        let range = (0..BYTES, 0..BYTES).prop_map(|(a, b)| (a.min(b), a.max(b)));
        let mode = prop_oneof![Just(LockMode::Shared), Just(LockMode::Exclusive)];
        prop_oneof![
            8 => (0..3u8, mode, range.clone()).prop_map(|(o, m, (a, b))| Step::Set(o, m, a, b)),
            4 => (0..3u8, range).prop_map(|(o, (a, b))| Step::Clear(o, a, b)),
            1 => (0..3u8).prop_map(Step::Drop),
        ]
    }

    /// Who has which byte how: one array of bytes for each owner.
    type Model = [[Option<LockMode>; BYTES]; 3];

    fn is_free(model: &Model, owner: u8, mode: LockMode, a: usize, b: usize) -> bool {
        let others = model.iter().enumerate().filter(|(o, _)| *o != usize::from(owner));
        others
            .flat_map(|(_, bytes)| &bytes[a..=b])
            .flatten()
            .all(|had| *had == LockMode::Shared && mode == LockMode::Shared)
    }

    fn seen(table: &LockTable<u8>) -> Model {
        let mut model = Model::default();
        for held in table.iter() {
            for (byte, had) in model[usize::from(held.owner)].iter_mut().enumerate() {
                if (held.span.first..=held.span.last).contains(&(byte as u64)) {
                    assert!(had.is_none(), "an owner's locks overlap");
                    *had = Some(held.mode);
                }
            }
        }
        model
    }

    /// The fewest locks that say the same.
    fn runs(model: &Model) -> usize {
        let starts = |bytes: &[Option<LockMode>; BYTES]| {
            (0..BYTES)
                .filter(|&i| bytes[i].is_some() && (i == 0 || bytes[i - 1] != bytes[i]))
                .count()
        };
        model.iter().map(starts).sum()
    }

    proptest! {
        #[test]
        fn ranges_are_as_an_array_of_bytes_says(steps in prop::collection::vec(steps(), 0..60)) {
            let (mut table, mut model) = (LockTable::default(), Model::default());
            for step in steps {
                match step {
                    Step::Set(owner, mode, a, b) => {
                        let wanted = lock(owner, mode, span(a, b));
                        let is_free = is_free(&model, owner, mode, a, b);
                        prop_assert_eq!(table.conflicts(&wanted).next().is_none(), is_free);
                        if is_free {
                            table.set(wanted);
                            model[usize::from(owner)][a..=b].fill(Some(mode));
                        }
                    }
                    Step::Clear(owner, a, b) => {
                        let bytes = &mut model[usize::from(owner)][a..=b];
                        let had = bytes.iter().any(Option::is_some);
                        bytes.fill(None);
                        prop_assert_eq!(table.clear(&owner, span(a, b)), had);
                    }
                    Step::Drop(owner) => {
                        table.retain_owners(|o| *o != owner);
                        model[usize::from(owner)] = [None; BYTES];
                    }
                }
                prop_assert_eq!(seen(&table), model);
                prop_assert_eq!(table.iter().count(), runs(&model), "neighbours are not joined");
            }
        }
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let mut table = LockTable::default();
        table.set(lock(1, LockMode::Shared, span(2, 4)));
        table.set(lock(2, LockMode::Exclusive, span(6, 7)));
        let wanted = lock(3, LockMode::Exclusive, span(4, 6));
        let owners: Vec<_> = table.conflicts(&wanted).map(|lock| lock.owner).collect();
        assert_eq!(owners, [1, 2]);
        let read = lock(3, LockMode::Shared, span(4, 5));
        assert_eq!(table.conflicts(&read).count(), 0);
    }
}
