//! A profile as single rounds of its seed had it: how far its numbers may be off.
//!
//! `intarsia seed` measures the numbers of a profile in rounds, and keeps them under `measured.numbers`. A variant is the
//! profile with all numbers as one round had them, so that what varies together does so here. Rounds count as what they are
//! beside the number of the whole seed: a profile that was corrected or changed since varies by as much.

use super::{Host, Line, Profile, Seconds, mixed, one_of};
use crate::Problem;
use crate::json::Node;

/// Fewer rounds say nothing of how far they are apart.
const LEAST: usize = 2;
/// What the order of rounds is drawn for.
const ORDER: u64 = 0x0072_6f75_6e64;

/// The numbers of a profile by round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds {
    count: usize,
    numbers: Vec<Number>,
}

/// A number: where it stands in the profile, what it is by the whole seed, and by each round.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    places: Vec<String>,
    value: f64,
    by_round: Vec<f64>,
}

/// A place of a profile that holds a number.
enum Slot<'a> {
    /// A rate, which is more than zero, or a factor.
    Rate(&'a mut f64),
    Seconds(&'a mut f64),
    Bytes(&'a mut u64),
    Service(&'a mut Seconds),
}

impl Rounds {
    /// Reads `measured` of a profile.
    pub(super) fn read(measured: &Node<'_>) -> Result<Self, Problem> {
        let mut rounds = Self::default();
        let Some(numbers) = measured.optional("numbers")? else { return Ok(rounds) };
        for (_, node) in numbers.fields()? {
            let Some(by_round) = node.optional("by_round")? else { continue };
            let values: Vec<f64> =
                by_round.items()?.map(|one| one.number()).collect::<Result<_, _>>()?;
            if !rounds.numbers.is_empty() && values.len() != rounds.count {
                let (found, expected) = (values.len(), rounds.count);
                let why = format!("{found} rounds, where the numbers before have {expected}");
                return Err(by_round.refuse(why).with_help("take the profile as 'seed' wrote it"));
            }
            rounds.count = values.len();
            rounds.numbers.push(Number {
                places: node
                    .field("places")?
                    .items()?
                    .map(|place| place.text().map(str::to_owned))
                    .collect::<Result<_, _>>()?,
                value: node.field("value")?.number()?,
                by_round: values,
            });
        }
        Ok(rounds)
    }

    /// How many there are; 0 where they are too few to say anything.
    #[must_use]
    pub fn count(&self) -> usize {
        if self.count < LEAST || self.numbers.is_empty() { 0 } else { self.count }
    }

    /// Whether what stands at a place was measured in them.
    #[must_use]
    pub fn has(&self, place: &str) -> bool {
        self.numbers.iter().any(|number| number.places.iter().any(|one| one == place))
    }

    /// So many of them: all in an order of chance, then all again in another one.
    fn drawn(&self, seed: u64, count: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.count()).collect();
        let mut drawn = Vec::new();
        for number in 0..count as usize {
            let Some(at) = number.checked_rem(order.len()) else { break };
            let other = at + one_of(order.len() - at, mixed(seed, ORDER, number as u64));
            order.swap(at, other);
            drawn.push(order[at]);
        }
        drawn
    }
}

impl Number {
    /// What stands at one of its places, as a round has it.
    fn moved(&self, current: f64, round: usize) -> f64 {
        match self.by_round[round] {
            // Of nothing there is no part; what was changed since stays.
            measured if self.value == 0.0 => {
                if current == 0.0 {
                    measured
                } else {
                    current
                }
            }
            measured => current * (measured / self.value),
        }
    }
}

impl Profile {
    /// So many variants, the same for each configuration; none where the seed left no rounds.
    #[must_use]
    pub fn variants(&self, seed: u64, count: u32) -> Vec<Self> {
        self.rounds.drawn(seed, count).into_iter().map(|round| self.variant(round)).collect()
    }

    fn variant(&self, round: usize) -> Self {
        let mut made = self.clone();
        for number in &self.rounds.numbers {
            for place in &number.places {
                let path: Vec<&str> = place.split('.').collect();
                slots(&mut made, &path).into_iter().for_each(|slot| slot.set(number, round));
            }
        }
        made
    }
}

impl Slot<'_> {
    fn set(self, number: &Number, round: usize) {
        match self {
            Self::Rate(rate) => {
                let moved = number.moved(*rate, round);
                // Nothing has a rate of zero.
                *rate = if moved > 0.0 { moved } else { *rate };
            }
            Self::Seconds(seconds) => *seconds = number.moved(*seconds, round),
            Self::Bytes(bytes) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a cast saturates"
                )]
                let moved = number.moved(crate::as_float(*bytes), round).round() as u64;
                *bytes = moved;
            }
            Self::Service(seconds) => *seconds = seconds.map(|one| number.moved(one, round)),
        }
    }
}

