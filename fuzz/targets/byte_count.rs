//! Sizes as users write them.
#![no_main]

use intarsia_types::ByteCount;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(size) = text.parse::<ByteCount>() {
        let shown = size.to_string();
        let again: ByteCount = shown.parse().expect("a size reads what it shows");
        // One decimal is shown; nothing is ever rounded up.
        assert!(again <= size && (shown.contains('.') || again == size));
    }
});
