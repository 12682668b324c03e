//! What is decided from what servers know of each other.

use super::*;
use crate::deployment::{Engine, Member};
use crate::servers::Aside;
use intarsia_types::Durability;

fn deployment() -> Deployment {
    let member = |n: u8| Member {
        name: NodeId(format!("n{n}")),
        address: [10, 0, 0, n].into(),
        node_port: 7400,
        server_port: 7401,
    };
    let members = (1..=3).map(member).collect();
    Deployment::new(Durability::Interval, 2, Engine::Servers, members).unwrap()
}

fn id(host: u8, server: u8) -> String {
    format!("{host:020x}{server:020x}")
}

/// What server `number` of `host` says of a Cluster in which each host's replica follows the host before.
fn witness(host: u8, number: u8, is_complete: bool, epochs: [u64; 3]) -> Witness {
    let name = ServerName { host: NodeId(format!("n{host}")), number: number.into() };
    let view = Topology::parse(&text(host, number, epochs)).unwrap();
    Witness { survivor: Survivor { name, is_complete }, view }
}

fn text(host: u8, number: u8, epochs: [u64; 3]) -> String {
    let slots = ["0-5460", "5461-10922", "10923-16383"];
    let mut text = String::new();
    for n in 1..=3u8 {
        let before = if n == 1 { 3 } else { n - 1 };
        let flag = |server| if (n, server) == (host, number) { "myself," } else { "" };
        text += &format!(
            "{} 10.0.0.{n}:7401@7402 {}master - 0 0 {} connected {}\n",
            id(n, 0),
            flag(0),
            epochs[usize::from(n) - 1],
            slots[usize::from(n) - 1]
        );
        text += &format!(
            "{} 10.0.0.{n}:7403@7404 {}slave {} 0 0 1 connected\n",
            id(n, 1),
            flag(1),
            id(before, 0)
        );
    }
    text
}

fn all_of(hosts: &[u8]) -> Vec<Witness> {
    let both = |n: &u8| [witness(*n, 0, true, [1, 2, 3]), witness(*n, 1, true, [1, 2, 3])];
    hosts.iter().flat_map(both).collect()
}

#[test]
fn with_all_hosts_there_is_nothing_to_do() {
    assert_eq!(remedy(&deployment(), &all_of(&[1, 2, 3])), Remedy::default());
}

#[test]
fn each_missing_host_has_one_heir() {
    for (present, heir) in [([2, 3], (2, 1)), ([1, 3], (3, 1)), ([1, 2], (1, 1))] {
        let witnesses = all_of(&present);
        let found = remedy(&deployment(), &witnesses);
        let heirs: Vec<_> = found.heirs.iter().map(|i| &witnesses[*i].survivor.name).collect();
        let expected = ServerName { host: NodeId(format!("n{}", heir.0)), number: heir.1 };
        assert_eq!((heirs, found.lost.len()), (vec![&expected], 0), "{present:?}");
    }
}

#[test]
fn a_replica_that_never_finished_copying_is_no_heir() {
    let mut witnesses = all_of(&[2, 3]);
    witnesses[1].survivor.is_complete = false;
    let found = remedy(&deployment(), &witnesses);
    assert_eq!((found.heirs.len(), found.lost), (0, vec![(0, 5460)]));
    let missed: Vec<_> = found.missed.iter().map(|host| host.0.as_str()).collect();
    assert_eq!(missed, ["n1", "n2"]);
}

#[test]
fn of_one_host_alone_a_third_is_lost_and_the_message_says_who_has_it() {
    let deployment = deployment();
    let found = remedy(&deployment, &all_of(&[1]));
    assert_eq!((found.heirs, &found.lost), (vec![1], &vec![(5461, 10922)]));
    let found = remedy(&deployment, &all_of(&[1]));
    let text = unserved(&deployment, &found, false).to_string();
    assert!(text.contains("33 %") && text.contains("n2, n3"), "{text}");
}

#[test]
fn a_server_that_had_not_joined_is_not_waited_for() {
    let mut witnesses = all_of(&[1, 2, 3]);
    let stranger = format!("{} 10.0.0.1:7405@7406 myself,master - 0 0 0 connected", id(1, 2));
    let name = ServerName { host: NodeId("n1".into()), number: 2 };
    witnesses.push(Witness {
        survivor: Survivor { name, is_complete: false },
        view: Topology::parse(&stranger).unwrap(),
    });
    assert_eq!(disagreement(&witnesses), None);
    // One that still believes in slots that another has taken over is waited for.
    witnesses.remove(4);
    assert!(disagreement(&witnesses).unwrap().contains("hold"));
}