/// What stands at a place: nothing where this profile has no such part.
fn slots<'a>(profile: &'a mut Profile, path: &[&str]) -> Vec<Slot<'a>> {
    let network = &mut profile.network;
    let manager = &mut profile.manager;
    match path {
        ["host", path @ ..] => {
            let unlike = profile.unlike.iter_mut().map(|(_, host)| host);
            let hosts = unlike.chain(std::iter::once(&mut profile.host));
            hosts.filter_map(|host| of_host(host, path)).collect()
        }
        ["tiers", number, path @ ..] => {
            let number = number.parse().ok();
            let tier = number.and_then(|number: usize| profile.tiers.get_mut(number));
            tier.and_then(|tier| of_tier(tier, path)).into_iter().collect()
        }
        ["network", "latency_seconds"] => vec![Slot::Seconds(&mut network.latency_seconds)],
        ["network", "burst_bytes"] => vec![Slot::Bytes(&mut network.burst_bytes)],
        ["network", "queue_bytes"] => vec![Slot::Bytes(&mut network.queue_bytes)],
        ["network", "loopback_bytes_per_second"] => {
            vec![Slot::Rate(&mut network.loopback_bytes_per_second)]
        }
        ["manager", "open_seconds"] => vec![Slot::Service(&mut manager.open)],
        ["manager", "allocate_seconds"] => vec![Slot::Service(&mut manager.allocate)],
        ["manager", "commit_seconds"] => vec![Slot::Service(&mut manager.commit)],
        _ => Vec::new(),
    }
}

fn of_host<'a>(host: &'a mut Host, path: &[&str]) -> Option<Slot<'a>> {
    let rate = match path {
        ["cache_bytes_per_second"] => Some(&mut host.cache_bytes_per_second),
        ["in_bytes_per_second"] => Some(&mut host.in_bytes_per_second),
        ["out_bytes_per_second"] => Some(&mut host.out_bytes_per_second),
        ["crowding", kind] => {
            let crowding = host.crowding.as_mut()?;
            match *kind {
                "names" => Some(&mut crowding.names),
                "write" => Some(&mut crowding.write),
                "read" => Some(&mut crowding.read),
                "copy" => Some(&mut crowding.copy),
                _ => None,
            }
        }
        _ => None,
    };
    rate.map(Slot::Rate)
}

fn of_tier<'a>(tier: &'a mut super::Tier, path: &[&str]) -> Option<Slot<'a>> {
    let (way, path) = path.split_first()?;
    let access = match *way {
        "read" => &mut tier.read,
        "write" => &mut tier.write,
        "write_back" if path == ["bytes_per_second"] => {
            return tier.write_back.as_mut().map(|memory| Slot::Rate(&mut memory.bytes_per_second));
        }
        _ => return None,
    };
    match path {
        ["request_seconds"] => Some(Slot::Service(&mut access.request)),
        ["bytes_per_second"] => Some(Slot::Rate(&mut access.bytes_per_second)),
        ["first", name] => access.first.as_mut().and_then(|first| of_line(first, name)),
        ["burst", name] => access.burst.as_mut().and_then(|burst| match *name {
            "bytes" => Some(Slot::Bytes(&mut burst.bytes)),
            "bytes_per_second" => Some(Slot::Rate(&mut burst.bytes_per_second)),
            _ => None,
        }),
        _ => None,
    }
}

