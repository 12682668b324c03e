//! Hints that a configuration has for files by how tasks use them, and for their tier.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::Setup;
use intarsia_predict::configuration::{Configuration, PatternHints, Placement, Scheduler};
use intarsia_predict::model::{Prediction, predict};
use intarsia_predict::profile::{Prices, Profile};
use intarsia_predict::search::{Advice, Grid, Options, Space, Weights, advise};
use intarsia_predict::workload::FilePattern;
use intarsia_types::TierClass;
use serde_json::{Value, json};

const HOSTS: u32 = 6;
const TABLE_BYTES: u64 = 40_000_000;

/// A task makes a table that one task on each host reads; each makes a part, and one reads all parts and makes the result.
fn setup(hints: &Value) -> Setup {
    let mut setup = Setup {
        app: HOSTS,
        collocated: true,
        sharing: "fair",
        bytes_per_second: 12.5e6,
        cache_bytes: 1 << 40,
        latency_seconds: 50e-6,
        ..Setup::default()
    };
    setup.files.push(json!({ "name": "table", "size_bytes": TABLE_BYTES, "hints": hints }));
    setup = setup.file("result", 1000).file("log", 1000);
    setup = setup.raw_task(json!({ "name": "make", "writes": ["table"] }));
    let mut parts = Vec::new();
    for number in 0..HOSTS {
        let part = format!("part{number}");
        setup = setup.file(&part, 4_000_000).raw_task(json!({
            "name": format!("use{number}"), "reads": ["table"], "compute_seconds": 10, "writes": [part],
        }));
        parts.push(part);
    }
    setup
        .raw_task(json!({ "name": "sum", "reads": parts, "writes": ["result"] }))
        .raw_task(json!({ "name": "tell", "reads": ["result"], "writes": ["log"] }))
}

fn patterns(text: &Value) -> PatternHints {
    let whole = json!({ "format": "intarsia-configuration", "version": 1, "patterns": text });
    Configuration::parse("c.json", &whole.to_string(), &Configuration::new(1)).unwrap().patterns
}

fn with(hints: &Value, configured: &Value, follows_hints: bool) -> Prediction {
    let setup = setup(hints);
    let configuration =
        Configuration { patterns: patterns(configured), follows_hints, ..setup.configuration() };
    predict(&setup.workload(), &setup.profile(), &configuration, 1).unwrap()
}

#[test]
fn the_graph_tells_how_files_are_used() {
    let workload = setup(&json!({})).workload();
    let pattern = |name: &str| {
        let file = workload.files.iter().position(|file| file.name == name).unwrap();
        workload.pattern_of(file)
    };
    assert_eq!(pattern("table"), FilePattern::Broadcast);
    assert_eq!(pattern("part3"), FilePattern::Reduce);
    assert_eq!(pattern("result"), FilePattern::Pipeline);
    assert_eq!(pattern("log"), FilePattern::Once);
}

#[test]
fn hints_of_a_configuration_are_as_those_of_the_files() {
    let (none, shared) = (json!({}), json!({ "pattern": "broadcast" }));
    let striped = json!({ "place": "stripe:3" });
    let told = |hints: &Value| json!({ "broadcast": hints });
    let seconds = |found: Prediction| found.makespan_seconds;
    let plain = seconds(with(&none, &none, true));
    let own = seconds(with(&shared, &none, true));
    assert!(own < 0.8 * plain, "{own} s, {plain} s without the hint");
    assert_eq!(seconds(with(&none, &told(&shared), true)).to_bits(), own.to_bits());
    let apart = seconds(with(&striped, &none, true));
    assert_ne!(apart.to_bits(), own.to_bits());
    // What a file says itself comes first, unless hints of files are not followed.
    assert_eq!(seconds(with(&striped, &told(&shared), true)).to_bits(), apart.to_bits());
    assert_eq!(seconds(with(&striped, &told(&shared), false)).to_bits(), own.to_bits());
}

#[test]
fn of_equals_the_one_with_fewer_hints_comes_first() {
    let local = json!({ "place": "local" });
    let two = patterns(&json!({ "broadcast": local, "reduce": local }));
    let one = patterns(&json!({ "pipeline": local }));
    assert!(PatternHints::default() < one && one < two);
}

#[test]
fn what_one_task_reads_of_others_may_lie_together_where_all_else_is_striped() {
    let found = |configured: Value| {
        let setup = setup(&json!({}));
        let configuration = Configuration {
            scheduler: Scheduler::Location,
            placement: Placement::RoundRobin,
            stripe_width: HOSTS,
            patterns: patterns(&configured),
            ..setup.configuration()
        };
        predict(&setup.workload(), &setup.profile(), &configuration, 1).unwrap()
    };
    let striped = found(json!({}));
    let together = found(json!({ "reduce": { "place": "collocate:{reader}" } }));
    let parts = u64::from(HOSTS) * 4_000_000;
    assert!(together.bytes.remote + parts / 2 <= striped.bytes.remote, "{:?}", together.bytes);
}

