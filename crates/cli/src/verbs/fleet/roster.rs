//! The hosts of a store that exists, held against those that the user names.
//!
//! Every host has the description of the store as of when it was up last; the newest one counts. What the user names
//! is checked against it and explained: hosts that are not named are left out on purpose, hosts that are not of the
//! store are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use intarsia_cluster::deployment::{Deployment, ServerName};
use intarsia_cluster::servers::Kept;
use intarsia_cluster::{formation, recovery};
use intarsia_types::{Durability, NodeId};

use super::general;
use crate::assembly::{Assembly, KeptServer};
use crate::deployment::Bundle;
use crate::exit::{Failure, Outcome};
use crate::verbs::agent::Inspection;

/// A store that lies on some hosts: the files of its description, and what is to stand in them.
pub(super) struct Store {
    pub(super) bundle: Bundle,
    pub(super) deployment: Deployment,
}

const OTHER_PLACE: &str = "name the hosts of the store, another --dir, or purge what is there";

/// The store that lies on these hosts already, if one does, by its newest description.
pub(super) fn found(seen: &BTreeMap<NodeId, Inspection>) -> Outcome<Option<Store>> {
    let mut stores: BTreeMap<String, (Vec<&str>, Store)> = BTreeMap::new();
    for (host, inspection) in seen {
        let Some(bundle) = &inspection.bundle else { continue };
        let there = bundle.deployment().map_err(|e| general(&e))?;
        let one = Store { bundle: bundle.clone(), deployment: there.clone() };
        let (on, newest) = stores.entry(there.store.clone()).or_insert_with(|| (Vec::new(), one));
        on.push(&host.0);
        if there.revision > newest.deployment.revision {
            *newest = Store { bundle: bundle.clone(), deployment: there };
        } else if there.revision == newest.deployment.revision {
            // Before descriptions were numbered, hosts knew those that were there when they joined.
            for joined in there.joined {
                if newest.deployment.member(&joined.name).is_none() {
                    let merged = newest.deployment.clone().with_joined(joined);
                    newest.deployment = merged.map_err(|e| general(&e))?;
                    newest.deployment.revision = there.revision;
                }
            }
        }
    }
    if stores.len() > 1 {
        let parts = stores.into_iter().map(|(store, (on, _))| {
            format!("{} of {}", on.join(", "), store.get(..8).unwrap_or_default())
        });
        return Err(Failure::usage(format!(
            "the hosts hold parts of different stores: {}",
            parts.collect::<Vec<_>>().join("; ")
        ))
        .with_help(OTHER_PLACE));
    }
    Ok(stores.into_values().next().map(|(_, store)| store))
}

/// How the hosts that the user names begin together.
///
/// # Errors
/// Usage, for hosts that are not of the store, or at other addresses.
pub(super) fn assemble(
    named: &[(NodeId, IpAddr)],
    store: &Deployment,
    seen: &BTreeMap<NodeId, Inspection>,
) -> Outcome<Assembly> {
    for (host, address) in named {
        match store.member(host) {
            Some(member) if member.address == *address => {}
            Some(member) => {
                return Err(Failure::usage(format!(
                    "{host} has the address {address} now, and had {} in the store that lies there",
                    member.address
                ))
                .with_help("give it its old address back, or have it leave and join again"));
            }
            None => return Err(stranger(host, store, seen)),
        }
    }
    let is_named = |host: &NodeId| named.iter().any(|(name, _)| name == host);
    let answering: BTreeSet<&NodeId> = seen.values().flat_map(|s| &s.answering).collect();
    let (present, absent): (Vec<NodeId>, Vec<NodeId>) = store
        .hosts()
        .map(|member| member.name.clone())
        .partition(|host| is_named(host) || answering.contains(host));
    let is_running = !answering.is_empty() || seen.values().any(|s| s.running.is_some());
    let kept = seen.iter().flat_map(|(host, found)| {
        let of_host = found.kept.iter().filter(|one| one.has_data);
        of_host.map(|one| KeptServer {
            host: host.clone(),
            number: one.number,
            is_complete: one.is_complete,
        })
    });
    let comes_empty = |(host, found): (&NodeId, &Inspection)| {
        let has_any = found.kept.iter().any(|one| one.has_data);
        store.begins_with_servers(host) && !has_any && !found.has_moved
    };
    let lacks_servers = !absent.is_empty() || seen.iter().any(comes_empty);
    let kept = kept.collect();
    Ok(Assembly { present, absent, is_running, kept, lacks_servers, ..Assembly::default() })
}

