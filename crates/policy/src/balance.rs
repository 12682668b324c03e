//! How bytes are spread over the hosts of a store, or over the tiers of a host, and what would make that even.

use intarsia_types::NodeId;

use crate::HostState;
use crate::due::{Speeds, due_bytes, share};

/// A place for bytes with what it holds and may hold: a host with its tiers, or one tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room<P> {
    /// The host, or the tier.
    pub place: P,
    /// What it may hold.
    pub capacity_bytes: u64,
    /// What it can still take; at most the capacity.
    pub free_bytes: u64,
}

/// A host with what its tiers hold and may hold.
pub type HostRoom = Room<NodeId>;

impl<P> Room<P> {
    pub(crate) const fn used_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.free_bytes)
    }

    /// Orders by the used part, exactly: by a/b < c/d where a·d < c·b.
    fn is_fuller(&self, other: &Self) -> bool {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.used_bytes(), other.capacity_bytes)
            > product(other.used_bytes(), self.capacity_bytes)
    }
}

/// Bytes that are to move from one place to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer<P = NodeId> {
    /// From where.
    pub from: P,
    /// To where.
    pub to: P,
    /// How many.
    pub bytes: u64,
}

/// The host that can best take `bytes` more, of all but `except`: the one that is used least, in part of its capacity, of
/// those with room; the first by name between equals. A host that has not told of its tiers yet is none of them.
pub(crate) fn emptiest<'h>(
    hosts: &'h [HostState],
    except: &NodeId,
    bytes: u64,
) -> Option<&'h NodeId> {
    let is_roomy = |host: &&HostState| {
        host.capacity_bytes > 0 && host.free_bytes > bytes && host.node != *except
    };
    let room = |host: &'h HostState| Room {
        place: &host.node,
        capacity_bytes: host.capacity_bytes,
        free_bytes: host.free_bytes,
    };
    let best = hosts.iter().filter(is_roomy).map(room).reduce(|best, host| {
        let is_better =
            best.is_fuller(&host) || (!host.is_fuller(&best) && host.place < best.place);
        if is_better { host } else { best }
    });
    best.map(|host| host.place)
}

