//! Prints the tables on the rooms of the node: `rooms SRC`, or `rooms BEFORE AFTER` to compare two trees; and with
//! `rooms --upward SRC` each use that goes upwards.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "that is what it is for")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use intarsia_tidy::rooms::{self, Source};

fn main() -> ExitCode {
    let mut dirs: Vec<_> = std::env::args().skip(1).collect();
    if let [flag, src] = dirs.as_slice()
        && flag == "--upward"
    {
        for rooms::Use { from, to, file, what } in rooms::upward(&rooms::read(Path::new(src))) {
            println!("{from} → {to}: {what} ({})", file.display());
        }
        return ExitCode::SUCCESS;
    }
    dirs.retain(|dir| !dir.starts_with("--"));
    let trees: Vec<_> = dirs.iter().map(|dir| rooms::read(Path::new(dir))).collect();
    if trees.is_empty() || trees.len() > 2 {
        eprintln!(
            "usage: rooms [BEFORE] AFTER, or rooms --upward SRC, each a directory crates/node/src"
        );
        return ExitCode::FAILURE;
    }
    by_room(&trees);
    println!();
    overall(&trees);
    println!();
    locks(trees.last().map_or(&[], Vec::as_slice));
    ExitCode::SUCCESS
}

/// A value of each tree, `before → after`.
fn row(trees: &[Vec<Source>], value: impl Fn(&[Source]) -> String) -> String {
    let values: Vec<_> = trees.iter().map(|tree| value(tree)).collect();
    let is_same = values.windows(2).all(|pair| pair[0] == pair[1]);
    if is_same { values[0].clone() } else { values.join(" → ") }
}

fn by_room(trees: &[Vec<Source>]) {
    println!(
        "| room | files | lines | longest file | functions p90 | locks | threads | knows `Node` | upward uses |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for room in rooms::ORDER.iter().copied().flatten() {
        let of = |tree: &[Source], value: &dyn Fn(&[&Source]) -> String| {
            value(&tree.iter().filter(|source| source.room == *room).collect::<Vec<_>>())
        };
        let cell = |value: &dyn Fn(&[&Source]) -> String| row(trees, |tree| of(tree, value));
        let files = cell(&|own| own.len().to_string());
        let lines = cell(&|own| own.iter().map(|s| s.lines).sum::<usize>().to_string());
        let longest = cell(&|own| own.iter().map(|s| s.lines).max().unwrap_or(0).to_string());
        let p90 = cell(&|own| {
            let mut all: Vec<_> = own.iter().flat_map(|s| rooms::functions(&s.code)).collect();
            all.sort_unstable();
            rooms::ninth_decile(&all).to_string()
        });
        let locks =
            cell(&|own| own.iter().map(|s| rooms::locks(&s.code).len()).sum::<usize>().to_string());
        let threads = cell(&|own| {
            let names: BTreeSet<_> = own.iter().flat_map(|s| rooms::threads(&s.code)).collect();
            if names.is_empty() {
                "–".into()
            } else {
                names.into_iter().collect::<Vec<_>>().join(", ")
            }
        });
        let knows = row(trees, |tree| {
            if rooms::knowing_node(tree).contains(*room) { "yes".into() } else { "no".into() }
        });
        let upward = row(trees, |tree| {
            rooms::upward(tree).iter().filter(|found| found.from == *room).count().to_string()
        });
        println!(
            "| `{room}` | {files} | {lines} | {longest} | {p90} | {locks} | {threads} | {knows} | {upward} |"
        );
    }
}

/// Which locks there are, by room and file.
fn locks(tree: &[Source]) {
    println!("| room | locks |");
    println!("|---|---|");
    for room in rooms::ORDER.iter().copied().flatten() {
        let own = tree.iter().filter(|source| source.room == *room);
        let named: Vec<_> = own
            .filter_map(|source| {
                let locks = rooms::locks(&source.code);
                let file = source.path.file_stem()?.to_str()?;
                (!locks.is_empty()).then(|| format!("{file}: {}", locks.join(", ")))
            })
            .collect();
        if !named.is_empty() {
            println!("| `{room}` | {} |", named.join("; "));
        }
    }
}

/// A line of the table of the whole node.
fn print(trees: &[Vec<Source>], what: &str, value: impl Fn(&[Source]) -> String) {
    println!("| {what} | {} |", row(trees, value));
}

fn overall(trees: &[Vec<Source>]) {
    println!("| of the whole node | |");
    println!("|---|---|");
    sizes(trees);
    coupling(trees);
}

/// How large the node is, and its largest parts.
fn sizes(trees: &[Vec<Source>]) {
    print(trees, "files, lines", |tree| {
        format!("{}, {}", tree.len(), tree.iter().map(|s| s.lines).sum::<usize>())
    });
    print(trees, "longest file", |tree| {
        tree.iter().map(|s| s.lines).max().unwrap_or(0).to_string()
    });
    print(trees, "functions, p90 of their lines", |tree| {
        let mut all: Vec<_> = tree.iter().flat_map(|s| rooms::functions(&s.code)).collect();
        all.sort_unstable();
        format!("{}, {}", all.len(), rooms::ninth_decile(&all))
    });
    print(trees, "longest function", |tree| {
        let longest = rooms::longest_function(tree);
        longest.map_or_else(|| "–".into(), |(lines, name)| format!("`{name}` {lines}"))
    });
    print(trees, "fields of the largest structures", |tree| {
        let all = rooms::structures(tree);
        let first = all.iter().take(3).map(|one| format!("`{}` {}", one.name, one.fields));
        first.collect::<Vec<_>>().join(", ")
    });
    print(trees, "entry of a live inode: fields, flags of them", |tree| {
        let all = rooms::structures(tree);
        let entry = all.iter().find(|one| one.name == "inode::LiveState");
        entry.map_or_else(|| "–".into(), |one| format!("{}, {}", one.fields, one.flags))
    });
}

/// How much the rooms know of each other.
fn coupling(trees: &[Vec<Source>]) {
    print(trees, "blocks `impl Node`", |tree| {
        let blocks = tree.iter().flat_map(|s| s.code.lines());
        blocks.filter(|line| *line == "impl Node {").count().to_string()
    });
    print(trees, "rooms that know `Node`", |tree| rooms::knowing_node(tree).len().to_string());
    print(trees, "circles of rooms", |tree| rooms::circles(tree).len().to_string());
    print(trees, "rooms in the largest circle", |tree| {
        rooms::circles(tree).iter().map(BTreeSet::len).max().unwrap_or(0).to_string()
    });
    print(trees, "upward uses, of them of `Node` itself", |tree| {
        let all = rooms::upward(tree);
        let of_node = all.iter().filter(|found| found.what == "crate::node::Node").count();
        format!("{}, {of_node}", all.len())
    });
    let outside_body = |tree: &[Source], count: fn(&str) -> usize| {
        let outside = tree.iter().filter(|s| s.room != "body");
        outside.map(|s| count(&s.code)).sum::<usize>().to_string()
    };
    print(trees, "kinds of body named outside `body`", |tree| {
        outside_body(tree, rooms::kinds_of_body)
    });
    print(trees, "questions for the kind of a body outside `body`", |tree| {
        outside_body(tree, rooms::asks_for_kinds)
    });
}
