//! Predictions on a profile of the form that `intarsia seed` writes, with its memory, samples, queues and parts: they are what was
//! predicted when links were looked at member by member, and a message that follows another one had its rate computed anew. Where
//! several chunks of a task are under way on one host (the first and the last), they are of the model that counts them as one task;
//! of striped files, of the model that has their parts made, recorded and measured; of whole ones, of that which deals inputs by size.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use intarsia_predict::configuration::{Configuration, Placement};
use intarsia_predict::model::predict;
use intarsia_predict::profile::Profile;
use intarsia_predict::workload::Workload;
use serde_json::{Value, json};

const HOSTS: u32 = 16;

/// Makespan in seconds and events of each platform.
const RECORDED: [(f64, u64); 5] = [
    (5.103_050_564, 14_469),
    (7.000_318_124, 44_794),
    (7.128_432_406, 44_799),
    (7.218_949_805, 44_976),
    (5.283_451_598, 44_477),
];

/// Eight tasks a host that read two common files and one of their own, then one for each host that gathers what eight of
/// them wrote. The sizes are unlike, and no multiple of a chunk.
fn workload() -> Workload {
    let mut files: Vec<Value> = (0..2)
        .map(|common| json!({ "name": format!("common{common}"), "size_bytes": 30_000_001 }))
        .collect();
    let mut tasks = Vec::new();
    for task in 0..8 * HOSTS {
        let bytes = 1_000_003 * (1 + u64::from(task * 7 % 13));
        for name in ["own", "part"] {
            files.push(json!({ "name": format!("{name}{task}"), "size_bytes": bytes }));
        }
        tasks.push(json!({ "name": format!("split{task}"), "stage": "split", "operations": [
            { "read": format!("common{}", task % 2) }, { "read": format!("own{task}") },
            { "compute_seconds": 0.01 * f64::from(task % 5) }, { "write": format!("part{task}") },
        ]}));
    }
    for task in 0..HOSTS {
        let mut operations: Vec<Value> = (0..8)
            .map(|part| json!({ "read": format!("part{}", (task + part * 17) % (8 * HOSTS)) }))
            .collect();
        files.push(json!({ "name": format!("whole{task}"), "size_bytes": 5_000_000 }));
        operations.push(json!({ "write": format!("whole{task}") }));
        tasks.push(json!({
            "name": format!("gather{task}"), "stage": "gather", "operations": operations,
        }));
    }
    let text = json!({
        "format": "intarsia-workload", "version": 1, "files": files, "tasks": tasks,
    });
    Workload::parse("workload.json", &text.to_string()).unwrap()
}

/// With memory, with little of it, with none, and with sixteen streams a task that share the links.
fn platforms() -> [(Profile, Placement); 5] {
    let text = include_str!("../examples/speed/seeded.json");
    let seeded = Profile::parse("seeded.json", text).unwrap();
    let with = |change: &dyn Fn(&mut Profile)| {
        let mut profile = seeded.clone();
        change(&mut profile);
        (profile, Placement::RoundRobin)
    };
    [
        (seeded.clone(), Placement::Local),
        with(&|_| ()),
        with(&|profile| profile.host.cache_bytes = 40_000_000),
        with(&|profile| profile.host.cache_bytes = 0),
        with(&|profile| {
            (profile.host.cache_bytes, profile.host.slots) = (0, 1);
            profile.client.striped_window_bytes = None;
        }),
    ]
}

#[test]
fn what_is_predicted_is_what_looking_at_all_members_of_links_predicted() {
    let workload = workload();
    for ((profile, placement), recorded) in platforms().into_iter().zip(RECORDED) {
        let configuration = Configuration {
            hosts: HOSTS,
            placement,
            stripe_width: if placement == Placement::Local { 1 } else { HOSTS },
            ..Configuration::of(&profile)
        };
        let found = predict(&workload, &profile, &configuration, 1).unwrap();
        assert_eq!((found.makespan_seconds, found.events), recorded, "{placement:?}");
    }
}
