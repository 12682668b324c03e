//! The record of a lease on a directory: the hosts that may keep what they read of it.

use crate::Bytes;

/// Most hosts in one record, since whoever changes the directory has to ask all of them.
pub(crate) const HOLDERS_MAX: usize = 64;

/// What a length has set if a number follows the name.
const IS_NUMBERED: u16 = 1 << 15;

/// A host with the lease, and the number under which it has asked for it. A host that gives the lease back and asks for it again
/// does so under another number, so the record is another one, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    /// What names the host in its present life.
    pub(crate) host: Bytes,
    /// Zero in records of older versions.
    pub(crate) number: u64,
}

/// The hosts in the order of the bytes of their names, so that equal sets are equal records. Stored as the length of each name in
/// two bytes, big-endian, its bytes, and eight bytes with the number if that is not zero, which the highest bit of the length
/// tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders(Vec<Holder>);

impl Holders {
    pub(crate) fn alone(host: &Bytes, number: u64) -> Self {
        Self(vec![Holder { host: host.clone(), number }])
    }

    /// The hosts that a record names; `None` if it cannot be read.
    pub(crate) fn decode(record: &[u8]) -> Option<Self> {
        let (mut holders, mut rest) = (Vec::new(), record);
        while let Some((len, tail)) = rest.split_first_chunk::<2>() {
            let len = u16::from_be_bytes(*len);
            let (host, tail) = tail.split_at_checked(usize::from(len & !IS_NUMBERED))?;
            let (number, tail) = match len & IS_NUMBERED {
                0 => (0, tail),
                _ => tail.split_first_chunk().map(|(n, tail)| (u64::from_be_bytes(*n), tail))?,
            };
            holders.push(Holder { host: Bytes::copy_from(host), number });
            rest = tail;
        }
        rest.is_empty().then_some(Self(holders))
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut record = Vec::new();
        for Holder { host, number } in &self.0 {
            let len = u16::try_from(host.len()).unwrap_or(u16::MAX) & !IS_NUMBERED;
            let mark = if *number == 0 { 0 } else { IS_NUMBERED };
            record.extend_from_slice(&(len | mark).to_be_bytes());
            record.extend_from_slice(&host[..usize::from(len)]);
            if *number != 0 {
                record.extend_from_slice(&number.to_be_bytes());
            }
        }
        record.into()
    }

    pub(crate) fn contains(&self, host: &Bytes) -> bool {
        self.0.iter().any(|holder| holder.host == *host)
    }

    /// The names of the hosts.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Bytes> {
        self.0.iter().map(|holder| &holder.host)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.0.len() >= HOLDERS_MAX
    }

    /// The same with a host, which has asked under this number, and under no other any more.
    pub(crate) fn with(self, host: &Bytes, number: u64) -> Self {
        let Self(mut holders) = self.without(host);
        holders.push(Holder { host: host.clone(), number });
        holders.sort_unstable();
        Self(holders)
    }

    pub(crate) fn without(mut self, host: &Bytes) -> Self {
        self.0.retain(|holder| holder.host != *host);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_hosts_has_one_record() {
        let [a, b] = [b"a".as_slice(), b"bb"].map(Bytes::copy_from);
        let both = Holders::alone(&b, 7).with(&a, 0).with(&b, 9);
        assert_eq!(both.encode(), Holders::alone(&a, 0).with(&b, 9).encode());
        assert_eq!(both.encode()[..], b"\0\x01a\x80\x02bb\0\0\0\0\0\0\0\x09"[..]);
        assert_eq!(Holders::decode(&both.encode()), Some(both.clone()));
        assert_ne!(both, both.clone().with(&b, 10), "asked for again");
        assert_eq!(both.without(&b).encode(), Holders::alone(&a, 0).encode());
        assert_eq!(Holders::decode(b""), Some(Holders::default()));
        assert_eq!(Holders::decode(b"\0\x05ab"), None);
        assert_eq!(Holders::decode(b"\0"), None);
        assert_eq!(Holders::decode(b"\x80\x01a\0\0\0"), None);
    }
}