fn of_line<'a>(line: &'a mut Line, name: &str) -> Option<Slot<'a>> {
    match name {
        "request_seconds" => Some(Slot::Service(&mut line.request)),
        "bytes_per_second" => Some(Slot::Rate(&mut line.bytes_per_second)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(numbers: &serde_json::Value) -> Result<Profile, Problem> {
        let access = serde_json::json!({ "request_seconds": 1e-3, "bytes_per_second": 1e8 });
        let text = serde_json::json!({
            "format": "intarsia-profile", "version": 1, "name": "p", "hosts": 2,
            "provenance": { "source": "measured", "note": "a test" },
            "host": { "slots": 1, "in_bytes_per_second": 2e8, "out_bytes_per_second": 1e8 },
            "unlike_hosts": [{ "numbers": [1], "in_bytes_per_second": 4e8 }],
            "network": { "latency_seconds": 0, "burst_bytes": 100, "loopback_bytes_per_second": 1e9 },
            "manager": { "open_seconds": { "samples": [0.1, 0.3] }, "allocate_seconds": 0, "commit_seconds": 0 },
            "tiers": [{ "class": "ssd", "capacity_bytes": 1_000_000_000, "read": access, "write": access }],
            "measured": { "numbers": numbers },
        });
        Profile::parse("p.json", &text.to_string())
    }

    fn number(places: &[&str], value: f64, by_round: &[f64]) -> serde_json::Value {
        serde_json::json!({ "places": places, "value": value, "by_round": by_round })
    }

    #[test]
    fn a_variant_has_all_numbers_of_one_round() {
        let both = ["host.in_bytes_per_second", "host.out_bytes_per_second"];
        let found = profile(&serde_json::json!({
            // The profile was refined since: what stands there is not what the seed found.
            "link": number(&both, 1e8, &[0.9e8, 1.0e8, 1.1e8]),
            "open": number(&["manager.open_seconds"], 0.2, &[0.18, 0.2, 0.22]),
            "latency": number(&["network.latency_seconds"], 0.0, &[1e-6, 2e-6, 3e-6]),
            "burst": number(&["network.burst_bytes"], 100.0, &[90.0, 100.0, 110.0]),
            "read": number(&["tiers.0.read.bytes_per_second"], 1e8, &[0.9e8, 1.0e8, 1.1e8]),
            // There is no such part.
            "first": number(&["tiers.0.read.first.request_seconds"], 1.0, &[1.0, 1.0, 1.0]),
        }))
        .unwrap();
        let variants = found.variants(1, 3);
        let mut seen: Vec<f64> = Vec::new();
        for variant in &variants {
            let share = variant.host.out_bytes_per_second / 1e8;
            assert!((variant.host.in_bytes_per_second / 2e8 - share).abs() < 1e-12);
            assert!((variant.host(1).in_bytes_per_second / 4e8 - share).abs() < 1e-12);
            assert!((variant.manager.open.mean() / 0.2 - share).abs() < 1e-9);
            assert!(
                (variant.network.latency_seconds - (1.0 + (share - 0.9) * 10.0) * 1e-6).abs()
                    < 1e-9
            );
            assert!((crate::as_float(variant.network.burst_bytes) - 100.0 * share).abs() < 1e-9);
            assert!((variant.tiers[0].read.bytes_per_second / 1e8 - share).abs() < 1e-12);
            assert_eq!(variant.tiers[0].write, found.tiers[0].write);
            seen.push(share);
        }
        seen.sort_by(f64::total_cmp);
        assert_eq!(seen, [0.9, 1.0, 1.1], "each round once before any comes again");
    }

    #[test]
    fn the_same_seed_draws_the_same_rounds_and_another_one_others() {
        let rounds = Rounds {
            count: 9,
            numbers: vec![Number { places: vec![], value: 1.0, by_round: vec![1.0; 9] }],
        };
        let drawn = rounds.drawn(7, 20);
        assert_eq!(drawn, rounds.drawn(7, 20));
        assert_eq!(drawn[..5], rounds.drawn(7, 5)[..]);
        assert_ne!(drawn, rounds.drawn(8, 20));
        for cycle in drawn.chunks_exact(9) {
            let mut cycle = cycle.to_vec();
            cycle.sort_unstable();
            assert_eq!(cycle, (0..9).collect::<Vec<_>>());
        }
    }

    #[test]
    fn without_rounds_there_is_no_variant() {
        for numbers in
            [serde_json::json!({}), serde_json::json!({ "link": number(&[], 1.0, &[1.0]) })]
        {
            let found = profile(&numbers).unwrap();
            assert_eq!((found.rounds.count(), found.variants(1, 5).len()), (0, 0));
        }
        let unlike = serde_json::json!({ "a": number(&[], 1.0, &[1.0, 1.0]), "b": number(&[], 1.0, &[1.0]) });
        let problem = profile(&unlike).unwrap_err();
        assert!(problem.message.contains("measured.numbers.b.by_round: 1 rounds"), "{problem:?}");
    }
}
