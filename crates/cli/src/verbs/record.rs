//! `record`: have a node record what programs do, and look at what it recorded.

use std::io::{BufWriter, Write};
use std::path::Path;

use intarsia_trace::log::{Reader, Tail};
use intarsia_trace::{Access, Record};
use serde_json::{Value, json};

use crate::cli::{RecordAction, RecordShow, RecordStore};
use crate::control::{self, Request};
use crate::exit::{Exit, Failure, Outcome};
use crate::registry::Registry;
use crate::runtime::Detail;
use crate::{output, target};

pub(crate) fn run(action: &RecordAction) -> Outcome<Exit> {
    match action {
        RecordAction::Start(given) if given.detail == Detail::Off => {
            Err(Failure::usage("--detail off records nothing")
                .with_help("see 'intarsia record stop'"))
        }
        RecordAction::Start(given) => ask(&given.of, Some(given.detail)),
        RecordAction::Stop(of) => ask(of, Some(Detail::Off)),
        RecordAction::Status(of) => ask(of, None),
        RecordAction::Show(given) => show(given),
    }
}

fn ask(of: &RecordStore, detail: Option<Detail>) -> Outcome<Exit> {
    let entry = target::running(&Registry::of_user()?, of.store.as_deref())?;
    let status = control::call(&entry.socket, &Request::Record { detail }, |_| {})?;
    if of.json {
        output::json(&status)?;
        return Ok(Exit::Ok);
    }
    in_words(&status).iter().for_each(|line| output::message(line));
    if let Some(log) = status["log"].as_str() {
        output::data(log)?;
    }
    Ok(Exit::Ok)
}

fn in_words(status: &Value) -> Vec<String> {
    let detail = status["detail"].as_str().unwrap_or("off");
    let bytes = status["log_bytes"].as_u64().unwrap_or_default();
    let mut lines = match (detail, status["log"].is_string()) {
        ("off", false) => vec!["Nothing is recorded.".to_owned()],
        ("off", true) => {
            vec![format!("Nothing is recorded any more. The last log has {bytes} bytes:")]
        }
        (detail, _) => vec![format!("This host records ({detail}), {bytes} bytes so far:")],
    };
    if let Some(lost) = status["lost_records"].as_u64().filter(|lost| *lost > 0) {
        lines.insert(0, format!("{lost} records were left out for want of room."));
    }
    if let Some(why) = status["ended"].as_str() {
        lines.insert(0, format!("The recording ended by itself: {why}."));
    }
    lines
}

fn show(given: &RecordShow) -> Outcome<Exit> {
    let name = given.log.display();
    let log = std::fs::read(&given.log).map_err(|e| Failure::io(&name, &e))?;
    let mut reader = Reader::new(&log).map_err(|e| {
        Failure::usage(format!("{name}: {e}"))
            .with_help("logs are made by 'intarsia record start', below a store's directory")
    })?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut put = |line: String| match writeln!(out, "{line}") {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).map_err(|e| Failure::io("output", &e)),
    };
    for record in reader.by_ref() {
        let line = if given.json { as_json(&record) } else { as_text(&record) };
        if !put(line)? {
            return Ok(Exit::Ok);
        }
    }
    let tail = reader.tail();
    if given.json && tail != Tail::Whole {
        put(json!({ "kind": "torn", "what": tail_in_words(tail) }).to_string())?;
    }
    if tail != Tail::Whole {
        output::warn(&format!("{}: {}", Path::display(&given.log), tail_in_words(tail)));
    }
    Ok(Exit::Ok)
}

fn tail_in_words(tail: Tail) -> String {
    match tail {
        Tail::Whole => "the log is whole".into(),
        Tail::Torn { bytes } => {
            format!("the log ends within a block; its last {bytes} bytes are left out")
        }
        Tail::Damaged { offset } => {
            format!("the block at byte {offset} is damaged; it and what follows are left out")
        }
    }
}

