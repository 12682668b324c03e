//! Intervals of predictions: what they cover of made-up truths, which configurations they tell apart, and when there are none.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use intarsia_des::{Distribution, Streams};
use intarsia_predict::configuration::{Configuration, Placement};
use intarsia_predict::model::predict;
use intarsia_predict::profile::Profile;
use intarsia_predict::search::{
    Advice, Change, Grid, Options, Point, Repetition, Summary, Weights, advise, gain, repeat,
};
use intarsia_predict::workload::Workload;
use serde_json::{Value, json};

const RATE: f64 = 1e8;
const SIZE: u32 = 10 << 20;
/// Made-up truths of a test.
const TRUTHS: u64 = 500;

/// One task that reads a file.
fn workload() -> Workload {
    let text = json!({ "format": "intarsia-workload", "version": 1,
        "files": [{ "name": "in", "size_bytes": SIZE }], "tasks": [{ "name": "t", "reads": ["in"] }] });
    Workload::parse("w.json", &text.to_string()).unwrap()
}

/// Two hosts, whose tier and links are read at these rates; `measured` as `seed` and `refine` leave it.
fn profile(tier: f64, link: f64, measured: &Value) -> Profile {
    let access = json!({ "request_seconds": 1e-4, "bytes_per_second": tier });
    let text = json!({
        "format": "intarsia-profile", "version": 1, "name": "p", "hosts": 2,
        "provenance": { "source": "measured", "note": "a test" },
        "host": { "slots": 1, "in_bytes_per_second": link, "out_bytes_per_second": link },
        "network": { "latency_seconds": 1e-5, "loopback_bytes_per_second": 1e10 },
        "manager": { "open_seconds": 1e-4, "allocate_seconds": 1e-4, "commit_seconds": 1e-4 },
        "tiers": [{ "class": "ssd", "capacity_bytes": 1_000_000_000, "read": access, "write": access }],
        "measured": measured,
    });
    Profile::parse("p.json", &text.to_string()).unwrap()
}

/// What rounds found of both rates.
fn numbers(tier: &[f64], link: &[f64]) -> Value {
    let number = |places: &[&str], by_round: &[f64]| json!({ "places": places, "value": mean(by_round), "by_round": by_round });
    json!({
        "tier": number(&["tiers.0.read.bytes_per_second"], tier),
        "link": number(&["host.in_bytes_per_second", "host.out_bytes_per_second"], link),
    })
}

