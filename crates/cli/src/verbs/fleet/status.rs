//! The state of a store on all its hosts.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use intarsia_types::{ByteCount, NodeId};
use serde_json::{Value, json};

use super::{Hosts, ask, placed};
use crate::exit::{Exit, Outcome};
use crate::output::{self, columns};
use crate::verbs::status::{plain, used};

/// A host that takes longer is said not to answer: its node has ten seconds, see [`crate::control`].
const LIMIT: Duration = Duration::from_secs(13);

/// Asks all hosts, and names those that do not answer.
pub(crate) fn status(hosts: &Hosts, mount: &Path, as_json: bool) -> Outcome<Exit> {
    let launch = hosts.launch(|host| {
        let words = ["status", &placed(mount, host), "--this-host", "--json"];
        Ok((words.map(str::to_owned).to_vec(), String::new()))
    })?;
    let seen: BTreeMap<NodeId, Seen> = ask::<Value>(&launch, LIMIT)
        .into_iter()
        .map(|(host, answer)| (host, answer.map_err(|failure| failure.message)))
        .collect();
    let in_order: Vec<(&NodeId, &Seen)> =
        hosts.members.iter().filter_map(|(host, _)| seen.get_key_value(host)).collect();
    if as_json {
        output::json(&in_order.iter().map(|(h, s)| as_value(h, s)).collect::<Vec<_>>())?;
    } else {
        let heading = ["HOST", "STATE", "UP FOR", "FILES HERE", "FREE", "UNSETTLED", "PASSTHROUGH"];
        let rows = in_order.iter().map(|(host, seen)| row(host, seen));
        let rows: Vec<_> =
            std::iter::once(heading.map(str::to_owned).to_vec()).chain(rows).collect();
        output::data(&columns(&rows))?;
        for why in seen.values().filter_map(|s| s.as_ref().err()) {
            output::warn(why);
        }
    }
    let is_whole = seen.values().all(|s| word(s) == "up");
    Ok(if is_whole { Exit::Ok } else { Exit::Degraded })
}

/// What a host answered, or why it did not.
type Seen = Result<Value, String>;

fn word(seen: &Seen) -> &str {
    match seen {
        Ok(status) => status.get("state").and_then(Value::as_str).unwrap_or("up"),
        Err(why) if why.contains(crate::target::NOT_UP) => "down",
        Err(_) => "no answer",
    }
}

fn as_value(host: &NodeId, seen: &Seen) -> Value {
    match seen {
        Ok(status) => {
            let mut status = status.clone();
            if let Some(fields) = status.as_object_mut() {
                fields.insert("host".into(), json!(host.0));
            }
            status
        }
        Err(why) => json!({ "host": host.0, "state": word(seen), "why": why }),
    }
}

fn row(host: &NodeId, seen: &Seen) -> Vec<String> {
    let mut row = vec![host.0.clone(), word(seen).to_owned()];
    let Ok(status) = seen else {
        row.extend(std::iter::repeat_n("-".to_owned(), 5));
        return row;
    };
    let tiers = status.get("tiers").and_then(Value::as_array).into_iter().flatten();
    let free = tiers.filter_map(|tier| tier.get("free_bytes")?.as_u64()).sum();
    let uptime = Duration::from_secs(status.get("uptime_s").and_then(Value::as_u64).unwrap_or(0));
    let is_passed = status.get("passthrough").and_then(|m| m.get("in_force")) == Some(&true.into());
    row.extend([
        humantime::format_duration(uptime).to_string(),
        used(status).to_string(),
        ByteCount(free).to_string(),
        plain(status.get("unsettled")),
        if is_passed { "yes" } else { "no" }.to_owned(),
    ]);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_an_answer_is_named() {
        let silent: Seen = Err("host n2: no answer within 13s, given up".into());
        assert_eq!(row(&NodeId("n2".into()), &silent).get(1).unwrap(), "no answer");
        assert_eq!(as_value(&NodeId("n2".into()), &silent)["host"], "n2");
        let up: Seen = Ok(json!({ "state": "up", "uptime_s": 61, "unsettled": 2,
            "tiers": [{ "used_bytes": 1024, "free_bytes": 2048 }],
            "passthrough": { "in_force": true } }));
        let row = row(&NodeId("n1".into()), &up);
        assert_eq!(row, ["n1", "up", "1m 1s", "1KiB", "2KiB", "2", "yes"]);
    }
}
