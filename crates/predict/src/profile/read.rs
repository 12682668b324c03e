//! A profile as JSON. Every field that has a unit has it in its name.

use std::collections::BTreeSet;

use intarsia_types::TierClass;

use super::{
    Access, Burst, Client, Compared, Crowding, Engine, Failures, Frequency, Host, Line,
    LocalAccess, Machine, Manager, Network, Power, Prices, Profile, Provenance, Rounds, Seconds,
    Sharing, Source, StorePlacement, Stragglers, Tier, WriteBack,
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
        "host_names",
        "shared_processors",
        "unlike_hosts",
        "network",
        "manager",
        "tiers",
        "client",
        "engine",
        "placement",
        "prices",
        "failures",
        "stragglers",
        // What `intarsia seed` and `refine` found besides: the model does not read it, intervals come from it.
        "measured",
    ])?;
    let hosts = root.field("hosts")?.count(1, MOST_HOSTS)?;
    let measured = root.optional("measured")?;
    let host = host(&root.field("host")?, None)?;
    let mut tiers = Vec::new();
    let of_tiers = root.field("tiers")?;
    for node in of_tiers.items()? {
        tiers.push(tier(&node)?);
    }
    if tiers.is_empty() {
        return Err(of_tiers.refuse("there must be one at least: where would bytes lie?"));
    }
    let of_numbers = root.field("provenance")?;
    Ok(Profile {
        name: root.field("name")?.text()?.to_owned(),
        provenance: provenance(&of_numbers)?,
        machine: Machine::read(&of_numbers)?,
        host_names: host_names(root, hosts)?,
        shared_processors: root
            .optional("shared_processors")?
            .map(|count| count.count(1, 1 << 16))
            .transpose()?,
        unlike: unlike(root, &host, hosts)?,
        host,
        hosts,
        network: network(&root.field("network")?)?,
        manager: manager(&root.field("manager")?)?,
        tiers,
        client: root
            .optional("client")?
            .map_or_else(|| Ok(default_client()), |node| client(&node))?,
        engine: root.optional("engine")?.map(|node| engine(&node)).transpose()?,
        placement: root
            .optional("placement")?
            .map_or(Ok(StorePlacement::default()), |node| node.word(&StorePlacement::WORDS))?,
        prices: root.optional("prices")?.map(|node| prices(&node)).transpose()?,
        failures: root.optional("failures")?.map(|node| failures(&node)).transpose()?,
        stragglers: root.optional("stragglers")?.map(|node| stragglers(&node)).transpose()?,
        rounds: measured.as_ref().map(Rounds::read).transpose()?.unwrap_or_default(),
        compared: measured.as_ref().map(Compared::read).transpose()?.unwrap_or_default(),
    })
}

fn prices(node: &Node<'_>) -> Result<Prices, Problem> {
    node.only(&["currency", "per_host_hour", "per_kilowatt_hour", "per_gigabyte_hour"])?;
    let price = |name: &str| node.optional(name)?.map_or(Ok(0.0), |price| price.number());
    let mut per_gigabyte_hour = Vec::new();
    if let Some(classes) = node.optional("per_gigabyte_hour")? {
        classes.only(&CLASSES.map(|(name, _)| name))?;
        for (name, class) in CLASSES {
            if let Some(price) = classes.optional(name)? {
                per_gigabyte_hour.push((class, price.number()?));
            }
        }
    }
    Ok(Prices {
        currency: node.field("currency")?.text()?.to_owned(),
        per_host_hour: price("per_host_hour")?,
        per_kilowatt_hour: price("per_kilowatt_hour")?,
        per_gigabyte_hour,
    })
}

fn failures(node: &Node<'_>) -> Result<Failures, Problem> {
    node.only(&["mean_seconds", "shape", "repair_seconds", "disks"])?;
    let disks = node.optional("disks")?;
    Ok(Failures {
        mean_seconds: node.field("mean_seconds")?.positive()?,
        shape: node.optional("shape")?.map_or(Ok(1.0), |shape| shape.positive())?,
        repair_seconds: node.field("repair_seconds")?.number()?,
        loses_disks: disks
            .map_or(Ok(false), |disks| disks.word(&[("kept", false), ("lost", true)]))?,
    })
}

fn stragglers(node: &Node<'_>) -> Result<Stragglers, Problem> {
    node.only(&["share", "slowdown"])?;
    let (share, slowdown) = (node.field("share")?, node.field("slowdown")?);
    if share.number()? > 1.0 {
        return Err(share.refuse("a part of all runs is at most 1"));
    }
    if slowdown.number()? < 1.0 {
        return Err(slowdown.refuse("below 1 they would be faster"));
    }
    Ok(Stragglers { share: share.number()?, slowdown: slowdown.number()? })
}