/// Runs that were so many times as long as was foretold.
fn compared(ratios: &[f64]) -> Value {
    let runs: Vec<Value> = ratios.iter().map(|ratio| json!({ "makespan_ratio": ratio })).collect();
    json!({ "runs": runs })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Task and storage on a host each, or both on the same.
fn over_link() -> Configuration {
    Configuration { storage_hosts: Some(1), ..Configuration::new(2) }
}

fn foretold(profile: &Profile, runs: Option<u32>) -> Summary {
    let repetition = Repetition { seed: 1, runs, threads: 1 };
    repeat(&workload(), profile, &over_link(), repetition).unwrap().makespan_seconds()
}

/// The factors of a made-up truth: of as many rounds, and of one run more.
fn factors(truth: u64, what: &str, count: usize, spread: f64) -> Vec<f64> {
    let mut stream = Streams::new(7).stream(what, truth);
    let law = Distribution::log_normal(0.0, spread).unwrap();
    (0..count).map(|_| law.sample(&mut stream)).collect()
}

/// In how many of many made-up truths a run lies within the interval that is made from `rounds` rounds of its seed and from
/// `known` runs that were held against it.
fn covered(rounds: usize, known: usize, model_spread: f64) -> f64 {
    let within = |truth: &u64| {
        let rates = |what| -> Vec<f64> {
            factors(*truth, what, rounds + 1, 0.1).into_iter().map(|factor| RATE * factor).collect()
        };
        let (tier, link) = (rates("tier"), rates("link"));
        let errors = factors(*truth, "model", known + 1, model_spread);
        let measured = json!({
            "numbers": numbers(&tier[..rounds], &link[..rounds]), "refinement": compared(&errors[..known]),
        });
        let seeded = profile(mean(&tier[..rounds]), mean(&link[..rounds]), &measured);
        let interval = foretold(&seeded, Some(8)).interval.unwrap();
        let actual = profile(tier[rounds], link[rounds], &json!({}));
        let run = predict(&workload(), &actual, &over_link(), 99).unwrap();
        let seconds = run.makespan_seconds * errors[known];
        interval.low <= seconds && seconds <= interval.high
    };
    (0..TRUTHS).filter(within).count() as f64 / TRUTHS as f64
}

/// How far off the model is in a made-up world: as a factor, of so many runs.
type Errors = fn(truth: u64, count: usize) -> Vec<f64>;

/// One in ten runs is off by far, the others by little.
fn with_heavy_tails(truth: u64, count: usize) -> Vec<f64> {
    let (near, far) = (factors(truth, "near", count, 0.02), factors(truth, "far", count, 0.5));
    let is_far: Vec<bool> =
        factors(truth, "which", count, 1.0).iter().map(|one| one.ln() > 1.2816).collect();
    let both = near.iter().zip(far).zip(is_far);
    both.map(|((near, far), is_far)| if is_far { far } else { *near }).collect()
}

fn normal(truth: u64, count: usize) -> Vec<f64> {
    factors(truth, "model", count, 0.2)
}

/// The same as [`covered`], where runs that were compared are made as the one that is foretold: each beside rates of its own,
/// which are `spread` as far as those of rounds.
fn covered_by_like_runs(rounds: usize, known: usize, spread: f64, errors: Errors) -> f64 {
    let within = |truth: &u64| {
        let rates = |what| -> Vec<f64> {
            let all = factors(*truth, what, rounds + known + 1, spread);
            all.into_iter().map(|factor| RATE * factor).collect()
        };
        let (tier, link) = (rates("tier"), rates("link"));
        let (tier_by_round, tier) = tier.split_at(rounds);
        let (link_by_round, link) = link.split_at(rounds);
        let errors = errors(*truth, known + 1);
        let seconds = |run: usize| {
            let actual = profile(tier[run], link[run], &json!({}));
            let run_of = predict(&workload(), &actual, &over_link(), run as u64).unwrap();
            run_of.makespan_seconds * errors[run]
        };
        let seeded = |measured: Value| profile(mean(tier_by_round), mean(link_by_round), &measured);
        let point = foretold(&seeded(json!({})), Some(1)).mean;
        let ratios: Vec<f64> = (0..known).map(|run| seconds(run) / point).collect();
        let measured = json!({
            "numbers": numbers(tier_by_round, link_by_round), "refinement": compared(&ratios),
        });
        let interval = foretold(&seeded(measured), Some(8)).interval.unwrap();
        let seconds = seconds(known);
        interval.low <= seconds && seconds <= interval.high
    };
    (0..TRUTHS).filter(within).count() as f64 / TRUTHS as f64
}

/// Of 500 independent trials of 0.9 a share within 0.87 to 0.93 has a probability of 0.975.
#[track_caller]
fn is_nine_in_ten(share: f64) {
    assert!((0.87..=0.93).contains(&share), "{share} of the runs lie in their 90 % intervals");
}

#[test]
fn nine_in_ten_runs_lie_in_the_interval_of_numbers_that_vary_by_round() {
    is_nine_in_ten(covered(8, 0, 0.0));
    is_nine_in_ten(covered(20, 0, 0.0));
}

#[test]
fn few_rounds_make_wide_intervals_rather_than_wrong_ones() {
    is_nine_in_ten(covered(3, 0, 0.0));
}

#[test]
fn nine_in_ten_runs_lie_in_the_interval_of_a_model_that_is_off() {
    is_nine_in_ten(covered(10, 6, 0.2));
    // Who does not know that the model is off is surer than he may be.
    let share = covered(10, 0, 0.2);
    assert!(share < 0.7, "{share}");
}

#[test]
fn nine_in_ten_runs_lie_in_the_interval_of_runs_like_them() {
    is_nine_in_ten(covered_by_like_runs(8, 9, 0.1, normal));
    is_nine_in_ten(covered_by_like_runs(3, 19, 0.1, normal));
    is_nine_in_ten(covered_by_like_runs(8, 39, 0.1, normal));
}

#[test]
fn nine_in_ten_do_also_where_few_runs_are_off_by_far() {
    is_nine_in_ten(covered_by_like_runs(8, 9, 0.01, with_heavy_tails));
    is_nine_in_ten(covered_by_like_runs(8, 39, 0.01, with_heavy_tails));
}

#[test]
fn an_answer_that_is_less_sure_than_what_was_compared_has_an_interval_of_its_own() {
    let rates = |what| -> Vec<f64> {
        factors(1, what, 8, 0.2).into_iter().map(|factor| RATE * factor).collect()
    };
    let by_round = numbers(&rates("tier"), &rates("link"));
    let width = |measured: Value| {
        let interval = foretold(&profile(RATE, RATE, &measured), Some(8)).interval.unwrap();
        (interval.high / interval.low).ln()
    };
    let unsure = width(json!({ "numbers": by_round }));
    let known = width(json!({ "numbers": by_round, "refinement": compared(&[1.01; 20]) }));
    assert!((0.7..1.0).contains(&(known / unsure)), "{known} of {unsure}");
    // What was compared was off by more.
    let off = width(json!({ "numbers": by_round, "refinement": compared(&[2.0; 20]) }));
    assert!((off - 2.0 * 2.0_f64.ln()).abs() < 1e-9, "{off}");
}

fn options(runs: u32) -> Options {
    Options {
        seed: 1,
        replications: runs,
        threads: 1,
        weights: Weights::TIME,
        shown: 15,
        within_seconds: None,
    }
}

/// Which of two configurations is better; the first is that of one host.
fn better(profile: &Profile, other: &Configuration) -> Advice {
    let both = [Configuration::new(1), other.clone()];
    advise(&workload(), profile, both.as_slice(), options(8)).unwrap()
}

/// Both rates by eight rounds, by so much apart, and of the same mean; the link is `slower` times as slow as the tier.
fn both(slower: f64, tier_spread: f64, link_spread: f64) -> Profile {
    let rates = |what, rate: f64, spread: f64| -> Vec<f64> {
        let factors = factors(1, what, 8, spread);
        factors.iter().map(|factor| rate * factor / mean(&factors)).collect()
    };
    let (tier, link) =
        (rates("tier", RATE, tier_spread), rates("link", RATE / slower, link_spread));
    profile(RATE, RATE / slower, &json!({ "numbers": numbers(&tier, &link) }))
}

/// A file over both hosts: half of it comes over the link.
fn dealt() -> Configuration {
    Configuration { placement: Placement::RoundRobin, stripe_width: 2, ..Configuration::new(2) }
}

#[test]
fn what_differs_by_less_than_the_numbers_are_known_is_undecided() {
    let advice = better(&both(1.95, 0.1, 0.1), &dealt());
    let (first, second) = (&advice.points[0], &advice.points[1]);
    let share = second.seconds / first.seconds;
    assert!((1.02..1.15).contains(&share), "they differ, by {share}");
    assert_eq!(advice.undecided, [1]);
    // The same difference, of numbers that are known well.
    let sure = better(&both(1.95, 0.004, 0.004), &dealt());
    assert!((sure.points[1].seconds / sure.points[0].seconds - share).abs() < 1e-9);
    assert!(sure.undecided.is_empty());
    // As unsure, and much slower.
    assert!(better(&both(4.0, 0.1, 0.1), &dealt()).undecided.is_empty());
}

#[test]
fn what_makes_both_slower_alike_does_not_hide_which_is_faster() {
    let short = Configuration { chunk_bytes: 256 << 10, ..Configuration::new(1) };
    let advice = better(&both(1.0, 0.2, 0.2), &short);
    let (first, second) = (advice.points[0].interval.unwrap(), advice.points[1].interval.unwrap());
    assert!(first.high > second.low && second.high > first.high, "{first:?} {second:?}");
    assert!(first.high - second.low > 3.0 * (second.high - first.high), "they overlap nearly all");
    assert!(advice.undecided.is_empty(), "and yet one is slower in each round");
    assert_eq!(advice.points[0].configuration.chunk_bytes, 1 << 20);
}

#[test]
fn a_change_below_the_noise_of_the_numbers_is_undecided() {
    let of = |slower: f64, factor: f64| {
        let (seeded, changed) = (both(slower, 0.1, 0.1), both(slower / factor, 0.1, 0.1));
        let mut grid = Grid::usual(&seeded);
        (grid.hosts, grid.storage_hosts) = (vec![2], vec![Some(1)]);
        let before = advise(&workload(), &seeded, &grid, options(8)).unwrap();
        let change = Change::parse("host=x").unwrap();
        gain(&before, &change, (&workload(), &changed), &grid, options(8)).unwrap()
    };
    // Where the link is what a read waits for, in any round: both are predicted with the same rounds.
    let faster = of(4.0, 1.05);
    assert!(!faster.is_undecided && faster.saved_seconds.mean > 0.0);
    // Where it is so in some rounds, and the tier in others.
    let unsure = of(1.0, 1.05);
    assert!(unsure.is_undecided && unsure.saved_seconds.mean > 0.0);
    assert!(unsure.saved_seconds.half_width.unwrap() > unsure.saved_seconds.mean);
}

#[test]
fn of_constants_that_nobody_measured_no_interval_is_given() {
    let constants = profile(RATE, RATE, &Value::Null);
    let repetition = |runs| Repetition { seed: 1, runs, threads: 1 };
    let found = repeat(&workload(), &constants, &over_link(), repetition(None)).unwrap();
    let summary = found.makespan_seconds();
    assert_eq!((summary.runs, summary.interval), (1, None), "further runs would say nothing");
    let uncertainty = found.uncertainty();
    assert!(uncertainty.covers.is_empty());
    let lines = uncertainty.lines();
    assert_eq!(lines[0], "no interval can be given");
    assert!(lines[1].contains("not measured in rounds (intarsia seed)"), "{lines:?}");
    assert!(lines[2].contains("error of the model unknown: no run was compared (intarsia refine)"));
    let asked = repeat(&workload(), &constants, &over_link(), repetition(Some(5))).unwrap();
    assert_eq!(asked.makespan_seconds().interval, None);
    let advice = advise(&workload(), &constants, &Grid::usual(&constants), options(5)).unwrap();
    assert!(advice.points.iter().all(|point| point.interval.is_none()));
    assert!(advice.uncertainty.covers.is_empty());
}

#[test]
fn an_answer_says_what_its_interval_covers() {
    let rounds = numbers(&[0.9e8, 1.1e8], &[0.9e8, 1.1e8]);
    let of = |measured: Value, runs| {
        let profile = profile(RATE, RATE, &measured);
        let repetition = Repetition { seed: 1, runs, threads: 1 };
        let found = repeat(&workload(), &profile, &over_link(), repetition).unwrap();
        (found.makespan_seconds().interval.is_some(), found.uncertainty().lines().join("; "))
    };
    let (is_known, said) = of(json!({ "numbers": rounds }), None);
    assert!(is_known && said.contains("covers what is drawn in each run (10 runs), the measured numbers of the profile (by 2 rounds)"), "{said}");
    assert!(
        said.ends_with("error of the model unknown: no run was compared (intarsia refine)"),
        "{said}"
    );
    let (is_known, said) =
        of(json!({ "numbers": rounds, "refinement": compared(&[1.1, 50.0]) }), None);
    assert!(
        is_known && said.ends_with("the error of the model (by 1 run held against it)"),
        "{said}"
    );
    let (is_known, said) = of(json!({ "refinement": compared(&[1.1, 1.2]) }), None);
    assert!(is_known && said.contains("covers the error of the model (by 2 runs"), "{said}");
    assert!(said.contains("error of the numbers unknown"), "{said}");
    let tier = json!({ "tier": rounds["tier"] });
    assert!(of(json!({ "numbers": tier }), None).1.contains("error of the links unknown"));
    let (is_known, said) = of(json!({ "numbers": rounds }), Some(1));
    assert!(!is_known && said.contains("one run was made (--runs)"), "{said}");
}

#[test]
fn runs_that_earlier_releases_kept_tell_of_the_model_too() {
    let run = json!({ "compared": { "makespan": { "predicted_s": 2.0, "actual_s": 3.0 } } });
    let nothing = json!({ "compared": { "makespan": [] } });
    let measured = json!({ "refinement": { "runs": [run, nothing, {}] } });
    let known = profile(RATE, RATE, &measured);
    assert_eq!(known.compared.count(), 1);
    let interval = foretold(&known, Some(1)).interval.unwrap();
    // One run is one degree of freedom: 6.31 times its own error.
    let factor = 1.5_f64.powf(6.3137515);
    assert!((interval.high / interval.low / factor.powi(2) - 1.0).abs() < 1e-6);
}

#[test]
fn all_that_an_advice_names_has_an_interval_for_few_predictions_more() {
    let tier: Vec<f64> =
        factors(1, "tier", 8, 0.1).into_iter().map(|factor| RATE * factor).collect();
    let seeded = profile(RATE, RATE, &json!({ "numbers": numbers(&tier, &tier) }));
    let mut grid = Grid::usual(&seeded);
    grid.chunk_bytes = (0..20).map(|number| (64 + 16 * number) << 10).collect();
    let options = Options { within_seconds: Some(0.11), ..options(5) };
    let advice = advise(&workload(), &seeded, &grid, options).unwrap();
    assert!(advice.points.len() > 200, "{}", advice.points.len());
    let within = advice.cheapest_within(0.11).unwrap();
    let named = (0..15).chain(advice.pareto.clone()).chain(advice.undecided.clone());
    for place in named.chain([advice.best, advice.fastest, advice.cheapest, within]) {
        let point = &advice.points[place];
        let interval = point.interval.unwrap();
        assert!(interval.low < point.seconds && point.seconds < interval.high && point.runs == 5);
    }
    assert!(advice.points[within].interval.unwrap().high <= 0.11);
    // Nothing is said of the others, rather than too much.
    let has_interval = |point: &&Point| point.interval.is_some();
    assert!(advice.points.iter().filter(has_interval).all(|point| point.runs == 5));
    let again = advice.points.iter().filter(|point| point.runs > 1).count();
    assert!(again <= 40, "{again} of {} were predicted again", advice.points.len());
}
