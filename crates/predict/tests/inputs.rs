//! Workloads, profiles and configurations: what they mean, and how what is wrong is refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::Setup;
use intarsia_predict::Problem;
use intarsia_predict::configuration::{Configuration, Placement};
use intarsia_predict::profile::{Engine, LocalAccess, Profile, Provenance, Seconds, Source};
use intarsia_predict::workload::{Extent, Operation, Workload};
use proptest::prelude::*;
use serde_json::{Value, json};

const WFFORMAT: &str = include_str!("data/wf.json");

fn profile() -> Value {
    json!({
        "format": "intarsia-profile", "version": 1, "name": "lab", "hosts": 4,
        "provenance": { "source": "data sheet", "note": "the vendor's" },
        "host": { "slots": 2, "in_bytes_per_second": 1e9, "out_bytes_per_second": 2e9,
                  "cache_bytes": 1024, "cache_bytes_per_second": 5e9 },
        "unlike_hosts": [{ "numbers": [3], "speed": 2.0, "cache_bytes": 0 }],
        "network": { "latency_seconds": 1e-5, "frame_bytes": 4096, "loopback_bytes_per_second": 1e9 },
        "manager": { "open_seconds": 1e-4, "allocate_seconds": { "samples": [1e-4, 3e-4] }, "commit_seconds": 0 },
        "tiers": [{ "class": "ssd", "capacity_bytes": 1000, "parallel": 8,
                    "read": { "request_seconds": 0, "bytes_per_second": 1e9 },
                    "write": { "request_seconds": 1e-3, "bytes_per_second": 1e9 } }],
        "client": { "outstanding_chunks": 16, "local_access": "message" },
    })
}

fn workload() -> Value {
    json!({
        "format": "intarsia-workload", "version": 1, "name": "two",
        "files": [
            { "name": "in", "size_bytes": 100, "hints": { "replicas": "2" } },
            { "name": "out", "size_bytes": 50 },
        ],
        "tasks": [
            { "name": "a", "stage": "first", "reads": ["in"], "compute_seconds": 1.5, "writes": ["out"] },
            { "name": "b", "after": ["a"], "slots": 2, "overhead_seconds": 0.1, "operations": [
                { "open": "out" }, { "read": "out", "offset_bytes": 10, "size_bytes": 20 },
                { "compute_seconds": 2 }, { "read": "in" }, { "close": "out" } ] },
        ],
    })
}

fn configuration() -> Value {
    json!({ "format": "intarsia-configuration", "version": 1, "hosts": 8, "storage_hosts": 2,
            "placement": "round-robin", "chunk_bytes": 65536, "scheduler": "workqueue" })
}

#[test]
fn wfformat_says_who_reads_and_writes_what() {
    let workload = Workload::parse("wf.json", WFFORMAT).unwrap();
    assert_eq!(workload.stages, ["mProject", "mAdd"]);
    let [project, add] = &workload.tasks[..] else { panic!("{workload:?}") };
    assert_eq!((&project.children[..], &add.parents[..]), (&[1][..], &[0][..]));
    let whole = |file, size_bytes| Extent { file, offset_bytes: 0, size_bytes };
    // Half of the time it waited for its storage; what is to be predicted is not to be counted twice.
    let expected = [
        Operation::Open(0),
        Operation::Read(whole(0, 2_000_000)),
        Operation::Close(0),
        Operation::Open(3),
        Operation::Read(whole(3, 0)),
        Operation::Close(3),
        Operation::Compute(8.0),
        Operation::Write(whole(1, 4_000_000)),
        Operation::Close(1),
    ];
    assert_eq!(project.operations, expected);
    assert!(add.operations.contains(&Operation::Compute(10.0)));
    assert_eq!(add.slots, 2);
    let [cpu, empty] = &workload.warnings[..] else { panic!("{:?}", workload.warnings) };
    assert!(cpu.contains("1 without 'avgCPU'") && empty.contains("'empty.hdr' has 0 bytes"));
    assert_eq!(workload.moved_bytes(), 2_000_000 + 2 * 4_000_000 + 170_000_000);
}

#[test]
fn our_own_form_has_ranges_hints_and_overheads() {
    let workload = Workload::parse("w.json", &workload().to_string()).unwrap();
    let [a, b] = &workload.tasks[..] else { panic!("{workload:?}") };
    assert_eq!((workload.stages.len(), a.operations.len(), b.operations.len()), (2, 6, 5));
    assert_eq!((b.slots, b.overhead_seconds, &b.parents[..]), (2, 0.1, &[0][..]));
    let range = Extent { file: 1, offset_bytes: 10, size_bytes: 20 };
    assert_eq!(b.operations[1], Operation::Read(range));
    assert_eq!(workload.files[0].hints.replicas(), Some(2));
    assert_eq!((workload.files[1].writer, &workload.files[0].readers[..]), (Some(0), &[0, 1][..]));
}

