//! What a replica has of its primary, and what is lost when it takes over.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use intarsia_meta::engines::{MemoryEngine, Undo};
use intarsia_meta::{Bytes, Mutation};
use intarsia_sim::server::{Fate, Server};
use intarsia_sync::Instant;
use intarsia_types::PartitionId;

/// A commit that sets this key.
fn set(key: &[u8]) -> Undo {
    let put = Mutation::Put(Bytes::from(key), Bytes::from(b"value".as_slice()));
    MemoryEngine::default().commit_with_undo(PartitionId(0), &[], vec![put]).unwrap().1
}

const fn none(_: usize) -> usize {
    0
}

#[test]
fn what_was_acknowledged_stays_with_all_before_it() {
    let (mut server, now) = (Server::default(), Instant::now());
    let numbers = [(); 4].map(|()| server.note(now, Undo::default()));
    assert_eq!(server.fate(now, numbers[1]), Fate::Replicated);
    let lost = server.fail_over(now, now + Duration::from_secs(1), none);
    assert_eq!(lost.undos.len(), 2);
    assert_eq!(
        numbers.map(|number| server.fate(now, number)),
        [Fate::Replicated, Fate::Replicated, Fate::TakenBack, Fate::TakenBack,]
    );
}

#[test]
fn a_replica_that_is_not_apart_is_behind_for_a_moment_only() {
    let (mut server, now) = (Server::default(), Instant::now());
    let number = server.note(now, Undo::default());
    let later = now + Duration::from_millis(2);
    assert!(server.fail_over(later, later, none).undos.is_empty());
    assert_eq!(server.fate(later, number), Fate::Replicated);
}

#[test]
fn nothing_is_acknowledged_while_the_replica_is_apart() {
    let (mut server, now) = (Server::default(), Instant::now());
    server.part(now);
    let numbers = [(); 3].map(|()| server.note(now, Undo::default()));
    let later = now + Duration::from_secs(2);
    assert_eq!(server.fate(later, numbers[0]), Fate::Open);
    // It heard of one, after all.
    let lost = server.fail_over(later, later, |doubtful| doubtful - 2);
    assert_eq!(lost.undos.len(), 2);
    assert_eq!(
        numbers.map(|number| server.fate(later, number)),
        [Fate::Replicated, Fate::TakenBack, Fate::TakenBack,]
    );
}

#[test]
fn who_was_shown_what_is_lost_is_known() {
    let (mut server, now) = (Server::default(), Instant::now());
    server.part(now);
    server.note(now, set(b"Ia"));
    server.note(now, set(b"Ib"));
    let at = [1, 2, 3].map(|ms| now + Duration::from_millis(ms));
    server.show(at[0], |key| key == b"Ia");
    server.show(at[1], |key| key == b"Ib");
    server.show(at[2], |key| key.starts_with(b"I"));
    let lost = server.fail_over(at[2], at[2], |_| 1);
    assert_eq!(lost.shown, [at[1], at[2]]);
}

#[test]
fn it_answers_again_when_its_replica_has_taken_over() {
    let (mut server, now) = (Server::default(), Instant::now());
    let until = now + Duration::from_secs(1);
    assert!(server.answers(now));
    server.fail_over(now, until, none);
    assert!(!server.answers(now) && server.answers(until));
    server.fail_over(now, until, none);
    server.mend();
    assert!(server.answers(now));
}
