//! What must hold whatever the workload, the platform and the configuration are.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::{Setup, assert_seconds, roughly};
use intarsia_predict::configuration::{Configuration, Placement, Scheduler};
use intarsia_predict::model::predict;
use intarsia_predict::search::{Grid, Options, Weights, advise};
use intarsia_predict::workload::{Operation, Workload};
use proptest::prelude::*;
use serde_json::json;

/// Layers of tasks that read files of the layer before and write one each.
fn layered(setup: Setup, layers: &[(usize, u64)], fan_in: usize) -> Setup {
    let mut setup = setup.file("in", 3 << 20);
    let mut before = vec!["in".to_owned()];
    for (layer, (tasks, bytes)) in layers.iter().enumerate() {
        let mut made = Vec::new();
        for task in 0..*tasks {
            let name = format!("f-{layer}-{task}");
            let reads: Vec<&String> =
                (0..fan_in.min(before.len())).map(|n| &before[(task + n) % before.len()]).collect();
            setup = setup.file(&name, *bytes).raw_task(json!({
                "name": format!("t-{layer}-{task}"), "stage": format!("s-{layer}"),
                "reads": reads, "compute_seconds": 0.25, "writes": [name],
            }));
            made.push(name);
        }
        before = made;
    }
    setup
}

fn moved(workload: &Workload) -> u64 {
    workload.moved_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn bytes_are_conserved_order_is_kept_and_a_run_can_be_repeated(
        layers in prop::collection::vec((1_usize..7, 0_u64..5_000_000), 1..4),
        fan_in in 1_usize..4,
        shape in (1_u32..5, 1_u32..5, any::<bool>(), any::<bool>()),
        placement in prop::sample::select(vec![Placement::Local, Placement::RoundRobin, Placement::Collocate]),
        scheduler in prop::sample::select(vec![Scheduler::Workqueue, Scheduler::Location, Scheduler::Local, Scheduler::Wow]),
        chunk in prop::sample::select(vec![65_536_u64, 1 << 20, 100_000]),
        copies in 1_u32..4,
        cache in prop::sample::select(vec![0_u64, 4_000_000, 1 << 40]),
    ) {
        let (app, stores, collocated, local_messages) = shape;
        let mut setup = Setup { app, stores, collocated, local_messages, cache_bytes: cache, ..Setup::default() };
        setup.configuration = Configuration {
            placement, scheduler, chunk_bytes: chunk, copies, stripe_width: 3, ..setup.configuration
        };
        let setup = layered(setup, &layers, fan_in);
        let (workload, profile, configuration) = (setup.workload(), setup.profile(), setup.configuration());
        let found = predict(&workload, &profile, &configuration, 7).unwrap();
        let all = found.bytes.local + found.bytes.remote + found.bytes.from_memory;
        prop_assert_eq!(all, moved(&workload));
        for (task, times) in workload.tasks.iter().zip(&found.tasks) {
            prop_assert!(times.end_seconds >= times.start_seconds + 0.25 - 1e-9);
            for parent in &task.parents {
                prop_assert!(times.start_seconds >= found.tasks[*parent].end_seconds);
            }
        }
        for usage in &found.usage {
            prop_assert!(usage.busiest <= 1.0 + 1e-9, "{usage:?}");
            prop_assert!(usage.mean <= usage.busiest + 1e-12);
        }
        let again = predict(&workload, &profile, &configuration, 7).unwrap();
        prop_assert_eq!(serde_json::to_string(&found).unwrap(), serde_json::to_string(&again).unwrap());
        // A chain of computations cannot be cut short.
        prop_assert!(found.makespan_seconds >= 0.25);
    }

    /// On a fixed schedule: one task at a time.
    #[test]
    fn a_faster_network_never_lengthens_a_run_of_one_task_at_a_time(
        layers in prop::collection::vec((1_usize..2, 1_u64..9_000_000), 1..4),
        rates in (1e6_f64..1e9, 1.0_f64..4.0),
        width in 1_u32..5,
    ) {
        let of = |bytes_per_second: f64| {
            let mut setup = Setup { stores: 4, bytes_per_second, ..Setup::default() };
            setup.configuration.placement = Placement::RoundRobin;
            setup.configuration.stripe_width = width;
            layered(setup, &layers, 1).predict().makespan_seconds
        };
        prop_assert!(of(rates.0 * rates.1) <= of(rates.0) + 1e-9);
    }
}

