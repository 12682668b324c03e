//! What two nodes say to each other when nothing fails, with both kinds of protection.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{
    BOTH, FILE_BYTES, FULL, Files, LATE, PANIC, Pair, SLOW, config, content, identity, key,
    loopback, node, open, read, wait_for,
};
use intarsia_sync::Simulation;
use intarsia_sync::simulation::Settings;
use intarsia_transport::{
    Buffer, CallError, Config, Link, Network, PeerFailure, Peers, Runtime, Server,
};
use intarsia_types::{Error, InodeId};
use intarsia_wire::{Handle, MAX_PAYLOAD_BYTES, Request, Response, Target};

#[test]
fn small_and_large_reads_bring_the_right_bytes() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let handle = pair.open(7);
        for (offset, len) in
            [(0, 1), (5, 4096), (1, 65_537), (9, 1 << 20), (0, MAX_PAYLOAD_BYTES), (FILE_BYTES, 10)]
        {
            let request = read(handle, offset, u32::try_from(len).unwrap());
            let answer = pair.peers.call(&pair.to, request, None).unwrap();
            assert_eq!(answer.response, Response::Data { size_bytes: FILE_BYTES });
            let left = usize::try_from(FILE_BYTES - offset).unwrap();
            assert!(*answer.payload == content(7, offset, len.min(left))[..], "{offset} {len}");
        }
        // Short at the end of the file.
        let request = read(handle, FILE_BYTES - 3, 4096);
        let mut into = [0; 4096];
        let (_, n) = pair.peers.call_into(&pair.to, request, None, &mut into).unwrap();
        assert_eq!(into[..n], content(7, FILE_BYTES - 3, 3)[..]);
    }
}

#[test]
fn writes_arrive_whole() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let handle = pair.open(3);
        let data = content(9, 0, 3_000_000);
        for (index, part) in data.chunks(700_001).enumerate() {
            let offset_bytes = 700_001 * index as u64;
            let request = Request::Write { target: Target::Handle(handle), offset_bytes };
            pair.peers.call(&pair.to, request, Some(pair.peers.copy(part))).unwrap();
        }
        assert!(pair.files.written.lock()[&3] == data);
    }
}

#[test]
fn many_threads_at_once_each_get_their_own() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let handles: Vec<Handle> = (0..8).map(|ino| pair.open(ino)).collect();
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let (pair, handles) = (&pair, &handles);
                scope.spawn(move || {
                    for round in 0..60 {
                        let ino = (thread + round) % 8;
                        let len = [100, 5_000, 300_000][(round % 3) as usize];
                        let offset = round * 1000 + thread;
                        let request = read(handles[ino as usize], offset, len);
                        let answer = pair.peers.call(&pair.to, request, None).unwrap();
                        assert!(*answer.payload == content(ino, offset, len as usize)[..]);
                    }
                });
            }
        });
    }
}

#[test]
fn answers_come_out_of_order() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let (slow, quick) = (pair.open(SLOW), pair.open(1));
        let waiting = pair.peers.start(&pair.to, read(slow, 0, 10), None).unwrap();
        wait_for("the slow read to begin", || pair.files.gate.waiting.load(Ordering::SeqCst) == 1);
        for _ in 0..10 {
            pair.peers.call(&pair.to, read(quick, 0, 10), None).unwrap();
        }
        assert!(!waiting.is_ready());
        pair.files.gate.open();
        assert_eq!(*waiting.wait().unwrap().payload, content(SLOW, 0, 10)[..]);
    }
}

#[test]
fn many_in_flight_from_one_thread() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let handle = pair.open(5);
        let started: Vec<_> = (0..500)
            .map(|n| (n, pair.peers.start(&pair.to, read(handle, n, 50), None).unwrap()))
            .collect();
        for (n, pending) in started.into_iter().rev() {
            assert_eq!(*pending.wait().unwrap().payload, content(5, n, 50)[..]);
        }
    }
}

#[test]
fn an_error_keeps_kind_errno_and_text() {
    let pair = Pair::new(Config::default());
    let handle = pair.open(FULL);
    let error = pair.peers.call(&pair.to, read(handle, 0, 1), None).unwrap_err();
    let CallError::Remote(error) = error else { panic!("{error}") };
    assert!(matches!(&error, Error::NoSpace(text) if text == "tier 3 of n2"), "{error}");
    let error = pair.peers.call(&pair.to, read(Handle(999), 0, 1), None).unwrap_err();
    assert_eq!(Error::from(error).errno(), 9);
}

