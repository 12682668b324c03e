//! `lost`: the files that no host has any more.

use intarsia_types::ByteCount;
use serde_json::{Value, json};

use super::moves::{ask, number};
use super::status::plain;
use crate::cli::Lost;
use crate::control::Request;
use crate::exit::{Exit, Outcome};
use crate::output;

pub(crate) fn run(arguments: &Lost) -> Outcome<Exit> {
    let mut files = Vec::new();
    let mut printed = Ok(());
    let request = Request::Lost { forget: arguments.forget };
    let summary = ask(arguments.store.as_deref(), &request, |message| {
        let Some(file) = message.get("file") else { return };
        if arguments.json {
            files.push(file.clone());
        } else if printed.is_ok() {
            printed = output::data(&row(file));
        }
    })?;
    printed?;
    let count = number(&summary, "files");
    if arguments.json {
        output::json(&json!({ "files": files, "summary": summary }))?;
    } else {
        conclude(&summary, arguments.forget);
    }
    Ok(if count == number(&summary, "removed") { Exit::Ok } else { Exit::Degraded })
}

fn row(file: &Value) -> String {
    let words = |field: &str| {
        let list = file.get(field).and_then(Value::as_array).into_iter().flatten();
        list.map(|word| plain(Some(word))).collect::<Vec<_>>().join(",")
    };
    let size = ByteCount(number(file, "size_bytes"));
    format!("{}\t{size}\t{}", plain(file.get("path")), words("hosts"))
}

fn conclude(summary: &Value, forget: bool) {
    let hosts = summary.get("hosts").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_former = |host: &Value| plain(host.get("host")).contains(".former");
    if hosts.is_empty() {
        return output::message("No host is lost.");
    }
    for host in hosts {
        output::message(&format!(
            "{} is lost since {}.",
            plain(host.get("host")),
            plain(host.get("since"))
        ));
    }
    let count = usize::try_from(number(summary, "files")).unwrap_or(usize::MAX);
    output::message(&format!(
        "{} with {} had no other copy.",
        output::count(count, "file"),
        ByteCount(number(summary, "bytes"))
    ));
    let former = hosts.iter().find(|host| is_former(host)).map(|host| plain(host.get("host")));
    if forget {
        output::message(&format!("{} removed.", number(summary, "removed")));
    } else if let (0, Some(former)) = (count, former) {
        output::message(&format!("'intarsia leave {former}' ends what that host was before."));
    } else if count > 0 {
        output::message(if hosts.iter().all(is_former) {
            "Their host came back without the disks that they lay on. They are back when it starts with these again; else --forget removes their names."
        } else {
            "They can be read again when the host is back. If it will not be, --forget removes them."
        });
    }
}
