//! Cases that can be computed by hand: the model gives the same to the nanosecond.
//!
//! One gigabit a second is 8 ns a byte, so every term is a whole number of nanoseconds. μ is the time of a byte on a link,
//! f a frame, s a message without data, c a chunk, K their number.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::{Setup, assert_seconds, roughly};
use intarsia_predict::configuration::{Configuration, CopyOrder, Placement, WriteWaitsFor};
use intarsia_predict::model::predict;

const MICRO: f64 = 8e-9;
const FRAME: f64 = 65_536.0;
const CONTROL: f64 = 1_024.0;
const CHUNK: f64 = 1_048_576.0;
const MANAGER: f64 = 500e-6;

/// What a request to the manager takes from another host.
fn round_trip() -> f64 {
    4.0 * CONTROL * MICRO + MANAGER
}

#[test]
fn a_control_round_trip() {
    let open = Setup::default().task(&[("open", "input")]).file("input", 0).predict();
    assert_seconds(open.makespan_seconds, round_trip());
}

#[test]
fn writing_to_one_remote_host_is_bound_by_the_network() {
    for storage in [0.0, 1e-3, CHUNK * MICRO] {
        let (setup, chunks) = (Setup { write_seconds: storage, ..Setup::default() }, 20.0);
        let write = setup.file("out", 20 << 20).task(&[("write", "out")]).predict();
        let expected = 2.0 * round_trip()
            + chunks * CHUNK * MICRO
            + FRAME * MICRO
            + storage
            + 2.0 * CONTROL * MICRO;
        assert_seconds(write.makespan_seconds, expected);
    }
}

#[test]
fn writing_to_one_remote_host_is_bound_by_its_storage() {
    let storage = 2.0 * CHUNK * MICRO;
    let setup = Setup { write_seconds: storage, ..Setup::default() };
    let write = setup.file("out", 20 << 20).task(&[("write", "out")]).predict();
    let expected =
        2.0 * round_trip() + CHUNK * MICRO + FRAME * MICRO + 20.0 * storage + 2.0 * CONTROL * MICRO;
    assert_seconds(write.makespan_seconds, expected);
}

#[test]
fn writing_with_one_chunk_outstanding() {
    for storage in [1e-3, 2.0 * CHUNK * MICRO] {
        let setup = Setup { write_seconds: storage, outstanding: Some(1), ..Setup::default() };
        let write = setup.file("out", 20 << 20).task(&[("write", "out")]).predict();
        let chunk = CHUNK * MICRO + FRAME * MICRO + storage + 2.0 * CONTROL * MICRO;
        assert_seconds(write.makespan_seconds, 2.0 * round_trip() + 20.0 * chunk);
    }
}

#[test]
fn many_writers_to_one_host_share_its_link() {
    // The published figure for five of them is 0.4 % above the bound.
    let (writers, chunks) = (5, 40.0);
    let mut setup = Setup { app: writers, ..Setup::default() };
    for writer in 0..writers {
        let name = format!("out-{writer}");
        setup = setup.file(&name, 40 << 20).task(&[("write", &name)]);
    }
    let bound = f64::from(writers) * chunks * CHUNK * MICRO;
    let makespan = setup.predict().makespan_seconds;
    assert!(makespan > bound && makespan < 1.006 * bound, "{makespan} for {bound}");
}

#[test]
fn a_striped_writer_is_bound_by_its_link_or_by_all_storage() {
    for (storage, width) in [(1e-3, 4_u32), (20.0 * CHUNK * MICRO, 4), (8.0 * CHUNK * MICRO, 8)] {
        let mut setup = Setup { stores: width, write_seconds: storage, ..Setup::default() };
        setup.configuration.placement = Placement::RoundRobin;
        setup.configuration.stripe_width = width;
        let write = setup.file("out", 40 << 20).task(&[("write", "out")]).predict();
        let data = (40.0 * CHUNK * MICRO).max(40.0 * storage / f64::from(width));
        let fill = CHUNK * MICRO * f64::from(width) + storage + FRAME * MICRO + 2.0 * round_trip();
        let makespan = write.makespan_seconds;
        assert!(makespan >= data && makespan <= data + fill, "{makespan}: {data} and up to {fill}");
    }
}