#[test]
fn the_latest_epoch_says_who_held_a_slot() {
    // Server 1 of host 2 took the slots of host 1 over before; host 1 does not know.
    let mut witnesses = all_of(&[1, 2, 3]);
    let taken = format!(
        "{} 10.0.0.2:7403@7404 myself,master - 0 0 9 connected 0-5460\n{} 10.0.0.1:7401@7402 slave {} 0 0 1 connected\n",
        id(2, 1),
        id(1, 0),
        id(2, 1)
    );
    witnesses[3].view = Topology::parse(&taken).unwrap();
    let owners = last_owners(&witnesses);
    assert_eq!(owners.get(&ServerId(id(2, 1))), Some(&vec![(0, 5460)]));
    assert!(!owners.contains_key(&ServerId(id(1, 0))));
}

/// The same as a server writes it down, with what it had set aside.
fn kept(host: u8, number: u16, map: &[Witness], aside: Option<&str>) -> (NodeId, Kept) {
    let of = ServerName { host: NodeId(format!("n{host}")), number };
    let is_same = |w: &&Witness| w.survivor.name == of;
    let map = map.iter().find(is_same).map(|_| text(host, number.try_into().unwrap(), [1, 2, 3]));
    let aside = aside.map(|map| Aside { map: map.to_owned(), since_s: 1_700_000_000 });
    let is_complete = aside.is_none();
    let map = map.unwrap_or_default() + "vars currentEpoch 3 lastVoteEpoch 0\n";
    (of.host, Kept { number, has_data: true, is_complete, map, since_s: 1_800_000_000, aside })
}

fn pairs(hosts: &[u8], aside: &dyn Fn(u8, u16) -> Option<String>) -> Vec<(NodeId, Kept)> {
    let all = all_of(hosts);
    let both = |n: &u8| [(*n, 0u16), (*n, 1)];
    let of = |(host, number)| kept(host, number, &all, aside(host, number).as_deref());
    hosts.iter().flat_map(both).map(of).collect()
}

#[test]
fn what_the_only_replica_had_set_aside_is_put_back_without_asking() {
    // The replica of n3's primary, on n1, had begun to copy anew when n3 was lost.
    let aside = |host, number| ((host, number) == (1, 1)).then(|| text(1, 1, [1, 2, 3]));
    let found = plan(&deployment(), &pairs(&[1, 2], &aside), false).unwrap();
    let restored = ServerName { host: NodeId("n1".into()), number: 1 };
    let successors = vec![(restored.clone(), ServerId(id(3, 0)))];
    let restored = vec![restored];
    assert_eq!(found, Plan { restored, successors, identities: ids(&[1, 2]), ..Plan::default() });
    // With the primary there is nothing to put back.
    let found = plan(&deployment(), &pairs(&[1, 2, 3], &aside), false).unwrap();
    assert_eq!(found, Plan { identities: ids(&[1, 2, 3]), ..Plan::default() });
}

/// The names of all servers of these hosts.
fn ids(hosts: &[u8]) -> BTreeSet<ServerId> {
    hosts.iter().flat_map(|n| [id(*n, 0), id(*n, 1)]).map(ServerId).collect()
}

#[test]
fn a_primary_at_whose_address_another_is_has_its_slots_until_its_replica_takes_over() {
    // n3 came back with older disks: what it has goes by other names than the others know.
    let mut there = pairs(&[1, 2, 3], &|_, _| None);
    let gone = format!("{} 10.0.0.3:7401@7402 master", id(3, 0));
    for (host, kept) in &mut there {
        if host.0 == "n3" {
            for number in 0..2 {
                kept.map = kept.map.replace(&id(3, number), &id(9, number));
            }
            continue;
        }
        kept.map = kept.map.replace(&gone, &format!("{} :0@0 master,noaddr", id(3, 0)));
        kept.map = kept.map.replace("- 0 0 3 connected", "- 0 0 8 disconnected");
    }
    let found = plan(&deployment(), &there, false).unwrap();
    let deposed = ServerName { host: NodeId("n3".into()), number: 0 };
    assert_eq!((found.passed_over, found.restored), (vec![deposed], vec![]));
    assert!(found.identities.contains(&ServerId(id(9, 0))));
    assert!(!found.identities.contains(&ServerId(id(3, 0))));
    let witnesses: Vec<Witness> = there.iter().filter_map(|(h, k)| witness_of(h, k)).collect();
    let remedy = remedy(&deployment(), &witnesses);
    let heir = remedy.heirs.first().and_then(|heir| witnesses.get(*heir)).unwrap();
    assert_eq!(heir.survivor.name, ServerName { host: NodeId("n1".into()), number: 1 });
}

