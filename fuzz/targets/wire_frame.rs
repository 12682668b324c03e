//! The fixed parts of a connection: preamble and prefix.
#![no_main]

use intarsia_wire::{MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, Preamble, Prefix, Protection};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u8; 16], [u8; 8])| {
    let (preamble, prefix) = input;
    for protection in [Protection::Tagged, Protection::Encrypted] {
        let ours = Preamble::ours(protection);
        if ours.accept(preamble).is_ok() {
            assert_eq!(ours.encode()[..11], preamble[..11]);
        }
    }
    if let Ok(read) = Prefix::decode(prefix) {
        assert!(
            read.header_bytes() <= MAX_HEADER_BYTES && read.payload_bytes() <= MAX_PAYLOAD_BYTES
        );
        assert_eq!(read.encode(), prefix);
    }
});
