//! POSIX access control lists, in the form of the attributes `system.posix_acl_*` (see `acl(5)`).
//!
//! The kernel checks permissions by them; the store keeps list and mode bits in step and lets new
//! entries inherit their directory's default list.

/// Attribute of the list that guards an inode.
pub(crate) const ACCESS_NAME: &[u8] = b"system.posix_acl_access";
/// Attribute of the list that a directory passes on.
pub(crate) const DEFAULT_NAME: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;
const USER_OBJ: u16 = 0x01;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const KNOWN_TAGS: u16 = 0x3f;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    perm: u16,
    id: u32,
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl(Vec<Entry>);

impl Acl {
    /// Reads an attribute's value; `None` when it is no list.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let (version, entries) = value.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION {
            return None;
        }
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        let acl = Self(
            entries
                .iter()
                .map(|[t0, t1, p0, p1, id @ ..]| Entry {
                    tag: u16::from_le_bytes([*t0, *t1]),
                    perm: u16::from_le_bytes([*p0, *p1]),
                    id: u32::from_le_bytes(*id),
                })
                .collect(),
        );
        (rest.is_empty() && acl.is_valid()).then_some(acl)
    }

    /// One entry each for owner, group and others is the least; every tag is one we know.
    fn is_valid(&self) -> bool {
        let has_one = |tag| self.0.iter().filter(|e| e.tag == tag).count() == 1;
        let all_known = self
            .0
            .iter()
            .all(|e| e.tag.is_power_of_two() && e.tag & KNOWN_TAGS != 0 && e.perm <= 7);
        all_known && [USER_OBJ, GROUP_OBJ, OTHER].into_iter().all(has_one)
    }

    /// The attribute's value.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for e in &self.0 {
            value.extend(e.tag.to_le_bytes());
            value.extend(e.perm.to_le_bytes());
            value.extend(e.id.to_le_bytes());
        }
        value
    }

    /// Whether the mode bits say all that the list says.
    pub(crate) fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// The entry that stands for the group bits: the mask where there is one.
    fn group_class(&self) -> u16 {
        if self.0.iter().any(|e| e.tag == MASK) { MASK } else { GROUP_OBJ }
    }

    fn perm_of(&self, tag: u16) -> u16 {
        self.0.iter().find(|e| e.tag == tag).map_or(0, |e| e.perm)
    }

    fn change(&mut self, tag: u16, f: impl Fn(u16) -> u16) {
        for e in self.0.iter_mut().filter(|e| e.tag == tag) {
            e.perm = f(e.perm);
        }
    }

    /// The permission bits (0777) that correspond to the list.
    pub(crate) fn mode_bits(&self) -> u16 {
        self.perm_of(USER_OBJ) << 6 | self.perm_of(self.group_class()) << 3 | self.perm_of(OTHER)
    }

    /// Follows a `chmod`.
    pub(crate) fn set_mode(&mut self, perm: u16) {
        let group = self.group_class();
        self.change(USER_OBJ, |_| perm >> 6 & 7);
        self.change(group, |_| perm >> 3 & 7);
        self.change(OTHER, |_| perm & 7);
    }

    /// Becomes the list of a new inode that was asked for with `perm`: nobody gets more than that.
    pub(crate) fn restrict(&mut self, perm: u16) {
        let group = self.group_class();
        self.change(USER_OBJ, |p| p & perm >> 6 & 7);
        self.change(group, |p| p & perm >> 3 & 7);
        self.change(OTHER, |p| p & perm & 7);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn acl(entries: &[(u16, u16, u32)]) -> Acl {
        Acl(entries.iter().map(|&(tag, perm, id)| Entry { tag, perm, id }).collect())
    }

    #[test]
    fn the_mask_stands_for_the_group_bits() {
        let none = u32::MAX;
        let mut list =
            acl(&[(1, 7, none), (2, 7, 1000), (4, 5, none), (0x10, 7, none), (0x20, 0, none)]);
        assert_eq!(Acl::parse(&list.encode()), Some(list.clone()));
        assert_eq!(list.mode_bits(), 0o770);
        list.set_mode(0o640);
        assert_eq!(list.mode_bits(), 0o640);
        assert_eq!(list.perm_of(GROUP_OBJ), 5, "the group's own entry stays");
        let mut inherited = list;
        inherited.restrict(0o400);
        assert_eq!(inherited.mode_bits(), 0o400);
        assert!(!inherited.is_minimal());
    }

    proptest! {
        #[test]
        fn any_value_is_read_or_refused(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(list) = Acl::parse(&value) {
                prop_assert_eq!(list.encode(), value);
            }
        }
    }
}