/// Finds a copy of each part of the metadata of a store that begins again; what the user must know of it, in words.
///
/// # Errors
/// Usage, where there is none, or only an older one, or no second host that takes a copy, and that was not asked for.
pub(super) fn recover(
    assembly: &mut Assembly,
    store: &mut Store,
    seen: &BTreeMap<NodeId, Inspection>,
    accepts_loss: bool,
) -> Outcome<Vec<String>> {
    let store = &mut store.deployment;
    let was_single = std::mem::take(&mut store.is_single);
    if !assembly.is_cold() || !formation::has_replicas(store) {
        return Ok(Vec::new());
    }
    store.is_single = is_single(assembly, store, accepts_loss || was_single)?;
    let warning = store.is_single.then(|| single(assembly));
    if store.durability == Durability::Memory {
        return Ok(warning.into_iter().collect());
    }
    let plan = recovery::plan(store, &kept(seen), accepts_loss);
    let plan = plan.map_err(|e| Failure::usage(e.to_string()))?;
    assembly.emptied = plan.emptied;
    assembly.identities = plan.identities;
    let successors = plan.successors.into_iter();
    assembly.successors = successors.map(|(name, of)| (name.host, name.number, of)).collect();
    let is =
        |one: &KeptServer, name: &ServerName| one.host == name.host && one.number == name.number;
    for name in &plan.passed_over {
        let kept = assembly.kept.iter_mut().filter(|one| is(one, name));
        kept.for_each(|one| one.is_complete = false);
    }
    for name in plan.restored {
        let is_same = |one: &KeptServer| is(one, &name);
        assembly.kept.retain(|one| !is_same(one));
        assembly.restored.push((name.host.clone(), name.number));
        assembly.kept.push(KeptServer { host: name.host, number: name.number, is_complete: true });
    }
    Ok(plan.warning.into_iter().chain(warning).collect())
}

/// Why the metadata of a store that is up in part does not become whole by itself: of some of it no copy runs that had
/// everything. None where that is not so, or cannot be told from what was seen.
pub(super) fn beyond_repair(seen: &BTreeMap<NodeId, Inspection>) -> Option<String> {
    let store = found(seen).ok()??.deployment;
    let is_kept = formation::has_replicas(&store) && store.durability != Durability::Memory;
    if !is_kept || !store.hosts().all(|member| seen.contains_key(&member.name)) {
        return None;
    }
    let up = seen.iter().filter(|(_, s)| s.running.is_some()).map(|(host, _)| host.0.as_str());
    let up = up.collect::<Vec<_>>().join(", ");
    if up.is_empty() {
        return None;
    }
    let why = match recovery::plan(&store, &kept(seen), false) {
        Err(why) => why.to_string(),
        Ok(plan) if !plan.restored.is_empty() => "a copy of it was set aside".to_owned(),
        Ok(_) => return None,
    };
    Some(format!(
        "the store is up on {up} without a part of its metadata, which does not come back by itself: {why}"
    ))
}

/// The metadata servers whose data lies on these hosts.
fn kept(seen: &BTreeMap<NodeId, Inspection>) -> Vec<(NodeId, Kept)> {
    let of_host = |(host, found): (&NodeId, &Inspection)| {
        found.kept.iter().map(|one| (host.clone(), one.clone())).collect::<Vec<_>>()
    };
    seen.iter().flat_map(of_host).collect()
}

/// Whether one host goes on as the only one: a primary takes no changes without a copy on another host, unless the user
/// does without.
fn is_single(assembly: &Assembly, store: &Deployment, does_without: bool) -> Outcome<bool> {
    let [only] = assembly.present.as_slice() else { return Ok(false) };
    if does_without {
        return Ok(true);
    }
    let hosts: Vec<&str> = store.hosts().map(|member| member.name.0.as_str()).collect();
    Err(Failure::usage(format!(
        "{only} alone does not bring up the store of the hosts {}: its metadata takes no changes without a copy on a second host",
        hosts.join(", ")
    ))
    .with_help(
        "name one more of them, whatever is left on its disks; or go on with one copy of each change by --accept-loss",
    ))
}

