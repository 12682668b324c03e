//! Tiers and durability as users write them.
#![no_main]

use intarsia_types::{Durability, TierClass, TierSpec};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(spec) = text.parse::<TierSpec>() {
        assert!(!spec.dir.as_os_str().is_empty());
    }
    if let Ok(class) = text.parse::<TierClass>() {
        assert_eq!(class.to_string(), text);
    }
    if let Ok(durability) = text.parse::<Durability>() {
        assert_eq!(durability.to_string(), text);
    }
});
