//! Writing for people and for programs: data to standard output, messages to standard error.

use std::io::{IsTerminal, Write};

use serde::Serialize;

use crate::exit::{Failure, Outcome};

/// Colours of a stream, empty when nobody would see them.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    is_coloured: bool,
}

impl Style {
    pub(crate) fn of_stdout() -> Self {
        Self { is_coloured: wants_colour(std::io::stdout().is_terminal()) }
    }

    pub(crate) fn of_stderr() -> Self {
        Self { is_coloured: wants_colour(std::io::stderr().is_terminal()) }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.is_coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn warning(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("31;1", text)
    }
}

/// NO_COLOR counts when it is set and not empty (no-color.org).
pub(crate) fn wants_colour(is_terminal: bool) -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
    is_terminal && !is_refused && !is_dumb
}

/// Writes data. A reader that has gone away (`| head`) is no failure.
pub(crate) fn data(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| match text.ends_with('\n') {
        true => out.flush(),
        false => out.write_all(b"\n").and_then(|()| out.flush()),
    });
    match written {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::io("standard output", &e))
        }
        _ => Ok(()),
    }
}

/// Writes a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::general(format!("cannot write as JSON: {e}")))?;
    data(&text)
}

/// Writes a message for people.
pub(crate) fn message(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes a warning.
pub(crate) fn warn(text: &str) {
    message(&format!("{} {text}", Style::of_stderr().warning("warning:")));
}

/// Writes a failure and what to do about it.
pub(crate) fn failure(failure: &Failure) {
    message(&format!("{} {}", Style::of_stderr().bad("error:"), failure.message));
    if let Some(help) = &failure.help {
        message(&format!("{} {help}", Style::of_stderr().bold("help:")));
    }
}

/// Lays rows out in columns; the last column is not padded.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number with its noun: `1 rule`, `2 rules`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Quotes a text for `eval` in a POSIX shell.
pub(crate) fn shell_quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_line_up() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        assert_eq!(columns(&[row("a", "1"), row("long", "2")]), "a     1\nlong  2\n");
    }

    proptest! {
        #[test]
        fn a_shell_reads_back_what_was_quoted(text in "[^\\x00\\r]{0,12}") {
            let script = format!("printf %s {}", shell_quoted(&text));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
