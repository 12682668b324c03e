//! The description of the deployment, which all hosts hold together in the metadata.
//!
//! What it says is not the node's business: it is a text to be read, and replaced where it has not changed meanwhile.

use std::sync::Arc;

use intarsia_meta::{MetaEngine, Namespace};
use intarsia_types::{Error, NodeId, Result};

use crate::clock::now;

/// The description, and who is a member.
pub struct SharedDescription(Namespace);

impl SharedDescription {
    /// What the hosts of this store hold together; none while the store has not been founded.
    ///
    /// # Errors
    /// The engine's own.
    pub fn open(engine: &Arc<dyn MetaEngine>) -> Result<Option<Self>> {
        Ok(Namespace::open_existing(Arc::clone(engine), now())?.map(Self))
    }

    /// The text; none before somebody wrote it.
    ///
    /// # Errors
    /// The engine's own, and for a text that is none.
    pub fn read(&self) -> Result<Option<String>> {
        let text = self.0.description()?.map(|bytes| String::from_utf8(bytes.to_vec()));
        text.transpose()
            .map_err(|_| Error::Engine("the deployment's description is no text".into()))
    }

    /// Replaces the text if it is still `expected`; returns whether it was.
    ///
    /// # Errors
    /// The engine's own.
    pub fn replace(&self, expected: Option<&str>, text: &str) -> Result<bool> {
        self.0.put_description(expected.map(str::as_bytes), text.as_bytes())
    }

    /// Whether anything is recorded of a host.
    ///
    /// # Errors
    /// The engine's own.
    pub fn has_member(&self, host: &NodeId) -> Result<bool> {
        self.0.member(host).map(|member| member.is_some())
    }
}
