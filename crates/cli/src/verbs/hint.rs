//! `hint`: setting, showing, removing and explaining hints.

use std::path::{Path, PathBuf};

use intarsia_types::{Hint, HintKey, nearest};
use serde::Serialize;
use serde_json::json;

use super::{many, rule, xattr};
use crate::cli::{HintAction, HintGet, HintSet, Listing};
use crate::control::Request;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

pub(crate) fn run(action: &HintAction) -> Outcome<Exit> {
    match action {
        HintAction::Set(arguments) => set(arguments),
        HintAction::Get(arguments) => get(arguments),
        HintAction::Unset(arguments) => unset(arguments),
        HintAction::List(arguments) => list(arguments),
        HintAction::Rule(action) => rule::run(action),
    }
}

fn set(arguments: &HintSet) -> Outcome<Exit> {
    let (hints, files) = split(&arguments.words, is_assignment);
    let hints = hints.iter().map(|w| parse(w)).collect::<Outcome<Vec<Hint>>>()?;
    require_both(hints.is_empty(), &files, "NAME=VALUE")?;
    let tag = |file: &Path| {
        hints.iter().try_for_each(|hint| xattr::set(file, &hint.key().attribute(), hint.value()))
    };
    if arguments.dry_run {
        for_each(&files, |file| {
            let say = |hint| output::data(&format!("would set {hint} on {}", file.display()));
            hints.iter().try_for_each(say)
        })?;
    } else if let [file] = files.as_slice() {
        xattr::require_store(file)?;
        tag(file)?;
    } else {
        set_on_many(&hints, &files, tag)?;
    }
    warn_of_what_exists(&hints, &files);
    let is_shared = files.first().map_or(Ok(false), |file| xattr::is_shared(file))?;
    for hint in hints.iter().filter(|h| !h.key().is_acted_upon_as(h.value(), is_shared)) {
        output::warn(&format!("{hint} is stored, but not acted upon here{}", why(is_shared)));
    }
    Ok(Exit::Ok)
}

/// Asks the nodes for all files at once; what they cannot say is found out file by file. What is not in a store changes
/// nothing, however many others there are.
fn set_on_many(hints: &[Hint], files: &[PathBuf], tag: impl Fn(&Path) -> Outcome) -> Outcome {
    // An empty question is answered for what is there.
    let known = many::ask(files, |paths| Request::Locate { paths });
    let unknown = files.iter().zip(&known).filter(|(_, answer)| answer.is_null());
    unknown.map(|(file, _)| file).try_for_each(|file| xattr::require_store(file).map(|_| ()))?;
    let words: Vec<String> = hints.iter().map(ToString::to_string).collect();
    let told = many::ask(files, |paths| Request::Tag { hints: words.clone(), paths });
    let left = files.iter().zip(&told).filter(|(_, answer)| answer.as_u64() != Some(0));
    left.map(|(file, _)| file).try_for_each(|file| tag(file))
}

/// Says which hints come too late for a file that is there already.
fn warn_of_what_exists(hints: &[Hint], files: &[PathBuf]) {
    let late: Vec<String> =
        hints.iter().filter(|h| acts_at_birth(h.key())).map(ToString::to_string).collect();
    if late.is_empty() {
        return;
    }
    // What is written later goes where the hints say.
    let is_late = |meta: &std::fs::Metadata| meta.is_file() && meta.len() > 0;
    let has_bytes = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|meta| is_late(&meta));
    let mut late_for = files.iter().filter(has_bytes);
    let Some(first) = late_for.next() else { return };
    let which = match late_for.count() {
        0 => format!("{}, which exists", first.display()),
        more => {
            format!("{} and {} more, which exist", first.display(), output::count(more, "file"))
        }
    };
    output::warn(&format!(
        "{} has no effect on {which}: set it on a directory, and what is made there from then on has it",
        late.join(" "),
    ));
}

/// Whether a hint says where the bytes of a new file go: files do not move.
const fn acts_at_birth(key: HintKey) -> bool {
    matches!(key, HintKey::Place | HintKey::Chunk | HintKey::Tier)
}

/// Why a hint is not acted upon, where that may change.
pub(super) const fn why(is_shared: bool) -> &'static str {
    if is_shared { "" } else { " (a store of one host)" }
}

fn unset(arguments: &HintSet) -> Outcome<Exit> {
    let (names, files) = split(&arguments.words, |w| w.parse::<HintKey>().is_ok());
    if let (true, Some(first)) = (names.is_empty(), files.first()) {
        parse_key(&first.to_string_lossy())?;
    }
    require_both(names.is_empty(), &files, "NAME")?;
    let keys = names.iter().map(|n| parse_key(n)).collect::<Outcome<Vec<_>>>()?;
    for_each(&files, |file| {
        for key in &keys {
            if arguments.dry_run {
                output::data(&format!("would remove {key} from {}", file.display()))?;
            } else {
                xattr::remove(file, &key.attribute())?;
            }
        }
        Ok(())
    })?;
    Ok(Exit::Ok)
}

/// Every path is looked at before the first is changed, so that a mistake changes nothing.
fn for_each(files: &[PathBuf], change: impl Fn(&Path) -> Outcome) -> Outcome {
    for file in files {
        xattr::require_store(file)?;
    }
    files.iter().try_for_each(|f| change(f))
}

/// The leading words that are hints, and the files after them.
fn split(words: &[String], is_hint: impl Fn(&str) -> bool) -> (Vec<String>, Vec<PathBuf>) {
    let count = words.iter().take_while(|w| is_hint(w)).count();
    let (hints, files) = words.split_at(count);
    (hints.to_vec(), files.iter().map(PathBuf::from).collect())
}

