//! How long predictions take: `cargo run --release -p intarsia-predict --example speed`.
//!
//! With a part of a name as argument only the cases of such a name are predicted, once each and without a clock, which
//! `valgrind --tool=callgrind` does not bear; what they predict is printed to its last digit.
//!
//! Beside the published cases the figures of the thesis are printed, which are of one core of 2007 (Intel Xeon E5345).
//! What they depend on beside the machine (frames, chunks, links of 1 Gb/s, storage in memory) is the same here.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    reason = "a program that prints its measurements"
)]

mod instances;

use intarsia_predict::configuration::{Configuration, Placement, Scheduler};
use intarsia_predict::model::predict;
use intarsia_predict::profile::{Network, Profile, Sharing};
use intarsia_predict::search::{Grid, Options, Weights, advise};
use intarsia_predict::workload::Workload;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// How often each case is predicted, if that does not take longer than so many seconds.
const REPEAT: usize = 5;
const LONG_SECONDS: f64 = 10.0;
/// What of a stream stands in the queue of a full link, of the size that a seed finds.
const QUEUE_BYTES: u64 = 128 << 10;

struct Case<'a> {
    name: String,
    workload: &'a Workload,
    profile: Profile,
    configuration: Configuration,
    published: &'static str,
}

fn main() {
    let only = std::env::args().nth(1);
    if only.is_none() {
        println!(
            "{:<58} {:>9} {:>9} {:>10} {:>12}  published",
            "case", "wall ms", "CPU ms", "events", "simulated s"
        );
    }
    let medium = reduce(19, 10_000_000, 10_000_000, 200_000_000);
    let large = reduce(19, 100_000_000, 100_000_000, 2_000_000_000);
    // Weak scaling: each host reads and writes 200 MB, and one reads all that was written.
    let scaled = reduce(999, 200_000_000, 200_000_000, 2_000_000_000);
    let thousand = layers(1000);
    let recorded = instances::recorded();
    let mut all = cases(&medium, &large, &scaled, &thousand);
    all.extend(recorded_cases(&recorded));
    for case in all {
        match &only {
            None => measure(&case),
            Some(part) if case.name.contains(part) => predict_once(&case),
            Some(_) => {}
        }
    }
    if only.is_none() {
        measure_grid(&thousand, &profile(64));
    }
}

fn cases<'a>(
    medium: &'a Workload,
    large: &'a Workload,
    scaled: &'a Workload,
    thousand: &'a Workload,
) -> Vec<Case<'a>> {
    let default = |hosts| Configuration {
        placement: Placement::RoundRobin,
        stripe_width: 19,
        scheduler: Scheduler::Workqueue,
        ..Configuration::new(hosts)
    };
    let aware =
        |hosts| Configuration { placement: Placement::Collocate, ..Configuration::new(hosts) };
    let case = |name: &str, workload, configuration: Configuration, published| Case {
        name: name.to_owned(),
        workload,
        profile: profile(configuration.hosts),
        configuration,
        published,
    };
    let mut cases = vec![
        case("reduce medium, 20 hosts, default store", medium, default(20), "41 ms"),
        case("reduce large, 20 hosts, default store", large, default(20), "300 ms"),
        case("reduce, 1,000 hosts, 600 GB, default store", scaled, default(1000), "37 s"),
        case("reduce, 1,000 hosts, 600 GB, collocated", scaled, aware(1000), "25 s"),
    ];
    for (store, configuration) in
        [("local", Configuration::new(64)), ("default store", default(64))]
    {
        let name = format!("1,000 tasks, 64 hosts, {store}");
        let framed = case(&name, thousand, configuration, "target: 50 ms");
        let fair = |what: &str, queue_bytes: u64, opens_parts: bool| {
            let mut made = case(
                &format!("{name}, fair links{what}"),
                thousand,
                framed.configuration.clone(),
                "target: 50 ms",
            );
            made.profile.network =
                Network { sharing: Sharing::Fair, queue_bytes, ..made.profile.network };
            made.profile.client.opens_parts = opens_parts;
            made
        };
        let others = [
            fair("", 0, false),
            fair(", queues", QUEUE_BYTES, false),
            fair(", opened parts", 0, true),
            fair(", opened parts and queues", QUEUE_BYTES, true),
        ];
        cases.push(framed);
        cases.extend(others);
    }
    cases
}

/// Recorded workflows on 64 hosts, with the profile of a seed.
fn recorded_cases(recorded: &[Workload]) -> Vec<Case<'_>> {
    let mut cases = Vec::new();
    for workload in recorded {
        for (what, profile, configuration) in instances::platforms() {
            let name = format!("{}, {} tasks, {what}", workload.name, workload.tasks.len());
            cases.push(Case {
                name,
                workload,
                profile,
                configuration,
                published: "target: 100 ms",
            });
        }
    }
    cases
}

fn predict_once(case: &Case<'_>) {
    let found = predict(case.workload, &case.profile, &case.configuration, 1).unwrap();
    println!("{}: {} events, {} s", case.name, found.events, found.makespan_seconds);
}

fn measure(case: &Case<'_>) {
    let mut times: Vec<Clocks> = Vec::new();
    let mut last = None;
    let is_long = |times: &[Clocks]| times.iter().map(|time| time.wall).sum::<f64>() > LONG_SECONDS;
    while times.len() < REPEAT && !is_long(&times) {
        let started = Clocks::now();
        last = Some(predict(case.workload, &case.profile, &case.configuration, 1).unwrap());
        times.push(started.elapsed());
    }
    times.sort_by(|a, b| a.processor.total_cmp(&b.processor));
    let (found, Clocks { wall, processor }) = (last.unwrap(), times[times.len() / 2]);
    println!(
        "{:<58} {:>9.1} {:>9.1} {:>10} {:>12.2}  {}",
        case.name,
        wall * 1e3,
        processor * 1e3,
        found.events,
        found.makespan_seconds,
        case.published
    );
}

