//! A profile as JSON. Every field that has a unit has it in its name.

use std::collections::BTreeSet;

use intarsia_types::TierClass;

use super::{
    Access, Client, Host, LocalAccess, Manager, Network, Profile, Provenance, Seconds, Source, Tier,
};
use crate::Problem;
use crate::json::Node;

const MOST_HOSTS: u32 = 1 << 16;
const CLASSES: [(&str, TierClass); 3] =
    [("memory", TierClass::Memory), ("ssd", TierClass::Ssd), ("disk", TierClass::Disk)];
const LOCAL: [(&str, LocalAccess); 2] =
    [("call", LocalAccess::Call), ("message", LocalAccess::Message)];

pub(super) fn profile(root: &Node<'_>) -> Result<Profile, Problem> {
    root.is_format("intarsia-profile")?;
    root.only(&[
        "format",
        "version",
        "name",
        "provenance",
        "hosts",
        "host",
        "unlike_hosts",
        "network",
        "manager",
        "tiers",
        "client",
        // What `intarsia seed` found besides, for people and reports: the model does not read it.
        "measured",
    ])?;
    let hosts = root.field("hosts")?.count(1, MOST_HOSTS)?;
    let host = host(&root.field("host")?, None)?;
    let mut tiers = Vec::new();
    let of_tiers = root.field("tiers")?;
    for node in of_tiers.items()? {
        tiers.push(tier(&node)?);
    }
    if tiers.is_empty() {
        return Err(of_tiers.refuse("there must be one at least: where would bytes lie?"));
    }
    Ok(Profile {
        name: root.field("name")?.text()?.to_owned(),
        provenance: provenance(&root.field("provenance")?)?,
        unlike: unlike(root, &host, hosts)?,
        host,
        hosts,
        network: network(&root.field("network")?)?,
        manager: manager(&root.field("manager")?)?,
        tiers,
        client: root
            .optional("client")?
            .map_or_else(|| Ok(default_client()), |node| client(&node))?,
    })
}

fn provenance(node: &Node<'_>) -> Result<Provenance, Problem> {
    node.only(&["source", "note", "host", "kernel", "measured_at", "command", "program"])?;
    let source = node.field("source")?.word(&Source::WORDS)?;
    Ok(Provenance { source, note: node.field("note")?.text()?.to_owned() })
}

/// A host; what is left out is as in `like`, or must not be left out.
fn host(node: &Node<'_>, like: Option<&Host>) -> Result<Host, Problem> {
    node.only(&[
        "numbers",
        "slots",
        "speed",
        "in_bytes_per_second",
        "out_bytes_per_second",
        "cache_bytes",
        "cache_bytes_per_second",
    ])?;
    let rate = |name: &str, like: Option<f64>| match (node.optional(name)?, like) {
        (None, Some(like)) => Ok(like),
        _ => node.field(name)?.positive(),
    };
    let slots = match (node.optional("slots")?, like) {
        (None, Some(like)) => like.slots,
        _ => node.field("slots")?.count(1, 1 << 16)?,
    };
    let cache = node.optional("cache_bytes")?.map(|bytes| bytes.whole()).transpose()?;
    let cache_bytes = cache.unwrap_or_else(|| like.map_or(0, |like| like.cache_bytes));
    let kept = like.map(|like| like.cache_bytes_per_second).filter(|rate| *rate > 0.0);
    let cache_rate = match (cache_bytes, node.optional("cache_bytes_per_second")?) {
        (0, None) => 0.0,
        _ => rate("cache_bytes_per_second", kept)?,
    };
    Ok(Host {
        slots,
        speed: rate("speed", Some(like.map_or(1.0, |like| like.speed)))?,
        in_bytes_per_second: rate("in_bytes_per_second", like.map(|l| l.in_bytes_per_second))?,
        out_bytes_per_second: rate("out_bytes_per_second", like.map(|l| l.out_bytes_per_second))?,
        cache_bytes,
        cache_bytes_per_second: cache_rate,
    })
}

