//! Rules: the first line is the rule, the rest a path to ask it about.
#![no_main]

use intarsia_types::{Rule, RuleSet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (rule, path) = text.split_once('\n').unwrap_or((text, "/a/b.tmp"));
    if let Ok(rule) = rule.parse::<Rule>() {
        let shown = rule.to_string();
        let again: Rule = shown.parse().expect("a rule reads what it shows");
        assert_eq!(again.to_string(), shown);
        let rules = RuleSet::new(vec![rule]);
        let _ = (rules.needs_path(), rules.hints_for(path));
    }
});