#[test]
fn a_handler_that_panics_answers_eio_and_the_server_goes_on() {
    let pair = Pair::new(Config::default());
    let handle = pair.open(PANIC);
    for _ in 0..20 {
        let error = pair.peers.call(&pair.to, read(handle, 0, 1), None).unwrap_err();
        assert!(matches!(error, CallError::Remote(_)), "{error}");
        assert_eq!(Error::from(error).errno(), 5);
    }
    pair.peers.call(&pair.to, Request::Ping, None).unwrap();
}

#[test]
fn what_can_be_answered_at_once_passes_by_what_is_slow() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let slow = pair.open(SLOW);
        let stuck: Vec<_> =
            (0..20).map(|n| pair.peers.start(&pair.to, read(slow, n, 10), None).unwrap()).collect();
        wait_for("all threads to be stuck", || {
            pair.files.gate.waiting.load(Ordering::SeqCst) == Config::default().workers
        });
        let locate = |ino| {
            let request = Request::Locate { ino: InodeId(ino) };
            pair.peers.start(&pair.to, request, None).unwrap()
        };
        let quick: Vec<_> = (0..100).map(locate).collect();
        for pending in quick {
            assert_eq!(*pending.wait().unwrap().payload, *b"n1");
        }
        assert_eq!(Error::from(locate(PANIC).wait().unwrap_err()).errno(), 5);
        pair.files.gate.open();
        for (n, pending) in stuck.into_iter().enumerate() {
            assert_eq!(*pending.wait().unwrap().payload, content(SLOW, n as u64, 10)[..]);
        }
    }
}

#[test]
fn a_slow_handler_ends_at_the_deadline_with_a_message_that_names_the_peer() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let handle = pair.open(SLOW);
        let begun = Instant::now();
        let patience = Duration::from_millis(200);
        let error =
            pair.peers.call_within(&pair.to, read(handle, 0, 1), None, patience).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(2));
        let CallError::Peer(error) = error else { panic!("{error}") };
        assert!(matches!(error.failure, PeerFailure::Timeout { .. }));
        let text = error.to_string();
        let address = pair.server.as_ref().unwrap().address();
        assert!(text.contains(&format!("peer n2 at {address}: read: no answer")), "{text}");
        assert_eq!(Error::from(error).errno(), 110);
        // The connection is still good, and the late answer does no harm.
        pair.files.gate.open();
        pair.peers.call(&pair.to, Request::Ping, None).unwrap();
    }
}

#[test]
fn small_messages_do_not_wait_behind_slow_large_ones() {
    let pair = Pair::new(Config::default());
    let slow = pair.open(SLOW);
    let large: Vec<_> = (0..16)
        .map(|n| pair.peers.start(&pair.to, read(slow, n, 1 << 20), None).unwrap())
        .collect();
    wait_for("all threads for large messages to be stuck", || {
        pair.files.gate.waiting.load(Ordering::SeqCst) == Config::default().workers
    });
    let quick = pair.open(1);
    assert_eq!(
        *pair.peers.call(&pair.to, read(quick, 0, 9), None).unwrap().payload,
        content(1, 0, 9)[..]
    );
    pair.files.gate.open();
    for (n, pending) in large.into_iter().enumerate() {
        assert!(*pending.wait().unwrap().payload == content(SLOW, n as u64, 1 << 20)[..]);
    }
}

#[test]
fn handles_are_good_on_all_connections_and_end_with_the_session() {
    let pair = Pair::new(Config::default());
    let handle = pair.open(2);
    pair.peers.call(&pair.to, read(handle, 0, 10), None).unwrap();
    pair.peers.call(&pair.to, read(handle, 0, 1 << 20), None).unwrap();
    let status = pair.peers.status();
    assert_eq!((status[0].connections, status[0].epoch), (2, Some(1)));
    assert_eq!(pair.files.closed_sessions.load(Ordering::SeqCst), 0);
    pair.peers.set_members([]);
    wait_for("the session to end", || pair.files.closed_sessions.load(Ordering::SeqCst) == 1);
    let error = pair.peers.call(&pair.to, Request::Ping, None).unwrap_err();
    assert!(matches!(error, CallError::Peer(e) if e.failure == PeerFailure::Unknown));
    // Back again, as a new session: the old handle names nothing.
    pair.peers.set_members([(node("n2"), pair.server.as_ref().unwrap().address())]);
    let error = pair.peers.call(&pair.to, read(handle, 0, 10), None).unwrap_err();
    assert!(matches!(error, CallError::Remote(Error::BadHandle)), "{error}");
}

