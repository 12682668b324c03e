//! `leave`: take a host out of a store.

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
    if exit == Exit::Ok {
        output::message(&format!(
            "No file is at {} any more; if it is up, 'intarsia down MOUNT --this-host' there takes it out of the store.",
            arguments.host
        ));
    } else {
        output::message("Close these files, and give the same command again.");
    }
    Ok(exit)
}