fn measure_grid(workload: &Workload, profile: &Profile) {
    let mut grid = Grid::usual(profile);
    grid.hosts = vec![64, 48, 32, 16, 8];
    grid.storage_hosts = vec![None, Some(4), Some(8), Some(16), Some(24)];
    grid.chunk_bytes = vec![256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
    let started = Clocks::now();
    let options = Options {
        seed: 1,
        replications: 3,
        threads: 2,
        weights: Weights::TIME,
        shown: 15,
        within_seconds: None,
    };
    let advice = advise(workload, profile, &grid, options).unwrap();
    let Clocks { wall, processor } = started.elapsed();
    println!(
        "{} configurations on 2 threads: {wall:.2} s wall, {processor:.2} s CPU, {} events; target: 500 in 10 s",
        advice.points.len(),
        advice.events
    );
}

/// Seconds of the wall clock and of all processors; the second one tells more where others work too.
#[derive(Clone, Copy)]
struct Clocks {
    wall: f64,
    processor: f64,
}

impl Clocks {
    fn now() -> Self {
        let seconds = |id| {
            let time = clock_gettime(id);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        Self { wall: seconds(ClockId::Monotonic), processor: seconds(ClockId::ProcessCPUTime) }
    }

    fn elapsed(self) -> Self {
        let now = Self::now();
        Self { wall: now.wall - self.wall, processor: now.processor - self.processor }
    }
}

/// As many maps as hosts, and one task that reads what all of them wrote.
fn reduce(maps: usize, input: u64, between: u64, output: u64) -> Workload {
    let mut files = vec![file("out".to_owned(), output)];
    let mut tasks = Vec::new();
    for map in 0..maps {
        files.push(file(format!("in-{map}"), input));
        files.push(file(format!("mid-{map}"), between));
        tasks.push(task(
            format!("map-{map}"),
            "map",
            vec![format!("in-{map}")],
            format!("mid-{map}"),
        ));
    }
    let reads = (0..maps).map(|map| format!("mid-{map}")).collect();
    tasks.push(task("reduce".to_owned(), "reduce", reads, "out".to_owned()));
    parse(&files, &tasks)
}

/// Montage in outline: projections, differences of neighbours, corrections, a sum; sizes as published.
fn layers(tasks: usize) -> Workload {
    let width = (tasks - 2) / 3;
    let (mut files, mut all) = (
        vec![file("table".to_owned(), 17_000), file("mosaic".to_owned(), 170_000_000)],
        Vec::new(),
    );
    for n in 0..width {
        files.push(file(format!("raw-{n}"), 2_000_000));
        files.push(file(format!("projected-{n}"), 4_000_000));
        files.push(file(format!("difference-{n}"), 1_000_000));
        files.push(file(format!("corrected-{n}"), 4_000_000));
        all.push(task(
            format!("project-{n}"),
            "project",
            vec![format!("raw-{n}")],
            format!("projected-{n}"),
        ));
        let neighbours = vec![format!("projected-{n}"), format!("projected-{}", (n + 1) % width)];
        all.push(task(
            format!("difference-{n}"),
            "difference",
            neighbours,
            format!("difference-{n}"),
        ));
        let inputs = vec![format!("projected-{n}"), "table".to_owned()];
        all.push(task(format!("correct-{n}"), "correct", inputs, format!("corrected-{n}")));
    }
    let differences = (0..width).map(|n| format!("difference-{n}")).collect();
    all.push(task("model".to_owned(), "model", differences, "table".to_owned()));
    let corrected = (0..width).map(|n| format!("corrected-{n}")).collect();
    all.push(task("add".to_owned(), "add", corrected, "mosaic".to_owned()));
    parse(&files, &all)
}

fn file(name: String, size_bytes: u64) -> Value {
    json!({ "name": name, "size_bytes": size_bytes })
}

fn task(name: String, stage: &str, reads: Vec<String>, writes: String) -> Value {
    json!({ "name": name, "stage": stage, "reads": reads, "compute_seconds": 1.0, "writes": [writes] })
}

fn parse(files: &[Value], tasks: &[Value]) -> Workload {
    let text =
        json!({ "format": "intarsia-workload", "version": 1, "files": files, "tasks": tasks });
    Workload::parse("built in", &text.to_string()).unwrap()
}

fn profile(hosts: u32) -> Profile {
    let access = json!({ "request_seconds": 100e-6, "bytes_per_second": 2e9 });
    let text = json!({
        "format": "intarsia-profile", "version": 1, "name": "gigabit, storage in memory",
        "provenance": { "source": "assumed", "note": "like the machines of the thesis" },
        "hosts": hosts,
        "host": { "slots": 1, "in_bytes_per_second": 125e6, "out_bytes_per_second": 125e6 },
        "network": { "latency_seconds": 50e-6, "loopback_bytes_per_second": 1e9 },
        "manager": { "open_seconds": 300e-6, "allocate_seconds": 300e-6, "commit_seconds": 300e-6 },
        "tiers": [{ "class": "memory", "capacity_bytes": 1_u64 << 50, "read": access, "write": access }],
        "client": { "local_access": "message" },
    });
    Profile::parse("built in", &text.to_string()).unwrap()
}
