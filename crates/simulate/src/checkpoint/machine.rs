//! The machine: `[machine]`.

use intarsia_des::Span;

use crate::scenario::{Problem, Section};

/// The largest machine: more nodes than anybody has thought of.
const MOST_NODES: u64 = 1 << 30;

/// A machine of equal nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Machine {
    /// How many nodes there are.
    pub(super) nodes: u32,
    /// What a checkpoint of one node holds.
    pub(super) memory_per_node_bytes: f64,
    /// How long a reboot takes.
    pub(super) reboot: Span,
    /// Further nodes, kept ready to take the place of failed ones.
    pub(super) spares: u32,
}

impl Machine {
    /// Reads the section.
    pub(super) fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        let nodes = section.integer("nodes").at_least(1).at_most(MOST_NODES).required()?;
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        let memory = section.bytes("memory_per_node").not_negative().or("0 B")?;
        // Beyond this many nodes the memory of each grows in proportion to their number, as in the
        // published model: 2 GB up to 64 Ki nodes, 32 GB at a million.
        let grows_beyond = section.integer("memory_grows_beyond").at_least(1).optional()?;
        #[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
        let growth = grows_beyond.map_or(1.0, |limit| (f64::from(nodes) / limit as f64).max(1.0));
        Ok(Self {
            nodes,
            memory_per_node_bytes: memory * growth,
            reboot: read_reboot(section, nodes)?,
            spares: u32::try_from(section.integer("spares").at_most(MOST_NODES).or(0)?)
                .unwrap_or(u32::MAX),
        })
    }
}

/// `reboot` + nodes × `reboot_per_node`, rounded up to a multiple of `reboot_step`.
fn read_reboot(section: &mut Section<'_>, nodes: u32) -> Result<Span, Problem> {
    let fixed = section.seconds("reboot").not_negative().or("0 s")?;
    let per_node = section.seconds("reboot_per_node").not_negative().optional()?;
    let step = section.seconds("reboot_step").positive().optional()?;
    let seconds = fixed + f64::from(nodes) * per_node.unwrap_or(0.0);
    Ok(Span::from_secs_f64(step.map_or(seconds, |step| (seconds / step).ceil() * step)))
}
