//! `leave`: take a host out of a store.

use serde_json::Value;

use super::moves::{ask, ask_to_move, show};
use crate::cli::Leave;
use crate::control::Request;
use crate::exit::{Exit, Outcome};
use crate::output;

pub(crate) fn run(arguments: &Leave) -> Outcome<Exit> {
    let (host, store) = (arguments.host.clone(), arguments.store.as_deref());
    if arguments.stay {
        ask(store, &Request::Stay { host }, |_| {})?;
        output::message(&format!("{} stays.", arguments.host));
        return Ok(Exit::Ok);
    }
    let bytes_per_s = arguments.rate.bytes_per_s();
    let report = ask_to_move(store, &Request::Leave { host, bytes_per_s })?;
    let exit = show(&report, arguments.json)?;
    let metadata_left = report.get("metadata_left").and_then(Value::as_str);
    if arguments.json {
        return Ok(if metadata_left.is_some() { Exit::Degraded } else { exit });
    }
    if exit != Exit::Ok {
        output::message("Close these files, and give the same command again.");
        return Ok(exit);
    }
    if let Some(left) = metadata_left {
        output::warn(&format!(
            "{left} could not be moved: too few other hosts are up; give the same command again when there are more"
        ));
        return Ok(Exit::Degraded);
    }
    output::message(&format!(
        "No file and no part of the metadata is at {0} any more; if it is up, 'intarsia down MOUNT --this-host' there takes it out of the store.",
        arguments.host
    ));
    if let Some(words) = survival(&report["metadata_servers"]) {
        output::message(&words);
    }
    Ok(exit)
}

/// What the hosts that remain can still lose.
fn survival(servers: &Value) -> Option<String> {
    let hosts = output::count(servers.get("holdings")?.as_array()?.len(), "host");
    Some(if servers["survives_loss"] == true {
        format!("The metadata is on {hosts} now, and survives the loss of any one of them.")
    } else {
        format!(
            "The metadata is on {hosts} now; for the moment none of them may be lost ('intarsia status' says why)."
        )
    })
}
