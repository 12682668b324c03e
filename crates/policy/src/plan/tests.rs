use intarsia_types::{CacheHint, TierId};
use proptest::prelude::*;

use super::*;
use crate::Dealt;

fn tier(free_bytes: u64) -> TierState {
    TierState { free_bytes, ..TierState::EXAMPLE }
}

fn name(text: &str) -> NodeId {
    NodeId(text.into())
}

fn hosts(rooms: &[(&str, u64)]) -> Vec<HostState> {
    rooms.iter().map(|(node, free_bytes)| HostState::new(name(node), *free_bytes)).collect()
}

fn plan(wish: HostWish<'_>, here: u64, rooms: &[(&str, u64)]) -> Plan {
    born(wish, here, 7, || hosts(rooms))
}

/// A new file that host `a` makes, which has one tier with so much room.
fn born<H: AsRef<[HostState]>>(
    wish: HostWish<'_>,
    free_bytes: u64,
    seed: u64,
    hosts: impl FnOnce() -> H,
) -> Plan {
    let file = FileState { seed, ..FileState::default() };
    planned(Purpose::Birth(wish), file, &[tier(free_bytes)], hosts)
}

fn planned<H: AsRef<[HostState]>>(
    purpose: Purpose<'_>,
    file: FileState,
    tiers: &[TierState],
    hosts: impl FnOnce() -> H,
) -> Plan {
    let node = name("a");
    let here = Here { node: &node, tiers, is_leaving: false, has_passthrough: true };
    place(&PlaceRequest { purpose, file, here }, hosts)
}

fn nobody() -> Vec<HostState> {
    panic!("no other host is to be asked for")
}

fn elsewhere(nodes: &[&str], otherwise: Option<TierId>) -> Home {
    Home::Elsewhere { hosts: nodes.iter().map(|node| name(node)).collect(), otherwise }
}

#[test]
fn a_file_of_a_group_is_born_where_its_group_is() {
    let (b, a) = (name("b"), name("a"));
    let rooms = [("a", 90), ("b", 5), ("c", 500)];
    let found = plan(HostWish::Group(Some(&b)), 90, &rooms);
    assert_eq!(found.home, elsewhere(&["b"], Some(TierId(0))));
    assert_eq!(found.reason, Reason::Group);
    let found = plan(HostWish::Group(Some(&a)), 90, &rooms);
    assert_eq!((found.home, found.reason), (Home::Here(TierId(0)), Reason::Group));
}

#[test]
fn a_group_whose_host_is_gone_or_full_is_no_wish() {
    let (z, a) = (name("z"), name("a"));
    let rooms = [("b", 5)];
    let plain = plan(HostWish::Maker, 90, &rooms);
    assert_eq!(plain.home, Home::Here(TierId(0)));
    assert_eq!(plan(HostWish::Group(Some(&z)), 90, &rooms), plain);
    assert_eq!(plan(HostWish::Group(None), 90, &rooms), plain);
    let full = plan(HostWish::Group(Some(&a)), 0, &rooms);
    assert_eq!((full.home, full.reason), (elsewhere(&["b"], None), Reason::RoomElsewhere));
}

#[test]
fn files_that_are_dealt_go_to_the_roomiest_and_spread_over_equals() {
    let found = plan(HostWish::Roomiest(&Dealt::default()), 90, &[("b", 5), ("c", 500)]);
    assert_eq!((found.home, found.reason), (elsewhere(&["c"], Some(TierId(0))), Reason::Spread));
    let found = plan(HostWish::Roomiest(&Dealt::default()), 900, &[("b", 5), ("c", 500)]);
    assert_eq!((found.home, found.reason), (Home::Here(TierId(0)), Reason::Spread));
    let all = hosts(&[("b", 100), ("c", 100), ("d", 100)]);
    let nothing = Dealt::default();
    let is_here = |seed: &u64| {
        born(HostWish::Roomiest(&nothing), 100, *seed, || &all).home == Home::Here(TierId(0))
    };
    let here = (0..4000u64).filter(is_here).count();
    assert!((850..1150).contains(&here), "{here} of 4000 at one host of four");
}

