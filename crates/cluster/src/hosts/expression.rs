//! Host expressions as Slurm writes them: `n[1-3,7],gpu[01-02]-ib,login`.
//!
//! Zeros at the left of a range's first number set the width of all its numbers. Several brackets
//! in one name are combined, the last counting fastest.

use std::iter::Peekable;
use std::str::Chars;

use super::MAX_HOSTS;

/// Longest host name (RFC 1123).
const MAX_NAME_BYTES: usize = 253;
/// Longest number of a range in digits, so that it fits 64 bits.
const MAX_DIGITS: usize = 18;

/// A host name and the column at which its expression begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) column: usize,
}

/// What is wrong with an expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) column: usize,
    pub(super) what: String,
    pub(super) fix: &'static str,
}

/// The names of an expression, in its order; no more than `limit`.
pub(super) fn expand(text: &str, limit: usize) -> Result<Vec<Found>, Fault> {
    let mut cursor = Cursor { rest: text.chars().peekable(), column: 1 };
    let mut found = Vec::new();
    loop {
        let column = cursor.column;
        let names = item(&mut cursor, limit.saturating_sub(found.len()))?;
        found.extend(names.into_iter().map(|name| Found { name, column }));
        // An item ends at a comma or at the end of the text.
        if cursor.take().is_none() {
            return Ok(found);
        }
    }
}

struct Cursor<'a> {
    rest: Peekable<Chars<'a>>,
    column: usize,
}

impl Cursor<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn take(&mut self) -> Option<char> {
        self.column += 1;
        self.rest.next()
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(c) = self.rest.next_if(|&c| accept(c)) {
            self.column += 1;
            text.push(c);
        }
        text
    }

    fn fault(&self, what: impl Into<String>, fix: &'static str) -> Fault {
        Fault { column: self.column, what: what.into(), fix }
    }
}

/// One name with its brackets.
fn item(cursor: &mut Cursor<'_>, limit: usize) -> Result<Vec<String>, Fault> {
    let start = cursor.column;
    let mut names = vec![String::new()];
    loop {
        match cursor.peek() {
            None | Some(',') => break,
            Some('[') => {
                let numbers = ranges(cursor, limit)?;
                if names.len().saturating_mul(numbers.len()) > limit {
                    return Err(too_many(start));
                }
                names = combine(&names, &numbers);
            }
            Some(c) if is_name_char(c) => {
                let literal = cursor.take_while(is_name_char);
                names.iter_mut().for_each(|n| n.push_str(&literal));
            }
            Some(c) => return Err(unexpected(cursor, c)),
        }
    }
    if names.len() > limit {
        return Err(too_many(start));
    }
    names.iter().try_for_each(|name| check_name(name, start))?;
    Ok(names)
}

const fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn unexpected(cursor: &Cursor<'_>, c: char) -> Fault {
    match c {
        ' ' | '\t' => cursor.fault(
            "white space after a host",
            "write one host name or expression a line, or separate them by commas alone",
        ),
        ']' => cursor.fault("']' without '['", "write ranges as in n[1-3,7]"),
        ':' => cursor.fault(
            "':' after a host",
            "leave port and slots away: there is one node per host, and the ports are chosen",
        ),
        other => cursor.fault(
            format!("{other:?} in a host name"),
            "use letters, digits, '-', '_' and '.', and brackets for ranges",
        ),
    }
}

fn too_many(column: usize) -> Fault {
    Fault { column, what: format!("more than {MAX_HOSTS} hosts"), fix: "make the range smaller" }
}

/// A name goes into command lines, so it must not look like an option.
fn check_name(name: &str, column: usize) -> Result<(), Fault> {
    let fault = |what: String, fix| Err(Fault { column, what, fix });
    let Some(first) = name.chars().next() else {
        return fault("a host name is missing".into(), "remove the comma that is too many");
    };
    if !first.is_ascii_alphanumeric() {
        return fault(
            format!("host name '{name}' begins with '{first}'"),
            "begin it with a letter or digit",
        );
    }
    if name.len() > MAX_NAME_BYTES {
        return fault(format!("a host name of {} bytes", name.len()), "use no more than 253 bytes");
    }
    Ok(())
}

/// `[1-3,7]`: the numbers as texts, zeros at the left kept.
fn ranges(cursor: &mut Cursor<'_>, limit: usize) -> Result<Vec<String>, Fault> {
    cursor.take();
    let mut numbers = Vec::new();
    loop {
        range(cursor, limit, &mut numbers)?;
        match cursor.peek() {
            Some(']') => {
                cursor.take();
                return Ok(numbers);
            }
            Some(',') => {
                cursor.take();
            }
            _ => return Err(cursor.fault("no ']' after the range", "write ranges as in n[1-3,7]")),
        }
    }
}