#[test]
fn one_way_messages_and_json_arrive() {
    let pair = Pair::new(Config::default());
    let tell = || pair.peers.tell(&pair.to, Request::Invalidate { ino: InodeId(1) });
    tell().unwrap(); // It leaves with the connection that it asks for.
    wait_for("the message", || pair.files.told.load(Ordering::SeqCst) == 1);
    assert_eq!(pair.peers.status()[0].connections, 1);
    tell().unwrap();
    wait_for("the next", || pair.files.told.load(Ordering::SeqCst) == 2);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    pair.peers.set_members([(node("n2"), nobody)]);
    tell().unwrap();
    wait_for("the attempt to fail", || pair.peers.status()[0].failure.is_some());
    let error = tell().unwrap_err();
    assert!(error.to_string().contains("peer n2"), "{error}");
    pair.peers.set_members([(node("n2"), pair.server.as_ref().unwrap().address())]);
    let answer = pair.peers.call(&pair.to, Request::Status, None).unwrap();
    assert_eq!((answer.response, &*answer.payload), (Response::Json, &b"\"n1\""[..]));
}

#[test]
fn a_message_without_answer_goes_by_whichever_connection_is_up() {
    let pair = Pair::new(Config::default());
    // A large answer was asked for first, so the connection for small messages is made just now.
    pair.peers.call(&pair.to, read(Handle(77), 0, 1 << 20), None).unwrap_err();
    pair.peers.tell(&pair.to, Request::Invalidate { ino: InodeId(1) }).unwrap();
    wait_for("the message", || pair.files.told.load(Ordering::SeqCst) == 1);
}

#[test]
fn what_cannot_be_sent_is_refused_here() {
    let pair = Pair::new(Config::default());
    let handle = pair.open(1);
    let request = Request::Write { target: Target::Handle(handle), offset_bytes: 0 };
    let payload = Buffer::from(vec![0; MAX_PAYLOAD_BYTES + 1]);
    let error = pair.peers.call(&pair.to, request, Some(payload)).unwrap_err();
    assert!(
        matches!(&error, CallError::Peer(e) if matches!(e.failure, PeerFailure::Unsendable(_))),
        "{error}"
    );
    let beyond = u32::try_from(MAX_PAYLOAD_BYTES + 1).unwrap();
    let error = pair.peers.call(&pair.to, read(handle, 0, beyond), None);
    assert!(matches!(error, Err(CallError::Remote(Error::Invalid(_)))));
    assert_eq!(pair.peers.status()[0].in_flight_bytes, 0);
}

#[test]
fn memory_is_bounded_by_what_may_be_in_flight() {
    let limit = 8 << 20;
    let pair = Pair::new(Config { in_flight_bytes: limit, ..Config::default() });
    let slow = pair.open(SLOW);
    let mut started = Vec::new();
    let refused = loop {
        let patience = Duration::from_millis(300);
        match pair.peers.start_within(&pair.to, read(slow, 0, 1 << 20), None, patience) {
            Ok(pending) => started.push(pending),
            Err(error) => break error,
        }
        assert!(started.len() < 100, "no limit is in force");
    };
    assert!(refused.to_string().contains("in flight"), "{refused}");
    assert_eq!(started.len(), 2 * 7, "seven of 1 MiB and their headers on each of two connections");
    assert!(pair.peers.status()[0].in_flight_bytes <= 2 * limit);
    pair.files.gate.open();
    drop(started);
    assert_eq!(pair.peers.status()[0].in_flight_bytes, 0);
    pair.peers.call(&pair.to, read(slow, 0, 1 << 20), None).unwrap();
}

