//! How busy links were.

use intarsia_des::Span;
use serde::Serialize;

use super::booking::Link;
use super::topology::{LinkKind, Topology};

/// How busy the links of a kind were, as shares of the time.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkUsage {
    /// The kind.
    pub kind: &'static str,
    /// How many there are, each direction counted.
    pub links: u64,
    /// Average over all links.
    pub mean: f64,
    /// The busiest link.
    pub max: f64,
}

/// A link that was busier than most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotLink {
    /// Where it leads.
    pub link: String,
    /// Its busy share of the time.
    pub utilization: f64,
}

pub(super) fn by_kind(
    links: &[Link],
    topology: &Topology,
    kinds: &[LinkKind],
    elapsed: Span,
) -> Vec<LinkUsage> {
    if links.is_empty() {
        return Vec::new();
    }
    let mut totals = vec![(0_u64, 0_u64, 0_u64); kinds.len()];
    for (number, link) in (0..).zip(links) {
        if let Some((count, sum, max)) = totals.get_mut(topology.kind_of(number)) {
            *count += 1;
            *sum += link.busy;
            *max = link.busy.max(*max);
        }
    }
    let used = kinds.iter().zip(totals).filter(|(_, (count, ..))| *count > 0);
    used.map(|(kind, (count, sum, max))| LinkUsage {
        kind: kind.name,
        links: count,
        mean: share(sum as f64 / count as f64, elapsed),
        max: share(max as f64, elapsed),
    })
    .collect()
}

pub(super) fn hottest(
    links: &[Link],
    topology: &Topology,
    elapsed: Span,
    count: usize,
) -> Vec<HotLink> {
    let mut hot: Vec<(u64, u32)> = Vec::with_capacity(count + 1);
    for (number, link) in (0..).zip(links).filter(|(_, link)| link.busy > 0) {
        let place = hot.partition_point(|(busy, _)| *busy >= link.busy);
        if place < count {
            hot.insert(place, (link.busy, number));
            hot.truncate(count);
        }
    }
    hot.into_iter()
        .map(|(busy, number)| HotLink {
            link: topology.describe(number),
            utilization: share(busy as f64, elapsed),
        })
        .collect()
}

fn share(busy_nanos: f64, elapsed: Span) -> f64 {
    busy_nanos / (elapsed.as_nanos() as f64).max(1.0)
}