#[test]
fn smaller_frames_converge() {
    let of = |frame_bytes: u64| {
        let mut setup = Setup { app: 3, stores: 2, frame_bytes, ..Setup::default() };
        setup.configuration.placement = Placement::RoundRobin;
        layered(setup, &[(3, 8 << 20), (2, 8 << 20)], 2).predict().makespan_seconds
    };
    let (fine, finer, finest) = (of(8192), of(1024), of(128));
    assert!((finer - finest).abs() < (fine - finest).abs(), "{fine} {finer} {finest}");
    roughly(finer, finest, 1e-3);
}

#[test]
fn a_pipeline_is_local_where_tasks_go_to_their_files() {
    let of = |placement: Placement, scheduler: Scheduler| {
        let mut setup = Setup { app: 8, collocated: true, ..Setup::default() };
        setup.configuration.placement = placement;
        setup.configuration.scheduler = scheduler;
        layered(setup, &[(8, 20 << 20), (8, 20 << 20), (8, 1 << 20)], 1).predict()
    };
    let workflow_aware = of(Placement::Local, Scheduler::Location);
    let default = of(Placement::RoundRobin, Scheduler::Workqueue);
    assert!(workflow_aware.bytes.local_share() > 0.9);
    assert!(default.bytes.local_share() < 0.5);
    assert!(workflow_aware.makespan_seconds < default.makespan_seconds);
}

#[test]
fn a_reduction_reads_locally_what_was_collocated() {
    let of = |placement: Placement| {
        let mut setup = Setup { app: 6, collocated: true, ..Setup::default() };
        setup.configuration.placement = placement;
        setup.configuration.scheduler = Scheduler::Location;
        layered(setup, &[(6, 10 << 20), (1, 1 << 20)], 6).predict()
    };
    let local_reads = |placement| of(placement).stages[1].read_seconds;
    assert!(local_reads(Placement::Collocate) < 0.01 * local_reads(Placement::Local));
}

#[test]
fn what_is_in_memory_is_read_at_its_rate() {
    let setup =
        Setup { collocated: true, cache_bytes: 1 << 30, read_seconds: 1e-2, ..Setup::default() };
    let setup = setup.file("in", 10 << 20).task(&[("read", "in"), ("read", "in")]);
    // Two operations that do not follow one another in the file: the second finds all of it.
    let found = setup.predict();
    assert_eq!(found.bytes.from_memory, 10 << 20);
    assert_seconds(found.makespan_seconds, 10.0 * 1e-2 + f64::from(10 << 20) * 1e-9);
}

#[test]
fn of_a_chunk_that_was_read_in_part_only_the_rest_is_read() {
    let setup =
        Setup { collocated: true, cache_bytes: 1 << 30, read_seconds: 1e-2, ..Setup::default() };
    let part = |offset: u64, size: u64| json!({ "read": "in", "offset_bytes": offset, "size_bytes": size });
    let reads = json!([part(0, 1 << 18), part(1 << 19, 1 << 18), { "read": "in" }]);
    let task = json!({ "name": "reader", "operations": reads });
    let found = setup.file("in", 1 << 20).raw_task(task).predict();
    // What lies between the two parts and behind the second is one read, as a chunk is.
    assert_eq!(found.bytes.from_memory, 1 << 18);
    assert_eq!(found.bytes.local, (1 << 18) * 2 + 3 * (1 << 18));
}

#[test]
fn overhead_speed_and_slots_count() {
    let task = |name: &str| json!({"name": name, "overhead_seconds": 0.2, "compute_seconds": 3.0, "slots": 1});
    let setup =
        Setup { collocated: true, ..Setup::default() }.raw_task(task("a")).raw_task(task("b"));
    assert_seconds(setup.predict().makespan_seconds, 6.4);
    let mut profile = setup.profile();
    profile.host.slots = 2;
    profile.host.speed = 2.0;
    let found = predict(&setup.workload(), &profile, &setup.configuration(), 1).unwrap();
    assert_seconds(found.makespan_seconds, 1.7);
    let wide = json!({"name": "c", "compute_seconds": 1.0, "slots": 3});
    let wide = setup.raw_task(wide).workload();
    let problem = predict(&wide, &profile, &Configuration::new(1), 1).unwrap_err();
    assert!(problem.message.contains("'c' needs 3 slots"), "{problem}");
}

