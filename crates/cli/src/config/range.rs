//! Which values of a setting make sense.

use std::str::FromStr;
use std::time::Duration;

use intarsia_types::{ByteCount, TierSpec};

use super::settings::duration;

/// A smaller tier has no room for the backing files that are kept ready.
const MIN_CAPACITY: ByteCount = ByteCount::mib(1);
/// What stands beside an inode is a part of one commit, and of the answer to one question of another host.
const MAX_INLINE: ByteCount = ByteCount::mib(1);
/// In this time a node cannot be up.
const MIN_WAIT: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(1))
}

pub(super) fn wait(text: &str) -> Result<Duration, String> {
    within(text, MIN_WAIT)
}

/// A time from `least` to an hour.
fn within(text: &str, least: Duration) -> Result<Duration, String> {
    let value = duration(text)?;
    let shown = humantime::format_duration(least);
    (least..=HOUR)
        .contains(&value)
        .then_some(value)
        .ok_or_else(|| format!("'{text}' is not between {shown} and 1h"))
}

pub(super) fn replicas(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|n| (1..=16).contains(n))
        .ok_or_else(|| format!("'{text}' is not a number from 1 to 16"))
}

pub(super) fn event_loops(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| *n <= 64)
        .ok_or_else(|| format!("'{text}' is not a number from 0 (choose for me) to 64"))
}

pub(super) fn inline_limit(text: &str) -> Result<ByteCount, String> {
    let value = ByteCount::from_str(text).map_err(|e| e.to_string())?;
    if value <= MAX_INLINE {
        return Ok(value);
    }
    Err(format!(
        "'{text}' is more than {MAX_INLINE}; larger files are faster in a tier than beside their names"
    ))
}

/// The least that a log may take: less holds nothing of a workflow.
const MIN_LOG: ByteCount = ByteCount::kib(64);

pub(super) fn record_limit(text: &str) -> Result<ByteCount, String> {
    let value = ByteCount::from_str(text).map_err(|e| e.to_string())?;
    (value >= MIN_LOG).then_some(value).ok_or_else(|| format!("'{text}' is less than {MIN_LOG}"))
}

pub(super) fn capacity(tier: &TierSpec) -> Result<(), String> {
    match tier.capacity {
        Some(capacity) if capacity < MIN_CAPACITY => Err(format!(
            "a tier of {capacity} holds nothing; give it {MIN_CAPACITY} or more, or leave capacity= away"
        )),
        _ => Ok(()),
    }
}
