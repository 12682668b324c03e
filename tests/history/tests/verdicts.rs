//! The checker on histories written by hand: what is possible passes, and each kind of lie is found.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on is to stop")]

use intarsia_history::check::{Rules, Verdict, check};
use intarsia_history::event::{Event, NEVER, Operation, Outcome, Record};
use intarsia_history::token::{Content, Token};

const OWN: &str = "d0/o0-1";
const OTHER: &str = "d1/o0-2";
const SHARED: &str = "d0/s1";

/// A write of client 0.
fn token(number: u32) -> Token {
    Token::new(0, number)
}

/// A history of client 0, who changes, and clients 1 and up, who mostly look. Times are small numbers.
#[derive(Default)]
struct History(Vec<Event>);

impl History {
    fn did(
        mut self,
        client: u16,
        start: u64,
        end: u64,
        operation: Operation,
        outcome: Outcome,
    ) -> Self {
        let outcome = (end != NEVER).then_some(outcome);
        self.0.push(Event { client, operation, start, end, slowest_ns: 0, outcome });
        self
    }

    fn open(self, start: u64, end: u64, number: u32) -> Self {
        let operation = Operation::Open { name: OWN.into(), token: token(number) };
        self.did(0, start, end, operation, Outcome::Done)
    }

    fn close(self, start: u64, end: u64) -> Self {
        self.did(0, start, end, Operation::Close { name: OWN.into() }, Outcome::Done)
    }

    /// Opened in 10..20, closed in 30..40.
    fn written(self) -> Self {
        self.open(10, 20, 1).close(30, 40)
    }

    fn unlink(self, start: u64, end: u64) -> Self {
        self.did(0, start, end, Operation::Unlink { name: OWN.into() }, Outcome::Done)
    }

    fn rename(self, start: u64, end: u64) -> Self {
        let operation = Operation::Rename { from: OWN.into(), to: OTHER.into() };
        self.did(0, start, end, operation, Outcome::Done)
    }

    fn stat(self, client: u16, start: u64, end: u64, name: &str, outcome: Outcome) -> Self {
        self.did(client, start, end, Operation::Stat { name: name.into() }, outcome)
    }

    fn read(self, start: u64, end: u64, name: &str, bytes: &[u8]) -> Self {
        let outcome = Outcome::Content(Content::of(bytes));
        self.did(1, start, end, Operation::Read { name: name.into() }, outcome)
    }

    fn list(self, start: u64, end: u64, names: &[&str]) -> Self {
        let names = names.iter().map(|n| (*n).to_owned()).collect();
        self.did(1, start, end, Operation::List { directory: "d0".into() }, Outcome::Names(names))
    }

    fn publish(self, client: u16, start: u64, end: u64, number: u32, outcome: Outcome) -> Self {
        let token = Token::new(client, number);
        let operation = Operation::Publish { name: SHARED.into(), token, exclusive: true };
        self.did(client, start, end, operation, outcome)
    }

    fn verdict_under(&self, rules: Rules) -> Verdict {
        let mut records: Vec<Record> = (0..4)
            .map(|client| Record {
                client,
                host: None,
                events: self.0.iter().filter(|e| e.client == client).cloned().collect(),
                is_finished: true,
            })
            .collect();
        for record in &mut records {
            record.is_finished = record.events.last().is_none_or(|e| e.outcome.is_some());
        }
        check(&records, rules)
    }

    #[track_caller]
    fn passes(&self) {
        let verdict = self.verdict_under(Rules::default());
        assert!(verdict.is_clean(), "{:#?}", verdict.violations);
    }

    #[track_caller]
    fn fails(&self, why: &str) {
        let verdict = self.verdict_under(Rules::default());
        let is_told = verdict.violations.iter().any(|v| v.contains(why));
        assert!(is_told, "'{why}' is not told, but {:#?}", verdict.violations);
    }
}

fn size(number: u32) -> Outcome {
    Outcome::Size(token(number).size())
}

