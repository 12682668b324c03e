//! A configuration as JSON.

use intarsia_types::TierClass;

use super::{Configuration, CopyOrder, PatternHints, Placement, Scheduler, WriteWaitsFor};
use crate::Problem;
use crate::json::Node;

const LONGEST_CHUNK: u32 = 1 << 30;
const TIERS: [(&str, TierClass); 3] =
    [("memory", TierClass::Memory), ("ssd", TierClass::Ssd), ("disk", TierClass::Disk)];

pub(super) fn configuration(
    root: &Node<'_>,
    default: &Configuration,
) -> Result<Configuration, Problem> {
    root.is_format("intarsia-configuration")?;
    root.only(&[
        "format",
        "version",
        "hosts",
        "storage_hosts",
        "managers",
        "managers_apart",
        "manager_copies",
        "placement",
        "chunk_bytes",
        "stripe_width",
        "copies",
        "copy_order",
        "write_waits_for",
        "scheduler",
        "follows_hints",
        "frequency_mhz",
        "second_run_percent",
        "tier",
        "patterns",
    ])?;
    let most = Configuration::MOST_HOSTS;
    let count = |name: &str, default: u32| match root.optional(name)? {
        Some(node) => node.count(1, most),
        None => Ok(default),
    };
    let truth = |name: &str, default: bool| match root.optional(name)? {
        Some(node) => node.boolean(),
        None => Ok(default),
    };
    let optional = |name: &str, least: u32, most: u32, default: Option<u32>| {
        let given = root.optional(name)?.map(|node| node.count(least, most)).transpose()?;
        Ok(given.or(default))
    };
    let storage_hosts =
        root.optional("storage_hosts")?.map(|node| node.count(1, most)).transpose()?;
    let chunk =
        root.optional("chunk_bytes")?.map(|node| node.count(1, LONGEST_CHUNK)).transpose()?;
    Ok(Configuration {
        hosts: count("hosts", default.hosts)?,
        storage_hosts: storage_hosts.or(default.storage_hosts),
        managers: count("managers", default.managers)?,
        manager_copies: count("manager_copies", default.manager_copies)?,
        managers_apart: truth("managers_apart", default.managers_apart)?,
        placement: word(root, "placement", &Placement::WORDS, default.placement)?,
        chunk_bytes: chunk.map_or(default.chunk_bytes, u64::from),
        stripe_width: count("stripe_width", default.stripe_width)?,
        copies: count("copies", default.copies)?,
        copy_order: word(root, "copy_order", &CopyOrder::WORDS, default.copy_order)?,
        write_waits_for: word(
            root,
            "write_waits_for",
            &WriteWaitsFor::WORDS,
            default.write_waits_for,
        )?,
        scheduler: word(root, "scheduler", &Scheduler::WORDS, default.scheduler)?,
        follows_hints: truth("follows_hints", default.follows_hints)?,
        frequency_mhz: optional("frequency_mhz", 1, 1 << 20, default.frequency_mhz)?,
        second_run_percent: optional(
            "second_run_percent",
            100,
            10_000,
            default.second_run_percent,
        )?,
        tier: root.optional("tier")?.map(|node| node.word(&TIERS)).transpose()?.or(default.tier),
        patterns: root
            .optional("patterns")?
            .map_or_else(|| Ok(default.patterns.clone()), |node| PatternHints::read(&node))?,
    })
}

fn word<T: Copy>(
    root: &Node<'_>,
    name: &str,
    words: &[(&str, T)],
    default: T,
) -> Result<T, Problem> {
    root.optional(name)?.map_or(Ok(default), |node| node.word(words))
}
