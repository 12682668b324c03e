//! The owner that a mark names: a host, in one of its lives.

use intarsia_types::NodeId;

use crate::Bytes;

/// Ends the name in a recorded owner; no host name has it.
const END: u8 = 0;
const EPOCH_BYTES: usize = 8;

/// A host in one of its lives. A new life begins, with a new epoch, when the host starts, and when it comes back after it was
/// given up. Marks of an earlier life are not its own any more until it claims them, because others may have taken them over
/// meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The host; empty in a store of one host.
    pub node: NodeId,
    /// The number of its life; 0 in a store of one host.
    pub epoch: u64,
}

impl Default for Owner {
    fn default() -> Self {
        Self { node: NodeId(String::new()), epoch: 0 }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (epoch {})", self.node, self.epoch)
    }
}

impl Owner {
    /// The host `node` in its life `epoch`.
    #[must_use]
    pub fn new(node: impl Into<String>, epoch: u64) -> Self {
        Self { node: NodeId(node.into()), epoch }
    }

    /// What stands in the records: the name alone without an epoch, else name, zero, epoch big-endian.
    pub(crate) fn encode(&self) -> Bytes {
        let mut value = self.node.0.as_bytes().to_vec();
        if self.epoch > 0 {
            value.push(END);
            value.extend_from_slice(&self.epoch.to_be_bytes());
        }
        value.into()
    }

    /// The owner that the value of a mark names.
    #[must_use]
    pub fn decode(value: &[u8]) -> Self {
        let split = value.len().checked_sub(EPOCH_BYTES).and_then(|at| value.split_at_checked(at));
        let (name, epoch) = match split {
            Some(([name @ .., END], epoch)) => {
                (name, epoch.try_into().map_or(0, u64::from_be_bytes))
            }
            _ => (value, 0),
        };
        Self::new(String::from_utf8_lossy(name), epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_survive_the_round_trip() {
        for owner in [
            Owner::default(),
            Owner::new("n1", 0),
            Owner::new("n1", 1),
            Owner::new("a-host-with-a-long-name", u64::MAX),
        ] {
            assert_eq!(Owner::decode(&owner.encode()), owner);
        }
        assert!(Owner::default().encode().is_empty(), "one host marks without a name");
    }
}
