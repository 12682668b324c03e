//! Where the machine's time went: node-nanoseconds by category, counted exactly.

use intarsia_des::Span;

/// What a node was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Work that was kept: a checkpoint was written after it, or the job has ended.
    Up,
    /// Writing a checkpoint that was completed.
    Checkpoint,
    /// Work that a failure threw away, with the checkpoint that it interrupted.
    Lost,
    /// Rebooting after a failure or after a job.
    Boot,
    /// Reading a checkpoint back.
    Restore,
    /// Waiting for a repair.
    Repair,
    /// Verifying that results are right, against silent errors.
    Verify,
    /// Work at the end of the simulation of which nobody knows whether it would have been kept.
    Unsettled,
    /// Nothing: no job held the node.
    Idle,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 9] = [
        Self::Up,
        Self::Checkpoint,
        Self::Lost,
        Self::Boot,
        Self::Restore,
        Self::Repair,
        Self::Verify,
        Self::Unsettled,
        Self::Idle,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Checkpoint => "checkpoint",
            Self::Lost => "lost",
            Self::Boot => "boot",
            Self::Restore => "restore",
            Self::Repair => "repair",
            Self::Verify => "verify",
            Self::Unsettled => "unsettled",
            Self::Idle => "idle",
        }
    }
}

/// Node-time by category, in node-nanoseconds. Whole numbers, so that nothing is lost however long
/// the simulation: all categories add up to nodes × horizon exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    spent: [u128; Category::ALL.len()],
}

impl Ledger {
    /// Counts `span` on each of `nodes` nodes.
    pub fn add(&mut self, category: Category, nodes: u32, span: Span) {
        self.spent[category as usize] += node_nanos(nodes, span);
    }

    /// Counts what was counted in one category in another one instead.
    pub fn transfer(&mut self, from: Category, to: Category, nodes: u32, span: Span) {
        let amount = node_nanos(nodes, span).min(self.spent[from as usize]);
        self.spent[from as usize] -= amount;
        self.spent[to as usize] += amount;
    }

    /// Node-nanoseconds of a category.
    #[must_use]
    pub fn node_nanos(&self, category: Category) -> u128 {
        self.spent[category as usize]
    }

    /// Node-nanoseconds of all categories.
    #[must_use]
    pub fn total(&self) -> u128 {
        self.spent.iter().sum()
    }

    /// Node-nanoseconds in which jobs held nodes and whose use is known: all but
    /// [`Category::Unsettled`] and [`Category::Idle`].
    #[must_use]
    pub fn settled(&self) -> u128 {
        let open = [Category::Unsettled, Category::Idle].map(|category| self.node_nanos(category));
        self.total() - open.iter().sum::<u128>()
    }

    /// The share of `category` in the settled time, zero when there is none. For [`Category::Up`]
    /// this is the published efficiency, `up / (up + checkpoint + lost + reboot)`, with the further
    /// categories added to the sum.
    #[must_use]
    pub fn share(&self, category: Category) -> f64 {
        ratio(self.node_nanos(category), self.settled())
    }
}

fn node_nanos(nodes: u32, span: Span) -> u128 {
    u128::from(nodes) * u128::from(span.as_nanos())
}

/// The quotient of two amounts of node-time, zero of nothing.
#[expect(clippy::cast_precision_loss, reason = "a ratio has the precision of a float")]
pub(super) fn ratio(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
