//! Logs: one line per event on standard error, as text or JSON, filtered by `INTARSIA_LOG`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;
use crate::exit::{Failure, Outcome};
use crate::output;

/// What a node logs: our own events, and only the troubles of the libraries below. (`fuser` warns when it
/// finds at the end that its mount has gone already, which is how each of ours ends.)
pub(crate) const NODE_FILTER: &str = "warn,fuser=error,intarsia=info";

/// Starts logging; `default` is the filter when `INTARSIA_LOG` says nothing.
pub(crate) fn start(format: LogFormat, default: &str) -> Outcome {
    let text = std::env::var("INTARSIA_LOG").ok().filter(|t| !t.is_empty());
    let filter = EnvFilter::try_new(text.as_deref().unwrap_or(default)).map_err(|e| {
        Failure::usage(format!("INTARSIA_LOG: {e}"))
            .with_help("a level such as info or debug, or modules, as in intarsia_node=debug,warn")
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    let outcome = match format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => {
            builder.with_ansi(output::wants_colour(std::io::stderr().is_terminal())).try_init()
        }
    };
    outcome.map_err(|e| Failure::general(format!("logging: {e}")))
}