#[test]
fn a_peer_that_is_slow_is_waited_for_as_long_as_its_caller_finds_that_it_lives() {
    let pair = Pair::new(Config { in_flight_bytes: 1, ..Config::default() });
    let slow = pair.open(SLOW);
    let patience = Duration::from_millis(100);
    let start = |is_slow: &dyn Fn() -> bool| {
        pair.peers.start_while(&pair.to, read(slow, 0, 4 << 20), None, patience, is_slow)
    };
    let looks = AtomicUsize::new(0);
    let lives_for_three_looks = || looks.fetch_add(1, Ordering::SeqCst) < 3;
    let given_up = start(&|| true).unwrap().wait_while(&lives_for_three_looks).unwrap_err();
    assert!(given_up.to_string().contains("no answer within"), "{given_up}");
    assert_eq!(looks.load(Ordering::SeqCst), 4, "it is asked until it says no");
    assert!(matches!(start(&|| true).unwrap().wait(), Err(CallError::Peer(_))), "or never");

    let held = [start(&|| true).unwrap(), start(&|| true).unwrap()];
    looks.store(0, Ordering::SeqCst);
    let no_room = start(&lives_for_three_looks).err().unwrap();
    assert!(no_room.to_string().contains("in flight"), "{no_room}");
    assert_eq!(looks.load(Ordering::SeqCst), 4, "also for room");
    std::thread::scope(|scope| {
        let last = scope.spawn(|| start(&|| true).unwrap().wait_while(&|| true));
        for pending in held {
            scope.spawn(|| pending.wait_while(&|| true).unwrap());
        }
        wait_for("both to hang", || pair.files.gate.waiting.load(Ordering::SeqCst) >= 2);
        pair.files.gate.open();
        assert_eq!(last.join().unwrap().unwrap().payload.len(), 4 << 20);
    });
}

#[test]
fn what_an_answer_opens_that_nobody_waits_for_any_more_is_closed() {
    let pair = Pair::new(Config::default());
    let patience = Duration::from_millis(100);
    let late = pair.peers.call_within(&pair.to, open(LATE), None, patience).unwrap_err();
    assert!(late.to_string().contains("no answer within"), "{late}");
    pair.files.gate.open();
    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
    wait_for("the late answer to be declined", || count(&pair.files.closed) == 1);

    let unused = pair.peers.start(&pair.to, open(1), None).unwrap();
    wait_for("an answer that is not waited for", || unused.is_ready());
    drop(unused);
    wait_for("it to be declined", || count(&pair.files.closed) == 2);
    pair.open(1);
    pair.peers.call(&pair.to, Request::Status, None).unwrap();
    assert_eq!((count(&pair.files.opened), count(&pair.files.closed)), (3, 2), "one is in use");
}

#[test]
fn a_peer_that_connects_anew_gets_no_further_memory_while_its_old_requests_hang() {
    let limits = Config { in_flight_bytes: 8 << 20, workers: 64, ..Config::default() };
    let pair = Pair::new(limits);
    let slow = pair.open(SLOW);
    let ask = |slow, n| {
        let patience = Duration::from_secs(1);
        pair.peers.start_within(&pair.to, read(slow, n, 1 << 20), None, patience).unwrap()
    };
    let waiting = || pair.files.gate.waiting.load(Ordering::SeqCst);
    let before: Vec<_> = (0..14).map(|n| ask(slow, n)).collect();
    wait_for("all to hang", || waiting() == 14);
    pair.peers.set_members([]);
    pair.peers.set_members([(node("n2"), pair.server.as_ref().unwrap().address())]);
    let slow = pair.open(SLOW);
    let after: Vec<_> = (0..14).map(|n| ask(slow, n)).collect();
    for pending in before.into_iter().chain(after) {
        assert!(matches!(pending.wait(), Err(CallError::Peer(_))));
    }
    assert!((14..=16).contains(&waiting()), "{} requests hold memory", waiting());
    pair.files.gate.open();
    wait_for("them to end", || waiting() == 0);
    pair.peers.call(&pair.to, read(slow, 0, 1 << 20), None).unwrap();
}

#[test]
fn a_stopping_server_does_not_wait_for_strangers() {
    let mut pair = Pair::new(Config::default());
    let server = pair.server.take().unwrap();
    let stranger = std::net::TcpStream::connect(server.address()).unwrap();
    pair.peers.call(&pair.to, Request::Ping, None).unwrap();
    let begun = Instant::now();
    assert!(server.stop());
    assert!(begun.elapsed() < Duration::from_secs(1));
    drop(stranger);
}

