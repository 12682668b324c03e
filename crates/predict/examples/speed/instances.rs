//! Recorded workflows of `bench/instances` on profiles of the form that `intarsia seed` writes.

use std::path::Path;
use std::process::Command;

use intarsia_predict::configuration::{Configuration, Placement};
use intarsia_predict::profile::Profile;
use intarsia_predict::workload::Workload;

const NAMES: [&str; 4] = [
    "montage-chameleon-2mass-01d-001",
    "epigenomics-chameleon-ilmn-1seq-100k-001",
    "large/soykb-chameleon-20fastq-10ch-001",
    "large/1000genome-chameleon-10ch-250k-001",
];

/// All of them.
pub(crate) fn recorded() -> Vec<Workload> {
    NAMES.into_iter().map(recorded_one).collect()
}

/// They are packed; `xz` unpacks them.
fn recorded_one(name: &str) -> Workload {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/instances");
    let packed = folder.join(format!("{name}.json.xz"));
    let unpacked = Command::new("xz").arg("-dc").arg(&packed).output().unwrap();
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    let workload = Workload::parse(name, &String::from_utf8(unpacked.stdout).unwrap()).unwrap();
    let family = name.rsplit('/').next().and_then(|name| name.split('-').next());
    Workload { name: family.unwrap_or(name).to_owned(), ..workload }
}

/// On what they are predicted, with a word for each.
pub(crate) fn platforms() -> [(&'static str, Profile, Configuration); 4] {
    let seeded = seeded();
    let local = Configuration::of(&seeded);
    let mut dealt = local.clone();
    (dealt.placement, dealt.stripe_width) = (Placement::RoundRobin, seeded.hosts);
    [
        ("local", seeded.clone(), local),
        ("dealt over all", seeded.clone(), dealt.clone()),
        ("without memory, dealt", without_memory(&seeded), dealt.clone()),
        ("many streams, dealt", with_many_streams(&seeded), dealt),
    ]
}

/// 64 hosts with all that a seed finds: fair links with queues, parts that are opened, memory, crowds, samples.
fn seeded() -> Profile {
    Profile::parse("seeded.json", include_str!("seeded.json")).unwrap()
}

/// Every chunk crosses the links, and services are queues.
fn without_memory(seeded: &Profile) -> Profile {
    let mut profile = seeded.clone();
    profile.host.cache_bytes = 0;
    profile.host.crowding = None;
    profile
}

/// A task reads sixteen chunks at a time from as many hosts, also of a file that is dealt; one task on each host.
fn with_many_streams(seeded: &Profile) -> Profile {
    let mut profile = without_memory(seeded);
    profile.client.striped_window_bytes = None;
    profile.host.slots = 1;
    profile
}