/// Of the form `name=value` with a plain name; a path such as `./a=b` is none.
fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic()))
}

fn parse(word: &str) -> Outcome<Hint> {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    parse_key(name)?;
    word.parse().map_err(|e: intarsia_types::HintError| Failure::usage(e.to_string()))
}

fn parse_key(name: &str) -> Outcome<HintKey> {
    name.parse().map_err(|e: intarsia_types::HintError| {
        let failure = Failure::usage(e.to_string());
        match nearest(name, HintKey::ALL.iter().map(|k| k.name())) {
            Some(near) => failure.with_help(format!("did you mean '{near}'?")),
            None => failure,
        }
    })
}

fn require_both(no_hints: bool, files: &[PathBuf], what: &str) -> Outcome {
    if no_hints {
        return Err(Failure::usage(format!(
            "no hint was given before the files; write {what} FILE"
        ))
        .with_help("such as: intarsia hint set tier=memory /mnt/work/tmp"));
    }
    if files.is_empty() {
        return Err(Failure::usage("no file was given after the hints")
            .with_help("such as: intarsia hint set tier=memory /mnt/work/tmp"));
    }
    Ok(())
}

fn get(arguments: &HintGet) -> Outcome<Exit> {
    let mut all = Vec::new();
    for file in &arguments.files {
        xattr::require_store(file)?;
        all.push((file, hints_of(file)?));
    }
    if arguments.json {
        let entry = |(file, hints): &(&PathBuf, Vec<(HintKey, String)>)| {
            let hints: serde_json::Map<_, _> =
                hints.iter().map(|(k, v)| (k.name().to_owned(), v.clone().into())).collect();
            json!({ "file": file.display().to_string(), "hints": hints })
        };
        output::json(&all.iter().map(entry).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    for (file, hints) in &all {
        let is_shared = xattr::is_shared(file)?;
        for (key, value) in hints {
            let prefix =
                if all.len() > 1 { format!("{}: ", file.display()) } else { String::new() };
            let note =
                if key.is_acted_upon_as(value, is_shared) { "" } else { "  (not acted upon here)" };
            output::data(&format!("{prefix}{key}={value}{note}"))?;
        }
        if hints.is_empty() {
            output::message(&format!("{}: no hints", file.display()));
        }
    }
    Ok(Exit::Ok)
}

fn hints_of(file: &Path) -> Outcome<Vec<(HintKey, String)>> {
    let mut hints = Vec::new();
    for key in HintKey::ALL {
        if let Some(value) = xattr::get(file, &key.attribute())? {
            hints.push((key, value));
        }
    }
    Ok(hints)
}

#[derive(Serialize)]
struct Explained {
    name: &'static str,
    values: &'static str,
    meaning: &'static str,
    acted_upon_here: bool,
    acted_upon_by_several_hosts: bool,
}

fn list(arguments: &Listing) -> Outcome<Exit> {
    let explained: Vec<Explained> = HintKey::ALL
        .into_iter()
        .map(|key| Explained {
            name: key.name(),
            values: key.expects(),
            meaning: meaning(key),
            acted_upon_here: key.acted_upon_on_one_host(),
            acted_upon_by_several_hosts: key.is_acted_upon(true),
        })
        .collect();
    if arguments.json {
        output::json(&explained)?;
        return Ok(Exit::Ok);
    }
    let style = output::Style::of_stdout();
    let entry = |e: &Explained| {
        let here = match (e.acted_upon_here, e.acted_upon_by_several_hosts) {
            (true, _) => "acted upon",
            (false, true) => "acted upon by a store of several hosts",
            (false, false) => "not acted upon here",
        };
        format!("{} — {} ({here})\n    {}\n", style.bold(e.name), e.meaning, e.values)
    };
    output::data(&explained.iter().map(entry).collect::<String>())?;
    Ok(Exit::Ok)
}

/// What a hint tells the store.
const fn meaning(key: HintKey) -> &'static str {
    match key {
        HintKey::Place => "on which hosts the bytes are to lie",
        HintKey::Tier => "in which class of tier the bytes are to lie",
        HintKey::Replicas => "how many copies there are to be",
        HintKey::Chunk => "how long the pieces of a striped file are",
        HintKey::Erasure => "K data and M parity pieces instead of copies",
        HintKey::Compress => "whether and how the bytes are compressed",
        HintKey::Dedup => "whether equal pieces are kept once",
        HintKey::Cache => "whether the kernel keeps the pages after close",
        HintKey::Pattern => "how the workflow uses the file",
        HintKey::Lifetime => "how long the content matters",
        HintKey::Close => "whether close waits for what the store promises",
        HintKey::Integrity => "whether every read is verified",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_come_before_files() {
        let words: Vec<String> =
            ["tier=memory", "close=fast", "./a=b", "c"].iter().map(|w| (*w).to_owned()).collect();
        let (hints, files) = split(&words, is_assignment);
        assert_eq!(hints, ["tier=memory", "close=fast"]);
        assert_eq!(files, [PathBuf::from("./a=b"), PathBuf::from("c")]);
    }

    #[test]
    fn a_typing_error_is_recognised() {
        let failure = parse("teir=memory").unwrap_err();
        assert_eq!(failure.help.as_deref(), Some("did you mean 'tier'?"));
        assert!(parse("tier=tape").unwrap_err().message.contains("memory, ssd or disk"));
    }
}
