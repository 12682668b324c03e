//! What runs draw and cost: the account of the thesis (equations 3.4 and 3.5) on cases that can be computed by hand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::{Setup, roughly};
use intarsia_predict::configuration::{Configuration, Placement, Scheduler};
use intarsia_predict::model::{Energy, Prediction, predict};
use intarsia_predict::profile::{Frequency, Power, Prices, Profile, Provenance, Source};
use intarsia_predict::search::{Grid, Options, Weights, advise};
use intarsia_types::TierClass;
use serde_json::json;

/// Table 3.5 of the thesis: one host with two Intel Xeon E5-2630 at 2.3 GHz.
fn published() -> Power {
    Power {
        provenance: Provenance { source: Source::Published, note: "table 3.5".to_owned() },
        idle_watts: 91.6,
        compute_watts: 33.6,
        storage_watts: 37.5,
        network_watts: 36.1,
    }
}

fn platform(setup: &Setup, change: impl FnOnce(&mut Profile)) -> Profile {
    let mut profile = setup.profile();
    profile.host.power = Some(published());
    change(&mut profile);
    profile
}

fn run(setup: &Setup, profile: &Profile, configuration: &Configuration) -> (Prediction, Energy) {
    let found = predict(&setup.workload(), profile, configuration, 1).unwrap();
    let energy = found.energy.clone().unwrap();
    (found, energy)
}

/// Two hosts and a manager: a task reads 10 chunks of another host, and computes.
fn reader() -> Setup {
    Setup { read_seconds: 1e-3, ..Setup::default() }.file("in", 10 << 20).raw_task(json!({
        "name": "t", "operations": [{"read": "in"}, {"compute_seconds": 2.0}],
    }))
}

#[test]
fn each_state_draws_for_as_long_as_it_lasts() {
    let setup = reader();
    let (found, energy) = run(&setup, &platform(&setup, |_| {}), &setup.configuration());
    assert_eq!(energy.hosts.len(), 3);
    let [app, store, manager] = energy.hosts[..] else { panic!("{energy:?}") };
    for host in &energy.hosts {
        assert_eq!(host.idle, found.makespan_seconds);
    }
    assert_eq!((app.compute, store.compute, manager.network), (2.0, 0.0, 0.0));
    roughly(store.storage, 10e-3, 1e-6);
    // Ten chunks at 8 ns a byte, and requests beside them, on both cards.
    let link = f64::from(10 << 20) * 8e-9;
    roughly(store.network, link, 0.01);
    roughly(app.network, link, 0.02);
    let by_hand = 3.0 * 91.6 * found.makespan_seconds
        + 33.6 * app.compute
        + 37.5 * store.storage
        + 36.1 * (app.network + store.network);
    roughly(energy.joules, by_hand, 1e-9);
    let by = energy.by_state;
    roughly(by.idle + by.compute + by.storage + by.network, energy.joules, 1e-12);
}

#[test]
fn idle_power_counts_for_the_whole_run_and_every_host() {
    let setup = reader();
    let configuration = setup.configuration();
    let (found, once) = run(&setup, &platform(&setup, |_| {}), &configuration);
    let doubled = platform(&setup, |profile| {
        profile.host.power.as_mut().unwrap().idle_watts *= 2.0;
    });
    let (_, twice) = run(&setup, &doubled, &configuration);
    roughly(twice.joules - once.joules, 3.0 * 91.6 * found.makespan_seconds, 1e-9);
}

#[test]
fn a_profile_without_power_has_no_energy() {
    let found = reader().predict();
    assert!(found.energy.is_none() && found.money.is_none());
}

#[test]
fn hosts_bytes_and_energy_are_paid() {
    let setup = reader();
    let profile = platform(&setup, |profile| {
        profile.prices = Some(Prices {
            currency: "EUR".to_owned(),
            per_host_hour: 3.6,
            per_kilowatt_hour: 0.36,
            per_gigabyte_hour: vec![(TierClass::Memory, 36.0)],
        });
    });
    let (found, energy) = run(&setup, &profile, &setup.configuration());
    let hours = found.makespan_seconds / 3600.0;
    let held = f64::from(10 << 20) / 1e9 * 36.0;
    let by_hand = hours * (3.0 * 3.6 + held) + energy.joules / 3.6e6 * 0.36;
    roughly(found.money.unwrap(), by_hand, 1e-9);
}

/// The frequencies of table 3.5's hosts: what a run at 1.2 GHz draws is assumed, for figures there are none.
fn with_frequencies(profile: &mut Profile) {
    let slow = Power { idle_watts: 88.0, compute_watts: 18.0, ..published() };
    profile.host.frequencies = vec![Frequency { mhz: 1200, speed: 1200.0 / 2300.0, power: slow }];
}

