//! The published figures of the file system at scale beside ours. `cargo test --test scale_published
//! -- --nocapture` prints the table; INTARSIA_TEST_LONG=1 goes to the published numbers of nodes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod scale_support;

use intarsia_simulate::scale::PRESETS;
use intarsia_simulate::scale::calibration::{Measurements, PUBLISHED};
use intarsia_simulate::scenario::Layers;
use scale_support::{mean, preset, report};

fn is_long() -> bool {
    std::env::var_os("INTARSIA_TEST_LONG").is_some_and(|v| v == "1")
}

fn throughput(name: &str, nodes: u32, assignments: &[&str], estimate: &str) -> f64 {
    let count = format!("nodes.count={nodes}");
    let mut all = vec![count.as_str()];
    all.extend(assignments);
    mean(&report(&preset(name, &all)), estimate)
}

/// The published error at 512 to 16,384 nodes is below 4 %, but against a curve of which the text
/// names three points, and these contradict each other.
#[test]
fn the_published_write_rates_fit_no_single_device_rate() {
    let layers = Layers { preset: Some("fusionsim-bgp"), ..Layers::default() };
    let document = layers.document("scale", PRESETS).unwrap();
    let mut published = Measurements::parse("published", PUBLISHED).unwrap();
    // Uncalibrated: the local device at the rate that was published for it.
    published.fit.clear();
    let as_stated = published.calibrate(&document).unwrap();
    for point in &as_stated.points {
        println!(
            "{:>6} nodes: published {:.3e} B/s, ours {:.3e} B/s, {:+.1} % ({})",
            point.nodes,
            point.measured,
            point.simulated,
            point.error * 100.0,
            point.source
        );
    }
    println!("mean error {:.1} %", as_stated.mean_error * 100.0);
    // 110, 153 and 161 MB/s a node against 171: the device's 174 MB/s less calls and records.
    let per_node: Vec<f64> =
        as_stated.points.iter().map(|p| p.simulated / f64::from(p.nodes)).collect();
    assert!(per_node.iter().all(|rate| (1.69e8..1.74e8).contains(rate)), "{per_node:?}");
    assert!((0.03..0.08).contains(&as_stated.points[2].error), "{as_stated:?}");
}

/// With one rate fitted to the peak at 16,384 nodes, ours at two million is what the published
/// simulator's is: 329 TB/s, 97 % of the linear continuation of that peak.
#[test]
fn two_million_nodes_continue_the_line() {
    let (base, last) = if is_long() { (16_384, 2_097_152) } else { (1024, 16_384) };
    let fitted = "system.device_write=163.8 MB/s";
    let rate = |nodes| throughput("fusionsim-bgp", nodes, &[fitted], "job.write_throughput");
    let (at_base, at_last) = (rate(base), rate(last));
    let efficiency = at_last / f64::from(last) / (at_base / f64::from(base));
    println!(
        "{base} nodes: {at_base:.4e} B/s; {last} nodes: {at_last:.4e} B/s, {:.2} % of linear",
        efficiency * 100.0
    );
    if is_long() {
        println!(
            "published: 329 TB/s, 97.4 % of linear from 2.64 TB/s; ours is {:+.1} % of it",
            (at_last / 329e12 - 1.0) * 100.0
        );
        assert!((at_base / 2.64e12 - 1.0).abs() < 0.01, "{at_base}");
        assert!((at_last / 329e12 - 1.0).abs() < 0.04, "{at_last}");
    }
    assert!((0.95..=1.0).contains(&efficiency), "{efficiency}");
}

/// Node-local storage is ahead of the central file system at all scales of the published IOR study, and
/// the central one stays at what its servers give.
#[test]
fn the_local_store_beats_the_central_one_at_every_scale() {
    let scales: &[u32] =
        if is_long() { &[16_384, 65_536, 262_144, 1_048_576] } else { &[256, 1024, 4096] };
    let mut previous = f64::INFINITY;
    for &nodes in scales {
        let few = ["workload.transfers=2"];
        let assignments: &[&str] = if is_long() { &[] } else { &few };
        let ours = throughput("ior-bgp", nodes, assignments, "write.throughput");
        let central = throughput("central-gpfs-bgp", nodes, assignments, "write.throughput");
        let per_node = ours / f64::from(nodes);
        println!(
            "{nodes} nodes: local {ours:.3e} B/s, central {central:.3e} B/s, {:.0} times",
            ours / central
        );
        assert!(ours > 2.0 * central);
        assert!(central <= 37e9 * 1.001, "{central}");
        // Linear, and a little less with every scale.
        assert!(per_node <= previous * (1.0 + 1e-9) && per_node > 0.95 * 174e6, "{per_node}");
        previous = per_node;
        if nodes == 1_048_576 {
            println!("published: about 37 GB/s for the central file system at a million nodes");
            assert!((central / 37e9 - 1.0).abs() < 0.02, "{central}");
        }
    }
}