#[test]
fn what_was_closed_is_seen_by_every_look_that_begins_later() {
    let all = token(1).content();
    let written = || History::default().written();
    written()
        .read(50, 60, OWN, &all)
        .stat(1, 61, 62, OWN, size(1))
        .list(63, 64, &["o0-1"])
        .passes();
    written().stat(1, 50, 60, OWN, Outcome::Absent).fails("saw by stat no such name");
    written()
        .did(1, 50, 60, Operation::Read { name: OWN.into() }, Outcome::Absent)
        .fails("saw by open");
    written().list(50, 60, &[]).fails("saw by a listing no such name");
    written().read(50, 60, OWN, &[]).fails("saw by read 0 bytes");
    written().read(50, 60, OWN, &all[..all.len() / 2]).fails("saw by read");
    // While it is written all of this may be seen; before, nothing.
    written().read(25, 28, OWN, &[]).passes();
    written().read(25, 28, OWN, &all[..all.len() / 2]).passes();
    written().stat(1, 15, 28, OWN, Outcome::Absent).passes();
    written().stat(1, 5, 9, OWN, Outcome::Size(0)).fails("could only be absent");
    written().list(5, 9, &["o0-1"]).fails("could only be absent");
}

#[test]
fn an_overwritten_file_is_old_until_the_close_and_new_after_it() {
    let (old, new) = (token(1).content(), token(2).content());
    let over = || History::default().written().open(50, 60, 2).close(70, 80);
    over().read(65, 68, OWN, &old).passes();
    over().read(75, 78, OWN, &new).passes();
    over().read(90, 95, OWN, &new).passes();
    over().read(90, 95, OWN, &old).fails("could only be");
    over().stat(1, 90, 95, OWN, size(1)).fails("could only be");
    let cut = 320.min(old.len().min(new.len()) / 32 * 32);
    let mixture: Vec<u8> = old[..cut].iter().chain(&new[cut..]).copied().collect();
    over().read(45, 75, OWN, &mixture).passes();
    over().read(90, 95, OWN, &mixture).fails("saw by read");
    let mut foreign = new;
    foreign[..cut].fill(0);
    over().read(65, 68, OWN, &foreign).fails("nobody wrote the bytes at 0");
    let spread = Rules { holes_may_show: true, ..Rules::default() };
    let (during, after) = (over().read(65, 68, OWN, &foreign), over().read(90, 95, OWN, &foreign));
    assert!(during.verdict_under(spread).is_clean());
    assert!(!after.verdict_under(spread).is_clean(), "what was closed has no holes");
}

#[test]
fn no_size_is_invented() {
    let largest = token(1).size();
    let written = || History::default().written();
    written().stat(1, 25, 28, OWN, Outcome::Size(largest / 2)).passes();
    written().stat(1, 25, 28, OWN, Outcome::Size(largest + 1)).fails("saw by stat");
    written().stat(1, 50, 60, OWN, Outcome::Size(largest / 2)).fails("saw by stat");
    written().stat(1, 50, 60, OWN, Outcome::Size(0)).fails("saw by stat 0 bytes");
}

#[test]
fn two_looks_do_not_contradict_each_other() {
    // Seen by client 1 before the close has returned; then client 2 must see it too, or something newer.
    let once = || History::default().written().unlink(100, 200);
    once().stat(1, 110, 120, OWN, Outcome::Absent).stat(2, 130, 140, OWN, Outcome::Absent).passes();
    once()
        .stat(1, 110, 120, OWN, Outcome::Absent)
        .stat(2, 130, 140, OWN, size(1))
        .fails("could only be absent");
    once().stat(2, 110, 120, OWN, size(1)).stat(1, 115, 140, OWN, Outcome::Absent).passes();
}

#[test]
fn a_rename_changes_both_names_at_one_instant() {
    let moved = || History::default().written().rename(100, 200);
    let then =
        |history: History, start, name, outcome| history.stat(1, start, start + 5, name, outcome);
    let before = then(then(moved(), 110, OWN, size(1)), 120, OTHER, Outcome::Absent);
    then(then(before, 130, OTHER, size(1)), 140, OWN, Outcome::Absent).passes();
    // Under none of its names, and under both.
    then(then(moved(), 110, OWN, Outcome::Absent), 120, OTHER, Outcome::Absent)
        .fails("rename d0/o0-1 to d1/o0-2");
    then(then(moved(), 110, OTHER, size(1)), 120, OWN, size(1)).fails("rename d0/o0-1 to d1/o0-2");
    moved().stat(1, 210, 220, OWN, size(1)).fails("could only be absent");

    // A target that is replaced is never absent.
    let target = Operation::Open { name: OTHER.into(), token: token(7) };
    let close = Operation::Close { name: OTHER.into() };
    let replaced = || {
        let history = History::default().did(0, 1, 2, target.clone(), Outcome::Done);
        history.did(0, 3, 4, close.clone(), Outcome::Done).written().rename(100, 200)
    };
    replaced().stat(1, 110, 190, OTHER, size(7)).stat(1, 191, 199, OTHER, size(1)).passes();
    replaced().stat(1, 110, 190, OTHER, Outcome::Absent).fails("saw by stat no such name");
}