/// Names of files need not be UTF-8; other bytes are shown as the replacement character.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One object a record, `kind` says of which kind. Field names are stable.
fn as_json(record: &Record) -> String {
    let value = match record {
        Record::Host(host) => json!({
            "kind": "host", "version": host.version, "name": host.name, "store": host.store,
            "began_unix_ns": host.began_unix_ns, "detail": host.detail,
        }),
        Record::Process(process) => json!({
            "kind": "process", "process": process.number, "pid": process.pid,
            "parent_pid": process.parent_pid, "began_unix_ns": process.began_unix_ns,
            "at_ns": process.at_ns, "program": text(&process.program),
            "command": process.command.split(|b| *b == 0).map(text).collect::<Vec<_>>(),
        }),
        Record::Ended { process, at_ns } => {
            json!({ "kind": "ended", "process": process, "at_ns": at_ns })
        }
        Record::Directory { ino, path } => {
            json!({ "kind": "directory", "ino": ino, "path": text(path) })
        }
        Record::Open {
            handle,
            process,
            file,
            directory,
            name,
            access,
            size_bytes,
            at_ns,
            took_ns,
        } => json!({
            "kind": "open", "handle": handle, "process": process, "file": file,
            "directory": directory, "name": text(name), "access": access,
            "size_bytes": size_bytes, "at_ns": at_ns, "took_ns": took_ns,
        }),
        Record::Range(range) => {
            let mut value = json!(range);
            value["kind"] = json!("range");
            value
        }
        Record::Close { handle, size_bytes, at_ns, read, written } => json!({
            "kind": "close", "handle": handle, "size_bytes": size_bytes, "at_ns": at_ns,
            "read": read, "written": written,
        }),
        Record::Name {
            process,
            change,
            directory,
            name,
            new_directory,
            new_name,
            at_ns,
            took_ns,
        } => json!({
            "kind": "name", "process": process, "change": change, "directory": directory,
            "name": text(name), "new_directory": new_directory, "new_name": text(new_name),
            "at_ns": at_ns, "took_ns": took_ns,
        }),
        Record::Lost { records } => json!({ "kind": "lost", "records": records }),
        Record::End { at_ns, is_full } => {
            json!({ "kind": "end", "at_ns": at_ns, "is_full": is_full })
        }
    };
    value.to_string()
}

fn as_text(record: &Record) -> String {
    let at = |ns: &u64| humantime::format_duration(std::time::Duration::from_micros(ns / 1000));
    match record {
        Record::Host(host) => {
            format!("host {} of store {}, {}", host.name, host.store, host.detail)
        }
        Record::Process(process) => format!(
            "{}  process {} (pid {}, of {}) is {}",
            at(&process.at_ns),
            process.number,
            process.pid,
            process.parent_pid,
            text(&process.command).replace('\0', " ")
        ),
        Record::Ended { process, at_ns } => format!("{}  process {process} ends", at(at_ns)),
        Record::Directory { ino, path } => format!("directory {ino} is /{}", text(path)),
        Record::Open {
            handle, process, file, directory, name, access, size_bytes, at_ns, ..
        } => {
            format!(
                "{}  process {process} opens {directory}/{} (file {file}, {size_bytes} bytes) {} as {handle}",
                at(at_ns),
                text(name),
                access_in_words(*access)
            )
        }
        Record::Range(range) => format!(
            "{}  {handle} {verb} {bytes} bytes from {offset} on, {calls} requests",
            at(&range.began_ns),
            handle = range.handle,
            verb = if range.is_write { "writes" } else { "reads" },
            bytes = range.bytes,
            offset = range.offset,
            calls = range.calls,
        ),
        Record::Close { handle, size_bytes, at_ns, read, written } => format!(
            "{}  {handle} is closed at {size_bytes} bytes; read {} ({:?}), written {} ({:?})",
            at(at_ns),
            read.bytes,
            read.how,
            written.bytes,
            written.how
        ),
        Record::Name {
            process, change, directory, name, new_directory, new_name, at_ns, ..
        } => {
            format!(
                "{}  process {process} {change:?} {directory}/{} {}",
                at(at_ns),
                text(name),
                if new_name.is_empty() {
                    String::new()
                } else {
                    format!("to {new_directory}/{}", text(new_name))
                }
            )
        }
        Record::Lost { records } => format!("{records} records are left out"),
        Record::End { at_ns, is_full: false } => format!("{}  end", at(at_ns)),
        Record::End { at_ns, is_full: true } => format!("{}  the log is full", at(at_ns)),
    }
}

fn access_in_words(access: Access) -> String {
    let words = [
        (access.reads, "to read"),
        (access.writes, "to write"),
        (access.is_new, "new"),
        (access.truncates, "emptied"),
        (access.is_passthrough, "by the kernel"),
    ];
    let words: Vec<&str> = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    words.join(", ")
}
