//! `locate`: where files lie, asked of the mount itself, or of its node where there are several.

use std::path::Path;

use intarsia_policy::{Span, Stripe};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{many, xattr};
use crate::cli;
use crate::control::Request;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

#[derive(Serialize)]
struct Located {
    file: String,
    /// The nodes that hold it, heaviest first.
    nodes: Vec<String>,
    layout: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunks: Option<Vec<Chunk>>,
}

/// What a node says of one file.
#[derive(Deserialize)]
struct Told {
    size_bytes: u64,
    layout: String,
    nodes: Vec<String>,
}

/// A run of bytes that lies on one host, or on each of several.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Chunk {
    offset_bytes: u64,
    len_bytes: u64,
    nodes: Vec<String>,
}

pub(crate) fn run(arguments: &cli::Locate) -> Outcome<Exit> {
    let mut found = Vec::new();
    let mut first_failure: Option<Failure> = None;
    let told = match arguments.files.as_slice() {
        [_] => vec![Value::Null],
        several => many::ask(several, |paths| Request::Locate { paths }),
    };
    for (file, answer) in arguments.files.iter().zip(told) {
        let located = match serde_json::from_value::<Option<Told>>(answer) {
            Ok(Some(told)) => Ok(told.of(file, arguments.chunks)),
            _ => locate(file, arguments.chunks),
        };
        match located {
            Ok(located) => found.push(located),
            Err(failure) => {
                output::failure(&failure);
                first_failure.get_or_insert(failure);
            }
        }
    }
    if arguments.json {
        output::json(&found)?;
    } else if !found.is_empty() {
        output::data(&output::columns(&found.iter().flat_map(rows).collect::<Vec<_>>()))?;
    }
    Ok(first_failure.map_or(Exit::Ok, |f| f.exit))
}

fn locate(file: &Path, wants_chunks: bool) -> Outcome<Located> {
    xattr::require_store(file)?;
    let nodes = xattr::location(file)?.unwrap_or_default();
    let nodes: Vec<_> = nodes.split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect();
    let Some(layout) = xattr::get(file, xattr::LAYOUT_NAME)? else {
        let file = file.display().to_string();
        return Ok(Located { file, nodes, layout: Value::Null, chunks: None });
    };
    let size_bytes = if wants_chunks {
        file.metadata().map_err(|e| Failure::io(file.display(), &e))?.len()
    } else {
        0
    };
    Ok(Told { size_bytes, layout, nodes }.of(file, wants_chunks))
}

impl Told {
    fn of(self, file: &Path, wants_chunks: bool) -> Located {
        let Self { size_bytes, layout, nodes } = self;
        let chunks = wants_chunks.then(|| chunks(&layout, &nodes, size_bytes));
        // The layout is JSON or a bare word.
        let layout = serde_json::from_str(&layout).unwrap_or(Value::String(layout));
        Located { file: file.display().to_string(), nodes, layout, chunks }
    }
}

/// The chunks of a file of `size_bytes`, in order. Of a file that is not dealt over hosts there is one, on all of `nodes`.
fn chunks(layout: &str, nodes: &[String], size_bytes: u64) -> Vec<Chunk> {
    let field = |name: &str| {
        let fields = layout.split(' ').filter_map(|field| field.split_once('='));
        fields.filter(|(known, _)| *known == name).map(|(_, value)| value).next()
    };
    let hosts: Vec<&str> =
        field("hosts").map(|hosts| hosts.split(',').collect()).unwrap_or_default();
    let chunk_bytes = field("chunk").and_then(|bytes| bytes.parse().ok());
    let stripe = chunk_bytes.and_then(|chunk_bytes| Stripe::new(hosts.len(), chunk_bytes));
    let Some(stripe) = stripe else {
        return vec![Chunk { offset_bytes: 0, len_bytes: size_bytes, nodes: nodes.to_vec() }];
    };
    let chunk = |Span { part, offset_bytes, len_bytes, .. }| Chunk {
        offset_bytes,
        len_bytes,
        nodes: vec![hosts[part].to_owned()],
    };
    stripe.spans(0..size_bytes).map(chunk).collect()
}

fn rows(located: &Located) -> Vec<Vec<String>> {
    if let Some(chunks) = &located.chunks {
        let row = |chunk: &Chunk| {
            let Chunk { offset_bytes, len_bytes, nodes } = chunk;
            vec![located.file.clone(), format!("{offset_bytes}+{len_bytes}"), nodes.join(",")]
        };
        return chunks.iter().map(row).collect();
    }
    let layout = match &located.layout {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    vec![vec![located.file.clone(), located.nodes.join(","), layout]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset_bytes: u64, len_bytes: u64, nodes: &[&str]) -> Chunk {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        Chunk { offset_bytes, len_bytes, nodes }
    }

    #[test]
    fn chunks_are_dealt_in_turn_and_the_last_one_is_what_is_left() {
        let layout = "striped parts=2 chunk=100 tiers=4,9 hosts=a,b";
        let nodes = ["a".to_owned(), "b".to_owned()];
        assert_eq!(
            chunks(layout, &nodes, 250),
            [chunk(0, 100, &["a"]), chunk(100, 100, &["b"]), chunk(200, 50, &["a"])]
        );
        assert_eq!(chunks(layout, &nodes, 0), []);
    }

    #[test]
    fn a_file_that_is_not_dealt_is_one_chunk_wherever_it_lies() {
        let nodes = ["a".to_owned(), "b".to_owned()];
        assert_eq!(chunks("replicated tier=3", &nodes, 7), [chunk(0, 7, &["a", "b"])]);
        assert_eq!(chunks("striped parts=2 chunk=0 hosts=a,b", &nodes, 7).len(), 1);
    }
}
