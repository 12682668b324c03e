//! The addresses of a lab.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use intarsia_types::Error;
use serde::{Deserialize, Serialize};

use crate::name::Node;

/// An IPv4 network, `10.77.0.0/16` by default. Labs do not meet each other or the machine's own network, so
/// all may use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subnet {
    base: Ipv4Addr,
    prefix: u8,
}

impl Default for Subnet {
    fn default() -> Self {
        Self { base: Ipv4Addr::new(10, 77, 0, 0), prefix: 16 }
    }
}

impl Subnet {
    /// How many nodes have room: all but the first and the last address.
    #[must_use]
    pub fn capacity(self) -> u32 {
        (u32::MAX >> self.prefix).saturating_sub(1)
    }

    /// Length of the network's prefix in bits.
    #[must_use]
    pub const fn prefix(self) -> u8 {
        self.prefix
    }

    /// The address of a node: the base of the network plus its number.
    pub(crate) fn address(self, node: Node) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base.to_bits().saturating_add(u32::from(node.number())))
    }
}

impl FromStr for Subnet {
    type Err = Error;

    /// # Errors
    /// `Invalid` for what is no network, or one too small for two nodes.
    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (base, prefix) = text.split_once('/')?;
            let (base, prefix): (Ipv4Addr, u8) = (base.parse().ok()?, prefix.parse().ok()?);
            let is_whole = (8..=30).contains(&prefix) && base.to_bits() & (u32::MAX >> prefix) == 0;
            let is_usable = !base.is_loopback() && !base.is_multicast() && !base.is_unspecified();
            (is_whole && is_usable).then_some(Self { base, prefix })
        };
        parse().ok_or_else(|| {
            Error::Invalid(format!(
                "'{text}' is no network for a lab; write its first address and a prefix from 8 to 30 bits, \
                 as in 10.77.0.0/16"
            ))
        })
    }
}

impl TryFrom<String> for Subnet {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Subnet> for String {
    fn from(subnet: Subnet) -> Self {
        subnet.to_string()
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_whole() {
        let subnet: Subnet = "10.77.0.0/16".parse().unwrap();
        assert_eq!(subnet, Subnet::default());
        assert_eq!(subnet.to_string(), "10.77.0.0/16");
        assert_eq!(subnet.address(Node::numbered(300)).to_string(), "10.77.1.44");
        assert_eq!("192.168.4.0/30".parse::<Subnet>().unwrap().capacity(), 2);
        for bad in
            ["10.77.0.0", "10.77.0.1/16", "10.0.0.0/31", "0.0.0.0/8", "127.0.0.0/8", "x/8", ""]
        {
            assert!(bad.parse::<Subnet>().is_err(), "{bad}");
        }
    }
}