#[test]
fn an_older_copy_is_used_only_when_that_is_asked_for() {
    // Since n1 set its copy aside, n3's shard had another replica, on n2, which is gone.
    let aside = |host, number| ((host, number) == (1, 1)).then(|| text(1, 1, [1, 2, 3]));
    let mut there = pairs(&[1, 2], &aside);
    let other = format!("{} 10.0.0.2:7405@7406 slave {} 0 0 1 connected\n", id(2, 2), id(3, 0));
    there[0].1.map.push_str(&other);
    let refusal = plan(&deployment(), &there, false).unwrap_err().to_string();
    assert!(
        refusal.contains("n1, of 2023-11-14T22:13:20Z") && refusal.contains("--accept-loss"),
        "{refusal}"
    );
    let found = plan(&deployment(), &there, true).unwrap();
    assert!(found.restored.len() == 1 && found.warning.is_some());
}

#[test]
fn the_copy_of_a_server_that_was_away_is_older_and_not_none() {
    // n1 was away while server 1 of n2 took its shard over; n2 knows that, and is gone with it; n3 has heard of it.
    let mut there = pairs(&[1, 3], &|_, _| None);
    let taken = format!(
        "{} 10.0.0.2:7403@7404 master - 0 0 9 connected 0-5460\n{} 10.0.0.1:7401@7402 master,fail - 0 0 1 connected\n",
        id(2, 1),
        id(1, 0)
    );
    for (_, kept) in there.iter_mut().filter(|(host, _)| host.0 == "n3") {
        let of_shard = |line: &str| line.starts_with(&id(1, 0)) || line.starts_with(&id(2, 1));
        let others = kept.map.lines().filter(|line| !of_shard(line));
        kept.map = others.map(|line| format!("{line}\n")).collect::<String>() + &taken;
    }
    let refusal = plan(&deployment(), &there, false).unwrap_err().to_string();
    assert!(refusal.contains("n1, of 2027-01-15T08:00:00Z"), "{refusal}");
    let found = plan(&deployment(), &there, true).unwrap();
    assert!(found.restored.is_empty() && found.emptied.is_empty(), "{found:?}");
    assert!(found.warning.unwrap().contains("only an older copy"));
}

#[test]
fn without_any_copy_the_plan_says_what_is_missed() {
    let refusal = plan(&deployment(), &pairs(&[1], &|_, _| None), false).unwrap_err().to_string();
    assert!(refusal.contains("33 %") && refusal.contains("n2, n3"), "{refusal}");
    assert!(refusal.contains("--accept-loss"), "{refusal}");
    let found = plan(&deployment(), &pairs(&[1], &|_, _| None), true).unwrap();
    assert_eq!(found.emptied, [(5461, 10922)]);
    assert!(found.warning.unwrap().contains("33 % of the names are gone"));
    // Of n2 alone the part with the root is missing.
    let refusal = plan(&deployment(), &pairs(&[3], &|_, _| None), true).unwrap_err().to_string();
    assert!(refusal.contains("root of all names"), "{refusal}");
    assert_eq!(plan(&deployment(), &[], false).unwrap(), Plan::default());
}

#[test]
fn a_replica_that_was_away_while_another_stayed_is_an_older_copy() {
    // n3 is lost, and another replica of its primary with it; those on n2 knew that the one on n1 was away.
    let mut there = pairs(&[1, 2], &|_, _| None);
    let other = format!("{} 10.0.0.3:7405@7406 slave {} 0 0 1 connected\n", id(3, 2), id(3, 0));
    let gone = |map: &str, server: &str| {
        let lines = map.lines().map(|line| match line.starts_with(server) {
            true => line.replacen("slave", "slave,fail", 1),
            false => line.to_owned(),
        });
        lines.map(|line| line + "\n").collect::<String>()
    };
    for (_, kept) in there.iter_mut().filter(|(host, _)| host.0 == "n2") {
        kept.map = gone(&kept.map, &id(1, 1)) + &other;
    }
    let refusal = plan(&deployment(), &there, false).unwrap_err().to_string();
    assert!(refusal.contains("n1, of 2027-01-15T08:00:00Z"), "{refusal}");
    let found = plan(&deployment(), &there, true).unwrap();
    assert!(found.passed_over.is_empty() && found.warning.is_some(), "{found:?}");
    // It came back, and saw these go.
    let (_, kept) =
        there.iter_mut().find(|(host, kept)| host.0 == "n1" && kept.number == 1).unwrap();
    for server in [id(2, 0), id(2, 1)] {
        let lines = kept.map.lines().map(|line| match line.starts_with(&server) {
            true => line.replacen("slave", "slave,fail", 1).replacen("master", "master,fail", 1),
            false => line.to_owned(),
        });
        kept.map = lines.map(|line| line + "\n").collect();
    }
    let found = plan(&deployment(), &there, false).unwrap();
    assert_eq!(found, Plan { identities: ids(&[1, 2]), ..Plan::default() });
}
