//! Host lists as users and batch systems write them.
#![no_main]

use intarsia_cluster::hosts::HostList;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(list) = HostList::from_expression("input", text) else { return };
    // What was accepted is plain names, and they are their own expression.
    let names: Vec<&str> = list.hosts().iter().map(|h| h.0.as_str()).collect();
    assert!(names.iter().all(|n| n.starts_with(|c: char| c.is_ascii_alphanumeric())));
    let again = HostList::from_expression("names", &names.join(","));
    assert_eq!(again.as_ref(), Ok(&list));
});
