//! What is broken.

use clap::ValueEnum;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// `kill -9` of a node.
    KillNode,
    /// `kill -9` of a primary of the metadata servers.
    KillPrimary,
    /// Both on one host, and its other servers.
    KillHost,
    /// A link that is down for seconds.
    CutBriefly,
    /// A link that stays down until the others have made up for the host.
    CutForGood,
    /// A host whose disk is full.
    FullHost,
    /// A host whose packets are late.
    SlowHost,
    /// A host that loses its power, and what it had not written to its disk.
    PowerLoss,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::KillNode,
        Self::KillPrimary,
        Self::KillHost,
        Self::CutBriefly,
        Self::CutForGood,
        Self::FullHost,
        Self::SlowHost,
        Self::PowerLoss,
    ];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The host that is always the one, where it needs a disk of its own.
    pub(crate) const fn host(self) -> Option<usize> {
        match self {
            Self::FullHost | Self::PowerLoss => Some(2),
            _ => None,
        }
    }
}