proptest! {
    #[test]
    fn files_that_are_dealt_are_balanced_by_their_bytes(
        sizes in prop::collection::vec(1u64..1000, 1..200),
        seed in any::<u32>(),
    ) {
        let all = hosts(&[("b", 1 << 40), ("c", 1 << 40), ("d", 1 << 40)]);
        let mut dealt = Dealt::default();
        for (number, size) in sizes.iter().enumerate() {
            let seed = u64::from(seed) + number as u64;
            let home = match born(HostWish::Roomiest(&dealt), 1 << 40, seed, || &all).home {
                Home::Elsewhere { hosts, .. } => hosts[0].clone(),
                _ => name("a"),
            };
            dealt.add(&home, *size);
        }
        let held = ["a", "b", "c", "d"].map(|host| dealt.bytes_of(&name(host)));
        let (least, most) = (held.iter().min().unwrap(), held.iter().max().unwrap());
        prop_assert!(most - least <= *sizes.iter().max().unwrap(), "{held:?}");
    }
}

proptest! {
    #[test]
    fn no_wish_makes_a_file_fail_that_would_be_born_without_it(
        here in 0u64..3,
        rooms in prop::collection::vec(("[a-e]", 0u64..3), 0..5),
        group in prop::option::of("[a-f]"),
        is_spread in any::<bool>(),
    ) {
        let rooms: Vec<_> = rooms.iter().map(|(node, free)| (node.as_str(), *free)).collect();
        let group = group.map(NodeId);
        let nothing = Dealt::default();
        let wish = match is_spread {
            true => HostWish::Roomiest(&nothing),
            false => HostWish::Group(group.as_ref()),
        };
        let found = plan(wish, here, &rooms);
        let plain = plan(HostWish::Maker, here, &rooms);
        prop_assert_eq!(found.home == Home::Nowhere, plain.home == Home::Nowhere);
        if let Home::Elsewhere { hosts, .. } = &found.home {
            prop_assert!(!hosts.is_empty() && !hosts.contains(&name("a")));
        }
        if found.reason == Reason::Group {
            let wished = group.unwrap();
            let is_there = match &found.home {
                Home::Here(_) => wished == name("a"),
                Home::Elsewhere { hosts, .. } => hosts == &[wished],
                Home::Nowhere | Home::Unchanged => false,
            };
            prop_assert!(is_there);
        }
    }
}

#[test]
fn a_new_file_in_a_tier_of_which_the_kernel_can_serve_files_is_served_by_it() {
    let flat = TierState { is_stackable: false, ..tier(9) };
    let file = FileState::default();
    let of = |file, tier| planned(Purpose::Birth(HostWish::Maker), file, &[tier], nobody);
    assert_eq!(of(file, tier(9)).io_mode, IoMode::Passthrough);
    assert_eq!(of(file, flat).io_mode, IoMode::Cached);
    assert_eq!(of(FileState { is_strict: true, ..file }, tier(9)).io_mode, IoMode::Cached);
    assert_eq!(of(file, tier(9)).layout, PlannedLayout::Whole);
}

#[test]
fn bytes_that_are_to_be_here_ask_for_no_other_host() {
    let low = TierState { is_low: true, ..tier(9) };
    let of = |tiers: &[TierState]| {
        let plan = planned(Purpose::Here, FileState::default(), tiers, nobody);
        (plan.home, plan.reason)
    };
    assert_eq!(of(&[tier(9)]), (Home::Here(TierId(0)), Reason::RoomHere));
    assert_eq!(of(&[low]), (Home::Here(TierId(0)), Reason::LastBytes));
    assert_eq!(of(&[tier(0)]), (Home::Nowhere, Reason::Full));
    assert_eq!(of(&[]), (Home::Nowhere, Reason::Full));
}

