//! Who makes a call, and what becomes of set-id bits when he changes a file.

use intarsia_meta::Inode;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Caller {
    /// Whether set-id bits survive what this caller writes. (CAP_FSETID is not visible to us; root has it.)
    pub(crate) const fn keeps_set_id(self) -> bool {
        self.uid == 0
    }

    /// The permission bits after this caller changed the content. Set-group-id without group execution stays for who is
    /// in the group, as far as his request shows.
    pub(crate) fn set_id_cleared(self, inode: &Inode) -> u16 {
        let strange = if self.uid == 0 || self.gid == inode.gid { 0 } else { 0o2000 };
        without_set_id(inode.perm) & !strange
    }
}

/// The permission bits after somebody without privilege changed the content (see `inode(7)`).
pub(crate) const fn without_set_id(perm: u16) -> u16 {
    let perm = perm & !0o4000;
    // Set-group-id without group execution once meant mandatory locking; it stays.
    if perm & 0o010 != 0 { perm & !0o2000 } else { perm }
}
