//! The replicas that a record names after the home's own backing file.

use intarsia_meta::Extra;
use intarsia_types::{BackingRef, Error, Layout, Result};

/// The copies beside the home that a publication names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Further<'a> {
    /// Copies that were made for this publication.
    Made(&'a [BackingRef]),
    /// Copies of an earlier publication, which had the same content. If the record names one of them no more, it was given
    /// up because it may lack what was written last, and the publication must not name it again.
    Kept(&'a [BackingRef]),
}

impl<'a> Further<'a> {
    pub(crate) const fn copies(self) -> &'a [BackingRef] {
        match self {
            Self::Made(copies) | Self::Kept(copies) => copies,
        }
    }
}

/// Changes `layout` so that it names `home` and `further` as the copies of a file, and adds to `extras` what changes in the
/// ledger: copies that are new leave it, and copies that are named no more go into it. Returns the latter.
///
/// # Errors
/// [`Error::Engine`] when the layout does not name `home`, because another host has taken over the file;
/// [`Error::Busy`] when it does not name all of [`Further::Kept`].
pub(crate) fn take_over_copies(
    layout: &mut Layout,
    home: BackingRef,
    further: Further<'_>,
    extras: &mut Vec<Extra>,
) -> Result<Vec<BackingRef>> {
    let old = layout.copies().to_vec();
    if !old.contains(&home) {
        return Err(Error::Engine(
            "another host has taken over the file; what was written here since is lost".into(),
        ));
    }
    if let Further::Kept(kept) = further
        && !kept.iter().all(|copy| old.contains(copy))
    {
        return Err(Error::Busy("a copy was given up meanwhile".into()));
    }
    let others = further.copies().iter().copied().filter(|copy| *copy != home);
    let new: Vec<_> = std::iter::once(home).chain(others).collect();
    let is_new = |copy: &&BackingRef| !old.contains(copy);
    extras.extend(new.iter().filter(is_new).map(|copy| Extra::ClaimFree(*copy)));
    let dropped: Vec<_> = old.iter().copied().filter(|copy| !new.contains(copy)).collect();
    extras.extend(dropped.iter().map(|copy| Extra::PutFree(*copy)));
    if new != old {
        *layout = Layout::of_copies(new);
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use intarsia_types::{BackingFileId, TierId};

    use super::*;

    fn backing(tier: u16, file: u64) -> BackingRef {
        BackingRef { tier: TierId(tier), file: BackingFileId(file) }
    }

    #[test]
    fn a_copy_that_was_given_up_is_not_named_again() {
        let (home, copy) = (backing(1, 69), backing(0, 70));
        let mut extras = Vec::new();
        let kept = [home, copy];
        let mut whole = Layout::of_copies(kept.to_vec());
        let dropped = take_over_copies(&mut whole, home, Further::Kept(&kept), &mut extras);
        assert!(dropped.unwrap().is_empty() && extras.is_empty(), "nothing changes");

        let mut lacking = Layout::of_copies(vec![home]);
        let named = take_over_copies(&mut lacking, home, Further::Kept(&kept), &mut extras);
        assert!(matches!(named, Err(Error::Busy(_))), "{named:?}");
        assert_eq!(lacking.copies(), [home]);

        take_over_copies(&mut lacking, home, Further::Made(&[copy]), &mut extras).unwrap();
        assert_eq!(lacking.copies(), kept);
        assert_eq!(extras, [Extra::ClaimFree(copy)]);
    }
}