#[test]
fn a_profile_keeps_its_units_and_where_it_comes_from() {
    let profile = Profile::parse("p.json", &profile().to_string()).unwrap();
    assert_eq!(profile.provenance.source, Source::DataSheet);
    assert_eq!(profile.manager.allocate, Seconds::Samples([1e-4, 3e-4].into()));
    assert_eq!((profile.network.frame_bytes, profile.network.control_bytes), (4096, 256));
    assert_eq!((profile.host(0).speed, profile.host(3).speed), (1.0, 2.0));
    assert_eq!((profile.host(0).cache_bytes, profile.host(3).cache_bytes), (1024, 0));
    assert_eq!(profile.host(3).out_bytes_per_second, 2e9);
    assert_eq!(
        (profile.client.local, profile.client.outstanding),
        (LocalAccess::Message, Some(16))
    );
    assert!((profile.tiers[0].write.seconds(1_000_000, 0) - 2e-3).abs() < 1e-12);
}

#[test]
fn hosts_may_have_the_names_that_the_store_gives_them() {
    let read = |names| Profile::parse("p.json", &with(profile(), "/host_names", Some(names)));
    let named = read(json!(["n1", "n2"])).unwrap();
    assert_eq!([0, 1, 2].map(|host| named.host_name(host)), ["n1", "n2", "00002"]);
    refused(read(json!(["n1", "n1"])), "host_names[1]: 'n1' is named twice");
    refused(read(json!(["n1", 2])), "host_names[1]: the number 2 instead of a text");
    let hosts = named.hosts as usize;
    let many: Vec<String> = (0..=hosts).map(|host| format!("n{host}")).collect();
    refused(
        read(json!(many)),
        &format!("host_names[{hosts}]: there are no more than {hosts} hosts"),
    );
}

#[test]
fn a_profile_may_say_what_it_was_told_and_how_that_is_known() {
    let told = json!({ "client.local_access": "clients do so", "host.slots": "--slots" });
    let read = |told| Profile::parse("p.json", &with(profile(), "/provenance/told", Some(told)));
    assert_eq!(read(told).unwrap().provenance.note, "the vendor's");
    refused(read(json!({ "hosts": 3 })), "provenance.told.hosts: the number 3 instead of a text");
    refused(read(json!(["hosts"])), "provenance.told: an array instead of an object");
}

#[test]
fn of_measured_latencies_the_mean_counts() {
    let read = |samples: Value| {
        let latency = Some(json!({ "samples": samples }));
        Profile::parse("p.json", &with(profile(), "/network/latency_seconds", latency))
    };
    let found = read(json!([1e-4, 2e-4, 6e-4])).unwrap().network.latency_seconds;
    assert!((found - 3e-4).abs() < 1e-12, "{found}");
    refused(read(json!([])), "network.latency_seconds: no sample");
    refused(read(json!([1e-4, -1])), "network.latency_seconds.samples[1]: -1 is negative");
}

#[test]
fn a_profile_says_what_an_engine_takes_and_where_that_comes_from() {
    let without = profile();
    assert_eq!(Profile::parse("p.json", &without.to_string()).unwrap().engine, None);
    let engine = json!({ "source": "measured", "note": "12 tasks", "task_seconds": 2e-3, "start_seconds": 5e-3 });
    let found = Profile::parse("p.json", &with(without.clone(), "/engine", Some(engine.clone())));
    let provenance = Provenance { source: Source::Measured, note: "12 tasks".to_owned() };
    let expected = Engine {
        provenance,
        task_seconds: 2e-3,
        start_seconds: 5e-3,
        task_processor_seconds: None,
        start_alone_seconds: None,
        sleeps: false,
    };
    assert_eq!(found.unwrap().engine, Some(expected));
    for (field, value, says) in [
        ("task_seconds", None, "p.json: engine: 'task_seconds' is missing"),
        ("start_seconds", Some(json!(-1)), "engine.start_seconds: -1 is negative"),
        ("start", Some(json!(1)), "engine: unknown field 'start'"),
        ("source", Some(json!("told")), "engine.source: 'told' is unknown"),
    ] {
        let mut wrong = engine.clone();
        match value {
            Some(value) => wrong[field] = value,
            None => drop(wrong.as_object_mut().unwrap().remove(field)),
        }
        refused(Profile::parse("p.json", &with(without.clone(), "/engine", Some(wrong))), says);
    }
}