fn options() -> Options {
    let weights = Weights::TIME;
    Options { seed: 1, replications: 1, threads: 1, weights, shown: 5, within_seconds: None }
}

/// All hosts, chunks of one length, tasks as `intarsia run` deals them.
fn grid(profile: &Profile) -> Grid {
    let usual = Grid::usual(profile);
    let schedulers = usual.schedulers[1..].to_vec();
    Grid {
        hosts: vec![HOSTS],
        storage_hosts: vec![None],
        chunk_bytes: vec![1 << 20],
        schedulers,
        ..usual
    }
}

fn told(advice: &Advice) -> Vec<String> {
    advice.points.iter().map(|point| point.configuration.patterns.to_string()).collect()
}

#[test]
fn an_advice_tries_hints_for_the_patterns_that_a_workload_has() {
    let setup = setup(&json!({}));
    let (workload, profile) = (setup.workload(), setup.profile());
    let grid = grid(&profile);
    let advice = advise(&workload, &profile, &grid, options()).unwrap();
    let best = &advice.points[advice.best];
    let hints = best.configuration.patterns.in_words(FilePattern::Broadcast).unwrap();
    let said = format!("broadcast files {hints}");
    assert!(best.configuration.to_string().contains(&said), "{}", best.configuration);
    let all = told(&advice).join("; ");
    assert!(all.contains("pattern=broadcast") && all.contains("reduce files place="), "{all}");
    let knob = advice.knobs.iter().find(|knob| knob.name == "hints for broadcast files").unwrap();
    assert!(knob.effect > 1.2 && knob.values[0].value == hints, "{knob:?}");
    let said = format!("read by several tasks (1 file) have the hints {hints}");
    assert!(advice.reasons.iter().any(|reason| reason.contains(&said)), "{:#?}", advice.reasons);

    // Neither where they are not asked for, nor where nobody follows them, nor for patterns that are not there.
    let plain = Grid { tries_patterns: false, ..grid.clone() };
    let deaf = Configuration { follows_hints: false, ..grid.common.clone() };
    let deaf = Grid { common: deaf, ..grid.clone() };
    let listed = [Configuration::new(HOSTS)];
    for space in [Space::Grid(&plain), Space::Grid(&deaf), Space::Listed(&listed)] {
        let advice = advise(&workload, &profile, space, options()).unwrap();
        assert!(told(&advice).iter().all(String::is_empty), "{:?}", told(&advice));
    }
    let single = Setup { files: Vec::new(), tasks: Vec::new(), ..setup }
        .file("a", 5_000_000)
        .file("b", 5_000_000)
        .raw_task(json!({ "name": "make", "writes": ["a"] }))
        .raw_task(json!({ "name": "use", "reads": ["a"], "writes": ["b"] }))
        .workload();
    let said = told(&advise(&single, &profile, &grid, options()).unwrap()).join("; ");
    assert!(said.contains("pipeline files place=local"), "{said}");
    assert!(!said.contains("broadcast") && !said.contains("reduce"), "{said}");
}

/// Memory, and a disk that is a tenth as fast and free of charge.
fn two_tiers() -> (Setup, Profile) {
    let setup = setup(&json!({}));
    let access = |rate: f64| json!({ "request_seconds": 0.0, "bytes_per_second": rate });
    let text = json!({
        "format": "intarsia-profile", "version": 1, "name": "two tiers",
        "provenance": { "source": "assumed", "note": "a test" }, "hosts": HOSTS,
        "host": { "slots": 1, "in_bytes_per_second": 1e9, "out_bytes_per_second": 1e9 },
        "network": { "latency_seconds": 5e-5, "loopback_bytes_per_second": 1e9 },
        "manager": { "open_seconds": 0, "allocate_seconds": 0, "commit_seconds": 0 },
        "tiers": [
            { "class": "memory", "capacity_bytes": 1_u64 << 40, "read": access(1e8), "write": access(1e8) },
            { "class": "disk", "capacity_bytes": 1_u64 << 40, "read": access(1e7), "write": access(1e7) },
        ],
    });
    let mut profile = Profile::parse("p.json", &text.to_string()).unwrap();
    profile.prices = Some(Prices {
        currency: "EUR".to_owned(),
        per_host_hour: 1e-6,
        per_kilowatt_hour: 0.0,
        per_gigabyte_hour: vec![(TierClass::Memory, 1.0)],
    });
    (setup, profile)
}

