//! Moves of files that whoever runs the store asks for.

use intarsia_policy::{Speeds, Transfer};
use intarsia_types::{NodeId, Result};

use super::Node;
use crate::rebalance::mover::{MoveOptions, MoveProgress, MoveReport, Moved};

impl Node {
    /// Moves all files of `host` to the other hosts, and has it leave the store when it is taken down after
    /// that. What could not move is in the report; asking again goes on. A host that is lost is forgotten at
    /// once, if there is no file that only it had.
    ///
    /// # Errors
    /// [`Error::NoSpace`](intarsia_types::Error::NoSpace) when the others have no room,
    /// [`Error::Busy`](intarsia_types::Error::Busy) for a host that is down, or lost with files; the engine's own.
    pub fn empty_host(
        &self,
        host: &NodeId,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        self.mover.empty_host(host, options, progress)
    }

    /// Takes back that a host is to leave.
    ///
    /// # Errors
    /// [`Error::Invalid`](intarsia_types::Error::Invalid) for an unknown host, else the engine's own.
    pub fn keep_host(&self, host: &NodeId) -> Result<()> {
        self.mover.keep_host(host)
    }

    /// What would have to move so that all hosts are used to the same part, or as much as they are fast.
    ///
    /// # Errors
    /// [`Error::NotSupported`](intarsia_types::Error::NotSupported) in a store of one host,
    /// [`Error::Invalid`](intarsia_types::Error::Invalid) for speeds that are not those of its hosts.
    pub fn plan_balance(&self, speeds: &Speeds) -> Result<Vec<Transfer>> {
        self.mover.plan_balance(speeds)
    }

    /// Moves files from hosts that have more than they are due to hosts that have less; see [`Self::plan_balance`].
    ///
    /// # Errors
    /// Those of the plan and the engine's own; what could not move is in the report.
    pub fn balance(
        &self,
        speeds: &Speeds,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        self.mover.balance(speeds, options, progress)
    }

    /// Moves files back that have moved, if they are where they went.
    ///
    /// # Errors
    /// The engine's own; what could not move is in the report.
    pub fn move_back(
        &self,
        moved: &[Moved],
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        self.mover.move_back(moved, options, progress)
    }

    /// What would have to move between the tiers of this host so that they hold as much as they are fast. A tier is named
    /// by its directory.
    ///
    /// # Errors
    /// [`Error::Invalid`](intarsia_types::Error::Invalid) for speeds that are not those of the tiers here, or of none.
    pub fn plan_tiers(&self, speeds: &Speeds<String>) -> Result<Vec<Transfer<String>>> {
        self.mover.plan_tiers(speeds)
    }

    /// Moves files from tiers that hold more than they are due to those that hold less; see [`Self::plan_tiers`].
    ///
    /// # Errors
    /// Those of the plan and the engine's own; what could not move is in the report.
    pub fn balance_tiers(
        &self,
        speeds: &Speeds<String>,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        self.mover.balance_tiers(speeds, options, progress)
    }
}
