//! The record of a lease on a directory: the hosts that may keep what they read of it.

use crate::Bytes;

/// Most hosts in one record, since whoever changes the directory has to ask all of them.
pub(crate) const HOLDERS_MAX: usize = 64;

/// Names of hosts in the order of their bytes, so that equal sets are equal records. Stored as the length
/// of each in two bytes, big-endian, and its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders(Vec<Bytes>);

impl Holders {
    pub(crate) fn alone(host: &Bytes) -> Self {
        Self(vec![host.clone()])
    }

    /// The hosts that a record names; `None` if it cannot be read.
    pub(crate) fn decode(record: &[u8]) -> Option<Self> {
        let (mut hosts, mut rest) = (Vec::new(), record);
        while let Some((len, tail)) = rest.split_first_chunk::<2>() {
            let (host, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
            hosts.push(Bytes::copy_from(host));
            rest = tail;
        }
        rest.is_empty().then_some(Self(hosts))
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut record = Vec::new();
        for host in &self.0 {
            let len = u16::try_from(host.len()).unwrap_or(u16::MAX);
            record.extend_from_slice(&len.to_be_bytes());
            record.extend_from_slice(&host[..usize::from(len)]);
        }
        record.into()
    }

    pub(crate) fn contains(&self, host: &Bytes) -> bool {
        self.0.contains(host)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.0.iter()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.0.len() >= HOLDERS_MAX
    }

    pub(crate) fn with(mut self, host: &Bytes) -> Self {
        self.0.push(host.clone());
        self.0.sort_by(|a, b| a[..].cmp(&b[..]));
        self.0.dedup();
        self
    }

    pub(crate) fn without(mut self, host: &Bytes) -> Self {
        self.0.retain(|other| other != host);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_hosts_has_one_record() {
        let [a, b] = [b"a".as_slice(), b"bb"].map(Bytes::copy_from);
        let both = Holders::alone(&b).with(&a).with(&b);
        assert_eq!(both.encode(), Holders::alone(&a).with(&b).encode());
        assert_eq!(Holders::decode(&both.encode()), Some(both.clone()));
        assert_eq!(both.without(&b).encode(), Holders::alone(&a).encode());
        assert_eq!(Holders::decode(b""), Some(Holders::default()));
        assert_eq!(Holders::decode(b"\0\x05ab"), None);
        assert_eq!(Holders::decode(b"\0"), None);
    }
}
