//! Where files of drawn workloads land, beside what the policy says to a store that asks it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::configuration::Scheduler;

const HOSTS: u32 = 5;
/// Far more than all files, so that whether one fits never decides: a store does not know how long a new file becomes.
const CAPACITY: u64 = 1 << 34;

fn profile() -> Profile {
    let access = json!({ "request_seconds": 0, "bytes_per_second": 1e9 });
    let tier = |class: &str| json!({ "class": class, "capacity_bytes": CAPACITY, "read": access, "write": access });
    let text = json!({
        "format": "intarsia-profile", "version": 1, "name": "drawn", "hosts": HOSTS,
        "provenance": { "source": "assumed", "note": "a test" },
        "host": { "slots": 1, "in_bytes_per_second": 1e8, "out_bytes_per_second": 1e8 },
        "network": { "latency_seconds": 0, "loopback_bytes_per_second": 1e9 },
        "manager": { "open_seconds": 0, "allocate_seconds": 0, "commit_seconds": 0 },
        "tiers": [tier("memory"), tier("ssd")],
    });
    Profile::parse("profile", &text.to_string()).unwrap()
}

/// Files of these lengths and hints, each written by a task of its own.
fn workload(drawn: &[(u64, Option<Value>)]) -> Workload {
    let files: Vec<Value> = (0..)
        .zip(drawn)
        .map(|(number, (bytes, hints))| {
            let hints = hints.clone().unwrap_or_else(|| json!({}));
            json!({ "name": format!("f{number}"), "size_bytes": bytes, "hints": hints })
        })
        .collect();
    let tasks: Vec<Value> = (0..drawn.len())
        .map(|number| json!({ "name": format!("t{number}"), "writes": [format!("f{number}")] }))
        .collect();
    let text =
        json!({ "format": "intarsia-workload", "version": 1, "files": files, "tasks": tasks });
    Workload::parse("workload", &text.to_string()).unwrap()
}

/// What a store says that knows of each host how much room its tiers have.
struct Store(Vec<HostState>);

impl Store {
    fn new(profile: &Profile) -> Self {
        let tier = |(id, class)| TierState {
            id: TierId(id),
            class,
            free_bytes: CAPACITY,
            is_low: false,
            is_overflow: false,
            is_stackable: true,
            capacity_bytes: CAPACITY,
        };
        let tiers: Vec<_> =
            (0..).zip(profile.tiers.iter().map(|tier| tier.class)).map(tier).collect();
        let state = |host| HostState::with_tiers(NodeId(format!("{host:05}")), tiers.clone());
        Self((0..HOSTS).map(state).collect())
    }

    /// The host on which a new file is born that this one makes.
    fn born(&self, maker: u32, wish: HostWish<'_>, seed: u64) -> u32 {
        let HostState { node, tiers, .. } = &self.0[maker as usize];
        let here = Here { node, tiers, is_leaving: false, has_passthrough: false };
        let file = FileState { seed, ..FileState::default() };
        match place(&PlaceRequest { purpose: Purpose::Birth(wish), file, here }, || &self.0).home {
            Home::Elsewhere { hosts, .. } => hosts[0].0.parse().unwrap(),
            Home::Here(_) => maker,
            other => panic!("{other:?}"),
        }
    }

    fn takes(&mut self, spot: Spot, bytes: u64) {
        let state = &mut self.0[spot.host as usize];
        state.tiers[usize::from(spot.tier)].free_bytes -= bytes;
        *state = HostState::with_tiers(state.node.clone(), state.tiers.clone());
    }
}

fn hints() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        4 => Just(Some(json!({ "pattern": "distribute" }))),
        1 => Just(Some(json!({ "place": "local" }))),
        1 => Just(Some(json!({ "place": "local", "pattern": "distribute" }))),
    ]
}

proptest! {
    #[test]
    fn files_that_are_spread_land_where_the_policy_has_a_store_put_them(
        drawn in prop::collection::vec((1_u64..64 << 20, hints(), 0..HOSTS), 1..60),
        placement in prop::sample::select(vec![
            Placement::Local, Placement::RoundRobin, Placement::Collocate, Placement::Central,
        ]),
        seed in any::<u64>(),
    ) {
        let of_files: Vec<_> = drawn.iter().map(|(bytes, hints, _)| (*bytes, hints.clone())).collect();
        let (profile, workload) = (profile(), workload(&of_files));
        let configuration =
            Configuration { placement, scheduler: Scheduler::Workqueue, ..Configuration::new(HOSTS) };
        let roles = configuration.roles(&profile).unwrap();
        let mut places = Places::new(&workload, &profile, &configuration, &roles, seed);
        let mut store = Store::new(&profile);
        let mut dealt = vec![Dealt::default(); HOSTS as usize];
        for (file, (bytes, hints, maker)) in drawn.iter().enumerate() {
            let is_local = hints.as_ref().is_some_and(|hints| hints["place"] == "local");
            let dealt = &mut dealt[*maker as usize];
            let wish = if is_local { HostWish::Maker } else { HostWish::Roomiest(dealt) };
            let expected = store.born(*maker, wish, places.seed_of(file));
            if !is_local {
                dealt.add(&NodeId(format!("{expected:05}")), *bytes);
            }
            places.lay(file, *maker).unwrap();
            let found = &places.of(file).unwrap().ring;
            prop_assert_eq!(found.len(), 1, "it is whole on one host");
            prop_assert_eq!(found[0].host, expected);
            store.takes(found[0], *bytes);
        }
    }
}

