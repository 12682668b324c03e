//! Whoever runs the store: empties hosts and keeps them after all, balances, moves files between tiers.

use std::time::Duration;

use intarsia_sync::Instant;
use intarsia_types::{HintKey, NodeId, Result};

use crate::client::Program;
use crate::drawing::Draws;
use crate::writers;

/// One of them, at one host.
pub(crate) struct Operator {
    pub(crate) draws: Draws,
    /// All that there are.
    pub(crate) hosts: Vec<NodeId>,
}

impl Operator {
    /// Does one thing after another, until `end`.
    pub(crate) fn operate_until(mut self, program: &Program, end: Instant) {
        while Instant::now() < end {
            program.rest(Duration::from_millis(500 + self.draws.below(8_000)));
            if let Err(error) = self.operate_once(program) {
                tracing::debug!(%error, "an operator does not come to its end");
            }
        }
    }

    fn operate_once(&mut self, program: &Program) -> Result<()> {
        let draws = &mut self.draws;
        let all: Vec<_> = self.hosts.iter().collect();
        let Some(host) = draws.pick(&all) else { return Ok(()) };
        match draws.below(5) {
            0 => program.balance(),
            1 => {
                program.empty_host(host)?;
                program.rest(Duration::from_millis(draws.below(5_000)));
                program.keep_host(host)
            }
            2 => program.keep_host(host),
            _ => {
                let class = if draws.is_one_in(2) { "memory" } else { "disk" };
                program.hint(&writers::any_file(draws), HintKey::Tier, class)
            }
        }
    }
}