fn single(assembly: &Assembly) -> String {
    let only = assembly.present.first().map_or("this host", |host| host.0.as_str());
    format!(
        "{only} goes on alone: until the store is brought up with two hosts again, a change of its metadata counts with one copy, and is lost with {only}"
    )
}

fn stranger(host: &NodeId, store: &Deployment, seen: &BTreeMap<NodeId, Inspection>) -> Failure {
    let list: Vec<String> = store.hosts().map(|m| m.name.0.clone()).collect();
    let has_left = seen.get(host).is_some_and(|s| s.bundle.is_some());
    if has_left {
        return Failure::usage(format!(
            "{host} has left the store, which is of the hosts {} now; what lies on it belongs to no file any more",
            list.join(", ")
        ))
        .with_help(format!(
            "leave it out; to have it join again, delete what is there with 'intarsia down --purge' on {host}, bring the store up and name {host} with --join"
        ));
    }
    Failure::usage(format!(
        "{host} is not of the store that lies there, which is of the hosts {}",
        list.join(", ")
    ))
    .with_help(format!(
        "bring the store up without {host} and have it join then with --join; or name another --dir, or purge what is there"
    ))
}

/// What a user must know who leaves out hosts of the store.
pub(super) fn warning(assembly: &Assembly) -> Option<String> {
    if assembly.absent.is_empty() || assembly.is_running {
        return None;
    }
    let names: Vec<&str> = assembly.absent.iter().map(|host| host.0.as_str()).collect();
    Some(format!(
        "not named, and so lost until they are started again: {}; what they alone hold gives EIO, and 'intarsia lost' lists it",
        names.join(", ")
    ))
}

/// What a user must know who goes on without tiers of which nothing is there.
///
/// # Errors
/// Usage, where that was not asked for.
pub(super) fn without_tiers(
    seen: &BTreeMap<NodeId, Inspection>,
    accepts_loss: bool,
) -> Outcome<Option<String>> {
    seen.iter().try_for_each(|(host, s)| s.plan.check_gone_tiers(&host.0, accepts_loss))?;
    let of_host = |(host, found): (&NodeId, &Inspection)| {
        let dirs = found.plan.gone_tiers.iter();
        dirs.map(|dir| format!("{} on {host}", dir.display())).collect::<Vec<_>>()
    };
    let gone: Vec<String> = seen.iter().flat_map(of_host).collect();
    Ok((!gone.is_empty()).then(|| {
        format!(
            "nothing is there of {}; what lies there alone counts as lost until the host starts with its disk again, and 'intarsia lost' lists it",
            gone.join(", ")
        )
    }))
}