fn power(node: &Node<'_>) -> Result<Power, Problem> {
    node.only(&[
        "source",
        "note",
        "idle_watts",
        "compute_watts",
        "storage_watts",
        "network_watts",
    ])?;
    let watts = |name: &str| node.field(name)?.number();
    Ok(Power {
        provenance: of_part(node)?,
        idle_watts: watts("idle_watts")?,
        compute_watts: watts("compute_watts")?,
        storage_watts: watts("storage_watts")?,
        network_watts: watts("network_watts")?,
    })
}

fn frequency(node: &Node<'_>) -> Result<Frequency, Problem> {
    node.only(&["mhz", "speed", "power"])?;
    Ok(Frequency {
        mhz: node.field("mhz")?.count(1, 1 << 20)?,
        speed: node.field("speed")?.positive()?,
        power: power(&node.field("power")?)?,
    })
}

fn engine(node: &Node<'_>) -> Result<Engine, Problem> {
    node.only(&[
        "source",
        "note",
        "task_seconds",
        "start_seconds",
        "task_processor_seconds",
        "start_alone_seconds",
        "computes",
    ])?;
    let alone = |name: &str| node.optional(name)?.map(|seconds| seconds.number()).transpose();
    Ok(Engine {
        provenance: of_part(node)?,
        task_seconds: node.field("task_seconds")?.number()?,
        start_seconds: node.field("start_seconds")?.number()?,
        task_processor_seconds: alone("task_processor_seconds")?,
        start_alone_seconds: alone("start_alone_seconds")?,
        sleeps: node
            .optional("computes")?
            .map_or(Ok(false), |how| how.word(&[("burned", false), ("slept", true)]))?,
    })
}

/// Where the numbers of a part come from that is measured by itself.
fn of_part(node: &Node<'_>) -> Result<Provenance, Problem> {
    let source = node.field("source")?.word(&Source::WORDS)?;
    Ok(Provenance { source, note: node.field("note")?.text()?.to_owned() })
}

fn provenance(node: &Node<'_>) -> Result<Provenance, Problem> {
    node.only(&["source", "note", "host", "kernel", "measured_at", "command", "program", "told"])?;
    // Places of the profile that were not measured, and how each is known.
    if let Some(told) = node.optional("told")? {
        told.fields()?.try_for_each(|(_, how)| how.text().map(drop))?;
    }
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
        "crowding",
        "power",
        "frequencies",
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
        crowding: match node.optional("crowding")? {
            Some(node) => Some(crowding(&node)?),
            None => like.and_then(|like| like.crowding),
        },
        power: match node.optional("power")? {
            Some(node) => Some(power(&node)?),
            None => like.and_then(|like| like.power.clone()),
        },
        frequencies: match node.items_of("frequencies")? {
            none if none.is_empty() => {
                like.map(|like| like.frequencies.clone()).unwrap_or_default()
            }
            some => some.iter().map(frequency).collect::<Result<_, _>>()?,
        },
    })
}

