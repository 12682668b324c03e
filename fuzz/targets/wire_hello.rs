//! The first message in each direction.
#![no_main]

use intarsia_wire::{Hello, StoreId, Verdict};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(hello) = Hello::decode(bytes) {
        let again = hello.encode().expect("what was read can be written");
        assert_eq!(Hello::decode(&again), Ok(hello));
    }
    if let Ok(verdict) = Verdict::decode(bytes) {
        let again = verdict.encode().expect("what was read can be written");
        assert_eq!(Verdict::decode(&again), Ok(verdict));
    }
    if let Ok(Ok(store)) = std::str::from_utf8(bytes).map(str::parse::<StoreId>) {
        assert_eq!(store.to_string().parse(), Ok(store));
    }
});
