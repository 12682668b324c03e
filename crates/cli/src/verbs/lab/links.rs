//! `lab cut`, `lab heal`, `lab link`: what happens to links.

use intarsia_lab::{Lab, Node, Rate, Selection};

use super::status::cut_lines;
use super::{failure, target};
use crate::cli::{LabCut, LabHeal, LabLink};
use crate::exit::{Exit, Failure, Outcome};
use crate::{config, output};

pub(crate) fn cut(arguments: &LabCut) -> Outcome<Exit> {
    let time = arguments.time.as_deref().map(config::duration).transpose();
    let time = time.map_err(|e| Failure::usage(format!("--for: {e}")))?;
    if time.is_some_and(|t| t.is_zero()) {
        return Err(Failure::usage("--for: a cut lasts longer than no time"));
    }
    let lab = target(&arguments.target)?;
    let selection = selection(&lab, &arguments.a, arguments.b.as_deref(), arguments.one_way)?;
    if arguments.dry_run {
        let duration = time.map_or_else(String::new, |t| format!(" for {t:?}"));
        output::data(&format!("Would:\n  cut {}{duration}", described(selection)))?;
        return Ok(Exit::Ok);
    }
    lab.cut_selected(selection, time).map_err(|e| failure(&e))?;
    show(&lab, arguments.json)
}

pub(crate) fn heal(arguments: &LabHeal) -> Outcome<Exit> {
    let lab = target(&arguments.target)?;
    let selection = match &arguments.a {
        Some(a) => Some(selection(&lab, a, arguments.b.as_deref(), false)?),
        None => None,
    };
    if arguments.dry_run {
        let what = selection.map_or_else(|| "all links".to_owned(), described);
        output::data(&format!("Would:\n  heal {what}"))?;
        return Ok(Exit::Ok);
    }
    match selection {
        Some(selection) => lab.heal_selected(selection),
        None => lab.heal(),
    }
    .map_err(|e| failure(&e))?;
    show(&lab, arguments.json)
}

pub(crate) fn link(arguments: &LabLink) -> Outcome<Exit> {
    let rate = match arguments.rate.as_str() {
        "unlimited" => None,
        text => Some(text.parse::<Rate>().map_err(|e| failure(&e))?),
    };
    let lab = target(&arguments.target)?;
    // Every node is looked up before the first is changed, so that a mistake changes nothing.
    let nodes = arguments.nodes.iter().map(|n| node(&lab, n)).collect::<Outcome<Vec<Node>>>()?;
    for node in nodes {
        if arguments.dry_run {
            output::data(&format!("would hold the link of {node} to {}", arguments.rate))?;
        } else {
            lab.set_rate(node, rate).map_err(|e| failure(&e))?;
        }
    }
    Ok(Exit::Ok)
}

fn node(lab: &Lab, text: &str) -> Outcome<Node> {
    lab.node(text).map_err(|e| failure(&e))
}

fn selection(lab: &Lab, a: &str, b: Option<&str>, one_way: bool) -> Outcome<Selection> {
    let first = node(lab, a)?;
    let Some(b) = b else {
        return Ok(if one_way { Selection::From(first) } else { Selection::Of(first) });
    };
    let second = node(lab, b)?;
    if first == second {
        return Err(Failure::usage(format!("{a} has no link to itself"))
            .with_help(format!("'intarsia lab cut {a}' cuts it from all others")));
    }
    Ok(if one_way { Selection::FromTo(first, second) } else { Selection::Between(first, second) })
}

fn described(selection: Selection) -> String {
    match selection {
        Selection::Between(a, b) => format!("{a} and {b} from each other"),
        Selection::FromTo(a, b) => format!("what {a} sends {b}"),
        Selection::Of(a) => format!("{a} from all others"),
        Selection::From(a) => format!("what {a} sends"),
    }
}

/// What is cut now.
fn show(lab: &Lab, as_json: bool) -> Outcome<Exit> {
    let cuts = lab.cuts().map_err(|e| failure(&e))?;
    if as_json {
        output::json(&cuts)?;
    } else if cuts.is_empty() {
        output::message("No link is cut.");
    } else {
        for line in cut_lines(&cuts) {
            output::message(&format!("cut: {line}"));
        }
    }
    Ok(Exit::Ok)
}
