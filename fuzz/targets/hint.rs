//! Hints as users write them and as attributes hold them.
#![no_main]

use intarsia_types::{Hint, HintKey, HintSet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(hint) = text.parse::<Hint>() {
        assert_eq!(Hint::new(hint.key(), hint.value()).as_ref(), Ok(&hint));
    }
    let _ = HintKey::from_attribute(text);
    let mut set = HintSet::default();
    for key in HintKey::ALL {
        if let Ok(hint) = Hint::new(key, text) {
            set.set(hint);
        }
    }
    let _ = (set.tier(), set.close(), set.integrity(), set.cache(), set.place());
});
