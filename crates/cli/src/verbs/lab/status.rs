//! `lab status`: the labs, or one in full.

use std::net::Ipv4Addr;

use intarsia_lab::{Cut, Lab, LabName, Node, Occupant, Rate, Standing};
use serde::Serialize;

use super::{all, chosen, failure, open};
use crate::cli::LabStatus;
use crate::exit::{Exit, Outcome};
use crate::output;

/// A lab in full.
#[derive(Serialize)]
pub(crate) struct Report {
    name: LabName,
    subnet: String,
    hosts_file: String,
    nodes: Vec<NodeReport>,
    cuts: Vec<Cut>,
}

#[derive(Serialize)]
struct NodeReport {
    name: Node,
    address: Ipv4Addr,
    /// In both directions; `null` is as fast as the machine.
    rate: Option<Rate>,
    rate_bit_per_s: Option<u64>,
    processes: Vec<Occupant>,
}

#[derive(Serialize)]
struct Row {
    name: LabName,
    standing: Standing,
}

impl Report {
    pub(crate) fn of(lab: &Lab) -> Outcome<Self> {
        let rates = lab.rates().map_err(|e| failure(&e))?;
        let occupants = lab.occupants().map_err(|e| failure(&e))?;
        let node = |name: Node| {
            let rate = rates.get(&name).copied().flatten();
            let place = name.to_string();
            NodeReport {
                name,
                address: lab.address(name),
                rate,
                rate_bit_per_s: rate.map(Rate::bit_per_s),
                processes: occupants.iter().filter(|o| o.place == place).cloned().collect(),
            }
        };
        Ok(Self {
            name: lab.spec().name().clone(),
            subnet: lab.spec().subnet().to_string(),
            hosts_file: lab.hosts_file().display().to_string(),
            nodes: lab.nodes().map(node).collect(),
            cuts: lab.cuts().map_err(|e| failure(&e))?,
        })
    }

    /// Nodes, addresses and rate in one line.
    pub(crate) fn summary(&self) -> String {
        let ends = self.nodes.first().zip(self.nodes.last());
        let range = ends.map_or_else(String::new, |(first, last)| {
            let of = |n: &NodeReport| format!("{} ({})", n.name, n.address);
            if first.name == last.name {
                of(first)
            } else {
                format!("{} to {}", of(first), of(last))
            }
        });
        let rate = self.nodes.first().and_then(|n| n.rate).map(|r| r.to_string());
        let links = rate.unwrap_or_else(|| "as fast as the machine".to_owned());
        format!("{range}, links {links}")
    }

    fn text(&self) -> String {
        let mut rows = vec![["NODE", "ADDRESS", "LINK", "PROCESSES"].map(str::to_owned).to_vec()];
        for node in &self.nodes {
            let rate = node.rate.map_or_else(|| "unlimited".to_owned(), |r| r.to_string());
            rows.push(vec![
                node.name.to_string(),
                node.address.to_string(),
                rate,
                node.processes.len().to_string(),
            ]);
        }
        let mut text =
            format!("lab '{}' on {}\n{}", self.name, self.subnet, output::columns(&rows));
        for line in cut_lines(&self.cuts) {
            text.push_str(&format!("cut: {line}\n"));
        }
        text
    }
}

/// Each direction that is cut, both of a pair in one line.
pub(crate) fn cut_lines(cuts: &[Cut]) -> Vec<String> {
    let reverse_of = |cut: &Cut| {
        cuts.iter().find(|c| (c.from, c.to, c.ends_in_s) == (cut.to, cut.from, cut.ends_in_s))
    };
    let is_shown = |cut: &&Cut| cut.from < cut.to || reverse_of(cut).is_none();
    let line = |cut: &Cut| {
        let arrow = if reverse_of(cut).is_some() { "and" } else { "to" };
        let end = cut.ends_in_s.map_or_else(String::new, |s| format!(", {} s more", s + 1));
        format!("{} {arrow} {}{end}", cut.from, cut.to)
    };
    cuts.iter().filter(is_shown).map(line).collect()
}

pub(crate) fn run(arguments: &LabStatus) -> Outcome<Exit> {
    if arguments.all {
        return list(arguments.json);
    }
    let name = match chosen(arguments.name.as_deref())? {
        Some(name) => Some(name),
        None => only()?,
    };
    name.map_or_else(|| list(arguments.json), |name| one(&name, arguments.json))
}

/// The only lab there is; of remains there is no more to tell than the list does.
fn only() -> Outcome<Option<LabName>> {
    let mut labs = all()?.into_iter();
    let (first, second) = (labs.next(), labs.next());
    Ok(first.filter(|(_, s)| *s != Standing::Stale && second.is_none()).map(|(name, _)| name))
}

fn one(name: &LabName, as_json: bool) -> Outcome<Exit> {
    let report = Report::of(&open(Some(name.as_str()))?)?;
    match as_json {
        true => output::json(&report)?,
        false => output::data(&report.text())?,
    }
    Ok(Exit::Ok)
}

fn list(as_json: bool) -> Outcome<Exit> {
    let rows: Vec<Row> =
        all()?.into_iter().map(|(name, standing)| Row { name, standing }).collect();
    let is_degraded = rows.iter().any(|r| r.standing == Standing::Stale);
    if as_json {
        output::json(&rows)?;
    } else if rows.is_empty() {
        output::message("There is no lab; 'intarsia lab up NAME' makes one.");
    } else {
        let word = |standing| match standing {
            Standing::Up => "up",
            Standing::Owned => "up, and goes with the program that made it",
            Standing::Stale => {
                "left by a program that died; 'intarsia lab down --stale' removes it"
            }
        };
        let line = |r: &Row| vec![r.name.to_string(), word(r.standing).to_owned()];
        output::data(&output::columns(&rows.iter().map(line).collect::<Vec<_>>()))?;
    }
    Ok(if is_degraded { Exit::Degraded } else { Exit::Ok })
}