#[test]
fn a_configuration_takes_from_the_default_what_it_leaves_out() {
    let default = Configuration::new(3);
    let found = Configuration::parse("c.json", &configuration().to_string(), &default).unwrap();
    assert_eq!((found.hosts, found.storage_hosts, found.chunk_bytes), (8, Some(2), 65_536));
    assert_eq!((found.placement, found.copies), (Placement::RoundRobin, default.copies));
    assert!(
        "8 hosts, 2 of them for storage, round-robin over 4, chunks of 64KiB, workqueue"
            == found.to_string()
    );
}

/// The document with the value at `pointer` replaced, or removed.
fn with(mut document: Value, pointer: &str, value: Option<Value>) -> String {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap() {
        Value::Object(fields) => match value {
            Some(value) => drop(fields.insert(last.to_owned(), value)),
            None => drop(fields.remove(last).unwrap()),
        },
        Value::Array(items) => items[last.parse::<usize>().unwrap()] = value.unwrap(),
        other => panic!("{other}"),
    }
    document.to_string()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, Problem>, says: &str) {
    let problem = outcome.unwrap_err().to_string();
    assert!(problem.contains(says), "{problem}\n  instead of\n{says}");
}

#[test]
fn what_is_wrong_with_a_workload_is_named() {
    for (pointer, value, says) in [
        (
            "/version",
            Some(json!(2)),
            "w.json: version: version 2 is unknown; this program reads version 1",
        ),
        ("/format", Some(json!("x")), "w.json: format: 'x' is not 'intarsia-workload'"),
        ("/files/0/size_bytes", Some(json!(-1)), "w.json: files[0].size_bytes: -1 is negative"),
        ("/files/0/size_bytes", Some(json!(1.5)), "files[0].size_bytes: 1.5 is no whole number"),
        ("/files/0/size_bytes", None, "w.json: files[0]: 'size_bytes' is missing"),
        (
            "/files/0/size",
            Some(json!(1)),
            "files[0]: unknown field 'size'; the unit is missing: write 'size_bytes'",
        ),
        ("/files/1/name", Some(json!("in")), "files[1].name: the file 'in' is described twice"),
        ("/files/0/hints/replicas", Some(json!("0")), "files[0].hints.replicas"),
        ("/files/0/hints/replica", Some(json!("1")), "files[0].hints.replica"),
        ("/tasks/0/reads/0", Some(json!("inn")), "tasks[0].reads[0]: no file 'inn' is described"),
        ("/tasks/1/after/0", Some(json!("z")), "tasks[1].after[0]: no task 'z' is described"),
        ("/tasks/1/name", Some(json!("a")), "tasks[1].name: the task 'a' is described twice"),
        ("/tasks/0/compute_seconds", Some(json!(-2)), "tasks[0].compute_seconds: -2 is negative"),
        ("/tasks/0/compute", Some(json!(2)), "write 'compute_seconds'"),
        (
            "/tasks/0/after",
            Some(json!(["b"])),
            "tasks: the tasks form a cycle: 'a' waits for 'b' waits for 'a'",
        ),
        (
            "/tasks/1/operations/1/size_bytes",
            Some(json!(41)),
            "41 bytes from 10 reach beyond the 50 bytes of 'out'",
        ),
        (
            "/tasks/1/operations/0",
            Some(json!({})),
            "tasks[1].operations[0]: give one of open, read",
        ),
        ("/tasks/1/operations/0", Some(json!({"write": "out"})), "'out' is written by 'a' too"),
        ("/tasks/1/reads", Some(json!(["in"])), "tasks[1].reads: stands beside 'operations'"),
        ("/tasks/1/slots", Some(json!(0)), "tasks[1].slots: 0 must lie between 1 and"),
        ("/tasks", Some(json!([])), "w.json: tasks: there is no task"),
        ("/tasks", Some(json!({})), "w.json: tasks: an object instead of an array"),
    ] {
        refused(Workload::parse("w.json", &with(workload(), pointer, value)), says);
    }
    let text = workload().to_string();
    refused(Workload::parse("w.json", &text[..text.len() / 2]), "w.json: no JSON: EOF");
    refused(Workload::parse("w.json", &text[..text.len() / 2]), "the file ends too early");
    refused(Workload::parse("w.json", "{}"), "w.json: neither WfFormat");
    refused(Workload::parse("w.json", "[]"), "w.json: an array instead of an object");
}

