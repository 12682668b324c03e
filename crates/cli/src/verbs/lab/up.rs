//! `lab up`: make a lab.

use intarsia_lab::{Lab, Rate, Spec};

use super::{failure, parse_name, status};
use crate::cli::LabUp;
use crate::exit::{Exit, Outcome};
use crate::output;

pub(crate) fn run(arguments: &LabUp) -> Outcome<Exit> {
    let spec = spec(arguments)?;
    if arguments.dry_run {
        let calls: Vec<String> = Lab::plan(&spec).iter().map(ToString::to_string).collect();
        output::data(&calls.join("\n"))?;
        return Ok(Exit::Ok);
    }
    let lab = Lab::create(spec.clone()).map_err(|e| failure(&e))?;
    let report = status::Report::of(&lab)?;
    lab.keep().map_err(|e| failure(&e))?;
    if arguments.json {
        output::json(&report)?;
        return Ok(Exit::Ok);
    }
    output::message(&format!("The lab '{}' is up: {}.", spec.name(), report.summary()));
    output::message(&format!("Take it down with: intarsia lab down {}", spec.name()));
    output::data(&format!("export INTARSIA_LAB={}", spec.name()))?;
    Ok(Exit::Ok)
}

fn spec(arguments: &LabUp) -> Outcome<Spec> {
    let rate = arguments.link.as_deref().map(str::parse::<Rate>).transpose();
    let subnet = arguments.subnet.parse();
    Spec::new(
        parse_name(&arguments.name)?,
        arguments.nodes,
        subnet.map_err(|e| failure(&e))?,
        rate.map_err(|e| failure(&e))?,
    )
    .map_err(|e| failure(&e))
}
