//! `lab`: many hosts on one machine. One file for what is more than a call.

mod down;
mod exec;
mod links;
mod status;
mod up;

use std::collections::BTreeMap;

use intarsia_lab::{Lab, LabName, Standing};
use intarsia_types::Error;

use crate::cli::{LabAction, LabTarget};
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(action: &LabAction) -> Outcome<Exit> {
    match action {
        LabAction::Up(arguments) => up::run(arguments),
        LabAction::Exec(arguments) => exec::run(arguments),
        LabAction::Status(arguments) => status::run(arguments),
        LabAction::Cut(arguments) => links::cut(arguments),
        LabAction::Heal(arguments) => links::heal(arguments),
        LabAction::Link(arguments) => links::link(arguments),
        LabAction::Down(arguments) => down::run(arguments),
    }
}

/// A failed operation on a lab.
fn failure(error: &Error) -> Failure {
    match error {
        Error::Busy(why) => Failure::busy(why.clone()),
        Error::Invalid(why) => Failure::usage(why.clone()),
        _ => Failure::general(error.to_string()),
    }
}

fn all() -> Outcome<BTreeMap<LabName, Standing>> {
    Lab::all().map_err(|e| failure(&e))
}

fn parse_name(text: &str) -> Outcome<LabName> {
    text.parse().map_err(|e| failure(&e))
}

/// The name that was given, else INTARSIA_LAB.
fn chosen(given: Option<&str>) -> Outcome<Option<LabName>> {
    let variable = std::env::var("INTARSIA_LAB").ok().filter(|v| !v.is_empty());
    given.or(variable.as_deref()).map(parse_name).transpose()
}

/// The name that was given, else INTARSIA_LAB, else that of the only lab; `None` when there is no lab.
fn named(given: Option<&str>) -> Outcome<Option<LabName>> {
    if let Some(name) = chosen(given)? {
        return Ok(Some(name));
    }
    let names: Vec<LabName> = all()?.into_keys().collect();
    match names.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        several => {
            let list = several.iter().map(LabName::as_str).collect::<Vec<_>>().join(", ");
            Err(Failure::usage(format!("there are several labs: {list}"))
                .with_help("name one, or set INTARSIA_LAB"))
        }
    }
}

/// The lab that a verb is about.
fn open(given: Option<&str>) -> Outcome<Lab> {
    const HELP: &str = "'intarsia lab up NAME' makes one";
    let Some(name) = named(given)? else {
        return Err(Failure::not_running("there is no lab").with_help(HELP));
    };
    let lab = Lab::open(&name).map_err(|e| failure(&e))?;
    lab.ok_or_else(|| Failure::not_running(format!("there is no lab '{name}'")).with_help(HELP))
}

fn target(target: &LabTarget) -> Outcome<Lab> {
    open(target.lab.as_deref())
}