fn unlike(root: &Node<'_>, like: &Host, hosts: u32) -> Result<Vec<(u32, Host)>, Problem> {
    let mut unlike = Vec::new();
    let mut seen = BTreeSet::new();
    for node in root.items_of("unlike_hosts")? {
        let host = host(&node, Some(like))?;
        for number in node.field("numbers")?.items()? {
            let at = number.count(0, hosts - 1)?;
            if !seen.insert(at) {
                return Err(number.refuse(format!("host {at} is described twice")));
            }
            unlike.push((at, host.clone()));
        }
    }
    Ok(unlike)
}

fn network(node: &Node<'_>) -> Result<Network, Problem> {
    node.only(&["latency_seconds", "frame_bytes", "control_bytes", "loopback_bytes_per_second"])?;
    let length = |name: &str, default: u64| match node.optional(name)? {
        Some(bytes) => bytes.count(1, 1 << 30).map(u64::from),
        None => Ok(default),
    };
    Ok(Network {
        latency_seconds: node.field("latency_seconds")?.number()?,
        frame_bytes: length("frame_bytes", 64 << 10)?,
        control_bytes: length("control_bytes", 256)?,
        loopback_bytes_per_second: node.field("loopback_bytes_per_second")?.positive()?,
    })
}

fn manager(node: &Node<'_>) -> Result<Manager, Problem> {
    node.only(&["parallel", "open_seconds", "allocate_seconds", "commit_seconds"])?;
    Ok(Manager {
        parallel: parallel(node)?,
        open: seconds(&node.field("open_seconds")?)?,
        allocate: seconds(&node.field("allocate_seconds")?)?,
        commit: seconds(&node.field("commit_seconds")?)?,
    })
}

fn tier(node: &Node<'_>) -> Result<Tier, Problem> {
    node.only(&["class", "capacity_bytes", "parallel", "read", "write"])?;
    Ok(Tier {
        class: node.field("class")?.word(&CLASSES)?,
        capacity_bytes: node.field("capacity_bytes")?.whole()?,
        parallel: parallel(node)?,
        read: access(&node.field("read")?)?,
        write: access(&node.field("write")?)?,
    })
}

fn access(node: &Node<'_>) -> Result<Access, Problem> {
    node.only(&["request_seconds", "bytes_per_second"])?;
    Ok(Access {
        request: seconds(&node.field("request_seconds")?)?,
        bytes_per_second: node.field("bytes_per_second")?.positive()?,
    })
}

const fn default_client() -> Client {
    Client { operation: Seconds::ZERO, outstanding: None, local: LocalAccess::Call }
}

fn client(node: &Node<'_>) -> Result<Client, Problem> {
    node.only(&["operation_seconds", "outstanding_chunks", "local_access"])?;
    let default = default_client();
    Ok(Client {
        operation: node
            .optional("operation_seconds")?
            .map_or(Ok(default.operation), |n| seconds(&n))?,
        outstanding: node
            .optional("outstanding_chunks")?
            .map(|n| n.count(1, 1 << 20))
            .transpose()?,
        local: node.optional("local_access")?.map_or(Ok(default.local), |n| n.word(&LOCAL))?,
    })
}

fn parallel(node: &Node<'_>) -> Result<u32, Problem> {
    node.optional("parallel")?.map_or(Ok(1), |count| count.count(1, 1 << 16))
}

/// A number, or `{"samples": [numbers]}`.
fn seconds(node: &Node<'_>) -> Result<Seconds, Problem> {
    if !node.is_object() {
        return node.number().map(Seconds::Constant);
    }
    node.only(&["samples"])?;
    let samples: Result<Vec<f64>, Problem> =
        node.field("samples")?.items()?.map(|sample| sample.number()).collect();
    let samples = samples?;
    if samples.is_empty() {
        return Err(node.refuse("no sample"));
    }
    Ok(Seconds::Samples(samples.into()))
}
