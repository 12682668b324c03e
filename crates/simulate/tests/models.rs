//! The checkpoint models against figures computed elsewhere.

use intarsia_simulate::checkpoint::failure::TimeDistribution;
use intarsia_simulate::checkpoint::interval::{Costs, efficiency_under, optimum_under};

use proptest::prelude::*;

const HOUR: f64 = 3600.0;

/// C = R and M in seconds; intervals by Young, Daly 2006 and exactly, in seconds; efficiency at
/// each; efficiency by simulation with exponential failures and with Weibull failures (shape 0.7,
/// the same mean, at Daly's interval), each with its half width.
struct Row {
    c: f64,
    m: f64,
    intervals: [f64; 3],
    efficiencies: [f64; 3],
    exponential: (f64, f64),
    weibull: (f64, f64),
}

const fn row(
    c: f64,
    m: f64,
    intervals: [f64; 3],
    efficiencies: [f64; 3],
    exponential: (f64, f64),
    weibull: (f64, f64),
) -> Row {
    Row { c, m, intervals, efficiencies, exponential, weibull }
}

/// An independent computation: the formulas in floating point, and a simulation of 40 runs of 50
/// mean times between failures each.
const TABLE: [Row; 8] = [
    row(
        60.0,
        24.0 * HOUR,
        [3220.0, 3180.0, 3180.0],
        [0.9625; 3],
        (0.9624, 0.0004),
        (0.9631, 0.0006),
    ),
    row(
        300.0,
        24.0 * HOUR,
        [7200.0, 7001.0, 7001.0],
        [0.9158; 3],
        (0.9169, 0.0010),
        (0.9195, 0.0018),
    ),
    row(
        300.0,
        6.0 * HOUR,
        [3600.0, 3403.0, 3403.0],
        [0.8306, 0.8308, 0.8308],
        (0.8307, 0.0022),
        (0.8368, 0.0030),
    ),
    row(
        300.0,
        HOUR,
        [1470.0, 1276.0, 1277.0],
        [0.5916, 0.5937, 0.5937],
        (0.5937, 0.0058),
        (0.6240, 0.0065),
    ),
    row(
        600.0,
        HOUR,
        [2078.0, 1698.0, 1699.0],
        [0.4425, 0.4469, 0.4469],
        (0.4485, 0.0081),
        (0.4909, 0.0105),
    ),
    row(
        1200.0,
        HOUR,
        [2939.0, 2194.0, 2200.0],
        [0.2711, 0.2787, 0.2787],
        (0.2789, 0.0116),
        (0.3359, 0.0112),
    ),
    row(5.0, HOUR, [190.0, 186.0, 186.0], [0.9469; 3], (0.9475, 0.0006), (0.9479, 0.0010)),
    row(
        60.0,
        HOUR / 4.0,
        [329.0, 290.0, 290.0],
        [0.6325, 0.6342, 0.6342],
        (0.6298, 0.0061),
        (0.6583, 0.0051),
    ),
];

#[test]
fn intervals_and_efficiencies_are_those_of_the_table() {
    for row in &TABLE {
        let costs = Costs::new(row.c, row.c, row.m).unwrap();
        let ours = [costs.young_seconds(), costs.daly_2006_seconds(), costs.exact_seconds()];
        for ((tau, printed), efficiency) in ours.iter().zip(row.intervals).zip(row.efficiencies) {
            let at = format!("C = {}, M = {}: {tau} for {printed}", row.c, row.m);
            assert!((tau - printed).abs() <= 0.5, "{at}");
            assert!((costs.efficiency(*tau) - efficiency).abs() <= 0.5e-4 + 1e-9, "{at}");
        }
    }
}

/// The simulated columns are estimates of what renewal theory gives without simulation. 95 %
/// intervals: of 16, one or two may miss; none may miss by more than twice its half width.
#[test]
fn the_simulated_columns_hold_what_renewal_theory_gives() {
    let mut outside = Vec::new();
    for row in &TABLE {
        let daly = Costs::new(row.c, row.c, row.m).unwrap().daly_2006_seconds();
        let exponential = TimeDistribution::exponential(row.m).unwrap();
        let weibull = TimeDistribution::weibull_with_mean(0.7, row.m).unwrap();
        for (name, gaps, (simulated, half_width)) in
            [("exponential", exponential, row.exponential), ("Weibull", weibull, row.weibull)]
        {
            let ours = efficiency_under(&gaps, row.c, row.c, daly);
            let off = (ours - simulated).abs() / half_width;
            println!(
                "C {:5} M {:6} {name:12} {ours:.4} in {simulated} ± {half_width}",
                row.c, row.m
            );
            assert!(off < 2.0, "{name}, C = {}, M = {}: {ours} for {simulated}", row.c, row.m);
            if off > 1.0 {
                outside.push(off);
            }
        }
    }
    assert!(outside.len() <= 3, "{} of 16 outside of their interval", outside.len());
}