/// What has to move so that all places have what they are due: the same part of their capacity, or, with `speeds`,
/// bytes in proportion to these ([`due_bytes`]). Places within `tolerance_percent` of capacity around that are left
/// alone, both as givers and as takers. Who has most too much gives first, to whom most is missing; what is moved
/// never leaves a giver with less, or a taker with more, than it is due.
#[must_use]
pub fn plan_balance<P: Clone + Ord>(
    rooms: &[Room<P>],
    speeds: &Speeds<P>,
    tolerance_percent: u8,
) -> Vec<Transfer<P>> {
    let slack =
        |room: &Room<P>| share(u128::from(room.capacity_bytes), tolerance_percent.into(), 100);
    let dues = due_bytes(rooms, speeds);
    let mut givers = Vec::new();
    let mut takers = Vec::new();
    for (room, due) in rooms.iter().zip(dues.iter().copied()) {
        let has = room.used_bytes();
        if has > due.saturating_add(slack(room)) {
            givers.push((room, has - due));
        } else if has.saturating_add(slack(room)) < due {
            takers.push((room, due - has));
        }
    }
    // Who is just within the tolerance gives or takes when nobody else does.
    if givers.is_empty() && !takers.is_empty() {
        givers = rooms
            .iter()
            .zip(&dues)
            .filter(|(room, due)| room.used_bytes() > **due)
            .map(|(room, due)| (room, room.used_bytes() - due))
            .collect();
    } else if takers.is_empty() && !givers.is_empty() {
        takers = rooms
            .iter()
            .zip(&dues)
            .filter(|(room, due)| room.used_bytes() < **due)
            .map(|(room, due)| (room, due - room.used_bytes()))
            .collect();
    }
    let by_amount = |a: &(&Room<P>, u64), b: &(&Room<P>, u64)| {
        b.1.cmp(&a.1).then_with(|| a.0.place.cmp(&b.0.place))
    };
    givers.sort_by(by_amount);
    takers.sort_by(by_amount);
    let mut transfers = Vec::new();
    let mut takers = takers.into_iter().peekable();
    for (giver, mut surplus) in givers {
        while surplus > 0
            && let Some((taker, missing)) = takers.peek_mut()
        {
            let bytes = surplus.min(*missing);
            transfers.push(Transfer { from: giver.place.clone(), to: taker.place.clone(), bytes });
            surplus -= bytes;
            *missing -= bytes;
            if *missing == 0 {
                takers.next();
            }
        }
    }
    transfers
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use proptest::prelude::*;

    fn host(name: &str, capacity_bytes: u64, used_bytes: u64) -> HostRoom {
        HostRoom {
            place: NodeId(name.into()),
            capacity_bytes,
            free_bytes: capacity_bytes - used_bytes,
        }
    }

    fn transfer(from: &str, to: &str, bytes: u64) -> Transfer {
        Transfer { from: NodeId(from.into()), to: NodeId(to.into()), bytes }
    }

    #[test]
    fn the_part_counts_not_the_bytes() {
        let hosts = [host("small", 100, 80), host("large", 1000, 80)];
        // 160 of 1100: the small one is due 14, the large one 145.
        assert_eq!(plan_balance(&hosts, &Speeds::new(), 5), [transfer("small", "large", 65)]);
        assert_eq!(
            plan_balance(&[host("a", 100, 50), host("b", 1000, 500)], &Speeds::new(), 0),
            []
        );
        assert_eq!(plan_balance(&[host("a", 100, 52), host("b", 100, 48)], &Speeds::new(), 5), []);
        assert_eq!(plan_balance::<NodeId>(&[], &Speeds::new(), 5), []);
        assert_eq!(plan_balance(&[host("a", 0, 0)], &Speeds::new(), 5), []);
    }

    #[test]
    fn a_slow_host_gives_to_a_fast_one_though_both_are_equally_full() {
        let hosts = [host("disk", 1000, 500), host("ssd", 1000, 500)];
        let speed = |n| NonZeroU64::new(n).unwrap();
        let speeds =
            [(NodeId("disk".into()), speed(100)), (NodeId("ssd".into()), speed(300))].into();
        assert_eq!(plan_balance(&hosts, &Speeds::new(), 5), []);
        assert_eq!(plan_balance(&hosts, &speeds, 5), [transfer("disk", "ssd", 250)]);
    }

    #[test]
    fn an_empty_host_that_joins_gets_its_part_from_all() {
        let hosts = [host("a", 100, 40), host("b", 100, 40), host("c", 100, 40), host("d", 100, 0)];
        let plan = plan_balance(&hosts, &Speeds::new(), 5);
        assert_eq!(plan, [transfer("a", "d", 10), transfer("b", "d", 10), transfer("c", "d", 10)]);
    }

    #[test]
    fn the_emptiest_with_room_is_chosen() {
        let of = |name: &str, capacity_bytes, free_bytes| HostState {
            capacity_bytes,
            ..HostState::new(NodeId(name.into()), free_bytes)
        };
        let untold = HostState::with_tiers(NodeId("d".into()), Vec::new());
        let hosts = [of("b", 100, 50), of("a", 1000, 500), of("c", 10, 10), untold];
        let chosen = |except: &str, bytes| {
            emptiest(&hosts, &NodeId(except.into()), bytes).map(|node| node.0.as_str())
        };
        assert_eq!(chosen("", 5), Some("c"));
        assert_eq!(chosen("c", 5), Some("a"), "the first of equals");
        assert_eq!((chosen("", 20), chosen("", 499)), (Some("a"), Some("a")));
        assert_eq!((chosen("", 500), chosen("a", 60)), (None, None));
    }

    proptest! {
        #[test]
        fn nobody_overshoots_and_within_the_tolerance_nothing_moves(
            sizes in proptest::collection::vec((0..1_000_000_u64, 0..=100_u64), 0..8),
            tolerance in 0..20_u8,
        ) {
            let hosts: Vec<_> = sizes
                .iter()
                .enumerate()
                .map(|(i, (capacity, percent))| host(&format!("n{i}"), *capacity, capacity * percent / 100))
                .collect();
            let plan = plan_balance(&hosts, &Speeds::new(), tolerance);
            let mut after = hosts.clone();
            for transfer in &plan {
                prop_assert!(transfer.bytes > 0 && transfer.from != transfer.to);
                for host in &mut after {
                    if host.place == transfer.from {
                        host.free_bytes += transfer.bytes;
                    }
                    if host.place == transfer.to {
                        prop_assert!(host.free_bytes >= transfer.bytes, "more than fits");
                        host.free_bytes -= transfer.bytes;
                    }
                }
            }
            let capacity: u128 = hosts.iter().map(|h| u128::from(h.capacity_bytes)).sum();
            let used: u128 = hosts.iter().map(|h| u128::from(h.used_bytes())).sum();
            for (before, after) in hosts.iter().zip(&after) {
                let fair = share(u128::from(before.capacity_bytes), used, capacity.max(1));
                let (had, has) = (before.used_bytes(), after.used_bytes());
                prop_assert!(has == had || (has >= fair && has < had) || (has <= fair && has > had));
            }
        }
    }
}
