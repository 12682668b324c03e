//! What part of the bytes each host of a store, or each tier of a host, is due: alike by room, or by how fast they are.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroU64;

use intarsia_types::{NodeId, Problem, nearest};

use crate::Room;

/// How fast each place is, in a unit that all share, such as the requests a minute that a model predicts
/// of it.
pub type Speeds<P = NodeId> = BTreeMap<P, NonZeroU64>;

/// The bytes that each place is due, in the order of `rooms`.
///
/// Without speeds all are due the same part of their capacity. With speeds they are due bytes in
/// proportion to these, so that requests which are spread over the bytes keep all busy alike, and
/// none before the others. None is filled beyond half of the room that it would have left if all were
/// full alike; what a fast one cannot take is due to the others, again by their speeds.
///
/// A place without a speed is due nothing; [`check_speeds`] tells of it.
#[must_use]
pub fn due_bytes<P: Ord>(rooms: &[Room<P>], speeds: &Speeds<P>) -> Vec<u64> {
    let capacity: u128 = rooms.iter().map(|room| u128::from(room.capacity_bytes)).sum();
    let used: u128 = rooms.iter().map(|room| u128::from(room.used_bytes())).sum();
    if capacity == 0 {
        return vec![0; rooms.len()];
    }
    let of_capacity =
        |room: &Room<P>, part: u128, of: u128| share(u128::from(room.capacity_bytes), part, of);
    if speeds.is_empty() {
        return rooms.iter().map(|room| of_capacity(room, used, capacity)).collect();
    }
    let claim = |room: &Room<P>| Claim {
        speed: speeds.get(&room.place).map_or(0, |speed| u128::from(speed.get())),
        limit: of_capacity(room, used + capacity, 2 * capacity),
        due: None,
    };
    let mut claims: Vec<Claim> = rooms.iter().map(claim).collect();
    deal(&mut claims, used);
    claims.into_iter().map(|claim| claim.due.unwrap_or(0)).collect()
}

/// What a place may get of what is dealt.
struct Claim {
    speed: u128,
    limit: u64,
    due: Option<u64>,
}

/// Deals `bytes` by speed; whoever would get more than his limit gets that, and the rest is dealt anew.
fn deal(claims: &mut [Claim], mut bytes: u128) {
    loop {
        let total: u128 = claims.iter().filter(|c| c.due.is_none()).map(|c| c.speed).sum();
        if total == 0 {
            return;
        }
        let part = |claim: &Claim| share(bytes, claim.speed, total);
        let is_over = |claim: &Claim| claim.due.is_none() && part(claim) > claim.limit;
        if !claims.iter().any(is_over) {
            for claim in claims.iter_mut().filter(|c| c.due.is_none()) {
                claim.due = Some(share(bytes, claim.speed, total));
            }
            return;
        }
        let mut given = 0;
        for claim in claims.iter_mut() {
            if claim.due.is_none() && share(bytes, claim.speed, total) > claim.limit {
                claim.due = Some(claim.limit);
                given += u128::from(claim.limit);
            }
        }
        bytes = bytes.saturating_sub(given);
    }
}

/// Whether there is a speed for each place, and for nothing else; `kind` is what a place is called.
///
/// # Errors
/// Which place lacks one, or which name is that of none.
pub fn check_speeds<P: Ord + Display>(
    rooms: &[Room<P>],
    speeds: &Speeds<P>,
    kind: &str,
) -> Result<(), Problem> {
    if speeds.is_empty() {
        return Ok(());
    }
    let is_known = |place: &P| rooms.iter().any(|room| room.place == *place);
    if let Some(stranger) = speeds.keys().find(|place| !is_known(place)) {
        let stranger = stranger.to_string();
        let names: Vec<String> = rooms.iter().map(|room| room.place.to_string()).collect();
        let problem =
            Problem::new(format!("speeds: no {kind} '{stranger}' of this store takes files"));
        let near = nearest(&stranger, names.iter().map(String::as_str));
        return Err(problem.with_help(near.map_or_else(
            || format!("the {kind}s are {}", names.join(", ")),
            |near| format!("did you mean '{near}'?"),
        )));
    }
    let missing = rooms.iter().find(|room| !speeds.contains_key(&room.place));
    missing.map_or(Ok(()), |room| {
        Err(Problem::new(format!("speeds: {kind} '{}' has none", room.place))
            .with_help(format!("give each {kind} one, or none at all")))
    })
}

