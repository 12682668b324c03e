//! Keys of the metadata: every key that is taken is the one that we would have made.
#![no_main]

use intarsia_meta::keys::{self, DentryKey, NAME_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|key: &[u8]| {
    if let Some((parent, hash, name)) = keys::split_dentry(key)
        && name.len() <= NAME_MAX
    {
        assert_eq!(&*DentryKey::new(parent, hash, name), key);
    }
    if let Some(backing) = keys::split_free(key) {
        assert_eq!(keys::free(backing), key);
    }
    if let Some(ino) = keys::inode_of(key) {
        assert_eq!(keys::by_inode(key[0], ino), key[..9]);
    }
    assert!((keys::FIRST_COOKIE..1 << 63).contains(&keys::hash63(9, key)));
});