#[test]
fn what_is_written_here_comes_here_if_there_is_room_and_no_hint_put_it_elsewhere() {
    let b = name("b");
    let of = |is_put_there, free_bytes| {
        let purpose = Purpose::Rewrite { home: &b, is_put_there };
        let plan = planned(purpose, FileState::default(), &[tier(free_bytes)], nobody);
        (plan.home, plan.reason)
    };
    assert_eq!(of(false, 9), (Home::Here(TierId(0)), Reason::RoomHere));
    assert_eq!(of(true, 9), (elsewhere(&["b"], Some(TierId(0))), Reason::PutThere));
    assert_eq!(of(false, 0), (elsewhere(&["b"], None), Reason::RoomElsewhere));
}

#[test]
fn what_is_opened_kept_or_settled_stays_where_it_is() {
    let file = FileState { size_bytes: 1 << 20, ..FileState::default() };
    let open = OpenRequest {
        tier: Some(tier(9)),
        is_written: true,
        is_encoded: false,
        clears_set_id: false,
    };
    let plan = planned(Purpose::Open(open), file, &[], nobody);
    assert_eq!((plan.io_mode, plan.reason), (IoMode::Passthrough, Reason::KernelServes));
    assert_eq!((plan.home, plan.layout), (Home::Unchanged, PlannedLayout::Unchanged));
    let room = crate::CacheRoom { free_bytes: 9 << 20, taken_bytes: 0, tier_is_low: false };
    let of = |hint| {
        let keep = KeepRequest { is_sealed: true, hint, room };
        planned(Purpose::Keep(keep), file, &[], nobody)
    };
    assert!(of(None).is_kept && !of(Some(CacheHint::None)).is_kept);
    let limits = FoldLimits { inline_bytes: 4096, budget_bytes: 1 << 20 };
    let of = |size_bytes| {
        let settle = Purpose::Settle { limits, inline_total_bytes: 0 };
        planned(settle, FileState { size_bytes, ..file }, &[], nobody).layout
    };
    assert_eq!((of(4096), of(4097)), (PlannedLayout::Inline, PlannedLayout::Unchanged));
}

#[test]
fn copies_go_to_others_and_parts_to_all() {
    let all = hosts(&[("a", 1600), ("b", 1600), ("c", 100)]);
    let (file, holds) = (FileState { size_bytes: 10, ..FileState::default() }, [name("a")]);
    let of = |count| planned(Purpose::Copies { holds: &holds, count }, file, &[], || &all);
    let plan = of(2);
    assert_eq!((plan.copies, plan.reason), (vec![name("b"), name("c")], Reason::CopiesWanted));
    assert_eq!((of(3).copies.len(), of(3).reason), (2, Reason::TooFewHosts));
    let parts = Purpose::Parts { hosts: 9, chunk_bytes: 64 };
    let plan = planned(parts, FileState::default(), &[], || &all);
    let PlannedLayout::Dealt { hosts, chunk_bytes: 64 } = plan.layout else { panic!("{plan:?}") };
    assert_eq!((hosts.len(), hosts[2].clone()), (3, name("c")));
    let plan = planned(parts, FileState::default(), &[], Vec::new);
    assert_eq!((plan.home, plan.reason), (Home::Nowhere, Reason::TooFewHosts));
}

#[test]
fn what_has_to_leave_goes_to_the_host_that_holds_least_for_its_size() {
    let of_tier = |node: &str, capacity_bytes, free_bytes| {
        let tier = TierState { capacity_bytes, free_bytes, ..TierState::EXAMPLE };
        HostState::with_tiers(name(node), vec![tier])
    };
    let all = [of_tier("a", 10, 10), of_tier("b", 100, 50), of_tier("c", 1000, 400)];
    let of = |size_bytes| {
        planned(Purpose::Move, FileState { size_bytes, ..FileState::default() }, &[], || &all)
    };
    assert_eq!(of(5).home, elsewhere(&["b"], None));
    assert_eq!(of(60).home, elsewhere(&["c"], None));
    assert_eq!((of(400).home, of(400).reason), (Home::Nowhere, Reason::Full));
}
