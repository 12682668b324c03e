//! The description of the deployment, which all hosts share in the metadata.
//!
//! The node does not interpret it: it is a text that is read, and replaced on condition that it has not changed meanwhile.

use std::sync::Arc;

use intarsia_meta::{MetaEngine, Namespace};
use intarsia_types::{Error, NodeId, Result};

use crate::clock::now;

/// The description in the metadata, and the records of members beside it.
pub struct SharedDescription(Namespace);

impl SharedDescription {
    /// The description of the store in `engine`; none while no store has been founded there.
    ///
    /// # Errors
    /// The engine's own.
    pub fn open(engine: &Arc<dyn MetaEngine>) -> Result<Option<Self>> {
        Ok(Namespace::open_existing(Arc::clone(engine), now())?.map(Self))
    }

    /// The text; none before the first [`replace`](Self::replace).
    ///
    /// # Errors
    /// The engine's own; [`Error::Engine`] for a description that is not text in UTF-8.
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

    /// Whether a host has a record, as a member or as one that was lost.
    ///
    /// # Errors
    /// The engine's own.
    pub fn has_member(&self, host: &NodeId) -> Result<bool> {
        self.0.member(host).map(|member| member.is_some())
    }
}