#[test]
fn copies_in_a_chain_and_side_by_side() {
    for copies in 1..=4 {
        let mut setup = Setup { stores: 4, write_seconds: 1e-3, ..Setup::default() };
        setup.configuration.placement = Placement::RoundRobin;
        setup.configuration.copies = copies;
        let setup = setup.file("out", 1 << 20).task(&[("write", "out")]);
        let (first, others) = (f64::from(1), f64::from(copies - 1));
        let hop = CHUNK * MICRO + FRAME * MICRO + 1e-3;
        let ends = 2.0 * round_trip() + 2.0 * CONTROL * MICRO;
        assert_seconds(setup.predict().makespan_seconds, ends + (first + others) * hop);
        let mut parallel = setup.clone();
        parallel.configuration.copy_order = CopyOrder::Parallel;
        let further = if copies > 1 { hop + (others - 1.0) * CHUNK * MICRO } else { 0.0 };
        // The acknowledgement of the first copy leaves behind the copies, and is there before the last one's.
        assert_seconds(parallel.predict().makespan_seconds, ends + hop + further);
        let mut first = setup;
        first.configuration.write_waits_for = WriteWaitsFor::First;
        // The first host sends the next copy before it answers.
        let behind = if copies > 1 { CHUNK * MICRO } else { 0.0 };
        assert_seconds(first.predict().makespan_seconds, ends + hop + behind);
    }
}

#[test]
fn many_readers_of_one_striped_file() {
    for (readers, width) in [(1_u32, 4_u32), (8, 4), (8, 1), (6, 8)] {
        let mut setup =
            Setup { app: readers, stores: width, ..Setup::default() }.file("db", 64 << 20);
        setup.configuration.placement = Placement::RoundRobin;
        setup.configuration.stripe_width = width;
        for _ in 0..readers {
            setup = setup.task(&[("read", "db")]);
        }
        let bytes = f64::from(64 << 20);
        let bound = (bytes * MICRO).max(f64::from(readers) * bytes * MICRO / f64::from(width));
        let makespan = setup.predict().makespan_seconds;
        assert!(makespan >= bound, "{makespan} for {bound}");
        roughly(makespan, bound, 0.45);
    }
}

#[test]
fn a_read_asks_each_chunk_of_its_host() {
    let setup = Setup { read_seconds: 1e-3, ..Setup::default() };
    let read = setup.file("in", 20 << 20).task(&[("read", "in")]).predict();
    // All requests leave at once; the storage host works on the first when its request is there, and sends each as it has
    // read it. The link is slower than the storage.
    let expected = 2.0 * CONTROL * MICRO + 1e-3 + 20.0 * CHUNK * MICRO + FRAME * MICRO;
    assert_seconds(read.makespan_seconds, expected);
}

#[test]
fn the_first_bytes_of_an_operation_may_take_longer() {
    let setup = Setup { read_seconds: 1e-3, first_seconds: Some(6e-3), ..Setup::default() };
    let setup = setup.file("in", 20 << 20).task(&[("read", "in")]);
    let usual = Setup { first_seconds: None, ..setup.clone() }.predict().makespan_seconds;
    assert_seconds(setup.predict().makespan_seconds, usual + 5e-3);
    // What is in memory needs no medium: on the same host the second task pays nothing.
    let again = Setup { collocated: true, cache_bytes: 1 << 30, ..setup }.task(&[("read", "in")]);
    let once = Setup { first_seconds: None, ..again.clone() }.predict().makespan_seconds;
    assert_seconds(again.predict().makespan_seconds, once + 5e-3);
}

#[test]
fn latency_is_paid_once_a_message() {
    let setup = Setup { latency_seconds: 50e-6, ..Setup::default() };
    let write = setup.file("out", 1 << 20).task(&[("write", "out")]).predict();
    let without = 2.0 * round_trip() + CHUNK * MICRO + FRAME * MICRO + 2.0 * CONTROL * MICRO;
    assert_seconds(write.makespan_seconds, without + 6.0 * 50e-6);
}

#[test]
fn an_idle_link_lets_a_burst_pass_at_once() {
    for burst in [0, 125_000] {
        let setup = Setup { burst_bytes: burst, sharing: "fair", ..Setup::default() };
        let write = setup.file("out", 20 << 20).task(&[("write", "out")]).predict();
        let data = 20.0 * CHUNK - f64::from(u32::try_from(burst).unwrap());
        let expected = 2.0 * round_trip() + data * MICRO + 2.0 * CONTROL * MICRO;
        roughly(write.makespan_seconds, expected, 1e-6);
    }
}

#[test]
fn streams_share_a_link_fairly() {
    // Two files on the host that stores, of one and three parts, read by a host each.
    let setup = Setup { app: 2, sharing: "fair", ..Setup::default() }
        .file("short", 10_000_000)
        .file("long", 30_000_000)
        .task(&[("read", "short")])
        .task(&[("read", "long")]);
    let told = setup.predict();
    let ends: Vec<f64> = told.tasks.iter().map(|task| task.end_seconds).collect();
    roughly(ends[0], 20e6 * MICRO, 1e-3);
    roughly(ends[1], 40e6 * MICRO, 1e-3);
}

