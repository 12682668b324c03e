//! Whoever runs the store: empties hosts and keeps them after all, balances, moves files between tiers.

use std::time::Duration;

use intarsia_sync::{Instant, simulation};
use intarsia_types::{HintKey, NodeId, Result};

use crate::client::Program;
use crate::drawing::pick;
use crate::writers;

/// Does one thing after another, until `end`.
pub(crate) fn operate_until(program: &Program, hosts: &[NodeId], end: Instant) {
    while Instant::now() < end {
        program.rest(Duration::from_millis(500 + simulation::below(8_000)));
        if let Err(error) = operate_once(program, hosts) {
            tracing::debug!(%error, "an operator does not come to its end");
        }
    }
}

fn operate_once(program: &Program, hosts: &[NodeId]) -> Result<()> {
    let all: Vec<_> = hosts.iter().collect();
    let Some(host) = pick(&all) else { return Ok(()) };
    match simulation::below(5) {
        0 => program.balance(),
        1 => {
            program.empty_host(host)?;
            program.rest(Duration::from_millis(simulation::below(5_000)));
            program.keep_host(host)
        }
        2 => program.keep_host(host),
        _ => {
            let class = if simulation::below(2) == 0 { "memory" } else { "disk" };
            program.hint(&writers::any_file(), HintKey::Tier, class)
        }
    }
}