/// P74: published are +85.5 % of energy for a search that computes at 1.2 instead of 2.3 GHz, and −17 % for a pipeline.
/// Only the signs can be reproduced: the power of those hosts at 1.2 GHz was not published.
#[test]
fn a_low_frequency_pays_where_tasks_move_bytes_and_not_where_they_compute() {
    let ratio = |compute_seconds: f64| {
        let mut setup = Setup { app: 4, collocated: true, ..Setup::default() };
        setup = setup.file("in", 100 << 20);
        for n in 0..4 {
            setup = setup.raw_task(json!({
                "name": format!("t-{n}"), "reads": ["in"], "compute_seconds": compute_seconds,
            }));
        }
        let profile = platform(&setup, with_frequencies);
        let usual = setup.configuration();
        let slow = Configuration { frequency_mhz: Some(1200), ..usual.clone() };
        run(&setup, &profile, &slow).1.joules / run(&setup, &profile, &usual).1.joules
    };
    assert!(ratio(60.0) > 1.5, "{}", ratio(60.0));
    assert!(ratio(0.01) < 1.0, "{}", ratio(0.01));
}

/// P73: a workflow-aware store needs less energy than one that deals every file over all hosts, because it ends sooner.
#[test]
fn a_workflow_aware_store_draws_less() {
    let mut setup = Setup { app: 8, collocated: true, local_messages: true, ..Setup::default() };
    setup = Setup { read_seconds: 1e-3, write_seconds: 1e-3, ..setup };
    for n in 0..8 {
        setup = setup.file(&format!("f-0-{n}"), 50 << 20);
        for stage in 0..3 {
            let (from, to) = (format!("f-{stage}-{n}"), format!("f-{}-{n}", stage + 1));
            setup = setup.file(&to, 50 << 20).raw_task(
                json!({"name": format!("t-{stage}-{n}"), "reads": [from], "writes": [to]}),
            );
        }
    }
    let profile = platform(&setup, |_| {});
    let aware = Configuration { scheduler: Scheduler::Location, ..setup.configuration() };
    let dealt = Configuration {
        placement: Placement::RoundRobin,
        stripe_width: 8,
        ..setup.configuration()
    };
    let (aware, dealt) = (run(&setup, &profile, &aware).1, run(&setup, &profile, &dealt).1);
    assert!(aware.joules < 0.8 * dealt.joules, "{} {}", aware.joules, dealt.joules);
}

#[test]
fn advice_weighs_time_cost_and_energy() {
    let mut setup = Setup { app: 8, collocated: true, ..Setup::default() }.file("in", 8 << 20);
    for n in 0..12 {
        setup = setup
            .raw_task(json!({"name": format!("t-{n}"), "reads": ["in"], "compute_seconds": 5.0}));
    }
    let mut profile = platform(&setup, with_frequencies);
    profile.hosts = 8;
    let mut grid = Grid::usual(&profile);
    (grid.storage_hosts, grid.chunk_bytes) = (vec![None], vec![1 << 20]);
    grid.frequencies_mhz = vec![None, Some(1200)];
    let of = |weights: Weights| {
        let options = Options {
            seed: 1,
            replications: 2,
            threads: 1,
            weights,
            shown: 15,
            within_seconds: None,
        };
        advise(&setup.workload(), &profile, &grid, options).unwrap()
    };
    let by_time = of(Weights::TIME);
    assert_eq!(by_time.best, by_time.fastest);
    let thrifty = of(Weights { time: 0.0, cost: 0.0, energy: 1.0 });
    assert_eq!(Some(thrifty.best), thrifty.thriftiest);
    let cheap = of(Weights { time: 0.0, cost: 1.0, energy: 0.0 });
    assert_eq!(cheap.best, cheap.cheapest);
    // Nothing on the front is beaten by anything in all three.
    let value = |place: usize| {
        let point = &by_time.points[place];
        [point.seconds, point.cost(), point.joules.unwrap().mean]
    };
    for place in &by_time.pareto {
        for other in 0..by_time.points.len() {
            let (own, other) = (value(*place), value(other));
            let is_beaten = own.iter().zip(&other).all(|(own, other)| other < own);
            assert!(!is_beaten, "{own:?} {other:?}");
        }
    }
    assert!(by_time.pareto.contains(&by_time.thriftiest.unwrap()) || by_time.pareto.len() > 1);
}

#[test]
fn a_frequency_that_hosts_lack_is_refused() {
    let setup = reader();
    let profile = platform(&setup, with_frequencies);
    let wrong = Configuration { frequency_mhz: Some(900), ..setup.configuration() };
    let problem = predict(&setup.workload(), &profile, &wrong, 1).unwrap_err();
    assert!(problem.message.contains("900 MHz: host 0"), "{problem:?}");
    assert!(problem.help.unwrap().contains("1200"));
}
