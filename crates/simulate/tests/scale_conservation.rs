//! What is sent is received, what is begun ends, what is asked for is written and read, whatever the
//! store, the network and the workload; and the same seed gives the same run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod scale_support;

use intarsia_simulate::scale::study;
use intarsia_simulate::scale::study::{Run, ScaleStudy};
use intarsia_simulate::scale::system::SystemKind;
use intarsia_simulate::scale::workload::Operation;
use intarsia_simulate::scenario::Document;
use proptest::prelude::*;
use scale_support::{run, scenario};

fn systems() -> impl Strategy<Value = String> {
    let stripes = (prop::sample::select(vec!["round-robin", "hashed"]), 100_000_u32..3_000_000)
        .prop_map(|(placement, chunk)| {
            format!("placement = \"{placement}\"\nchunk = \"{chunk} B\"")
        });
    prop_oneof![
        Just("kind = \"local-first\"\ncopies_fetched = true".to_owned()),
        Just("kind = \"local-first\"\ndirectory_partitions = 8".to_owned()),
        stripes.clone().prop_map(|s| format!("kind = \"striped\"\n{s}")),
        (stripes, 1_u32..9, 1_u32..4).prop_map(|(s, servers, metadata)| {
            format!("kind = \"central\"\nservers = {servers}\nmetadata_servers = {metadata}\n{s}")
        }),
    ]
}

fn networks() -> impl Strategy<Value = String> {
    let kind = prop_oneof![
        Just("kind = \"ideal\"".to_owned()),
        Just("kind = \"torus\"".to_owned()),
        (2_u32..9, 1.0_f64..4.0).prop_map(|(k, o)| format!(
            "kind = \"fat-tree\"\narity = {k}\noversubscription = {o:?}"
        )),
        prop::sample::select(vec!["minimal", "valiant", "adaptive"])
            .prop_map(|r| format!("kind = \"dragonfly\"\nrouting = \"{r}\"")),
    ];
    (kind, prop::sample::select(vec!["none", "route", "hops"])).prop_map(|(kind, congestion)| {
        let is_ideal = kind.contains("ideal");
        let congestion = if is_ideal { String::new() } else { format!("congestion = \"{congestion}\"") };
        format!("{kind}\n{congestion}\nlink_rate = \"1 GB/s\"\nlink_latency = \"100 ns\"\nmessage_latency = \"2 us\"")
    })
}

fn workloads() -> impl Strategy<Value = String> {
    let partner =
        prop::sample::select(vec!["own", "neighbour", "opposite", "permutation", "random"]);
    (0_u32..6, partner, 1_u32..4, 1_u32..3_000_000, any::<bool>()).prop_map(
        |(kind, from, times, bytes, flag)| {
            let data = format!("transfers = {times}\ntransfer = \"{bytes} B\"");
            let directory = if flag { "shared" } else { "own" };
            match kind {
                0 => format!("kind = \"ior\"\nshared_file = {flag}\nfrom = \"{from}\"\n{data}"),
                1 => format!("kind = \"metadata\"\nfiles = {times}\ndirectory = \"{directory}\""),
                2 => format!("kind = \"write\"\ndirectory = \"{directory}\"\n{data}"),
                3 => format!("kind = \"read\"\nfrom = \"{from}\"\n{data}"),
                4 => format!("kind = \"mixed\"\nfiles = {times}\nfrom = \"{from}\"\n{data}"),
                _ => format!("kind = \"exchange\"\nto = \"{from}\"\n{data}"),
            }
        },
    )
}

fn studies() -> impl Strategy<Value = ScaleStudy> {
    let spread = prop::sample::select(vec!["0.0", "0.5"]);
    (systems(), networks(), workloads(), 1_u32..40, any::<u32>(), spread).prop_map(
        |(system, network, workload, nodes, seed, spread)| {
            scenario(&format!(
                "[nodes]\ncount = {nodes}\n[system]\n{system}\ndevice_write = \"400 MB/s\"
device_read = \"800 MB/s\"\ndevice_variation = {spread}\nslow_share = 0.1\nslow_factor = 3.0
[system.metadata]\ncreate = \"100 us\"\nappend = \"10 us\"\nvariation = {spread}
[network]\n{network}\n[workload]\n{workload}\n[run]\nseed = {seed}\n"
            ))
        },
    )
}

/// Bytes that the workload writes and reads.
fn asked(study: &ScaleStudy) -> (u64, u64) {
    study.workload.steps.iter().fold((0, 0), |(written, read), step| {
        let times = u64::from(step.repeat) * u64::from(study.nodes);
        match step.operation {
            Operation::Write { bytes } => (written + times * u64::from(bytes), read),
            Operation::Read { bytes, .. } => (written, read + times * u64::from(bytes)),
            _ => (written, read),
        }
    })
}