/// What a user must know whose hosts `to_start` have nothing of the store in their directories.
pub(super) fn come_empty(
    store: &Deployment,
    to_start: &[NodeId],
    seen: &BTreeMap<NodeId, Inspection>,
) -> Option<String> {
    if store.durability == Durability::Memory {
        return None;
    }
    let is_empty = |host: &&NodeId| seen.get(*host).is_some_and(|found| found.bundle.is_none());
    let names: Vec<&str> = to_start.iter().filter(is_empty).map(|host| host.0.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "nothing of the store is in the directory of {}; what lay on disks that are not there counts as lost until the host starts with them again, and 'intarsia lost' lists it",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::examples::{member, store};
    use crate::process::Process;

    fn named(hosts: &[u8]) -> Vec<(NodeId, IpAddr)> {
        hosts.iter().map(|n| (member(*n).name, member(*n).address)).collect()
    }

    fn seen(hosts: &[u8]) -> BTreeMap<NodeId, Inspection> {
        hosts.iter().map(|n| (member(*n).name, Inspection::default())).collect()
    }

    #[test]
    fn hosts_that_are_not_named_are_left_out_with_a_warning() {
        let assembly = assemble(&named(&[1, 3]), &store(3), &seen(&[1, 3])).unwrap();
        assert_eq!(assembly.present, [member(1).name, member(3).name]);
        assert_eq!(assembly.absent, [member(2).name]);
        assert!(warning(&assembly).unwrap().contains("n2"));
        let whole = assemble(&named(&[1, 2, 3]), &store(3), &seen(&[1, 2, 3])).unwrap();
        assert!(whole.absent.is_empty() && warning(&whole).is_none());
    }

    /// What `up` of these hosts of a store of several does: its warnings, and whether one goes on as the only one.
    fn recovered(of: u8, named_hosts: &[u8], accepts_loss: bool) -> Outcome<(Vec<String>, bool)> {
        let (deployment, seen) = (store(of), seen(named_hosts));
        let mut assembly = assemble(&named(named_hosts), &deployment, &seen)?;
        let mut store = Store { bundle: Bundle::for_tests(&deployment), deployment };
        let warnings = recover(&mut assembly, &mut store, &seen, accepts_loss)?;
        Ok((warnings, store.deployment.is_single))
    }

    #[test]
    fn one_host_alone_goes_on_only_if_the_user_says_so() {
        let refused = recovered(2, &[2], false).unwrap_err();
        assert!(
            refused.message.contains("n2 alone does not") && refused.message.contains("n1, n2")
        );
        let (warnings, is_single) = recovered(2, &[2], true).unwrap();
        assert!(is_single && warnings.concat().contains("n2 goes on alone"), "{warnings:?}");
        for (of, hosts) in [(2, &[1, 2][..]), (1, &[1])] {
            let (warnings, is_single) = recovered(of, hosts, true).unwrap();
            assert!(!is_single && warnings.is_empty(), "{warnings:?}");
        }
    }

    /// What the first server of a host knows of a Cluster of three primaries without replicas.
    fn view_of(host: usize) -> Kept {
        let peer = |(at, slots): (usize, &str)| {
            let flag = if at + 1 == host { "myself," } else { "" };
            let (n, id) = (at + 1, format!("{:040x}", at + 1));
            format!("{id} 10.0.0.{n}:7401@7402 {flag}master - 0 0 {n} connected {slots}\n")
        };
        let slots = ["0-5460", "5461-10922", "10923-16383"];
        let map = slots.into_iter().enumerate().map(peer).collect();
        Kept { has_data: true, is_complete: true, map, ..Kept::default() }
    }

    #[test]
    fn a_part_of_the_metadata_that_no_host_has_is_not_waited_for() {
        let mut seen = seen(&[1, 2, 3]);
        let bundle = Bundle::for_tests(&store(3));
        for (n, (_, one)) in (1..).zip(&mut seen) {
            one.bundle = Some(bundle.clone());
            one.running = (n > 1).then(|| Process::current().unwrap());
            one.kept = vec![view_of(n)];
        }
        assert_eq!(beyond_repair(&seen), None, "its server comes back with its host");
        seen.get_mut(&member(1).name).unwrap().kept.clear();
        let why = beyond_repair(&seen).unwrap();
        assert!(why.contains("up on n2, n3 without") && why.contains("no copy of"), "{why}");
        let unseen = seen.clone().into_iter().skip(1).collect();
        assert_eq!(beyond_repair(&unseen), None, "n1 may have it");
        seen.values_mut().for_each(|one| one.running = None);
        assert_eq!(beyond_repair(&seen), None, "nothing of it is up");
    }

    #[test]
    fn a_host_that_answers_is_there_although_nobody_named_it() {
        let mut seen = seen(&[3]);
        let one = seen.get_mut(&member(3).name).unwrap();
        one.answering = vec![member(1).name, member(2).name];
        let assembly = assemble(&named(&[3]), &store(3), &seen).unwrap();
        assert!(assembly.is_running && assembly.absent.is_empty() && warning(&assembly).is_none());
    }

    #[test]
    fn a_host_of_no_store_and_one_that_left_are_explained() {
        let failure = assemble(&named(&[1, 4]), &store(3), &seen(&[1, 4])).unwrap_err();
        assert!(failure.message.contains("n4 is not of the store"), "{}", failure.message);
        let mut with_rest = seen(&[1, 4]);
        let bundle = Bundle::for_tests(&store(4));
        with_rest.get_mut(&member(4).name).unwrap().bundle = Some(bundle);
        let failure = assemble(&named(&[1, 4]), &store(3), &with_rest).unwrap_err();
        assert!(failure.message.contains("n4 has left the store"), "{}", failure.message);
        let moved = vec![(member(1).name, IpAddr::from([10, 9, 9, 9]))];
        assert!(assemble(&moved, &store(3), &seen(&[1])).unwrap_err().message.contains("10.9.9.9"));
    }
}
