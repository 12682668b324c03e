//! Predictions over fair links stay what is recorded here. That was what the plain algorithm predicted, which shared out anew all
//! links that a chain joins to a stream that came or went, until the model took idle hosts in another order (see [`RECORDED`]).
//!
//! Rates of links are unlike. Where links that share a stream are full at the very same rate, the last digit hung on the order of
//! the links there, and now does not; the store's decisions follow from that digit as from a draw.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::{Setup, assert_seconds};
use intarsia_predict::configuration::{Configuration, Placement, Scheduler};
use serde_json::{Value, json};

/// Makespan in seconds and events, by seed. Those with whole files were predicted anew when inputs came to be dealt by their
/// sizes (1, 3, 9, 15, 24 and 28), and all when of equally idle hosts the one that joined first came to be taken; the model
/// differed in nothing else.
const RECORDED: &[(f64, u64)] = &[
    (7.831_354_323, 3742),
    (1.238_456_182, 2293),
    (1.791_855_554, 2989),
    (1.798_019_774, 2569),
    (1.338_913_044, 2378),
    (1.890_410_752, 3456),
    (2.070_530_470, 2201),
    (2.978_735_460, 4751),
    (2.087_085_431, 4138),
    (2.908_045_472, 4354),
    (2.373_262_863, 1467),
    (2.469_480_653, 4581),
    (1.992_681_304, 4059),
    (3.018_702_722, 3313),
    (7.503_067_994, 5798),
    (1.258_459_506, 2741),
    (1.394_514_746, 2704),
    (1.037_456_670, 2049),
    (4.821_024_732, 4616),
    (1.173_975_755, 1737),
    (2.238_741_098, 2588),
    (3.170_901_869, 3605),
    (0.869_166_509, 1750),
    (3.325_164_743, 3471),
    (3.771_080_055, 7280),
    (3.634_817_962, 3415),
    (6.465_990_305, 6642),
    (3.327_151_413, 2735),
    (1.868_355_861, 3059),
    (2.065_948_280, 4300),
    (3.063_935_689, 3698),
    (2.099_548_943, 1966),
];

/// The same of [`queued`], as it was when what stands in a queue came to be what is left of each stream; where parts are opened,
/// as it was when they came to be made, recorded and measured as well; and of whole files, since their inputs are dealt by size.
const QUEUED: &[(f64, u64)] = &[
    (7.753_260_428, 4754),
    (1.239_705_719, 2293),
    (2.059_465_261, 3209),
    (1.846_490_192, 2580),
    (1.792_697_088, 4944),
    (1.975_302_221, 3408),
    (2.091_496_858, 3326),
    (2.982_719_888, 4751),
    (2.128_120_033, 6932),
    (2.860_607_801, 4444),
    (2.264_957_698, 1431),
    (2.378_134_315, 4641),
    (1.987_981_988, 4059),
    (3.577_953_313, 3565),
    (7.577_307_639, 6914),
    (1.368_367_472, 2840),
    (1.467_914_361, 4046),
    (1.149_724_665, 2081),
    (4.741_269_845, 4573),
    (1.175_567_088, 1737),
    (2.281_868_203, 3299),
    (3.240_378_887, 3622),
    (0.873_162_221, 1753),
    (3.349_231_096, 3477),
    (3.767_962_709, 7280),
    (3.650_247_523, 3415),
    (6.700_310_402, 7887),
    (3.434_304_888, 2739),
    (2.004_772_444, 3298),
    (2.058_173_910, 4483),
    (3.171_991_389, 3770),
    (2.101_912_202, 1966),
];

/// Numbers that follow a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(count)).unwrap()
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        let count = u32::try_from(all.len()).unwrap();
        all[self.below(count) as usize]
    }
}

/// Tasks in layers, each of which reads some of what earlier ones wrote; sizes and hosts are drawn.
fn drawn(seed: u64) -> Setup {
    let mut draw = Draw(seed);
    let hosts = 2 + draw.below(22);
    let mut setup = Setup {
        app: hosts,
        collocated: true,
        sharing: "fair",
        burst_bytes: u64::from(draw.below(2)) * 200_000,
        cache_bytes: u64::from(draw.below(2)) * 64_000_000,
        outstanding: draw.of(&[None, Some(1), Some(4)]),
        latency_seconds: 50e-6,
        read_seconds: f64::from(draw.below(3)) * 200e-6,
        write_seconds: 100e-6,
        ..Setup::default()
    };
    // Unlike rates: where links are full at the very same rate, the order of sums decides on the last digit, and that on
    // what comes first.
    setup.unlike =
        (0..hosts).map(|host| (host, 40e6 + f64::from(draw.below(200_000_000)))).collect();
    setup.configuration = Configuration {
        placement: draw.of(&[Placement::Local, Placement::RoundRobin, Placement::RoundRobin]),
        stripe_width: 1 + draw.below(hosts),
        copies: 1 + draw.below(2),
        scheduler: draw.of(&[Scheduler::Workqueue, Scheduler::Location]),
        ..setup.configuration
    };
    // Of one size, so that many streams end at once, or each of its own.
    let is_even = draw.below(3) == 0;
    let size =
        |draw: &mut Draw| if is_even { 4 << 20 } else { 1 + u64::from(draw.below(12 << 20)) };
    for input in 0..8 {
        let bytes = size(&mut draw);
        setup = setup.file(&format!("f{input}"), bytes);
    }
    let tasks = 20 + draw.below(60);
    for task in 8..8 + tasks {
        let bytes = size(&mut draw);
        setup = setup.file(&format!("f{task}"), bytes);
        let mut operations: Vec<Value> = (0..1 + draw.below(4))
            .map(|_| json!({ "read": format!("f{}", draw.below(task)) }))
            .collect();
        operations.push(json!({ "compute_seconds": f64::from(draw.below(50)) * 1e-3 }));
        operations.push(json!({ "write": format!("f{task}") }));
        let stage = format!("s{}", task % 3);
        setup = setup.raw_task(
            json!({ "name": format!("t{task}"), "stage": stage, "operations": operations }),
        );
    }
    setup
}

/// The same where messages without data wait in the queues of full links, and parts of files are opened.
fn queued(seed: u64) -> Setup {
    let queue_bytes = 20_000 << (seed % 6);
    Setup { queue_bytes, opens_parts: seed.is_multiple_of(2), ..drawn(seed) }
}

#[test]
fn waiting_in_queues_is_what_was_recorded() {
    for (seed, recorded) in (0..).zip(QUEUED) {
        let found = queued(seed).predict();
        assert_eq!((found.makespan_seconds, found.events), *recorded, "seed {seed}");
    }
}

#[test]
fn what_is_predicted_is_what_was_recorded() {
    for (seed, recorded) in (0..).zip(RECORDED) {
        let found = drawn(seed).predict();
        assert_seconds(found.makespan_seconds, recorded.0);
        assert_eq!(found.events, recorded.1, "seed {seed}");
    }
}