#[test]
fn a_full_store_says_which_file_does_not_fit() {
    let setup = Setup { collocated: true, app: 2, capacity_bytes: 15 << 20, ..Setup::default() };
    let setup = layered(setup, &[(2, 10 << 20)], 1);
    setup.predict();
    let more = layered(Setup { files: vec![], tasks: vec![], ..setup }, &[(3, 10 << 20)], 1);
    let problem = predict(&more.workload(), &more.profile(), &more.configuration(), 1).unwrap_err();
    assert!(problem.message.contains("no storage host has room for 'f-0-2'"), "{problem}");
}

#[test]
fn hints_come_before_the_configuration() {
    let mut setup = Setup { stores: 4, ..Setup::default() };
    setup.files.push(json!({"name": "out", "size_bytes": 8 << 20, "hints": {"place": "stripe:4", "chunk": "256KiB"}}));
    let setup = setup.task(&[("write", "out")]);
    let followed = setup.predict();
    assert_eq!(followed.storage_writes.requests, 32);
    let mut without = setup;
    without.configuration.follows_hints = false;
    assert_eq!(without.predict().storage_writes.requests, 8);
}

#[test]
fn measured_times_are_drawn_and_the_same_for_every_configuration() {
    let setup = layered(Setup { collocated: true, app: 3, ..Setup::default() }, &[(6, 1 << 20)], 1);
    let mut profile = setup.profile();
    let samples = [1e-3, 2e-3, 30e-3];
    profile.manager.commit = intarsia_predict::profile::Seconds::Samples(samples.into());
    assert!(profile.is_random() && !setup.profile().is_random());
    let of = |seed| predict(&setup.workload(), &profile, &setup.configuration(), seed).unwrap();
    let makespans: Vec<f64> = (0..20).map(|seed| of(seed).makespan_seconds).collect();
    assert!(makespans.iter().any(|seconds| (seconds - makespans[0]).abs() > 1e-3), "{makespans:?}");
    assert_eq!(of(3).makespan_seconds, makespans[3]);
}

#[test]
fn advice_finds_the_best_of_its_grid_and_says_what_decides() {
    let setup = Setup { app: 4, collocated: true, ..Setup::default() };
    let setup = layered(setup, &[(8, 6 << 20), (8, 6 << 20), (1, 1 << 20)], 2);
    let (workload, mut profile) = (setup.workload(), setup.profile());
    profile.hosts = 8;
    let grid = Grid::usual(&profile);
    let options = |threads| Options {
        seed: 1,
        replications: 5,
        threads,
        weights: Weights::TIME,
        shown: 15,
        within_seconds: None,
    };
    let advice = advise(&workload, &profile, &grid, options(2)).unwrap();
    assert!(advice.points.len() > 100, "{}", advice.points.len());
    assert!(advice.points.windows(2).all(|pair| pair[0].seconds <= pair[1].seconds));
    let cost = |place: usize| advice.points[place].host_seconds;
    assert!((0..advice.points.len()).all(|place| cost(place) >= cost(advice.cheapest)));
    for place in 0..advice.points.len() {
        let point = &advice.points[place];
        let is_beaten = advice.points.iter().any(|other| {
            (other.seconds < point.seconds && other.host_seconds <= point.host_seconds)
                || (other.seconds <= point.seconds && other.host_seconds < point.host_seconds)
        });
        assert_eq!(
            advice.pareto.contains(&place),
            !is_beaten && !equals_an_earlier(&advice.points, place)
        );
    }
    assert_eq!(advice.points[advice.fastest].runs, 5);
    assert_eq!(advice.cheapest_within(f64::INFINITY), Some(advice.cheapest));
    assert_eq!(advice.cheapest_within(0.0), None);
    assert!(advice.knobs[0].effect >= advice.knobs[1].effect);
    assert!(advice.reasons.len() > 3, "{:?}", advice.reasons);
    let alone = advise(&workload, &profile, &grid, options(1)).unwrap();
    assert_eq!(serde_json::to_string(&alone).unwrap(), serde_json::to_string(&advice).unwrap());
}