#[test]
fn wfformat_1_6_is_1_5_with_sums_that_tell_an_instance_that_was_cut() {
    let old = Workload::parse("wf.json", WFFORMAT).unwrap();
    let with_metrics = |tasks: u32| {
        let mut wf: Value = serde_json::from_str(WFFORMAT).unwrap();
        wf["schemaVersion"] = json!("1.6");
        wf["workflow"]["specification"]["metrics"] = json!({
            "numberOfTasks": tasks, "numberOfFiles": 4, "sumOfFileSizesInBytes": 176_000_000,
            "numberOfLevels": 2, "minimumWidth": 1, "maximumWidth": 1,
        });
        wf["workflow"]["execution"]["metrics"] =
            json!({ "sumTaskRuntimesInSeconds": 26.0, "totalNumBytesRead": 6_000_000 });
        Workload::parse("wf.json", &wf.to_string())
    };
    assert_eq!(with_metrics(2).unwrap(), old);
    let cut = with_metrics(3).unwrap();
    let says =
        "workflow.specification.metrics.numberOfTasks: 3, but there are 2; is the instance whole?";
    assert_eq!(cut.warnings.iter().filter(|warning| *warning == says).count(), 1);
    assert_eq!(cut.warnings.len(), old.warnings.len() + 1);
    assert_eq!((cut.tasks, cut.files), (old.tasks, old.files));
}

#[test]
fn what_is_wrong_with_wfformat_is_named() {
    let wf = || serde_json::from_str::<Value>(WFFORMAT).unwrap();
    let tasks = "/workflow/specification/tasks";
    for (pointer, value, says) in [
        (
            "/schemaVersion".to_owned(),
            Some(json!("2.0")),
            "wf.json: schemaVersion: WfFormat 2.0 is unknown; this program reads 1.5 and 1.6",
        ),
        ("/workflow/execution".to_owned(), None, "wf.json: workflow: 'execution' is missing"),
        (
            "/workflow/specification/files/0/sizeInBytes".to_owned(),
            Some(json!(-5)),
            "workflow.specification.files[0].sizeInBytes: -5 is negative",
        ),
        (
            "/workflow/execution/tasks/0/runtimeInSeconds".to_owned(),
            Some(json!(-1)),
            "workflow.execution.tasks[0].runtimeInSeconds: -1 is negative",
        ),
        (
            "/workflow/execution/tasks/0/id".to_owned(),
            Some(json!("x")),
            "'mProject_ID0000001' has no run time",
        ),
        (
            format!("{tasks}/0/inputFiles/0"),
            Some(json!("gone")),
            "tasks[0].inputFiles[0]: no file 'gone' is described",
        ),
        (format!("{tasks}/0/parents"), Some(json!(["mAdd_ID0000002"])), "the tasks form a cycle"),
        (
            format!("{tasks}/1/children"),
            Some(json!(["nobody"])),
            "tasks[1].children[0]: no task 'nobody'",
        ),
        (
            format!("{tasks}/1/outputFiles/0"),
            Some(json!("plane:1")),
            "'plane:1' is written by 'mProject_ID0000001' too",
        ),
    ] {
        refused(Workload::parse("wf.json", &with(wf(), &pointer, value)), says);
    }
}

#[test]
fn what_is_wrong_with_a_profile_is_named() {
    for (pointer, value, says) in [
        ("/version", Some(json!(9)), "p.json: version: version 9 is unknown"),
        ("/provenance", None, "p.json: 'provenance' is missing"),
        ("/provenance/source", Some(json!("guess")), "provenance.source: 'guess' is unknown"),
        (
            "/network/latency",
            Some(json!(1)),
            "network: unknown field 'latency'; the unit is missing: write 'latency_seconds'",
        ),
        (
            "/host/in_bytes_per_second",
            Some(json!("1 GB/s")),
            "host.in_bytes_per_second: the text '1 GB/s' instead of a number",
        ),
        (
            "/host/in_bytes_per_second",
            Some(json!(0)),
            "host.in_bytes_per_second: 0 must be more than zero",
        ),
        ("/host/slots", None, "host: 'slots' is missing"),
        ("/host/cache_bytes_per_second", None, "host: 'cache_bytes_per_second' is missing"),
        (
            "/unlike_hosts/0/numbers/0",
            Some(json!(4)),
            "unlike_hosts[0].numbers[0]: 4 must lie between 0 and 3",
        ),
        (
            "/manager/allocate_seconds/samples",
            Some(json!([])),
            "manager.allocate_seconds: no sample",
        ),
        (
            "/manager/allocate_seconds/samples/1",
            Some(json!(-1)),
            "manager.allocate_seconds.samples[1]: -1 is negative",
        ),
        ("/tiers", Some(json!([])), "tiers: there must be one at least"),
        (
            "/tiers/0/class",
            Some(json!("sdd")),
            "tiers[0].class: 'sdd' is unknown; did you mean 'ssd'?",
        ),
        ("/client/local_access", Some(json!("calls")), "did you mean 'call'?"),
    ] {
        refused(Profile::parse("p.json", &with(profile(), pointer, value)), says);
    }
}

