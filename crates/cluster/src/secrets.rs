//! What the hosts of a store share and show nobody.

use std::fmt;
use std::path::Path;

use intarsia_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::document::{VERSION, parse, to_toml};
use crate::private;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// 256 random bits in hexadecimal.
    ///
    /// # Errors
    /// When the system gives no random bits.
    pub fn random() -> Result<Self> {
        random_hex::<32>().map(Self)
    }

    /// A text that somebody else made.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the one who must send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The passwords of a deployment. Its key, by which nodes and servers know each other, is a file of
/// its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    version: u32,
    /// The store that they belong to.
    pub store: String,
    /// Password of the metadata servers' user for nodes: data, no administration.
    pub client_password: Secret,
    /// Password of the metadata servers' user for supervision and replication.
    pub keeper_password: Secret,
    /// The URL of metadata servers that exist, with user and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Secret>,
}

impl Secrets {
    /// New secrets for this store.
    ///
    /// # Errors
    /// When the system gives no random bits.
    pub fn generate(store: &str) -> Result<Self> {
        Ok(Self {
            url: None,
            version: VERSION,
            store: store.to_owned(),
            client_password: Secret::random()?,
            keeper_password: Secret::random()?,
        })
    }

    /// Reads the secrets.
    ///
    /// # Errors
    /// When the file cannot be read, can be read by others, or is malformed.
    pub fn read(path: &Path) -> Result<Self> {
        let text = private::read_file(path)?;
        let secrets: Self = parse(path, &text)?;
        if secrets.version != VERSION {
            return Err(Error::Invalid(format!(
                "{}: version {} is unknown here; use the program that wrote it",
                path.display(),
                secrets.version
            )));
        }
        Ok(secrets)
    }

    /// Writes the secrets with mode 0600.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        private::write_file(path, self.to_text()?.as_bytes())
    }

    /// The secrets as the text of their file.
    ///
    /// # Errors
    /// When they cannot be written as TOML.
    pub fn to_text(&self) -> Result<String> {
        to_toml(self)
    }
}

/// Random bytes of the system in hexadecimal.
pub(crate) fn random_hex<const BYTES: usize>() -> Result<String> {
    use std::io::Read;
    let mut bytes = [0u8; BYTES];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut bytes))
        .map_err(|e| Error::io("read /dev/urandom", e))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
