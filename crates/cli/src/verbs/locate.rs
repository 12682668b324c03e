//! `locate`: where files lie, asked of the mount itself.

use std::path::Path;

use serde::Serialize;

use super::xattr;
use crate::cli;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

#[derive(Serialize)]
struct Located {
    file: String,
    /// The nodes that hold it, heaviest first.
    nodes: Vec<String>,
    layout: serde_json::Value,
}

pub(crate) fn run(arguments: &cli::Locate) -> Outcome<Exit> {
    let mut found = Vec::new();
    let mut first_failure: Option<Failure> = None;
    for file in &arguments.files {
        match locate(file) {
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
        output::data(&output::columns(&found.iter().map(row).collect::<Vec<_>>()))?;
    }
    Ok(first_failure.map_or(Exit::Ok, |f| f.exit))
}

fn locate(file: &Path) -> Outcome<Located> {
    xattr::require_store(file)?;
    let nodes = xattr::location(file)?.unwrap_or_default();
    let nodes = nodes.split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect();
    // The layout is JSON or a bare word.
    let layout = xattr::get(file, xattr::LAYOUT_NAME)?.map_or(serde_json::Value::Null, |text| {
        serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text))
    });
    Ok(Located { file: file.display().to_string(), nodes, layout })
}

fn row(located: &Located) -> Vec<String> {
    let layout = match &located.layout {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    vec![located.file.clone(), located.nodes.join(","), layout]
}