fn range(cursor: &mut Cursor<'_>, limit: usize, numbers: &mut Vec<String>) -> Result<(), Fault> {
    let column = cursor.column;
    let (first, low) = number(cursor)?;
    if cursor.peek() != Some('-') {
        numbers.push(first);
        return if numbers.len() > limit { Err(too_many(column)) } else { Ok(()) };
    }
    cursor.take();
    let (last, high) = number(cursor)?;
    let fault = |what, fix| Err(Fault { column, what, fix });
    if high < low {
        return fault(
            format!("range {first}-{last} runs backwards"),
            "write the smaller number first",
        );
    }
    if last.starts_with('0') && last.len() != first.len() {
        return fault(
            format!("range {first}-{last}: the numbers differ in their zeros"),
            "give both the same number of digits",
        );
    }
    let room = limit.saturating_sub(numbers.len());
    if usize::try_from(high - low).map_or(true, |steps| steps >= room) {
        return Err(too_many(column));
    }
    let width = if first.starts_with('0') { first.len() } else { 1 };
    numbers.extend((low..=high).map(|n| format!("{n:0width$}")));
    Ok(())
}

fn number(cursor: &mut Cursor<'_>) -> Result<(String, u64), Fault> {
    let column = cursor.column;
    let digits = cursor.take_while(|c| c.is_ascii_digit());
    let fault = |what: String, fix| Fault { column, what, fix };
    if digits.is_empty() {
        return Err(fault("a number is missing".into(), "write ranges as in n[1-3,7]"));
    }
    if digits.len() > MAX_DIGITS {
        return Err(fault(format!("a number of {} digits", digits.len()), "use no more than 18"));
    }
    let value = digits
        .parse()
        .map_err(|_| fault(format!("'{digits}' is no number"), "write ranges as in n[1-3,7]"))?;
    Ok((digits, value))
}

fn combine(names: &[String], numbers: &[String]) -> Vec<String> {
    names.iter().flat_map(|name| numbers.iter().map(move |n| format!("{name}{n}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Result<Vec<String>, Fault> {
        Ok(expand(text, MAX_HOSTS)?.into_iter().map(|f| f.name).collect())
    }

    #[test]
    fn expands_as_slurm_does() {
        for (text, expected) in [
            ("a", "a"),
            ("a,b.c,d-e_f", "a b.c d-e_f"),
            ("n[1-3,7],gpu[01-02]-ib", "n1 n2 n3 n7 gpu01-ib gpu02-ib"),
            ("n[8-11]", "n8 n9 n10 n11"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[098-100]", "n098 n099 n100"),
            ("n[5]", "n5"),
            ("n[007]", "n007"),
            ("n[1,03,2]", "n1 n03 n2"),
            ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
            ("r[1-2]n[01,2]x", "r1n01x r1n2x r2n01x r2n2x"),
            ("10.0.0.[1-2]", "10.0.0.1 10.0.0.2"),
        ] {
            let expected: Vec<&str> = expected.split(' ').collect();
            assert_eq!(names(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn refuses_with_the_column() {
        for (text, column) in [
            ("", 1),
            ("a,", 3),
            (",a", 1),
            ("a,,b", 3),
            ("n[", 3),
            ("n[1", 4),
            ("n[1-", 5),
            ("n[1-]", 5),
            ("n[-1]", 3),
            ("n[1-2", 6),
            ("n[]", 3),
            ("n]1", 2),
            ("n[2-1]", 3),
            ("n[1-010]", 3),
            ("n[1-3][", 8),
            ("n[1,,2]", 5),
            ("a b", 2),
            ("-oProxyCommand=x", 15),
            ("a,-b", 3),
            ("[1-2]-,ä", 8),
            ("n[1-99999999999]", 3),
            ("n[1-1000]m[1-1000]", 1),
            ("n[1-9999999999999999999]", 5),
            ("n:22", 2),
        ] {
            let fault = names(text).expect_err(text);
            assert_eq!(fault.column, column, "{text}: {fault:?}");
        }
    }

    #[test]
    fn a_name_is_never_taken_for_an_option() {
        assert!(names("-l").is_err());
        assert!(names("a,-oX").is_err());
        assert!(names(".x").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_gives_plain_names(text in "[a-z0-9,\\[\\]. -]{0,40}") {
            if let Ok(names) = names(&text) {
                prop_assert!(!names.is_empty());
                for name in names {
                    prop_assert!(name.chars().all(is_name_char) && !name.starts_with('-'));
                }
            }
        }

        #[test]
        fn plain_names_are_their_own_expression(list in proptest::collection::vec("[a-z][a-z0-9-]{0,8}", 1..20)) {
            prop_assert_eq!(names(&list.join(",")).unwrap(), list);
        }

        #[test]
        fn a_range_has_all_its_numbers(low in 0u64..2000, steps in 0u64..300, width in 1usize..6) {
            let text = format!("n[{low:0width$}-{:0width$}]", low + steps);
            if let Ok(names) = names(&text) {
                let expected: Vec<String> = (low..=low + steps).map(|n| format!("n{n:0width$}")).collect();
                prop_assert_eq!(names, expected, "{}", text);
            } else {
                prop_assert!(false, "{} was refused", text);
            }
        }
    }
}
