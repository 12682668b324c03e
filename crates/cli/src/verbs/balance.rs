//! `balance`: make the hosts of a store about equally full, or as full as they are fast.

use intarsia_types::ByteCount;
use serde_json::Value;

use super::moves::{ask, ask_to_move, number, show};
use super::speeds;
use super::status::plain;
use crate::cli::Balance;
use crate::control::Request;
use crate::exit::{Exit, Outcome};
use crate::output;

pub(crate) fn run(arguments: &Balance) -> Outcome<Exit> {
    let request = Request::Balance {
        dry_run: arguments.dry_run,
        bytes_per_s: arguments.rate.bytes_per_s(),
        speeds: arguments.speeds.as_deref().map(speeds::read).transpose()?.unwrap_or_default(),
    };
    let store = arguments.store.as_deref();
    if !arguments.dry_run {
        return show(&ask_to_move(store, &request)?, arguments.json);
    }
    let plan = ask(store, &request, |_| {})?;
    if arguments.json {
        output::json(&plan)?;
    } else {
        show_plan(&plan, arguments.speeds.is_some())?;
    }
    Ok(Exit::Ok)
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
            "The hosts hold about as much as they are fast; nothing would move."
        } else {
            "The hosts are about equally full; nothing would move."
        });
        return Ok(());
    }
    let heading = ["FROM", "TO", "BYTES"].map(str::to_owned).to_vec();
    output::data(output::columns(&[vec![heading], rows].concat()).trim_end())
}