#[test]
fn the_tier_is_a_choice_where_there_are_several() {
    let (setup, profile) = two_tiers();
    let seconds = |tier: Option<TierClass>, configured: &Value| {
        let patterns = patterns(configured);
        let configuration = Configuration { tier, patterns, ..setup.configuration() };
        predict(&setup.workload(), &profile, &configuration, 1).unwrap().makespan_seconds
    };
    let usual = seconds(None, &json!({}));
    assert_eq!(usual.to_bits(), seconds(Some(TierClass::Memory), &json!({})).to_bits());
    let disk = seconds(Some(TierClass::Disk), &json!({}));
    let mixed = seconds(Some(TierClass::Disk), &json!({ "broadcast": { "tier": "memory" } }));
    assert!(usual < mixed && mixed < 0.7 * disk, "{usual} s, {mixed} s, {disk} s");

    let advice = advise(&setup.workload(), &profile, &grid(&profile), options()).unwrap();
    let of = |place: usize| &advice.points[place].configuration;
    assert_eq!(of(advice.fastest).tier, None);
    assert_eq!(of(advice.cheapest).tier, Some(TierClass::Disk));
    assert!(of(advice.cheapest).to_string().contains("tier disk"));
    assert!(advice.knobs.iter().any(|knob| knob.name == "tier" && knob.values.len() == 2));
    assert!(told(&advice).iter().any(|hints| hints.contains("broadcast files tier=memory")));
}

/// On one host tasks read a table, each beside an input of its own; memory has room for the table and little more.
fn short_memory() -> Setup {
    let mut setup = Setup { collocated: true, cache_bytes: 25_000_000, ..Setup::default() };
    setup = setup.file("table", 20_000_000);
    for number in 0..4 {
        let own = format!("own{number}");
        setup = setup.file(&own, 20_000_000).raw_task(
            json!({ "name": format!("use{number}"), "reads": ["table", own], "compute_seconds": 1 }),
        );
    }
    setup
}

#[test]
fn what_is_read_once_need_not_take_the_place_of_what_is_read_again() {
    let setup = short_memory();
    let mut profile = setup.profile();
    profile.tiers[0].read.bytes_per_second = 2e7;
    profile.tiers[0].class = TierClass::Disk;
    let from_memory = |configured: &Value| {
        let patterns = patterns(configured);
        let configuration = Configuration { patterns, ..setup.configuration() };
        let found = predict(&setup.workload(), &profile, &configuration, 1).unwrap();
        (found.bytes.from_memory, found.makespan_seconds)
    };
    let (plain, hinted) =
        (from_memory(&json!({})), from_memory(&json!({ "once": { "cache": "none" } })));
    assert!(plain.0 < 20_000_000, "{} bytes", plain.0);
    assert_eq!(hinted.0, 3 * 20_000_000);
    assert!(hinted.1 < plain.1 - 2.0, "{} s, {} s", hinted.1, plain.1);
    assert_eq!(from_memory(&json!({ "once": { "cache": "30MB" } })), plain, "all are shorter");
    assert_eq!(from_memory(&json!({ "once": { "cache": "10MB" } })), hinted);

    let one = Grid { hosts: vec![1], ..grid(&profile) };
    let advice = advise(&setup.workload(), &profile, &one, options()).unwrap();
    assert_eq!(advice.points[0].configuration.patterns.to_string(), "once files cache=none");
    assert_eq!(advice.rules[0].rule, "own* cache=none");
    profile.host.cache_bytes = 1 << 40;
    let advice = advise(&setup.workload(), &profile, &one, options()).unwrap();
    assert!(!told(&advice).concat().contains("cache"), "{:?}", told(&advice));
}

#[test]
fn what_is_wrong_with_hints_of_a_configuration_is_named() {
    for (patterns, says) in [
        (json!({ "broadcats": {} }), "c.json: patterns: unknown field 'broadcats'"),
        (
            json!({ "broadcast": { "dedup": "on" } }),
            "c.json: patterns.broadcast.dedup: hint 'dedup' is none that is predicted",
        ),
        (
            json!({ "reduce": { "place": "there" } }),
            "c.json: patterns.reduce.place: hint place=there: expected local, collocate:GROUP",
        ),
        (
            json!({ "reduce": { "replicas": 2 } }),
            "patterns.reduce.replicas: the number 2 instead of a text",
        ),
        (json!(3), "c.json: patterns: the number 3 instead of an object"),
    ] {
        let text =
            json!({ "format": "intarsia-configuration", "version": 1, "patterns": patterns });
        let refused =
            Configuration::parse("c.json", &text.to_string(), &Configuration::new(1)).unwrap_err();
        assert!(refused.message.contains(says), "{}", refused.message);
    }
    let text = json!({ "format": "intarsia-configuration", "version": 1, "tier": "tape" });
    let refused = Configuration::parse("c.json", &text.to_string(), &Configuration::new(1));
    assert!(refused.unwrap_err().message.contains("c.json: tier: 'tape' is unknown"));
}
