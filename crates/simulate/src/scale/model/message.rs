//! What goes over the network.

/// A request or its answer.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Bytes of file data that are asked for or carried.
    pub(super) bytes: u32,
    pub(super) content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Create,
    Lookup,
    Update,
    Remove,
    Append,
    Write,
    Read,
    /// Past the file system: nobody serves it, nobody answers.
    Exchange,
    /// The answer to all but a read.
    Done,
    /// The answer to a read.
    Data,
}

/// How many contents are served by the metadata service: the first ones.
pub(super) const SERVICES: usize = 5;

impl Message {
    /// Its size on the network, where a message without data has `control_bytes`.
    pub(super) fn wire_bytes(&self, control_bytes: u32) -> u32 {
        match self.content {
            Content::Exchange => self.bytes,
            Content::Write | Content::Data => self.bytes.saturating_add(control_bytes),
            _ => control_bytes,
        }
    }
}