fn fingerprint(run: &Run) -> String {
    format!("{:?} {:?} {:?} {}", run.totals, run.phases, run.links, run.events)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_is_lost_and_nothing_is_made(study in studies()) {
        let run = run(&study);
        let totals = run.totals;
        prop_assert_eq!(totals.nodes_finished, study.nodes);
        prop_assert_eq!(totals.messages_sent, totals.messages_received);
        prop_assert_eq!(totals.bytes_sent, totals.bytes_received);
        let completed: u64 = run.phases.iter().map(|phase| phase.completed).sum();
        prop_assert_eq!(completed, study.workload.operations(study.nodes));
        let (written, read) = asked(&study);
        prop_assert_eq!(totals.device_bytes_read, read);
        if study.system.copies_fetched {
            prop_assert!((written..=written + read).contains(&totals.device_bytes_written));
        } else {
            prop_assert_eq!(totals.device_bytes_written, written);
        }
        for phase in &run.phases {
            prop_assert_eq!(phase.issued, phase.completed);
            prop_assert_eq!(phase.latencies.count(), phase.completed);
            prop_assert!(phase.completed == 0 || phase.began <= phase.ended);
            // No operation takes longer than its phase (the histogram keeps three digits).
            let longest = phase.latencies.max().as_secs_f64();
            prop_assert!(longest <= phase.ended.since(phase.began).as_secs_f64() * 1.001 + 2e-9);
        }
        for usage in &run.links {
            prop_assert!(usage.mean <= usage.max && usage.max <= 1.0 + 1e-9, "{usage:?}");
        }
    }

    #[test]
    fn a_seed_is_a_run(study in studies()) {
        prop_assert_eq!(fingerprint(&run(&study)), fingerprint(&run(&study)));
    }

    /// No transfer is faster than the devices and the links allow.
    #[test]
    fn no_rate_exceeds_its_limit(study in studies()) {
        let run = run(&study);
        let seconds = run.elapsed.as_secs_f64();
        let devices = f64::from(study.system.devices(study.nodes));
        if study.system.device_spread.is_none() {
            let work = run.totals.device_bytes_written as f64 / 4e8
                + run.totals.device_bytes_read as f64 / 8e8;
            // Copies of what was fetched go to the reader's own device, which is one of these.
            if !matches!(study.system.kind, SystemKind::Central { .. }) || !study.system.copies_fetched {
                prop_assert!(work <= seconds * devices * (1.0 + 1e-6), "{work} {seconds} {devices}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Absurd constants give absurd results or a refusal, but no panic and no lost operation.
    #[test]
    fn extreme_values_are_survived(
        rate in prop::sample::select(vec!["0.000001 B/s", "1 B/s", "1000000000 PB/s"]),
        time in prop::sample::select(vec!["1 ns", "1 s", "500 years"]),
        network in prop::sample::select(vec!["ideal", "torus", "fat-tree", "dragonfly"]),
        congestion in prop::sample::select(vec!["none", "route", "hops"]),
        bytes in prop::sample::select(vec!["1 B", "2 GiB"]),
    ) {
        let congestion = if network == "ideal" { String::new() } else { format!("congestion = \"{congestion}\"") };
        let text = format!(
            "[nodes]\ncount = 9\n[system]\nkind = \"striped\"\nchunk = \"2 GiB\"\ndevice_write = \"{rate}\"
device_read = \"{rate}\"\ncall = \"{time}\"\ncontrol_message = \"{bytes}\"\ncopies_fetched = true
[system.metadata]\ncreate = \"{time}\"\n[network]\nkind = \"{network}\"\n{congestion}
link_rate = \"{rate}\"\nlink_latency = \"{time}\"\nmessage_latency = \"{time}\"\nbarrier = \"{time}\"
[workload]\nkind = \"ior\"\ntransfers = 3\ntransfer = \"{bytes}\"\nfrom = \"random\"\n"
        );
        match study(&Document::parse("extreme.toml", &text).unwrap()) {
            Ok(study) => prop_assert_eq!(run(&study).totals.nodes_finished, 9),
            Err(problem) => prop_assert!(problem.message.contains("584 years"), "{problem}"),
        }
    }
}

#[test]
fn replications_of_neighbouring_seeds_are_not_the_same() {
    let with_seed = |seed: &str| {
        scale_support::preset("fusionsim-bgp", &["nodes.count=32", &format!("run.seed={seed}")])
    };
    let progress = intarsia_simulate::progress::Progress::default();
    let second_of_one = with_seed("1").run_once(1, &progress);
    let first_of_two = with_seed("2").run_once(0, &progress);
    assert_ne!(fingerprint(&second_of_one), fingerprint(&first_of_two));
}
