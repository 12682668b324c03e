//! Tasks beside their data as `intarsia run` deals them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::Setup;
use intarsia_predict::configuration::Scheduler;
use intarsia_predict::model::Prediction;
use serde_json::json;

const MB: u64 = 1_000_000;

fn by(mut setup: Setup, scheduler: Scheduler) -> Prediction {
    setup.configuration.scheduler = scheduler;
    setup.predict()
}

fn hosts(app: u32) -> Setup {
    Setup { app, collocated: true, cache_bytes: 1 << 40, ..Setup::default() }
}

/// Three rows of tiles, of which tasks look at neighbours: each row is made and looked at on one host.
#[test]
fn what_is_read_together_is_made_on_one_host() {
    let mut setup = hosts(3);
    // Tiles of the same place in all rows come one after the other: dealt as they come, rows are spread over the hosts.
    for (tile, row) in (0..6).flat_map(|tile| (0..3).map(move |row| (tile, row))) {
        let name = format!("tile-{row}-{tile}");
        setup = setup.file(&name, 50 * MB).raw_task(json!({
            "name": name, "stage": "tile", "compute_seconds": 1.0 + f64::from((7 * tile + row) % 5) / 10.0,
            "writes": [name],
        }));
    }
    for (row, tile) in (0..3).flat_map(|row| (0..5).map(move |tile| (row, tile))) {
        setup = setup.raw_task(json!({
            "name": format!("overlap-{row}-{tile}"), "stage": "overlap", "compute_seconds": 0.1,
            "reads": [format!("tile-{row}-{tile}"), format!("tile-{row}-{}", tile + 1)],
        }));
    }
    let (local, location) = (by(setup.clone(), Scheduler::Local), by(setup, Scheduler::Location));
    assert_eq!(local.bytes.remote, 0);
    assert!(location.bytes.remote > 100 * MB, "{:?}", location.bytes);
    assert!(local.makespan_seconds <= location.makespan_seconds);
}

/// One task runs where the data of the next one lie: that one waits for it if it is over sooner than they are moved.
#[test]
fn a_task_waits_for_the_host_of_its_data_where_that_pays() {
    let of = |compute_seconds: f64, scheduler| {
        let mut setup = hosts(2).file("data", 500 * MB).file("small", MB);
        setup = setup.raw_task(json!({"name": "make", "stage": "a", "writes": ["data", "small"]}));
        // How long tasks take is known from one that ran before.
        for name in ["first", "second"] {
            setup = setup.raw_task(json!({
                "name": name, "stage": "b", "compute_seconds": compute_seconds, "reads": ["data"],
            }));
        }
        by(setup, scheduler)
    };
    // Moving 500 MB takes 4 s.
    assert!(of(0.5, Scheduler::Location).bytes.on_links > 400 * MB);
    assert!(of(0.5, Scheduler::Local).bytes.on_links < MB);
    // It waits while that could be over, and moves them when it has waited for longer than that takes.
    let long = of(60.0, Scheduler::Local);
    assert!(long.bytes.on_links > 400 * MB);
    assert!(long.makespan_seconds < 100.0, "{}", long.makespan_seconds);
}