#[test]
fn files_of_one_host_are_spread_over_all() {
    let drawn: Vec<_> =
        (0..200).map(|_| (1 << 20, Some(json!({ "pattern": "distribute" })))).collect();
    let (profile, workload) = (profile(), workload(&drawn));
    let configuration = Configuration::new(HOSTS);
    let roles = configuration.roles(&profile).unwrap();
    let mut places = Places::new(&workload, &profile, &configuration, &roles, 1);
    let mut held = [0_u32; HOSTS as usize];
    for file in 0..drawn.len() {
        places.lay(file, 0).unwrap();
        held[places.of(file).unwrap().ring[0].host as usize] += 1;
    }
    assert_eq!(held, [200 / HOSTS; HOSTS as usize], "they are equally long");
    // Without following hints all of them stay where they are made.
    let ignoring = Configuration { follows_hints: false, ..configuration };
    let mut places = Places::new(&workload, &profile, &ignoring, &roles, 1);
    for file in 0..drawn.len() {
        places.lay(file, 0).unwrap();
        assert_eq!(places.of(file).unwrap().ring[0].host, 0);
    }
}

#[test]
fn what_is_to_be_reduced_lies_where_a_store_puts_it() {
    let reduced = |directory: &str, number: u32| json!({ "name": format!("{directory}f{number}"), "size_bytes": 1000, "hints": { "pattern": "reduce" } });
    let files: Vec<Value> =
        ["a/", "b/", ""].iter().flat_map(|dir| (0..3).map(move |n| reduced(dir, n))).collect();
    let tasks: Vec<Value> = files
        .iter()
        .map(|file| json!({ "name": format!("make {}", file["name"]), "writes": [file["name"]] }))
        .collect();
    let text =
        json!({ "format": "intarsia-workload", "version": 1, "files": files, "tasks": tasks });
    let workload = Workload::parse("workload", &text.to_string()).unwrap();
    let (profile, configuration) = (profile(), Configuration::new(HOSTS));
    let roles = configuration.roles(&profile).unwrap();
    let mut places = Places::new(&workload, &profile, &configuration, &roles, 7);
    let hosts: Vec<u32> = (0..workload.files.len())
        .map(|file| {
            places.lay(file, u32::try_from(file).unwrap() % HOSTS).unwrap();
            places.of(file).unwrap().ring[0].host
        })
        .collect();
    let of_each: Vec<u32> = hosts.chunks(3).map(|group| group[0]).collect();
    assert!(hosts.chunks(3).all(|group| group.iter().all(|host| *host == group[0])), "{hosts:?}");
    assert!(of_each[0] != of_each[1] && of_each[1] != of_each[2] && of_each[0] != of_each[2]);
    // The first group goes to the host that a store of hosts with these names chooses.
    let states = Store::new(&profile).0;
    let chosen = intarsia_policy::choose_group_host("da", &states, |_| 0).unwrap();
    assert_eq!(chosen.0.parse::<u32>().unwrap(), of_each[0]);
}

#[test]
fn a_group_of_files_is_on_the_host_that_a_store_chooses_by_the_names_of_its_hosts() {
    let mut profile = profile();
    profile.host_names = (1..=HOSTS).map(|number| format!("n{number}")).collect();
    let configuration = Configuration::new(HOSTS);
    let roles = configuration.roles(&profile).unwrap();
    for group in ["together", "a", "b", "c"] {
        let hints = Some(json!({ "place": format!("collocate:{group}") }));
        let workload = workload(&[(1 << 20, hints)]);
        let mut places = Places::new(&workload, &profile, &configuration, &roles, 1);
        places.lay(0, 0).unwrap();
        let states =
            profile.host_names.iter().map(|name| HostState::new(NodeId(name.clone()), 1 << 34));
        let states: Vec<HostState> = states.collect();
        let chosen = intarsia_policy::choose_group_host(group, &states, |_| 0).unwrap();
        let found = places.of(0).unwrap().ring[0].host;
        assert_eq!(profile.host_name(found), chosen.0, "{group}");
    }
}

#[test]
fn inputs_are_dealt_as_a_run_deals_those_that_it_makes() {
    // The same as `test_inputs_of_a_replay_are_dealt_by_bytes` of the Python package.
    let sizes = [("a", 10), ("b", 60), ("c", 30), ("d", 25)];
    let files: Vec<Value> =
        sizes.iter().map(|(name, bytes)| json!({ "name": name, "size_bytes": bytes })).collect();
    let reads: Vec<&str> = sizes.iter().map(|(name, _)| *name).collect();
    let text = json!({ "format": "intarsia-workload", "version": 1, "files": files,
        "tasks": [{ "name": "t", "reads": reads }] });
    let workload = Workload::parse("workload", &text.to_string()).unwrap();
    let (profile, configuration) = (profile(), Configuration::new(2));
    let roles = configuration.roles(&profile).unwrap();
    let mut places = Places::new(&workload, &profile, &configuration, &roles, 1);
    places.lay_inputs().unwrap();
    let found = (0..sizes.len()).map(|file| places.of(file).unwrap().home());
    assert_eq!(found.collect::<Vec<_>>(), [1, 0, 1, 1]);
}
