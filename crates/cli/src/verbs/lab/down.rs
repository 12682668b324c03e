//! `lab down`: take a lab down, or what dead programs left.

use intarsia_lab::{Lab, LabName, Occupant, Removal, Standing, remove_stale};

use super::{all, failure, named};
use crate::cli::LabDown;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, count};

pub(crate) fn run(arguments: &LabDown) -> Outcome<Exit> {
    let removed = match (arguments.dry_run, arguments.stale) {
        (true, _) => return dry_run(arguments),
        (false, true) => remove_stale(arguments.kill).map_err(|e| failure(&e))?,
        (false, false) => one(arguments)?,
    };
    if arguments.json {
        output::json(&removed)?;
        return Ok(Exit::Ok);
    }
    if removed.is_empty() {
        output::message("There is no such lab; nothing to do.");
    }
    for removal in &removed {
        output::message(&described(removal));
    }
    Ok(Exit::Ok)
}

fn one(arguments: &LabDown) -> Outcome<Vec<Removal>> {
    let Some(name) = named(arguments.name.as_deref())? else { return Ok(Vec::new()) };
    if !arguments.kill {
        refuse_occupied(&name)?;
    }
    let removal = Lab::remove(&name, arguments.kill).map_err(|e| failure(&e))?;
    Ok(removal.into_iter().collect())
}

/// Names all who are in the way, each on a line; removing would refuse too, in one.
fn refuse_occupied(name: &LabName) -> Outcome {
    let occupants = match Lab::open(name) {
        Ok(Some(lab)) => lab.occupants().map_err(|e| failure(&e))?,
        // What is not whole is looked at by who removes it.
        _ => Vec::new(),
    };
    if occupants.is_empty() {
        return Ok(());
    }
    let number = occupants.len();
    let verb = if number == 1 { "runs" } else { "run" };
    let processes =
        if number == 1 { "1 process".to_owned() } else { format!("{number} processes") };
    let lines: Vec<String> = occupants.iter().map(line).collect();
    Err(Failure::busy(format!("{processes} {verb} in the lab '{name}':\n{}", lines.join("\n")))
        .with_help("end them, or give --kill; nothing was changed"))
}

fn line(occupant: &Occupant) -> String {
    format!("    pid {} on {}: {}", occupant.pid, occupant.place, occupant.command)
}

fn dry_run(arguments: &LabDown) -> Outcome<Exit> {
    let names: Vec<LabName> = if arguments.stale {
        all()?.into_iter().filter(|(_, s)| *s == Standing::Stale).map(|(n, _)| n).collect()
    } else {
        let name = named(arguments.name.as_deref())?;
        let known = all()?;
        name.into_iter().filter(|n| known.contains_key(n)).collect()
    };
    let kill = if arguments.kill { ", and end what runs in it" } else { "" };
    let lines: Vec<String> =
        names.iter().map(|n| format!("  remove the lab '{n}'{kill}")).collect();
    let text = if lines.is_empty() { "  nothing".to_owned() } else { lines.join("\n") };
    output::data(&format!("Would:\n{text}"))?;
    Ok(Exit::Ok)
}

fn described(removal: &Removal) -> String {
    let ended = match removal.ended.len() {
        0 => String::new(),
        1 => ", 1 process ended".to_owned(),
        number => format!(", {number} processes ended"),
    };
    let namespaces = count(removal.namespaces, "namespace");
    format!("The lab '{}' is down: {namespaces} removed{ended}.", removal.name)
}
