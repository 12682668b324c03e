//! `hint rule`: the rules of a running store.

use std::path::Path;

use intarsia_types::{Rule, RuleSet};
use serde_json::{Value, json};

use crate::cli::{RuleAction, RuleChange, RuleCheck, RuleList};
use crate::control::{self, Request};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::registry::{Entry, Registry};
use crate::target;

pub(super) fn run(action: &RuleAction) -> Outcome<Exit> {
    match action {
        RuleAction::Add(arguments) => add(arguments),
        RuleAction::List(arguments) => list(arguments),
        RuleAction::Remove(arguments) => remove(arguments),
        RuleAction::Check(arguments) => check(arguments),
    }
}

fn add(arguments: &RuleChange) -> Outcome<Exit> {
    let new = arguments.rules.iter().map(|r| parse(r)).collect::<Outcome<Vec<_>>>()?;
    let (store, mut rules) = rules_of(arguments.store.as_deref())?;
    // A rule given again moves to the end, where it wins.
    let texts: Vec<String> = new.iter().map(ToString::to_string).collect();
    rules.retain(|r| !texts.contains(r));
    rules.extend(texts);
    change(&store, rules, arguments.dry_run)?;
    let is_shared = super::xattr::is_shared(&store.mount_point)?;
    for (key, value) in new.iter().flat_map(|r| r.hints().iter()) {
        if !key.is_acted_upon_as(value, is_shared) {
            let why = super::hint::why(is_shared);
            output::warn(&format!("{key} is stored, but not acted upon here{why}"));
        }
    }
    Ok(Exit::Ok)
}

fn remove(arguments: &RuleChange) -> Outcome<Exit> {
    let (store, mut rules) = rules_of(arguments.store.as_deref())?;
    for wanted in &arguments.rules {
        let before = rules.len();
        rules.retain(|r| r != wanted.trim() && r.split(' ').next() != Some(wanted.trim()));
        if rules.len() == before {
            return Err(Failure::general(format!("no rule is '{wanted}', and none has that glob"))
                .with_help("'intarsia hint rule list' shows them"));
        }
    }
    change(&store, rules, arguments.dry_run)?;
    Ok(Exit::Ok)
}

fn change(store: &Entry, rules: Vec<String>, is_dry: bool) -> Outcome {
    if is_dry {
        return output::data(&format!("The rules would be:\n  {}", rules.join("\n  ")));
    }
    control::call(&store.socket, &Request::SetRules { rules }, |_| {})?;
    output::message(&format!(
        "The rules of {} are changed until it goes down; write them into its configuration to keep them.",
        store.mount_point.display()
    ));
    Ok(())
}

fn list(arguments: &RuleList) -> Outcome<Exit> {
    let (_, rules) = rules_of(arguments.store.as_deref())?;
    if arguments.json {
        output::json(&rules)?;
    } else if rules.is_empty() {
        output::message("no rules");
    } else {
        output::data(&rules.join("\n"))?;
    }
    Ok(Exit::Ok)
}

fn check(arguments: &RuleCheck) -> Outcome<Exit> {
    let rules = arguments.rules.iter().map(|r| parse(r)).collect::<Outcome<Vec<_>>>()?;
    let texts: Vec<String> = rules.iter().map(ToString::to_string).collect();
    let set = RuleSet::new(rules);
    let given: Vec<(String, Vec<String>)> =
        arguments.paths.iter().map(|p| (p.clone(), hints_for(&set, p))).collect();
    if arguments.json {
        let paths: Vec<Value> =
            given.iter().map(|(path, hints)| json!({ "path": path, "hints": hints })).collect();
        output::json(&json!({ "rules": texts, "paths": paths }))?;
        return Ok(Exit::Ok);
    }
    for (path, hints) in &given {
        let shown = if hints.is_empty() { "no hints".to_owned() } else { hints.join(" ") };
        output::data(&format!("{path}: {shown}"))?;
    }
    output::message(&format!("{} well-formed.", output::count(texts.len(), "rule")));
    Ok(Exit::Ok)
}

fn hints_for(rules: &RuleSet, path: &str) -> Vec<String> {
    rules.hints_for(path).iter().map(|(key, value)| format!("{key}={value}")).collect()
}

fn parse(text: &str) -> Outcome<Rule> {
    text.parse().map_err(|e: intarsia_types::RuleError| Failure::usage(e.to_string()))
}

fn rules_of(store: Option<&Path>) -> Outcome<(Entry, Vec<String>)> {
    let entry = target::running(&Registry::of_user()?, store)?;
    let rules = control::call(&entry.socket, &Request::Rules, |_| {})?;
    let rules = serde_json::from_value(rules)
        .map_err(|e| Failure::general(format!("the node's answer is not understood: {e}")))?;
    Ok((entry, rules))
}
