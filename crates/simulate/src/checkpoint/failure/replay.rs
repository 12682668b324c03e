//! Failures as they were recorded, at their times and on their nodes.

use std::sync::Arc;

use intarsia_des::{Span, Time};

use super::process::Damage;
use crate::scenario::Problem;

/// Recorded failures in order of time: a CSV file with a header.
///
/// ```csv
/// seconds,node,damage,repair_seconds
/// 8040,17,loss,7200
/// 91200,3,reboot,
/// 91200,4,reboot,
/// ```
///
/// `seconds` count from the start of the simulation and nodes from 0. `damage` (`process`, `reboot`,
/// `loss`, `machine`) and `repair_seconds` may be left out, as columns or in a line: what is missing
/// is drawn from `shares` and `repair`. Lines of one time and damage are one failure of several nodes,
/// repaired when the last of them is.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    failures: Arc<[Recorded]>,
}

/// One recorded failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// When it struck.
    pub at: Time,
    /// The nodes that it struck, at least one.
    pub nodes: Vec<u32>,
    /// What was left of them, if that is recorded.
    pub damage: Option<Damage>,
    /// How long the repair took, if that is recorded.
    pub repair: Option<Span>,
}

const COLUMNS: [&str; 4] = ["seconds", "node", "damage", "repair_seconds"];
const DAMAGES: [(&str, Damage); 4] = [
    ("process", Damage::Process),
    ("reboot", Damage::Reboot),
    ("loss", Damage::Loss),
    ("machine", Damage::Machine),
];

impl Replay {
    /// Reads the text of the file `name`.
    ///
    /// # Errors
    /// Names the line and the field that cannot be read, or says that there are no records.
    pub fn parse(name: &str, text: &str) -> Result<Self, Problem> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let header = lines.next().map_or("", |(_, line)| line);
        let columns = columns(header).ok_or_else(|| {
            Problem::new(format!("{name}:1: '{header}' does not name the columns"))
                .with_help(format!("write seconds,node first; there are: {}", COLUMNS.join(", ")))
        })?;
        let mut records = Vec::new();
        for (index, line) in lines {
            let record = record(&columns, line)
                .map_err(|why| Problem::new(format!("{name}:{}: {why}", index + 1)))?;
            records.push(record);
        }
        if records.is_empty() {
            return Err(Problem::new(format!("{name}: no records after the header")));
        }
        records.sort_by_key(|record| record.at);
        Ok(Self { failures: joined(records).into() })
    }

    /// The failures in order of time.
    #[must_use]
    pub fn failures(&self) -> &[Recorded] {
        &self.failures
    }

    /// The mean time between failures, in seconds: the time of the last over their number.
    #[must_use]
    pub fn mean_seconds(&self) -> f64 {
        let last = self.failures.last().map_or(Time::ZERO, |failure| failure.at);
        last.as_secs_f64().max(1e-9) / self.failures.len() as f64
    }

    /// The highest number of a node.
    #[must_use]
    pub fn last_node(&self) -> u32 {
        self.failures.iter().flat_map(|failure| &failure.nodes).copied().max().unwrap_or(0)
    }
}

/// Which field of a line each of [`COLUMNS`] is; none when a needed one is missing or one is unknown.
fn columns(header: &str) -> Option<[Option<usize>; COLUMNS.len()]> {
    let names: Vec<&str> =
        header.trim_start_matches('\u{feff}').split(',').map(str::trim).collect();
    let is_known = names.iter().all(|name| COLUMNS.contains(name));
    let columns = COLUMNS.map(|column| names.iter().position(|name| *name == column));
    (is_known && columns[0].is_some() && columns[1].is_some()).then_some(columns)
}

fn record(columns: &[Option<usize>], line: &str) -> Result<Recorded, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if columns.iter().flatten().any(|column| *column >= fields.len()) {
        return Err("not as many fields as the header has".to_owned());
    }
    let field = |index: usize| {
        let text = columns[index].and_then(|column| fields.get(column)).copied();
        text.filter(|text| !text.is_empty())
    };
    let seconds = |index: usize, text: &str| match text.parse::<f64>() {
        Ok(seconds) if seconds >= 0.0 && seconds.is_finite() => Ok(Span::from_secs_f64(seconds)),
        _ => Err(format!("{}: '{text}' is no number of seconds", COLUMNS[index])),
    };
    let node = field(1).unwrap_or("");
    let damage = |text: &str| {
        let known = DAMAGES.iter().find(|(name, _)| *name == text).map(|(_, damage)| *damage);
        known.ok_or_else(|| format!("damage: '{text}' is not process, reboot, loss or machine"))
    };
    Ok(Recorded {
        at: Time::ZERO + seconds(0, field(0).unwrap_or(""))?,
        nodes: vec![node.parse().map_err(|_| format!("node: '{node}' is no number of a node"))?],
        damage: field(2).map(damage).transpose()?,
        repair: field(3).map(|text| seconds(3, text)).transpose()?,
    })
}

/// Joins records of one time and damage.
fn joined(records: Vec<Recorded>) -> Vec<Recorded> {
    let mut failures: Vec<Recorded> = Vec::with_capacity(records.len());
    for record in records {
        match failures.last_mut() {
            Some(last) if (last.at, last.damage) == (record.at, record.damage) => {
                let more = record.nodes.into_iter().filter(|node| !last.nodes.contains(node));
                let more: Vec<u32> = more.collect();
                last.nodes.extend(more);
                last.repair = last.repair.max(record.repair);
            }
            _ => failures.push(record),
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_time_are_one_failure() {
        let text = "node,seconds,repair_seconds,damage\n7,30.5,10,loss\n3,20,,\n8,30.5,40,loss\n\n";
        let replay = Replay::parse("f.csv", text).unwrap();
        let at = |seconds| Time::ZERO + Span::from_secs_f64(seconds);
        let repair = Some(Span::from_secs_f64(40.0));
        assert_eq!(
            replay.failures(),
            [
                Recorded { at: at(20.0), nodes: vec![3], damage: None, repair: None },
                Recorded { at: at(30.5), nodes: vec![7, 8], damage: Some(Damage::Loss), repair },
            ]
        );
        assert!((replay.mean_seconds() - 15.25).abs() < 1e-9);
        assert_eq!(replay.last_node(), 8);
    }

    #[test]
    fn complaints_name_the_line() {
        for (text, complaint) in [
            ("", "f.csv:1: '' does not name the columns"),
            ("seconds,host\n1,2", "f.csv:1:"),
            ("seconds,node\n", "f.csv: no records"),
            ("seconds,node\n5,1\n-1,2", "f.csv:3: seconds: '-1' is no number of seconds"),
            ("seconds,node\n5,n1", "f.csv:2: node: 'n1' is no number of a node"),
            ("seconds,node\n5", "f.csv:2: not as many fields"),
            ("seconds,node,damage\n5,1,fire", "f.csv:2: damage: 'fire' is not process"),
        ] {
            let problem = Replay::parse("f.csv", text).unwrap_err();
            assert!(problem.message.contains(complaint), "{text}: {problem}");
        }
    }
}