#[test]
fn who_has_a_file_open_sees_what_is_written_over_it_under_another_name() {
    // Opened as d0/o0-1 before the rename; then d1/o0-2 is written over, which is the same file.
    let over = Operation::Open { name: OTHER.into(), token: token(2) };
    let close = Operation::Close { name: OTHER.into() };
    let history = |end| {
        let history = History::default().written().rename(100, 110);
        let history = history.did(0, 120, 130, over.clone(), Outcome::Done);
        history.did(0, 140, 150, close.clone(), Outcome::Done).read(
            90,
            end,
            OWN,
            &token(2).content(),
        )
    };
    history(160).passes();
    history(115).fails("saw by read");
}

#[test]
fn listings_are_complete_and_name_everything_once() {
    let written = || History::default().written();
    written().list(50, 60, &["o0-1", "o0-1"]).fails("listed twice");
    written().unlink(52, 54).list(50, 60, &["o0-1", "o0-1"]).passes();
    written().list(50, 60, &["o0-1", "x"]).fails("d0/x: nobody ever made it");
    written().list(50, 60, &["o0-1", "o9-9"]).fails("d0/o9-9");
    written().unlink(70, 80).list(90, 95, &["o0-1"]).fails("could only be absent");
}

#[test]
fn a_shared_name_is_made_by_one_of_all_who_try() {
    let both = |first, second| {
        History::default().publish(1, 10, 20, 1, first).publish(2, 15, 25, 2, second)
    };
    both(Outcome::Done, Outcome::Exists).passes();
    both(Outcome::Exists, Outcome::Done).passes();
    both(Outcome::Done, Outcome::Done).fails("no order of the operations explains");
    both(Outcome::Exists, Outcome::Exists).fails("no order of the operations explains");

    let shared = |client, number| Outcome::Size(Token::new(client, number).size());
    both(Outcome::Done, Outcome::Exists).stat(3, 30, 40, SHARED, shared(1, 1)).passes();
    both(Outcome::Done, Outcome::Exists).stat(3, 30, 40, SHARED, shared(2, 2)).fails("no order");
    both(Outcome::Done, Outcome::Exists)
        .stat(3, 30, 40, SHARED, Outcome::Size(1 << 40))
        .fails("is whole");
    let unlink = Operation::Unlink { name: SHARED.into() };
    let removed =
        || both(Outcome::Done, Outcome::Exists).did(3, 30, 40, unlink.clone(), Outcome::Done);
    removed()
        .stat(1, 35, 38, SHARED, Outcome::Absent)
        .stat(1, 50, 60, SHARED, Outcome::Absent)
        .passes();
    removed()
        .stat(1, 35, 38, SHARED, Outcome::Absent)
        .stat(2, 39, 39, SHARED, shared(1, 1))
        .fails("no order");
    removed().did(2, 50, 60, unlink.clone(), Outcome::Done).fails("no order");
    removed().did(2, 50, 60, unlink.clone(), Outcome::Absent).passes();
}

#[test]
fn a_published_file_is_seen_whole() {
    let content = Token::new(1, 1).content();
    let history = || History::default().publish(1, 10, 20, 1, Outcome::Done);
    history().read(30, 40, SHARED, &content).passes();
    history().read(12, 15, SHARED, &content[..content.len() - 30]).fails("is whole");
}

#[test]
fn a_new_name_may_wait_for_its_close_where_that_is_said() {
    let rules = Rules { may_fail: true, names_may_wait: true, ..Rules::default() };
    let close = Operation::Close { name: OWN.into() };
    let open = || History::default().open(10, 20, 1);
    let closed = || open().did(0, 50, 60, close.clone(), Outcome::Done);
    let absent = |history: History, at| history.stat(1, at, at + 5, OWN, Outcome::Absent);
    assert!(absent(closed(), 30).verdict_under(rules).is_clean());
    absent(closed(), 30).fails("no such name");
    assert!(!absent(closed(), 70).verdict_under(rules).is_clean(), "it was closed");
    let seen = || closed().stat(2, 25, 28, OWN, Outcome::Size(0));
    assert!(!absent(seen(), 30).verdict_under(rules).is_clean(), "it was seen before");
    // What could not be closed may never come to be.
    let failed = Outcome::Failed { errno: 5, call: "close".into() };
    let unclosed = || open().did(0, 50, 60, close.clone(), failed.clone());
    for outcome in [Outcome::Absent, Outcome::Size(0), size(1)] {
        assert!(unclosed().stat(1, 70, 80, OWN, outcome).verdict_under(rules).is_clean());
    }
    // Its own host may have shown it until then; what another one has shown was recorded.
    let then_absent = |client| absent(unclosed().stat(client, 65, 70, OWN, size(1)), 75);
    assert!(then_absent(0).verdict_under(rules).is_clean());
    assert!(!then_absent(2).verdict_under(rules).is_clean(), "it was seen elsewhere");
}