#[test]
fn a_stopping_server_lets_running_requests_finish() {
    let mut pair = Pair::new(Config::default());
    let slow = pair.open(SLOW);
    let pending = pair.peers.start(&pair.to, read(slow, 0, 100), None).unwrap();
    wait_for("the read to begin", || pair.files.gate.waiting.load(Ordering::SeqCst) == 1);
    let server = pair.server.take().unwrap();
    let stopper = std::thread::spawn(move || server.stop());
    pair.files.gate.open();
    assert_eq!(*pending.wait().unwrap().payload, content(SLOW, 0, 100)[..]);
    assert!(stopper.join().unwrap());
    let error = pair.peers.call(&pair.to, Request::Ping, None).unwrap_err();
    assert!(error.to_string().contains("peer n2"), "{error}");
}

#[test]
fn what_is_asked_only_if_there_is_room_never_waits() {
    let config = Config { in_flight_bytes: MAX_PAYLOAD_BYTES + 4096, ..Config::default() };
    let pair = Pair::new(Config { bulk_connections: 1, ..config });
    let patience = Duration::from_secs(10);
    let (slow, quick) = (pair.open(SLOW), pair.open(7));
    let ask = |handle, len| pair.peers.start_now(&pair.to, read(handle, 0, len), patience);
    assert!(ask(quick, 1 << 20).is_none(), "no connection for large answers is up yet");
    pair.peers.call(&pair.to, read(quick, 0, 1 << 20), None).unwrap();
    assert!(pair.peers.start_now(&node("stranger"), read(quick, 0, 9), patience).is_none());
    let first = ask(slow, 1 << 20).expect("there is room");
    let begun = Instant::now();
    assert!(ask(quick, u32::try_from(MAX_PAYLOAD_BYTES).unwrap()).is_none(), "no room is left");
    assert!(begun.elapsed() < Duration::from_secs(5), "less than any patience");
    pair.files.gate.open();
    assert_eq!(*first.wait().unwrap().payload, content(SLOW, 0, 1 << 20)[..]);
    let second = ask(quick, 1 << 20).expect("there is room again");
    assert_eq!(*second.wait().unwrap().payload, content(7, 0, 1 << 20)[..]);
}

/// Within so long a connection is taken.
const SOON: Duration = Duration::from_millis(700);

#[test]
fn connections_are_taken_while_somebody_listens() {
    let key = key();
    let runtime = Runtime::start(1).unwrap();
    let (files, config) = (Arc::new(Files::default()), Config::default());
    let server =
        Server::start(&runtime, loopback(), identity("n2", &key), config.clone(), files).unwrap();
    let address = server.address();
    let peers = Peers::new(runtime, identity("n1", &key), config).unwrap();
    assert!(peers.takes_connection(&node("n2"), address, SOON));
    assert!(server.stop());
    wait_for("nobody to listen", || !peers.takes_connection(&node("n2"), address, SOON));
}

#[test]
fn in_a_simulation_connections_are_taken_over_its_network() {
    let settings = Settings {
        seed: 1,
        switch_one_in: 0,
        end: Duration::from_secs(100),
        on_failure: |failure| panic!("{failure:?}"),
    };
    let run = Simulation::run(settings, |_| {
        let (key, network) = (key(), Network::default());
        let (one, other) = (node("n1"), node("n2"));
        let (files, config) = (Arc::new(Files::default()), Config::default());
        let (runtime, address) = (Runtime::simulated(&network), ([10, 0, 0, 2], 7000).into());
        let server =
            Server::start(&runtime, address, identity("n2", &key), config.clone(), files).unwrap();
        let peers = Peers::new(runtime, identity("n1", &key), config).unwrap();
        let takes = || peers.takes_connection(&other, address, SOON);
        assert!(takes());
        for (from, to) in [(&one, &other), (&other, &one)] {
            network.set_link(from, to, Link { is_cut: true, ..Link::default() });
            assert!(!takes());
            let slow = SOON * 2;
            network.set_link(from, to, Link { is_cut: false, min_delay: slow, max_delay: slow });
            assert!(!takes());
            network.mend();
        }
        assert!(takes());
        network.reset(&other, "it died");
        assert!(!takes());
        drop(server);
    });
    run.unwrap();
}
