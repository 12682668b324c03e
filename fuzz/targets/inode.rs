//! Inode records: whatever the bytes, an error or a record that survives being written again.
#![no_main]

use intarsia_meta::Inode;
use intarsia_types::InodeId;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    let ino = InodeId(7);
    if let Ok(inode) = Inode::decode(ino, record) {
        let again = inode.encode().expect("what was decoded can be encoded");
        assert_eq!(Inode::decode(ino, &again).expect("our own record"), inode);
    }
});