fn equals_an_earlier(points: &[intarsia_predict::search::Point], place: usize) -> bool {
    let point = &points[place];
    points[..place]
        .iter()
        .any(|p| p.seconds == point.seconds && p.host_seconds == point.host_seconds)
}

/// One host serves metadata, so of 20 hosts 19 are to be split: the captions of two published figures forget it.
#[test]
fn a_metadata_host_of_its_own_counts() {
    let setup = Setup::default();
    let configuration =
        Configuration { storage_hosts: Some(5), managers_apart: true, ..Configuration::new(20) };
    let roles = configuration.roles(&setup.profile()).unwrap();
    assert_eq!((roles.app, roles.stores, roles.managers), (0..14, 14..19, 19..20));
    let none = Configuration { storage_hosts: Some(19), ..configuration };
    assert!(none.roles(&setup.profile()).unwrap_err().message.contains("leave none to run tasks"));
}

#[test]
fn what_would_take_for_ever_is_refused_at_once() {
    let mut setup = Setup::default().file("in", 1 << 52).task(&[("read", "in")]);
    setup.configuration.chunk_bytes = 1;
    let refused = predict(&setup.workload(), &setup.profile(), &setup.configuration(), 1);
    assert!(refused.unwrap_err().message.contains("4503599627370496 chunks"));
}

/// With as many copies as hosts nothing crosses a link but what is written.
#[test]
fn a_copy_on_the_own_host_is_read_first() {
    let mut setup = Setup { app: 3, collocated: true, ..Setup::default() }.file("in", 30 << 20);
    for _ in 0..3 {
        setup = setup.task(&[("read", "in")]);
    }
    let remote = |placement, copies| {
        let configuration =
            Configuration { placement, copies, stripe_width: 3, ..setup.configuration() };
        let found = predict(&setup.workload(), &setup.profile(), &configuration, 1).unwrap();
        assert_eq!(found.bytes.local + found.bytes.remote, 90 << 20);
        found.bytes.remote
    };
    for placement in [Placement::Local, Placement::RoundRobin] {
        assert_eq!(remote(placement, 3), 0);
        assert_eq!(remote(placement, 2), 30 << 20);
        assert_eq!(remote(placement, 1), 60 << 20);
    }
}

/// A constant order of hosts made every client begin at the same one: the hot spot that the thesis found in its store.
#[test]
fn each_file_is_dealt_in_an_order_of_its_own() {
    let mut setup = Setup { app: 16, stores: 16, ..Setup::default() };
    setup.configuration.placement = Placement::RoundRobin;
    setup.configuration.stripe_width = 1;
    for task in 0..160 {
        let name = format!("out-{task}");
        setup = setup.file(&name, 1 << 20).task(&[("write", &name)]);
    }
    let links =
        setup.predict().usage.into_iter().find(|usage| usage.resource == "links in").unwrap();
    assert!(links.busiest < 4.0 * links.mean, "{links:?}");
}

#[test]
fn operations_in_a_row_are_one() {
    let read = |offset: u64| json!({"read": "in", "offset_bytes": offset, "size_bytes": 262_144});
    let operations: Vec<_> = (0..10).map(|n| read(n * 262_144)).collect();
    let setup = Setup::default()
        .file("in", 2_621_440)
        .raw_task(json!({"name": "t", "operations": operations}));
    let workload = setup.workload();
    assert_eq!(workload.tasks[0].operations.len(), 1);
    assert!(
        matches!(workload.tasks[0].operations[0], Operation::Read(e) if e.size_bytes == 2_621_440)
    );
}