#[test]
fn what_is_wrong_with_a_configuration_is_named() {
    let parse = |text: &str| Configuration::parse("c.json", text, &Configuration::new(3));
    for (pointer, value, says) in [
        ("/hosts", Some(json!(0)), "c.json: hosts: 0 must lie between 1 and"),
        (
            "/placement",
            Some(json!("locale")),
            "c.json: placement: 'locale' is unknown; did you mean 'local'?",
        ),
        (
            "/chunk",
            Some(json!(1)),
            "unknown field 'chunk'; the unit is missing: write 'chunk_bytes'",
        ),
        ("/follows_hints", Some(json!(1)), "follows_hints: the number 1 instead of true or false"),
    ] {
        refused(parse(&with(configuration(), pointer, value)), says);
    }
    let profile = Setup::default().profile();
    let few = Configuration { managers: 9, ..Configuration::new(8) };
    refused(few.roles(&profile), "9 metadata servers for 8 hosts that store");
    refused(Configuration::new(1001).roles(&profile), "1001 hosts, but profile 'small' has 1000");
}

/// Any JSON, with the words of our formats among its keys.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "format",
        "version",
        "schemaVersion",
        "workflow",
        "specification",
        "execution",
        "tasks",
        "files",
        "id",
        "name",
        "size_bytes",
        "reads",
        "operations",
        "hosts",
        "host",
        "network",
        "tiers",
        "samples",
        "1.5",
        "1.6",
        "metrics",
        "numberOfTasks",
        "intarsia-workload",
        "intarsia-profile",
        "intarsia-configuration",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let fields = prop::collection::vec((word.clone(), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

/// A place in a document, as a pointer.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(n, value)| pointers(value, &format!("{at}/{n}"), found));
        }
        _ => {}
    }
}

/// What was accepted can be used: it is consistent, and a prediction of it ends.
fn use_all(workload: &Workload, profile: &Profile) {
    for task in &workload.tasks {
        assert!(task.stage < workload.stages.len());
        assert!(
            task.parents.iter().chain(&task.children).all(|other| *other < workload.tasks.len())
        );
    }
    if workload.moved_bytes() < 1 << 32 && profile.hosts < 100 {
        let configuration = Configuration::new(profile.hosts);
        let _ = intarsia_predict::model::predict(workload, profile, &configuration, 1);
    }
}

fn read_all(text: &str) {
    let default = Configuration::new(2);
    let workload = Workload::parse("f", text);
    let _ = Configuration::parse("f", text, &default);
    let usual = Profile::parse("p", &profile().to_string()).unwrap();
    if let Ok(workload) = &workload {
        use_all(workload, &usual);
    }
    if let Ok(profile) = Profile::parse("f", text) {
        use_all(&Workload::parse("w", &self::workload().to_string()).unwrap(), &profile);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_text_panics(text in ".{0,200}") {
        read_all(&text);
    }

    #[test]
    fn any_json_is_read_or_refused(value in any_json()) {
        read_all(&value.to_string());
    }

    /// A good document with one value replaced by any other, and cut anywhere.
    #[test]
    fn a_damaged_document_is_read_or_refused(
        which in 0_usize..4,
        place in any::<prop::sample::Index>(),
        value in any_json(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let documents = [workload(), profile(), configuration(), serde_json::from_str(WFFORMAT).unwrap()];
        let mut document = documents[which].clone();
        let mut places = Vec::new();
        pointers(&document, "", &mut places);
        *document.pointer_mut(&places[place.index(places.len())]).unwrap() = value;
        let text = document.to_string();
        let end = cut.map_or(text.len(), |cut| cut.index(text.len() + 1));
        let end = (0..=end).rev().find(|end| text.is_char_boundary(*end)).unwrap();
        read_all(&text[..end]);
    }
}
