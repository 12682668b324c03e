//! What is done about a seed that fails: the smallest run of it that fails as well.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::cell::Cell;
use std::process::{Command, Output};

use intarsia_sim::ddmin::smallest;
use intarsia_sim::kind::kind_of;
use intarsia_sim::parts::Only;
use intarsia_sim::run::Report;

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(arguments).output().unwrap()
}

fn report(arguments: &[&str]) -> Report {
    serde_json::from_slice(&sim(arguments).stdout).unwrap()
}

/// What is left of 1 to 40 where all of `wanted` is needed, and how often that was tried.
fn left_of(wanted: &[u32]) -> (Vec<u32>, u32) {
    let tries = Cell::new(0);
    let left = smallest((1..=40).collect(), |part| {
        tries.set(tries.get() + 1);
        wanted.iter().all(|number| part.contains(number))
    });
    (left, tries.get())
}

#[test]
fn what_is_not_needed_is_left_out() {
    assert!(left_of(&[]).0.is_empty());
    assert_eq!(left_of(&[17]).0, [17]);
    assert_eq!(left_of(&[3, 38]).0, [3, 38]);
    assert_eq!(left_of(&[1, 2, 20, 21, 40]).0, [1, 2, 20, 21, 40]);
    assert_eq!(left_of(&(1..=40).collect::<Vec<_>>()).0, (1..=40).collect::<Vec<_>>());
    assert!(smallest(Vec::<u32>::new(), |_| true).is_empty());
}

#[test]
fn halves_are_tried_before_single_parts() {
    let (_, tries) = left_of(&[17]);
    assert!(tries <= 2 * 6, "{tries} tries for one of forty");
    let (_, tries) = left_of(&[3, 38]);
    assert!(tries <= 60, "{tries} tries for two of forty");
}

#[test]
fn nothing_more_can_be_left_out_alone() {
    // Any three do.
    assert_eq!(smallest((1..=40).collect::<Vec<u32>>(), |part| part.len() >= 3).len(), 3);
    // Not every part of what fails fails less.
    let is_odd = |part: &[u32]| part.len() % 2 == 1 && part.contains(&7);
    assert_eq!(smallest((1..=39).collect(), is_odd), [7]);
}

#[test]
fn who_has_no_more_time_keeps_the_smallest_so_far() {
    let tries = Cell::new(0);
    let left = smallest((1..=40).collect::<Vec<u32>>(), |part| {
        tries.set(tries.get() + 1);
        tries.get() <= 4 && part.contains(&17)
    });
    assert_eq!(left, (11..=20).collect::<Vec<_>>());
}

#[test]
fn violations_are_the_same_but_for_numbers_and_records() {
    let same = [
        (
            "n1 sees another w/f1: 7 bytes, not 8; at 0 \"a\", not \"b\"",
            "n2 sees another w/f3: 5 bytes",
        ),
        (
            "inode 12 lacks copies: Inode { ino: 12, size: 3 }",
            "inode 7 lacks copies: Inode { ino: 7 }",
        ),
        (
            "client 3: Read { name: \"d0/s1\" } at 17 took 15000 ms",
            "client 0: Read { name: \"d1\" } at 2 took 13000 ms",
        ),
        (
            "FAILED at 1.5 s: panic in n1/client-3: no\n  thread",
            "FAILED at 2.0 s: panic in n2/client-4: no",
        ),
    ];
    for (one, other) in same {
        assert_eq!(kind_of(one), kind_of(other));
        assert!(!kind_of(one).is_empty());
    }
    let took = "client 3: Read { name: \"d0/s1\" } at 17 took 15000 ms";
    let foreign = "client 3: Read { name: \"d0/s1\" }: nobody wrote the bytes at 3";
    assert_ne!(kind_of(took), kind_of(foreign));
}

#[test]
fn parts_are_written_as_they_are_read() {
    for text in ["all", "none", "3,7"] {
        assert_eq!(text.parse::<Only<u64>>().unwrap().to_string(), text);
    }
    assert!("3,x".parse::<Only<u64>>().is_err());
    let only: Only<u64> = "3, 7".parse().unwrap();
    assert!(only.keeps(&7) && !only.keeps(&4));
    assert!(Only::All.keeps(&4) && !Only::these(&[]).keeps(&4));
}

#[test]
fn what_is_left_out_leaves_the_others_as_they_were() {
    let whole = report(&["--seed", "13", "--seconds", "12"]);
    assert!(whole.account.broken.len() > 2 && whole.account.programs.len() > 3);
    let kept: Vec<_> = whole.account.broken.keys().skip(1).map(ToString::to_string).collect();
    let less = report(
        &[
            ["--seed", "13", "--seconds", "12", "--programs", "writer@n1"].as_slice(),
            &["--faults", &kept.join(",")],
        ]
        .concat(),
    );
    assert_eq!(less.account.programs.into_iter().collect::<Vec<_>>(), ["writer@n1"]);
    for (number, broken) in &less.account.broken {
        let before = whole.account.broken.get(number).unwrap();
        assert!(kept.contains(&number.to_string()), "{number} was left out");
        assert_eq!(
            (&broken.kind, &broken.host, broken.for_s),
            (&before.kind, &before.host, before.for_s)
        );
    }
    assert!(!less.account.broken.is_empty());
}

#[test]
fn a_run_that_hangs_says_what_it_was_made_of() {
    let output = sim(&["--seed", "7", "--limit", "0"]);
    assert_eq!(output.status.code(), Some(3));
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report.seed, 7);
    assert_eq!(report.violations, ["hangs: no end within 0 real seconds"]);
}

#[test]
fn a_seed_shrinks_to_the_one_fault_that_must_not_be() {
    let made = ["--seed", "12", "--seconds", "12", "--must-not-break", "kill"];
    let output = sim(&[made.as_slice(), &["--shrink", "--minutes", "10"]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let command = said.lines().find(|line| line.contains(" --seed ")).unwrap();
    let words: Vec<&str> =
        command.split_whitespace().skip(1).filter(|word| *word != "--trace").collect();
    let again = report(&words);
    assert_eq!(again.violations, ["kill was not to break"]);
    assert_eq!(again.account.broken.len(), 1, "{said}");
    assert!(again.account.programs.is_empty(), "{said}");
    assert!(said.contains(&format!("fault {}: kill", again.account.broken.keys().next().unwrap())));
}

#[test]
fn a_seed_that_does_not_fail_is_left_alone() {
    let output = sim(&["--seed", "7", "--seconds", "2", "--faults", "none", "--shrink"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("does not fail"));
}
