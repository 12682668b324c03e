//! What the nodes do: one program of steps that all follow, as MPI programs do.

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Names of the phases that the steps belong to.
    pub phases: Vec<String>,
    /// Whether all nodes make their files in one directory.
    pub is_directory_shared: bool,
}

/// An operation, repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// What is done.
    pub operation: Operation,
    /// How many times; for metadata each time on another of the node's files.
    pub repeat: u32,
    /// Index of its phase.
    pub phase: usize,
    /// Whether all nodes wait for each other before each repetition.
    pub is_collective: bool,
    /// Whether only the first node does it.
    pub is_leader_only: bool,
    /// Whether it is on the one file of all, and not on a file of the node's own.
    pub is_file_shared: bool,
}

/// Something that a node can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Something with a record.
    Metadata(MetadataKind),
    /// Writes the next `bytes` of its file.
    Write {
        /// Bytes of one call.
        bytes: u32,
    },
    /// Reads the next `bytes` of a file.
    Read {
        /// Bytes of one call.
        bytes: u32,
        /// Who wrote them.
        from: Partner,
    },
    /// Sends a message past the file system, to study the network.
    Exchange {
        /// Its size.
        bytes: u32,
        /// To whom.
        to: Partner,
    },
    /// Waits for all others.
    Barrier,
}

impl Operation {
    /// Bytes of file data that it moves.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Write { bytes } | Self::Read { bytes, .. } | Self::Exchange { bytes, .. } => {
                bytes
            }
            Self::Metadata(_) | Self::Barrier => 0,
        }
    }
}

/// What is done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataKind {
    /// Inserts it, and its name into the directory.
    Create,
    /// Reads it.
    Stat,
    /// Reads it before reading the file, or marks it before writing.
    Open,
    /// Changes it after writing: size, times, place.
    Close,
    /// Removes it, and its name from the directory.
    Remove,
}

/// Another node, or the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// The node itself.
    Own,
    /// The next one.
    Neighbour,
    /// The one half-way round.
    Opposite,
    /// The same random one each time, a different one for each node.
    Permutation,
    /// A random one each time.
    Random,
}

impl Workload {
    /// A program without steps.
    pub fn new(is_directory_shared: bool) -> Self {
        Self { steps: Vec::new(), phases: Vec::new(), is_directory_shared }
    }

    /// Adds a step that belongs to the phase of this name.
    pub fn push(&mut self, phase: &str, step: Step) {
        let known = self.phases.iter().position(|name| name == phase);
        let phase = known.unwrap_or_else(|| {
            self.phases.push(phase.to_owned());
            self.phases.len() - 1
        });
        self.steps.push(Step { phase, ..step });
    }

    /// How many operations `nodes` nodes complete.
    pub fn operations(&self, nodes: u32) -> u64 {
        let of = |step: &Step| {
            let actors = if step.is_leader_only { 1 } else { u64::from(nodes) };
            actors * u64::from(step.repeat)
        };
        self.steps.iter().filter(|s| s.operation != Operation::Barrier).map(of).sum()
    }
}

impl Step {
    /// An operation of every node on its own files, done once.
    pub fn each(operation: Operation) -> Self {
        Self {
            operation,
            repeat: 1,
            phase: 0,
            is_collective: operation == Operation::Barrier,
            is_leader_only: false,
            is_file_shared: false,
        }
    }

    /// An operation of the first node on the shared file.
    pub fn leader(operation: Operation) -> Self {
        Self { is_leader_only: true, is_file_shared: true, ..Self::each(operation) }
    }

    /// The same, `repeat` times.
    #[must_use]
    pub fn times(self, repeat: u32) -> Self {
        Self { repeat, ..self }
    }

    /// The same, after a barrier each time.
    #[must_use]
    pub fn collective(self) -> Self {
        Self { is_collective: true, ..self }
    }

    /// The same on the one file of all.
    #[must_use]
    pub fn on_shared_file(self, is_file_shared: bool) -> Self {
        Self { is_file_shared, ..self }
    }
}

/// Sizes of an IOR-like job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ior {
    /// Bytes of one call.
    pub transfer_bytes: u32,
    /// Calls of each node in each direction.
    pub transfers: u32,
    /// Whether the nodes share one file.
    pub is_file_shared: bool,
    /// Whether every node publishes where its part of the shared file lies when it closes it.
    pub publishes_extents: bool,
    /// Whose part each node reads.
    pub from: Partner,
}

impl Ior {
    /// Collective writes, close, reopen, collective reads, close.
    ///
    /// With a shared file, the first node alone creates, opens and closes it and the others wait for
    /// it, as MPI-IO does in collective opens. Where data stays with its writer, the parts of
    /// a shared file are extents; each node publishes its own in the file's extent map, which is
    /// spread over the metadata services like records of files.
    pub fn workload(&self) -> Workload {
        use MetadataKind::{Close, Create, Open};
        let mut workload = Workload::new(false);
        let record = |kind| match self.is_file_shared {
            true => Step::leader(Operation::Metadata(kind)),
            false => Step::each(Operation::Metadata(kind)),
        };
        let close = match self.publishes_extents && self.is_file_shared {
            true => Step::each(Operation::Metadata(Close)),
            false => record(Close),
        };
        let data = |operation| {
            Step::each(operation)
                .times(self.transfers)
                .collective()
                .on_shared_file(self.is_file_shared)
        };
        let bytes = self.transfer_bytes;
        workload.push("create", record(Create));
        workload.push("write", data(Operation::Write { bytes }));
        workload.push("write_close", close);
        workload.push("open", Step::each(Operation::Barrier));
        workload.push("open", record(Open));
        workload.push("read", data(Operation::Read { bytes, from: self.from }));
        workload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ior_job_moves_what_it_says() {
        let ior = Ior {
            transfer_bytes: 4 << 20,
            transfers: 16,
            is_file_shared: true,
            publishes_extents: true,
            from: Partner::Own,
        };
        let workload = ior.workload();
        assert_eq!(workload.phases, ["create", "write", "write_close", "open", "read"]);
        // Of 10 nodes: one creates and opens, each writes 16, closes, reads 16.
        assert_eq!(workload.operations(10), 1 + 160 + 10 + 1 + 160);
    }
}