#[test]
fn what_failed_may_have_been_done_or_not() {
    let rules = Rules { may_fail: true, ..Rules::default() };
    let failed = || Outcome::Failed { errno: 5, call: "unlink".into() };
    let history = |outcome| {
        let unlink = Operation::Unlink { name: OWN.into() };
        History::default()
            .written()
            .did(0, 100, 110, unlink, failed())
            .stat(1, 120, 130, OWN, outcome)
    };
    assert!(history(Outcome::Absent).verdict_under(rules).is_clean());
    assert!(history(size(1)).verdict_under(rules).is_clean());
    history(size(1)).fails("unlink failed with error 5");
    // But it was done once for all.
    let back = history(Outcome::Absent).stat(2, 140, 150, OWN, size(1));
    assert!(!back.verdict_under(rules).is_clean());
    // What a failed close leaves is never called new and whole for certain, nor old.
    let close = Operation::Close { name: OWN.into() };
    let closed = |outcome| {
        let failed = Outcome::Failed { errno: 28, call: "write".into() };
        let history = History::default().open(10, 20, 1).did(0, 30, 40, close.clone(), failed);
        history.stat(1, 50, 60, OWN, outcome).verdict_under(rules).is_clean()
    };
    assert!(closed(Outcome::Size(0)) && closed(size(1)) && !closed(Outcome::Absent));

    // A shared name: one that failed may still have taken it from the other.
    let shared =
        History::default().publish(1, 10, 20, 1, failed()).publish(2, 30, 40, 2, Outcome::Exists);
    assert!(shared.verdict_under(rules).is_clean());
    let denied = shared.stat(3, 50, 60, SHARED, Outcome::Absent);
    assert!(!denied.verdict_under(rules).is_clean());
}

#[test]
fn a_killed_client_may_have_done_its_last_operation() {
    let rules = Rules { may_die: true, ..Rules::default() };
    let killed =
        |outcome| History::default().written().unlink(100, NEVER).stat(1, 200, 210, OWN, outcome);
    assert!(killed(Outcome::Absent).verdict_under(rules).is_clean());
    assert!(killed(size(1)).verdict_under(rules).is_clean());
    killed(size(1)).fails("client 0 came to no end; it stopped in Unlink");
}

#[test]
fn an_owner_is_not_told_that_its_file_is_gone() {
    let unlink = Operation::Unlink { name: OWN.into() };
    History::default()
        .written()
        .did(0, 50, 60, unlink, Outcome::Absent)
        .fails("saw by unlink no such name");
    let rename = Operation::Rename { from: OWN.into(), to: OTHER.into() };
    let refused = Outcome::Failed { errno: 2, call: "rename".into() };
    History::default()
        .written()
        .did(0, 50, 60, rename, refused)
        .fails("saw by rename no such name");
}

#[test]
fn no_call_takes_longer_than_the_limit() {
    let mut history = History::default().written();
    history.0[1].slowest_ns = 10_500_000_000;
    history.fails("took 10500 ms");
}

#[test]
fn a_new_name_may_be_taken_back_by_the_open_that_failed_where_that_is_said() {
    let undone = || {
        let failed = Outcome::Failed { errno: 16, call: "open".into() };
        let open = Operation::Open { name: OWN.into(), token: token(1) };
        History::default()
            .did(0, 10, 40, open, failed)
            .list(20, 25, &["o0-1"])
            .list(50, 55, &[])
            .list(60, 65, &[])
    };
    let failing = Rules { may_fail: true, ..Rules::default() };
    assert!(!undone().verdict_under(failing).is_clean());
    let spread = Rules { opens_may_be_undone: true, ..failing };
    assert!(undone().verdict_under(spread).is_clean());
    let back = undone().list(70, 75, &["o0-1"]);
    assert!(!back.verdict_under(spread).is_clean(), "not for a while");
}
