//! Rules by which a store tells the files of a pattern from all others: by their names.

use std::collections::BTreeSet;

use intarsia_types::{HintKey, Rule};
use serde::Serialize;

use crate::configuration::PatternHints;
use crate::workload::{FilePattern, Workload};

/// A store looks at every rule for each new file; more than so many for a pattern are no help to it.
const MOST: usize = 16;

/// A rule for files of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedRule {
    /// `GLOB NAME=VALUE …`, as `intarsia up --rule` takes it.
    pub rule: String,
    /// The pattern of the files that it is for.
    pub pattern: FilePattern,
    /// How many files of the workload it is for.
    pub files: usize,
}

/// The rules for all patterns that have hints and whose names tell their files. What goes to a host by its reader is told by no
/// name.
pub(super) fn rules(workload: &Workload, hints: &PatternHints) -> Vec<NamedRule> {
    let of_pattern = |(_, pattern): (&str, FilePattern)| {
        let by_reader = (HintKey::Place, PatternHints::BY_READER);
        let is_by_name = !hints.of(pattern).any(|hint| hint == by_reader);
        let told = hints.in_words(pattern).filter(|_| is_by_name)?;
        rules_of(workload, pattern, &told, without_numbers)
            .or_else(|| rules_of(workload, pattern, &told, str::to_owned))
    };
    FilePattern::WORDS.into_iter().filter_map(of_pattern).flatten().collect()
}

/// None where a name cannot be written as a glob, a glob matches a file of another pattern, or there would be too many.
fn rules_of(
    workload: &Workload,
    pattern: FilePattern,
    told: &str,
    glob_of: fn(&str) -> String,
) -> Option<Vec<NamedRule>> {
    let names = || workload.files.iter().map(|file| last_name(&file.name)).enumerate();
    let is_of = |file: usize| workload.pattern_of(file) == pattern;
    let globs = names()
        .filter(|(file, _)| is_of(*file))
        .map(|(_, name)| is_plain(name).then(|| glob_of(name)));
    let globs = globs.collect::<Option<BTreeSet<String>>>().filter(|globs| globs.len() <= MOST)?;
    let rule = |glob: String| {
        let rule = format!("{glob} {told}");
        let one: Rule = rule.parse().ok()?;
        let matched: Vec<usize> =
            names().filter(|(_, name)| one.is_for(name)).map(|(file, _)| file).collect();
        let is_exact = matched.iter().all(|file| is_of(*file));
        is_exact.then_some(NamedRule { rule, pattern, files: matched.len() })
    };
    globs.into_iter().map(rule).collect()
}

fn last_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Whether a name has nothing that means something else in a glob or ends a word of a rule.
fn is_plain(name: &str) -> bool {
    const SPECIAL: &[char] = &['*', '?', '[', ']', '{', '}', '\\', '!', ','];
    !name.is_empty() && !name.contains(SPECIAL) && !name.contains(char::is_whitespace)
}

/// The name with `*` for each number in it.
fn without_numbers(name: &str) -> String {
    let mut glob = String::new();
    for letter in name.chars() {
        match letter {
            '0'..='9' if glob.ends_with('*') => {}
            '0'..='9' => glob.push('*'),
            other => glob.push(other),
        }
    }
    glob
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use intarsia_types::Hint;
    use serde_json::{Value, json};

    use super::*;

    /// Two tasks read each of the shared files, one reads each of the others.
    fn named(shared: &[&str], others: &[&str]) -> Vec<String> {
        let files = shared.iter().chain(others);
        let files: Vec<Value> =
            files.map(|name| json!({ "name": name, "size_bytes": 1 })).collect();
        let all = [shared, others].concat();
        let tasks = json!([
            { "name": "a", "reads": shared }, { "name": "b", "reads": all },
        ]);
        let text = json!({
            "format": "intarsia-workload", "version": 1, "files": files, "tasks": tasks,
        });
        let workload = Workload::parse("w.json", &text.to_string()).unwrap();
        let hint: Hint = "pattern=broadcast".parse().unwrap();
        let hints = PatternHints::default().with(FilePattern::Broadcast, &hint);
        rules(&workload, &hints).into_iter().map(|one| one.rule).collect()
    }

    #[test]
    fn names_become_globs_where_these_tell_the_files_from_all_others() {
        let rule = |glob: &str| format!("{glob} pattern=broadcast");
        assert_eq!(named(&["d/x1.idx", "d/x23.idx"], &["y.txt"]), [rule("x*.idx")]);
        // By their names, as numbers do not tell them.
        assert_eq!(named(&["x1", "x2"], &["x3"]), [rule("x1"), rule("x2")]);
        // Of one name in two directories one is shared.
        assert_eq!(named(&["a/x"], &["b/x"]), [""; 0]);
        assert_eq!(named(&["a b"], &[]), [""; 0]);
        let many: Vec<String> =
            (b'a'..=b'z').map(|letter| char::from(letter).to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(named(&many, &[]), [""; 0]);
    }
}
