//! Settings from `INTARSIA_*` variables.

use intarsia_types::nearest;

use super::{Given, Key, Layers, Source};
use crate::output;

/// Variables of ours that are no settings.
const OTHERS: [&str; 9] = [
    "INTARSIA_CONFIG",
    "INTARSIA_LAB",
    "INTARSIA_LAB_ADDRESS",
    "INTARSIA_LAB_HOSTS",
    "INTARSIA_LAB_NODE",
    "INTARSIA_LOG",
    "INTARSIA_META",
    "INTARSIA_RUNTIME_DIR",
    "INTARSIA_SSH",
];
/// Variables of the test suites, and those by which the program that is tested and Python find each other.
const FOREIGN: [&str; 4] =
    ["INTARSIA_TEST_", "INTARSIA_FAILPOINT", "INTARSIA_BIN", "INTARSIA_PYTHON"];

/// Adds what the environment gives.
pub(crate) fn add(layers: &mut Layers, variables: impl Iterator<Item = (String, String)>) {
    for (name, value) in variables.filter(|(n, _)| n.starts_with("INTARSIA_")) {
        let key = Key::ALL.into_iter().find(|k| k.variable() == name);
        match key {
            // An empty variable is an unset one, as in every shell script.
            Some(_) if value.is_empty() => {}
            Some(key) => {
                layers.add(key, Given { texts: split(key, &value), source: Source::Environment });
            }
            None if OTHERS.contains(&name.as_str())
                || FOREIGN.iter().any(|f| name.starts_with(f)) => {}
            None => warn_unknown(&name),
        }
    }
}

fn split(key: Key, value: &str) -> Vec<String> {
    if !key.is_list() {
        return vec![value.to_owned()];
    }
    value.split(';').map(str::trim).filter(|v| !v.is_empty()).map(str::to_owned).collect()
}

/// Another program may own the variable, so this is no error; but a typing error must show.
fn warn_unknown(name: &str) {
    let known: Vec<String> = Key::ALL.iter().map(|k| k.variable()).collect();
    let hint = nearest(name, known.iter().map(String::as_str).chain(OTHERS))
        .map(|n| format!("; did you mean {n}?"))
        .unwrap_or_default();
    output::warn(&format!("the environment variable {name} is no setting and is ignored{hint}"));
}