/// `whole` · `part` / `of`, rounded down.
pub(crate) fn share(whole: u128, part: u128, of: u128) -> u64 {
    u64::try_from(whole * part / of).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostRoom;
    use proptest::prelude::*;

    fn host(name: &str, capacity_bytes: u64, used_bytes: u64) -> HostRoom {
        HostRoom {
            place: NodeId(name.into()),
            capacity_bytes,
            free_bytes: capacity_bytes - used_bytes,
        }
    }

    fn speeds(of: &[(&str, u64)]) -> Speeds {
        let one = |(name, speed): &(&str, u64)| {
            (NodeId((*name).into()), NonZeroU64::new(*speed).unwrap())
        };
        of.iter().map(one).collect()
    }

    #[test]
    fn without_speeds_room_counts() {
        let hosts = [host("a", 100, 80), host("b", 1000, 80)];
        assert_eq!(due_bytes(&hosts, &Speeds::new()), [14, 145]);
        assert_eq!(due_bytes(&[host("a", 0, 0)], &Speeds::new()), [0]);
    }

    #[test]
    fn a_host_is_due_as_much_as_it_is_fast() {
        let hosts = [host("ssd", 1000, 0), host("disk", 1000, 100)];
        assert_eq!(due_bytes(&hosts, &speeds(&[("ssd", 900), ("disk", 100)])), [90, 10]);
        assert_eq!(due_bytes(&hosts, &speeds(&[("ssd", 7), ("disk", 7)])), [50, 50]);
    }

    #[test]
    fn a_fast_host_keeps_room_and_the_others_get_the_rest_by_speed() {
        // All alike would be 30 % full; so nobody is filled beyond 65 %.
        let hosts = [host("ram", 100, 0), host("ssd", 400, 300), host("disk", 500, 0)];
        let found = due_bytes(&hosts, &speeds(&[("ram", 8000), ("ssd", 300), ("disk", 100)]));
        assert_eq!(found, [65, 176, 58]);
        assert!(found.iter().sum::<u64>() >= 298, "but for what is lost in rounding");
    }

    #[test]
    fn a_host_without_a_speed_and_a_speed_without_a_host_are_told() {
        let hosts = [host("node01", 1, 0), host("node02", 1, 0)];
        let told =
            |of: &[(&str, u64)]| check_speeds(&hosts, &speeds(of), "host").unwrap_err().to_string();
        assert!(told(&[("node01", 1)]).starts_with("speeds: host 'node02' has none; give each"));
        let wrong = told(&[("node01", 1), ("node20", 1), ("node02", 1)]);
        assert!(
            wrong.contains("no host 'node20'") && wrong.contains("did you mean 'node02'?"),
            "{wrong}"
        );
        assert_eq!(check_speeds(&hosts, &Speeds::new(), "host"), Ok(()));
        assert_eq!(check_speeds(&hosts, &speeds(&[("node01", 1), ("node02", 9)]), "host"), Ok(()));
    }

    proptest! {
        #[test]
        fn all_is_dealt_within_the_limits_and_the_faster_has_no_less(
            sizes in proptest::collection::vec((0..1_000_000_u64, 0..=100_u64, 1..10_000_u64), 1..8),
        ) {
            let hosts: Vec<_> = sizes
                .iter()
                .enumerate()
                .map(|(i, (capacity, percent, _))| host(&format!("n{i}"), *capacity, capacity * percent / 100))
                .collect();
            let named: Speeds = hosts
                .iter()
                .zip(&sizes)
                .map(|(host, (_, _, speed))| (host.place.clone(), NonZeroU64::new(*speed).unwrap()))
                .collect();
            let dues = due_bytes(&hosts, &named);
            let used: u64 = hosts.iter().map(Room::used_bytes).sum();
            let count = hosts.len() as u64;
            let sum: u64 = dues.iter().sum();
            prop_assert!(sum <= used && sum + 2 * count >= used, "{sum} of {used}");
            for (host, due) in hosts.iter().zip(&dues) {
                prop_assert!(*due <= host.capacity_bytes);
            }
            for (one, due) in hosts.iter().zip(&dues) {
                for (other, less) in hosts.iter().zip(&dues) {
                    let is_faster = named[&one.place] >= named[&other.place];
                    if is_faster && one.capacity_bytes >= other.capacity_bytes {
                        prop_assert!(due >= less, "{due} < {less}");
                    }
                }
            }
        }
    }
}