/// Clustered failures help at equal mean, and longer intervals suit them.
#[test]
fn the_numeric_optimum_follows_the_clustering() {
    let optimum = |shape| {
        let gaps = TimeDistribution::weibull_with_mean(shape, HOUR).unwrap();
        optimum_under(&gaps, 60.0, 60.0)
    };
    let exact = Costs::new(60.0, 60.0, HOUR).unwrap();
    let (clustered, even) = (optimum(0.5), optimum(1.0));
    assert!((even.at / exact.exact_seconds() - 1.0).abs() < 1e-4);
    assert!((even.value - exact.efficiency(exact.exact_seconds())).abs() < 1e-9);
    assert!(clustered.value > even.value + 0.02, "{clustered:?} {even:?}");
}

/// The tail of the sum over a heavy-tailed distribution: against the plain sum of two million terms.
#[test]
fn a_heavy_tail_is_summed_to_its_end() {
    let gaps = TimeDistribution::log_normal(3.0, 1.5).unwrap();
    let (c, r, tau) = (0.2, 0.5, 0.3);
    let sum: f64 = (1..2_000_000).map(|k| gaps.survival(r + f64::from(k) * (tau + c))).sum();
    let plain = tau * sum / gaps.mean_seconds();
    let ours = efficiency_under(&gaps, c, r, tau);
    assert!((ours / plain - 1.0).abs() < 1e-4, "{ours} {plain}");
}

#[test]
fn a_recorded_distribution_has_an_optimum_too() {
    let recorded: Vec<f64> = (1..400).map(|i| f64::from(i * i % 397) * 31.0).collect();
    let gaps = TimeDistribution::empirical(recorded).unwrap();
    let best = optimum_under(&gaps, 60.0, 30.0);
    for factor in [0.3, 0.7, 1.5, 4.0] {
        assert!(efficiency_under(&gaps, 60.0, 30.0, best.at * factor) <= best.value);
    }
}

fn any_distribution() -> impl Strategy<Value = TimeDistribution> {
    let (shape, scale) = (-3.0..4.0f64, -6.0..12.0f64);
    (0usize..5, shape, scale, proptest::collection::vec(0.0..1e9f64, 1..20)).prop_filter_map(
        "a mean beyond all times",
        |(model, shape, scale, values)| {
            let (shape, scale) = (10f64.powf(shape), 10f64.powf(scale));
            match model {
                0 => TimeDistribution::exponential(scale),
                1 => TimeDistribution::weibull(shape, scale),
                2 => TimeDistribution::log_normal(scale.ln(), shape),
                3 => TimeDistribution::gamma(shape, scale),
                _ => TimeDistribution::empirical(values),
            }
            .ok()
        },
    )
}

proptest! {
    /// Laws that hold for every distribution of times, however odd its parameters.
    #[test]
    fn every_distribution_keeps_the_laws(
        gaps in any_distribution(), times in proptest::array::uniform2(-9.0..15.0f64), seed: u64,
    ) {
        let [early, late] = times.map(|power| 10f64.powf(power));
        let (early, late) = (early.min(late), early.max(late));
        let mean = gaps.mean_seconds();
        let [s_early, s_late] = [early, late].map(|time| gaps.survival(time));
        prop_assert!((0.0..=1.0).contains(&s_late) && s_early >= s_late, "{s_early} {s_late}");
        let [l_early, l_late] = [early, late].map(|time| gaps.limited_mean_seconds(time));
        let slack = 1e-9 * mean;
        prop_assert!(l_early >= -slack && l_late >= l_early - slack && l_late <= mean + slack);
        // The integral of the survival between two times lies between its ends.
        let between = l_late - l_early;
        let slack = 1e-6 * (l_late + late * s_late);
        prop_assert!(between <= (late - early) * s_early + slack, "{between}");
        prop_assert!(between >= (late - early) * s_late - slack, "{between}");
        let mut rng = intarsia_des::Streams::new(seed).stream("test", 0);
        for drawn in [gaps.sample(&mut rng), gaps.sample_equilibrium(&mut rng)] {
            prop_assert!(drawn >= 0.0 && !drawn.is_nan(), "{drawn}");
        }
    }

    /// An efficiency is a share, and none is better than the optimum.
    #[test]
    fn no_interval_beats_the_optimum(
        shape in 0.3..3.0f64, checkpoint in 1e-3..0.5f64, restart in 0.0..0.5f64, factor in 0.01..100.0f64,
    ) {
        let gaps = TimeDistribution::weibull_with_mean(shape, 1.0).unwrap();
        let best = optimum_under(&gaps, checkpoint, restart);
        let other = efficiency_under(&gaps, checkpoint, restart, best.at * factor);
        prop_assert!((0.0..=1.0).contains(&other), "{other}");
        prop_assert!(other <= best.value + 1e-9, "{best:?} {other}");
    }
}
