//! Which files move, once it is known how many bytes have to.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::Transfer;

/// A file that is to move from one place to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMove<P, F> {
    /// Which file.
    pub file: F,
    /// Its length.
    pub bytes: u64,
    /// From where.
    pub from: P,
    /// To where.
    pub to: P,
}

/// Chooses the files that move by a plan, of the files of each place that gives. Few large ones move faster than many
/// small ones, so the largest that still fits goes first; never more bytes move than the plan says, and no empty file.
#[must_use]
pub fn choose_files<P: Ord + Clone, F: Ord>(
    plan: &[Transfer<P>],
    mut files: BTreeMap<P, Vec<(F, u64)>>,
) -> Vec<FileMove<P, F>> {
    for here in files.values_mut() {
        here.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    }
    let mut moves = Vec::new();
    for Transfer { from, to, bytes } in plan {
        let mut left = *bytes;
        let here = files.get_mut(from).map(std::mem::take).unwrap_or_default();
        let (go, stay): (Vec<_>, Vec<_>) = here.into_iter().partition(|(_, bytes)| {
            let goes = *bytes > 0 && *bytes <= left;
            left -= if goes { *bytes } else { 0 };
            goes
        });
        files.insert(from.clone(), stay);
        let of = |(file, bytes)| FileMove { file, bytes, from: from.clone(), to: to.clone() };
        moves.extend(go.into_iter().map(of));
    }
    moves
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn transfer(from: &'static str, to: &'static str, bytes: u64) -> Transfer<&'static str> {
        Transfer { from, to, bytes }
    }

    #[test]
    fn the_largest_that_still_fits_goes_first() {
        let plan = [transfer("a", "b", 100), transfer("a", "c", 30), transfer("d", "c", 5)];
        let files = [("a", vec![(1, 20), (2, 90), (3, 0), (4, 20), (5, 10)])].into();
        let moves = choose_files(&plan, files);
        let found: Vec<_> = moves.iter().map(|one| (one.file, one.from, one.to)).collect();
        assert_eq!(found, [(2, "a", "b"), (5, "a", "b"), (1, "a", "c")]);
    }

    proptest! {
        #[test]
        fn no_file_moves_twice_and_no_more_than_was_planned(
            plan in prop::collection::vec((0u8..3, 3u8..6, 0u64..200), 0..6),
            files in prop::collection::vec((0u8..3, 0u64..90), 0..30),
        ) {
            let plan: Vec<_> =
                plan.iter().map(|(from, to, bytes)| Transfer { from: *from, to: *to, bytes: *bytes }).collect();
            let mut by_place: BTreeMap<u8, Vec<(usize, u64)>> = BTreeMap::new();
            for (file, (place, bytes)) in files.iter().enumerate() {
                by_place.entry(*place).or_default().push((file, *bytes));
            }
            let moves = choose_files(&plan, by_place);
            let once: std::collections::BTreeSet<_> = moves.iter().map(|one| one.file).collect();
            prop_assert_eq!(once.len(), moves.len());
            for (from, to) in moves.iter().map(|one| (one.from, one.to)) {
                let is_it = |a: &u8, b: &u8| (*a, *b) == (from, to);
                let moved: u64 = moves.iter().filter(|m| is_it(&m.from, &m.to)).map(|m| m.bytes).sum();
                let planned: u64 = plan.iter().filter(|t| is_it(&t.from, &t.to)).map(|t| t.bytes).sum();
                prop_assert!(moved <= planned);
            }
            prop_assert!(moves.iter().all(|m| files[m.file] == (m.from, m.bytes) && m.bytes > 0));
        }
    }
}
