//! Simulated data stores against what is known of such stores: laws of queues, times of a head's
//! moves, the cost of parity, limits, and flash that was written at random.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use intarsia_simulate::datastore::{Outcome, Run};
use serde_json::{Value, json};

fn disk() -> Value {
    json!({"capacity_bytes": 500_000_000_000_u64, "seek_min_ms": 0.8, "seek_full_ms": 16.0,
           "rpm": 7200.0, "bytes_per_second": 120e6, "queue": 32})
}

fn array(level: &str, disks: u32, cache: u64, ahead: u64) -> Value {
    json!({"kind": "array", "level": level, "disks": disks, "chunk_bytes": 65536, "disk": disk(),
           "write_cache_bytes": cache, "read_ahead_bytes": ahead, "overhead_ms": 0.1,
           "link_bytes_per_second": 400e6})
}

fn flash() -> Value {
    json!({"kind": "flash", "capacity_bytes": 1 << 26, "page_bytes": 4096, "pages_per_block": 64,
           "dies": 8, "spare": 0.15, "read_us": 70.0, "program_us": 300.0, "erase_ms": 3.0,
           "buffer_bytes": 1 << 18, "overhead_us": 30.0, "link_bytes_per_second": 500e6})
}

fn network() -> Value {
    json!({"kind": "network", "capacity_bytes": 1_000_000_000_000_u64, "round_trip_ms": 0.6,
           "round_trip_sigma": 0.3, "iops": 3000.0, "burst": 100.0, "bytes_per_second": 125e6,
           "servers": 8, "read_ms": 0.5, "write_ms": 1.2})
}

fn stream(random: f64, read: f64, bytes: u64, outstanding: u32) -> Value {
    json!({"random": random, "read": read, "bytes": bytes, "outstanding": outstanding})
}

fn run(store: &Value, streams: &[Value]) -> Outcome {
    read(store, streams).simulate().unwrap()
}

fn read(store: &Value, streams: &[Value]) -> Run {
    let run = json!({"store": store, "streams": streams, "requests": 2000, "warmup": 600});
    serde_json::from_value(run).unwrap()
}

fn near(value: f64, wanted: f64, share: f64) {
    assert!((value - wanted).abs() <= share * wanted, "{value} is not within {share} of {wanted}");
}

#[test]
fn random_reads_of_one_disk_take_a_seek_half_a_revolution_and_the_transfer() {
    let outcome = run(&array("raid0", 1, 0, 0), &[stream(1.0, 1.0, 4096, 1)]);
    // The mean root of the distance of two random places is 8/15; the extent is an eighth.
    let seek = 0.8 + 15.2 * (1.0_f64 / 8.0).sqrt() * 8.0 / 15.0;
    near(outcome.latency.mean_ms, seek + 60e3 / 7200.0 / 2.0 + 4096.0 / 120e3, 0.03);
    near(outcome.random_share, 1.0, 0.01);
}

#[test]
fn outstanding_requests_are_rate_times_latency() {
    for store in [array("raid5", 5, 1 << 21, 1 << 18), flash(), network()] {
        for outstanding in [1, 7, 40] {
            let outcome = run(&store, &[stream(0.6, 0.7, 8192, outstanding)]);
            let law = outcome.iops * outcome.latency.mean_ms / 1e3;
            near(law, f64::from(outstanding), 0.06);
        }
    }
}

#[test]
fn a_small_write_to_parity_costs_more_than_to_a_mirror_and_that_more_than_to_stripes() {
    let iops = |level| run(&array(level, 6, 0, 0), &[stream(1.0, 0.0, 4096, 16)]).iops;
    let (raid0, raid10, raid5, raid6) =
        (iops("raid0"), iops("raid10"), iops("raid5"), iops("raid6"));
    assert!(raid0 > 1.4 * raid10, "{raid0} {raid10}");
    assert!(raid10 > 1.2 * raid5, "{raid10} {raid5}");
    assert!(raid5 > 1.2 * raid6, "{raid5} {raid6}");
}

#[test]
fn reading_ahead_and_a_write_cache_help_those_who_go_in_order() {
    let mean = |cache, ahead, read| {
        run(&array("raid5", 5, cache, ahead), &[stream(0.0, read, 8192, 1)]).latency.mean_ms
    };
    assert!(mean(0, 1 << 18, 1.0) < 0.9 * mean(0, 0, 1.0));
    assert!(mean(1 << 21, 0, 0.0) < 0.2 * mean(0, 0, 0.0));
}

#[test]
fn two_readers_in_order_on_one_disk_make_it_seek() {
    let alone = run(&array("raid0", 1, 0, 0), &[stream(0.0, 1.0, 4096, 1)]);
    let both =
        run(&array("raid0", 1, 0, 0), &[stream(0.0, 1.0, 4096, 1), stream(0.0, 1.0, 4096, 1)]);
    assert!(alone.random_share < 0.01);
    near(both.random_share, 1.0, 0.02);
    near(both.seek_between_share, 1.0, 0.02);
    assert!(both.latency.mean_ms > 20.0 * alone.latency.mean_ms);
}

#[test]
fn a_volume_lets_no_more_through_than_its_limit_and_is_flat_below() {
    let at = |outstanding| run(&network(), &[stream(1.0, 1.0, 4096, outstanding)]);
    near(at(64).iops, 3000.0, 0.03);
    let (one, two) = (at(1), at(2));
    near(one.latency.mean_ms, two.latency.mean_ms, 0.1);
}

#[test]
fn flash_that_is_written_at_random_writes_more_than_it_is_given() {
    let outcome = run(
        &flash(),
        &[json!({"random": 1.0, "read": 0.0, "bytes": 4096,
        "outstanding": 8, "extent_bytes": 1 << 26})],
    );
    let amplification = outcome.write_amplification.unwrap();
    assert!(amplification > 1.5 && amplification < 6.0, "{amplification}");
    // No die works longer than the time that passes: a write is a program, a move a read besides.
    let busy = outcome.iops * (300e-6 + (amplification - 1.0) * 370e-6);
    assert!(busy > 0.7 * 8.0 && busy <= 1.02 * 8.0, "{busy} of 8 dies");
}

#[test]
fn a_run_gives_the_same_each_time_and_its_seed_matters() {
    let streams = [stream(0.5, 0.5, 4096, 4), stream(1.0, 0.9, 65536, 2)];
    let mut run = read(&array("raid6", 6, 1 << 20, 1 << 17), &streams);
    run.trace = 5;
    let first = run.simulate().unwrap();
    assert_eq!(first, run.simulate().unwrap());
    assert_eq!(first.trace.len(), 5);
    run.seed = 2;
    assert_ne!(first, run.simulate().unwrap());
}

#[test]
fn what_makes_no_sense_is_refused_by_its_name() {
    for (store, stream, field) in [
        (array("raid5", 2, 0, 0), stream(0.5, 0.5, 4096, 1), "store.disks"),
        (network(), stream(75.0, 0.5, 4096, 1), "streams[0].random"),
        (network(), stream(0.5, 0.5, 0, 1), "streams[0].bytes"),
        (flash(), stream(0.5, 0.5, 1 << 30, 1), "streams[0].extent_bytes"),
    ] {
        let refused = read(&store, &[stream]).simulate().unwrap_err().to_string();
        assert!(refused.starts_with(field), "{refused}");
    }
    assert!(
        serde_json::from_value::<Run>(json!({"store": network(), "streams": [], "sed": 1}))
            .is_err()
    );
}
