//! Metadata services against queueing theory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod scale_support;

use scale_support::{mean, preset, report, scenario};

fn stats(nodes: u32, system: &str, files: u32, variation: &str, replications: u32) -> String {
    format!(
        "[nodes]\ncount = {nodes}\n[system]\n{system}\ndevice_write = \"1 GB/s\"
device_read = \"1 GB/s\"\n[system.metadata]\ncreate = \"1 ms\"\nvariation = {variation}
[network]\nkind = \"ideal\"\nlink_rate = \"1000 TB/s\"
[workload]\nkind = \"custom\"\n[[workload.step]]\noperation = \"stat\"\nrepeat = {files}
[run]\nreplications = {replications}\n"
    )
}

/// `N` nodes that each have one request under way at one of `M` equal exponential services, chosen
/// at random, are a closed network with a product-form solution: a service is busy with
/// probability `N / (N + M - 1)` (Gordon and Newell, Operations Research 15(2), 1967).
#[test]
fn exponential_services_reach_the_throughput_of_the_closed_network() {
    for nodes in [2_u32, 8, 32] {
        let study = scenario(&stats(nodes, "kind = \"local-first\"", 3000, "1.0", 10));
        let report = report(&study);
        let found = report.estimate("stat.operations_per_second").unwrap();
        let n = f64::from(nodes);
        let expected = n * 1000.0 * n / (2.0 * n - 1.0);
        println!(
            "{nodes} services: {:.1} ± {:.1} per second, theory {expected:.1}",
            found.mean,
            found.half_width.unwrap()
        );
        // The tail, when some nodes are done already, makes it a little slower.
        assert!((found.mean / expected - 1.0).abs() < 0.025, "{nodes}: {} {expected}", found.mean);
    }
}

/// Constant service times queue less than exponential ones, and no service does more than one request
/// a millisecond.
#[test]
fn constant_services_lie_between_exponential_ones_and_the_limit() {
    let rate = |variation| {
        let study = scenario(&stats(16, "kind = \"local-first\"", 1000, variation, 1));
        mean(&report(&study), "stat.operations_per_second")
    };
    let (constant, exponential) = (rate("0.0"), rate("1.0"));
    assert!(constant > 1.05 * exponential && constant < 16_000.0, "{constant} {exponential}");
}

#[test]
fn a_central_metadata_service_saturates_at_its_rate() {
    let system = "kind = \"central\"\nservers = 4\nmetadata_servers = 1";
    for nodes in [1_u32, 8, 64, 512] {
        let study = scenario(&stats(nodes, system, 50, "0.0", 1));
        let rate = mean(&report(&study), "stat.operations_per_second");
        assert!((rate / 1000.0 - 1.0).abs() < 0.01, "{nodes}: {rate}");
    }
}

/// One directory of all limits creation by the service that appends to it, however many nodes there are;
/// parts of it lift the limit.
#[test]
fn one_directory_is_a_hot_spot_until_it_is_split() {
    let rate = |directory: &str, parts: u32| {
        let study = scenario(&format!(
            "[nodes]\ncount = 512\n[system]\nkind = \"local-first\"\ndevice_write = \"1 GB/s\"
device_read = \"1 GB/s\"\ndirectory_partitions = {parts}\n[system.metadata]\ncreate = \"500 us\"
append = \"100 us\"\n[network]\nkind = \"torus\"\nlink_rate = \"425 MB/s\"
[workload]\nkind = \"metadata\"\nfiles = 5\ndirectory = \"{directory}\"\n"
        ));
        mean(&report(&study), "create.operations_per_second")
    };
    let own = rate("own", 1);
    let (shared, split) = (rate("shared", 1), rate("shared", 512));
    println!(
        "creates per second: own {own:.0}, shared {shared:.0}, shared in 512 parts {split:.0}"
    );
    // An append takes 100 us.
    assert!(shared < 10_100.0 && shared > 9_000.0, "{shared}");
    assert!(split > 0.5 * own && split > 20.0 * shared, "{split} {own}");
}

#[test]
fn stragglers_hold_up_collective_phases() {
    let rate = |assignments: &[&str]| {
        let mut all = vec!["nodes.count=256", "workload.transfers=2"];
        all.extend(assignments);
        mean(&report(&preset("ior-bgp", &all)), "write.throughput")
    };
    let (even, slow) = (rate(&[]), rate(&["system.slow_share=0.05", "system.slow_factor=4"]));
    assert!((even / slow / 4.0 - 1.0).abs() < 0.02, "{even} {slow}");
}

/// One node that writes alone: each of its writes takes (e^(λS) − 1)(1/λ + D) with failures at rate λ,
/// writes of S and outages of D.
#[test]
fn writes_wait_for_a_node_that_failed() {
    let study = scenario(
        "[nodes]\ncount = 1\n[system]\nkind = \"local-first\"\ndevice_write = \"1 MB/s\"
device_read = \"1 MB/s\"\n[system.metadata]\ncreate = \"1 us\"
[failures]\nnode_mtbf = \"50 s\"\noutage = \"20 s\"
[network]\nkind = \"ideal\"\nlink_rate = \"1000 TB/s\"
[workload]\nkind = \"write\"\ntransfer = \"5 MB\"\ntransfers = 4000\n[run]\nreplications = 12\n",
    );
    let report = report(&study);
    let found = report.estimate("write.seconds").unwrap();
    let exact = 4000.0 * 0.1_f64.exp_m1() * 70.0;
    let half_width = found.half_width.unwrap();
    println!("4,000 writes: {:.0} ± {half_width:.0} s, theory {exact:.0} s", found.mean);
    assert!((found.mean - exact).abs() < 2.0 * half_width && half_width < 0.02 * exact);
    assert!(mean(&report, "failures.requests_held") > 100.0);
}

/// The more nodes, the surer is one of them away while all others wait at the barrier.
#[test]
fn failures_cost_a_large_machine_more() {
    let slowdown = |nodes: u32| {
        let count = format!("nodes.count={nodes}");
        let seconds = |set: &[&str]| mean(&report(&preset("ior-bgp", set)), "job.seconds");
        let failing = ["failures.node_mtbf=5 min", "failures.outage=10 s", &count];
        seconds(&failing) / seconds(&[&count])
    };
    let (small, large) = (slowdown(8), slowdown(512));
    assert!(large > 2.0 * small, "{small} {large}");
    assert!(small >= 1.0);
}
