//! Files on their way between hosts: how it is shown.

use std::io::IsTerminal;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use intarsia_types::ByteCount;
use serde_json::Value;

use super::status::plain;
use crate::control::{self, Request};
use crate::exit::{Exit, Failure, Outcome};
use crate::registry::Registry;
use crate::{output, target};

/// Asks the node of the store on this host; `progress` hears how it goes.
pub(super) fn ask(
    store: Option<&Path>,
    request: &Request,
    progress: impl FnMut(Value),
) -> Outcome<Value> {
    let entry = target::one(&Registry::of_user()?, store)?;
    if !entry.process.is_running() {
        return Err(Failure::not_running(format!(
            "the node of {} does not run",
            entry.mount_point.display()
        ))
        .with_help("ask at a host whose node does, or bring this one up again"));
    }
    control::call(&entry.socket, request, progress)
}

/// As [`ask`], with a bar of the bytes that move, on a terminal.
pub(super) fn ask_to_move(store: Option<&Path>, request: &Request) -> Outcome<Value> {
    let bar = progress_bar();
    let report = ask(store, request, |moved| {
        let (done, left) = (number(&moved, "bytes_done"), number(&moved, "bytes_left"));
        bar.set_length(done + left);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    report
}

/// Says what has moved, and what could not.
pub(super) fn show(report: &Value, as_json: bool) -> Outcome<Exit> {
    let stuck = number(report, "stuck");
    if as_json {
        output::json(report)?;
    } else {
        let moved = usize::try_from(number(report, "files")).unwrap_or(usize::MAX);
        output::data(&format!(
            "{} with {} moved.",
            output::count(moved, "file"),
            ByteCount(number(report, "bytes"))
        ))?;
        let named = report.get("stuck_files").and_then(Value::as_array);
        for file in named.into_iter().flatten() {
            output::warn(&format!("{} stays: {}", plain(file.get("path")), plain(file.get("why"))));
        }
        let unnamed = stuck.saturating_sub(named.map_or(0, |named| named.len() as u64));
        if unnamed > 0 {
            output::warn(&format!("{unnamed} more stay"));
        }
    }
    Ok(if stuck == 0 { Exit::Ok } else { Exit::Degraded })
}

pub(super) fn number(value: &Value, field: &str) -> u64 {
    value.get(field).and_then(Value::as_u64).unwrap_or(0)
}

fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(
        "{bar:40} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
    );
    let bar = ProgressBar::new(0);
    // The template is a constant; with a wrong one the bar has another look.
    style.map_or(bar.clone(), |style| bar.with_style(style))
}
