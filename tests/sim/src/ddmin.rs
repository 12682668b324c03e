//! The smallest part of what fails that still fails.

/// A part of `whole` that fails and of which nothing can be left out alone, found by leaving out halves first, then quarters, and
/// so on: the algorithm `ddmin` of A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE
/// Transactions on Software Engineering 28(2), 2002. `whole` fails; a predicate that has no more time says that nothing does.
pub fn smallest<T: Clone>(whole: Vec<T>, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    if whole.is_empty() || fails(&[]) {
        return Vec::new();
    }
    let (mut left, mut pieces) = (whole, 2);
    while left.len() > 1 {
        let smaller = parts(&left, pieces).find(|part| fails(part));
        if let Some(part) = smaller {
            (left, pieces) = (part, 2);
            continue;
        }
        // Of two pieces each is what the other leaves.
        let rest = (pieces > 2).then(|| rests(&left, pieces).find(|rest| fails(rest))).flatten();
        match rest {
            Some(rest) => (left, pieces) = (rest, (pieces - 1).max(2)),
            None if pieces < left.len() => pieces = (pieces * 2).min(left.len()),
            None => break,
        }
    }
    left
}

/// The pieces of which `whole` consists, each of about the same length.
fn parts<T: Clone>(whole: &[T], pieces: usize) -> impl Iterator<Item = Vec<T>> {
    bounds(whole.len(), pieces)
        .map(|(from, to)| whole.iter().take(to).skip(from).cloned().collect())
}

/// What is left of `whole` without each of its pieces.
fn rests<T: Clone>(whole: &[T], pieces: usize) -> impl Iterator<Item = Vec<T>> {
    bounds(whole.len(), pieces)
        .map(|(from, to)| whole.iter().take(from).chain(whole.iter().skip(to)).cloned().collect())
}

fn bounds(len: usize, pieces: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..pieces).map(move |piece| (len * piece / pieces, len * (piece + 1) / pieces))
}
