//! `balance`: make the hosts of a store, or the tiers of this host, about equally full, or as full as they are fast.

use std::path::{Path, PathBuf};

use intarsia_types::ByteCount;
use serde_json::Value;

use super::journal;
use super::moves::{ask, ask_to_move, number, show};
use super::speeds::{self, SpeedsFile};
use super::status::plain;
use crate::cli::Balance;
use crate::control::Request;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

pub(crate) fn run(arguments: &Balance) -> Outcome<Exit> {
    let bytes_per_s = arguments.rate.bytes_per_s();
    let store = arguments.store.as_deref();
    if let Some(journal) = &arguments.undo {
        let request = Request::MoveBack { journal: absolute(journal)?, bytes_per_s };
        return show(&ask_to_move(store, &request)?, arguments.json);
    }
    let has_speeds = arguments.speeds.is_some();
    let file = arguments.speeds.as_deref().map(speeds::read).transpose()?.unwrap_or_default();
    let SpeedsFile { speeds, tiers } = file;
    let journal = arguments.journal.as_deref().map(absolute).transpose()?;
    let dry_run = arguments.dry_run;
    let request =
        Request::Balance { dry_run, bytes_per_s, speeds, tiers, journal: journal.clone() };
    if !dry_run {
        journal.as_deref().map(journal::make).transpose()?;
        let report = ask_to_move(store, &request).inspect_err(|_| {
            // Nothing moved, or nobody knows what did.
            journal.as_deref().map(std::fs::remove_file);
        })?;
        return show(&report, arguments.json);
    }
    let plan = ask(store, &request, |_| {})?;
    if arguments.json {
        output::json(&plan)?;
    } else {
        show_plan(&plan, has_speeds)?;
    }
    Ok(Exit::Ok)
}

/// The node has a working directory of its own.
fn absolute(path: &Path) -> Outcome<PathBuf> {
    std::path::absolute(path).map_err(|e| Failure::io(path.display(), &e))
}

fn show_plan(plan: &Value, is_by_speed: bool) -> Outcome {
    let transfers = plan.get("transfers").and_then(Value::as_array);
    let row = |transfer: &Value| {
        let bytes = ByteCount(number(transfer, "bytes")).to_string();
        vec![plain(transfer.get("from")), plain(transfer.get("to")), bytes]
    };
    let rows: Vec<_> = transfers.into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        output::message(if is_by_speed {
            "All hold about as much as they are fast; nothing would move."
        } else {
            "The hosts are about equally full; nothing would move."
        });
        return Ok(());
    }
    let heading = ["FROM", "TO", "BYTES"].map(str::to_owned).to_vec();
    output::data(output::columns(&[vec![heading], rows].concat()).trim_end())
}