/// Two hosts, whose tasks read files of one: while the first ones run, what the next ones read goes to the other host.
#[test]
fn copies_ahead_of_waiting_tasks_hide_their_transfer() {
    let of = |scheduler: Scheduler| {
        let mut setup =
            Setup { app: 2, collocated: true, cache_bytes: 1 << 40, ..Setup::default() };
        setup.configuration.scheduler = scheduler;
        setup = setup.file("done", 1).raw_task(
            json!({"name": "make", "writes": (0..9).map(|n| format!("f-{n}")).collect::<Vec<_>>()}),
        );
        for n in 0..9 {
            setup = setup.file(&format!("f-{n}"), 250_000_000).raw_task(json!({
                "name": format!("t-{n}"), "reads": [format!("f-{n}")], "compute_seconds": 4.0,
            }));
        }
        setup.predict()
    };
    let (location, wow) = (of(Scheduler::Location), of(Scheduler::Wow));
    assert!(
        wow.makespan_seconds < location.makespan_seconds - 1.0,
        "{} {}",
        wow.makespan_seconds,
        location.makespan_seconds
    );
    let moved = |found: &intarsia_predict::model::Prediction| {
        found.bytes.local + found.bytes.remote + found.bytes.from_memory
    };
    assert_eq!(moved(&wow), moved(&location));
}

#[test]
fn new_files_go_where_the_store_of_the_profile_puts_them() {
    let found = |placement: &'static str| {
        let mut setup = Setup { app: 4, collocated: true, placement, ..Setup::default() };
        for task in 0..32 {
            let name = format!("f-{task}");
            // Computation deals them evenly: a host that writes fast would take most of them.
            setup = setup.file(&name, 10_000_000).raw_task(json!({
                "name": name, "compute_seconds": 1.0, "writes": [name],
            }));
        }
        let profile = setup.profile();
        let ours = Configuration { hosts: 4, ..Configuration::of(&profile) };
        predict(&setup.workload(), &profile, &ours, 3).unwrap()
    };
    let total = 320_000_000;
    assert_eq!(found("local").bytes.remote, 0);
    let central = found("central");
    // All but what the first host writes itself comes in through its card.
    assert_eq!(central.bytes.remote + central.bytes.local, total);
    let least = f64::from(u32::try_from(central.bytes.remote).unwrap()) / 125e6;
    assert!(central.makespan_seconds >= least && central.bytes.remote > total / 3);
    let spread = found("spread");
    roughly(f64::from(u32::try_from(spread.bytes.remote).unwrap()), 240e6, 0.25);
    assert!(spread.bytes.local > 0);
}

#[test]
fn memory_of_a_reader_keeps_striped_files_if_the_store_does() {
    let found = |keeps_striped: bool| {
        let mut setup = Setup {
            app: 2,
            collocated: true,
            cache_bytes: 1 << 40,
            keeps_striped,
            ..Setup::default()
        };
        setup.configuration = Configuration {
            placement: Placement::RoundRobin,
            stripe_width: 2,
            ..setup.configuration
        };
        let twice = json!({ "name": "reader", "operations": [{ "read": "in" }, { "read": "in" }] });
        setup.file("in", 8 << 20).raw_task(twice).predict()
    };
    let (kept, asked_again) = (found(true), found(false));
    assert_eq!((kept.bytes.remote, asked_again.bytes.remote), (4 << 20, 8 << 20));
    assert!(asked_again.makespan_seconds > 1.4 * kept.makespan_seconds);
}

#[test]
fn messages_without_data_pass_between_the_data_of_others_where_links_are_fair() {
    let found = |sharing: &'static str| {
        let mut setup = Setup { app: 2, collocated: true, sharing, ..Setup::default() };
        setup.configuration = Configuration {
            managers: 2,
            placement: Placement::RoundRobin,
            stripe_width: 2,
            ..setup.configuration
        };
        // Each host sends the other a long file, and asks the other's manager meanwhile.
        let told = setup
            .file("in-0", 100 << 20)
            .file("in-1", 100 << 20)
            .file("out", 1)
            .raw_task(json!({ "name": "far", "operations": [{ "read": "in-0" }] }))
            .raw_task(json!({ "name": "near", "operations": [
                { "compute_seconds": 0.1 }, { "open": "in-1" }, { "write": "out" },
            ] }))
            .predict();
        told.tasks[1].end_seconds - told.tasks[1].start_seconds
    };
    let (fair, frames) = (found("fair"), found("frames"));
    assert!(fair <= frames + 1e-9, "{fair} and {frames}");
    roughly(fair, 0.1, 0.05);
}