fn crowding(node: &Node<'_>) -> Result<Crowding, Problem> {
    node.only(&["at_once", "names", "write", "read", "copy"])?;
    let gain = |name: &str| node.field(name)?.positive();
    Ok(Crowding {
        at_once: node.field("at_once")?.count(2, 1 << 16)?,
        names: gain("names")?,
        write: gain("write")?,
        read: gain("read")?,
        copy: gain("copy")?,
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
    node.only(&[
        "latency_seconds",
        "frame_bytes",
        "control_bytes",
        "sharing",
        "burst_bytes",
        "queue_bytes",
        "loopback_bytes_per_second",
    ])?;
    let length = |name: &str, default: u64| match node.optional(name)? {
        Some(bytes) => bytes.count(1, 1 << 30).map(u64::from),
        None => Ok(default),
    };
    Ok(Network {
        // One number for all messages: of samples it is their mean.
        latency_seconds: seconds(&node.field("latency_seconds")?)?.mean(),
        frame_bytes: length("frame_bytes", 64 << 10)?,
        control_bytes: length("control_bytes", 256)?,
        sharing: node
            .optional("sharing")?
            .map_or(Ok(Sharing::default()), |node| node.word(&Sharing::WORDS))?,
        burst_bytes: node.optional("burst_bytes")?.map_or(Ok(0), |bytes| bytes.whole())?,
        queue_bytes: node.optional("queue_bytes")?.map_or(Ok(0), |bytes| bytes.whole())?,
        loopback_bytes_per_second: node.field("loopback_bytes_per_second")?.positive()?,
    })
}

/// What the store calls its hosts: as many names as hosts at most, each once.
fn host_names(root: &Node<'_>, hosts: u32) -> Result<Vec<String>, Problem> {
    let mut names = Vec::new();
    for node in root.items_of("host_names")? {
        let name = node.text()?.to_owned();
        if names.contains(&name) {
            return Err(node.refuse(format!("'{name}' is named twice")));
        }
        if names.len() >= hosts as usize {
            return Err(node.refuse(format!("there are no more than {hosts} hosts")));
        }
        names.push(name);
    }
    Ok(names)
}

fn manager(node: &Node<'_>) -> Result<Manager, Problem> {
    node.only(&[
        "parallel",
        "open_seconds",
        "allocate_seconds",
        "allocate_shared_seconds",
        "commit_seconds",
    ])?;
    Ok(Manager {
        parallel: parallel(node)?,
        open: seconds(&node.field("open_seconds")?)?,
        allocate: seconds(&node.field("allocate_seconds")?)?,
        allocate_shared: node
            .optional("allocate_shared_seconds")?
            .map(|node| seconds(&node))
            .transpose()?,
        commit: seconds(&node.field("commit_seconds")?)?,
    })
}

fn tier(node: &Node<'_>) -> Result<Tier, Problem> {
    node.only(&["class", "capacity_bytes", "parallel", "read", "write", "write_back"])?;
    Ok(Tier {
        class: node.field("class")?.word(&CLASSES)?,
        capacity_bytes: node.field("capacity_bytes")?.whole()?,
        parallel: parallel(node)?,
        read: access(&node.field("read")?)?,
        write: access(&node.field("write")?)?,
        write_back: node.optional("write_back")?.map(|node| write_back(&node)).transpose()?,
    })
}

fn write_back(node: &Node<'_>) -> Result<WriteBack, Problem> {
    node.only(&["bytes", "bytes_per_second"])?;
    Ok(WriteBack {
        bytes: node.field("bytes")?.whole()?,
        bytes_per_second: node.field("bytes_per_second")?.positive()?,
    })
}

fn access(node: &Node<'_>) -> Result<Access, Problem> {
    node.only(&["request_seconds", "bytes_per_second", "first", "burst"])?;
    let Line { request, bytes_per_second } = line(node)?;
    let first = node.optional("first")?.map(|first| {
        first.only(&["request_seconds", "bytes_per_second"])?;
        line(&first)
    });
    let burst = node.optional("burst")?.map(|burst| {
        burst.only(&["bytes", "bytes_per_second"])?;
        Ok(Burst {
            bytes: burst.field("bytes")?.whole()?,
            bytes_per_second: burst.field("bytes_per_second")?.positive()?,
        })
    });
    Ok(Access { request, bytes_per_second, first: first.transpose()?, burst: burst.transpose()? })
}

fn line(node: &Node<'_>) -> Result<Line, Problem> {
    Ok(Line {
        request: seconds(&node.field("request_seconds")?)?,
        bytes_per_second: node.field("bytes_per_second")?.positive()?,
    })
}

const fn default_client() -> Client {
    Client {
        operation: Seconds::ZERO,
        outstanding: None,
        local: LocalAccess::Call,
        keeps_striped: true,
        opens_parts: false,
        striped_window_bytes: None,
        inline_bytes: 0,
        sums_written: false,
    }
}

fn client(node: &Node<'_>) -> Result<Client, Problem> {
    node.only(&[
        "operation_seconds",
        "outstanding_chunks",
        "local_access",
        "keeps_striped",
        "opens_parts",
        "striped_window_bytes",
        "inline_bytes",
        "sums_written",
    ])?;
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
        keeps_striped: truth(node, "keeps_striped", default.keeps_striped)?,
        opens_parts: truth(node, "opens_parts", default.opens_parts)?,
        striped_window_bytes: node
            .optional("striped_window_bytes")?
            .map(|bytes| bytes.whole())
            .transpose()?,
        inline_bytes: node.optional("inline_bytes")?.map_or(Ok(0), |bytes| bytes.whole())?,
        sums_written: truth(node, "sums_written", default.sums_written)?,
    })
}

/// A field that is true or false, and `default` where it is left out.
fn truth(node: &Node<'_>, name: &str, default: bool) -> Result<bool, Problem> {
    node.optional(name)?.map_or(Ok(default), |node| node.boolean())
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