#[test]
fn a_client_that_opens_parts_asks_all_their_hosts_at_once() {
    let of = |opens_parts: bool, width: u32| {
        let mut setup = Setup { stores: 4, sharing: "fair", opens_parts, ..Setup::default() }
            .file("out", 4 << 20)
            .task(&[("write", "out")]);
        setup.configuration.placement = Placement::RoundRobin;
        setup.configuration.stripe_width = width;
        setup.predict().makespan_seconds
    };
    // Made, recorded by the manager, opened and measured: there and back each time, whatever their number. A file on one host
    // has no parts.
    roughly(of(true, 4), of(false, 4) + 3.0 * 4.0 * CONTROL * MICRO + round_trip(), 1e-6);
    roughly(of(true, 1), of(false, 1), 1e-9);
}

#[test]
fn what_has_no_data_waits_for_the_queue_of_a_link_that_is_full() {
    // While one host reads a long file, another reads one that is no longer than a message without data.
    let ends = |queue_bytes: u64, long: u64| {
        let setup = Setup { app: 2, sharing: "fair", queue_bytes, ..Setup::default() }
            .file("long", long)
            .file("short", 1024)
            .task(&[("read", "long")])
            .task(&[("read", "short")]);
        setup.predict().tasks.iter().map(|task| task.end_seconds).collect::<Vec<f64>>()
    };
    let (without, with) = (ends(0, 30_000_000), ends(500_000, 30_000_000));
    roughly(with[1], without[1] + 500_000.0 * MICRO, 1e-6);
    roughly(with[0], without[0], 1e-9);
    // No more can stand there than is on its way, and nothing on an idle link.
    roughly(ends(500_000, 300_000)[1], without[1] + 300_000.0 * MICRO, 1e-6);
    roughly(ends(500_000, 1024)[1], ends(0, 1024)[1], 1e-9);
}

#[test]
fn what_is_left_of_streams_that_end_together_holds_nobody_up() {
    // Three hosts read a file each from a fourth; when they have it, they read a short one there.
    let ends = |queue_bytes: u64| {
        let mut setup = Setup { app: 3, sharing: "fair", queue_bytes, ..Setup::default() };
        for (file, kib) in [("a", 900), ("b", 904), ("c", 908), ("x", 1), ("y", 1), ("z", 1)] {
            setup = setup.file(file, kib << 10);
        }
        for (long, short) in [("a", "x"), ("b", "y"), ("c", "z")] {
            setup = setup.task(&[("read", long), ("read", short)]);
        }
        setup.predict().makespan_seconds
    };
    roughly(ends(500_000), ends(0), 0.02 * ends(0));
}

#[test]
fn rates_of_sender_and_receiver_may_differ() {
    // A receiver of half the rate serves all frames but the first at its own rate.
    let mut setup = Setup::default().file("out", 1 << 20).task(&[("write", "out")]);
    setup.unlike.push((1, 62.5e6));
    let control_in = CONTROL * MICRO;
    let data = FRAME * MICRO + 2.0 * CHUNK * MICRO;
    let expected = 2.0 * round_trip() + data + 2.0 * control_in;
    assert_seconds(setup.predict().makespan_seconds, expected);
}

#[test]
fn a_service_on_the_same_host_is_called_or_sent_to() {
    let setup = Setup { collocated: true, write_seconds: 1e-3, ..Setup::default() };
    let setup = setup.file("out", 2 << 20).task(&[("write", "out")]);
    assert_seconds(setup.predict().makespan_seconds, 2.0 * MANAGER + 2e-3);
    let message = Setup { local_messages: true, ..setup };
    // The loopback takes 1 ns a byte, which is slower than the storage.
    let loopback = 1e-9;
    let expected = 2.0 * (4.0 * CONTROL * loopback + MANAGER)
        + (2.0 * CHUNK + FRAME) * loopback
        + 1e-3
        + 2.0 * CONTROL * loopback;
    assert_seconds(message.predict().makespan_seconds, expected);
}

#[test]
fn a_change_of_metadata_waits_for_a_majority() {
    let setup = Setup::default().file("out", 1 << 20).task(&[("write", "out")]);
    let of = |managers: u32, manager_copies: u32| {
        let configuration = Configuration {
            hosts: 2 + managers,
            managers,
            manager_copies,
            ..setup.configuration()
        };
        let found = predict(&setup.workload(), &setup.profile(), &configuration, 1).unwrap();
        found.makespan_seconds
    };
    let alone = of(1, 1);
    assert_seconds(of(3, 1), alone);
    // Both changes wait for one further server, or for two, whose copies leave one after the other.
    assert_seconds(of(3, 3), alone + 2.0 * round_trip());
    assert_seconds(of(5, 5), alone + 2.0 * (round_trip() + CONTROL * MICRO));
    assert_seconds(of(2, 9), of(2, 2));
}
