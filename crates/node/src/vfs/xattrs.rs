//! Extended attributes: those of users, our hints among them, and the ones that answer questions.

use std::path::PathBuf;
use std::sync::Arc;

use intarsia_meta::{Inode, Namespace, SetMode};
use intarsia_types::{
    BackingRef, Error, FileKind, HINT_PREFIX, HintKey, InodeId, LOCATION_NAME, Layout, NodeId,
    Result,
};

use crate::body::Bodies;
use crate::clock::now;
use crate::inode::live::LiveTable;
use crate::members::Members;
use crate::membership::cluster::Cluster;
use crate::replication::copies::Copies;
use crate::space::hints::parse_attribute;
use crate::space::tiers::Tiers;
use crate::vfs::acl::{self, Acl};
use crate::vfs::attributes::Attributes;
use crate::vfs::hints::Hinting;
use crate::vfs::recollection::Recollections;

/// Read-only: how the bytes are kept.
const LAYOUT_NAME: &str = "user.intarsia.layout";
/// Read-only: who serves this file, as JSON.
const NODE_NAME: &str = "user.intarsia.node";
/// Read-only: whether somebody may be writing to this file: `written`, `unsettled` or `settled`.
const STATE_NAME: &str = "user.intarsia.state";
/// What the kernel looks for before the first write to a file, to take it away.
const CAPABILITY_NAME: &[u8] = b"security.capability";
const VIRTUAL_NAMES: [&str; 4] = [LOCATION_NAME, LAYOUT_NAME, NODE_NAME, STATE_NAME];

/// Extended attributes, those among them that are made up.
pub(crate) struct Xattrs {
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) hinting: Arc<Hinting>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) recollections: Arc<Recollections>,
    pub(crate) attributes: Arc<Attributes>,
    pub(crate) copies: Arc<Copies>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) members: Members,
    pub(crate) me: NodeId,
    pub(crate) store: String,
    pub(crate) dir: PathBuf,
}

impl Xattrs {
    /// The layout in words, for the attribute `user.intarsia.layout`.
    pub(crate) fn describe_layout(&self, inode: &Inode) -> String {
        if let Layout::Striped { parts, chunk_bytes, .. } = &inode.layout {
            let tiers: Vec<_> = parts.iter().map(|part| part.tier.0.to_string()).collect();
            let home = |part: &BackingRef| self.cluster.as_ref()?.home_of(part.tier).ok();
            let hosts: Vec<_> =
                parts.iter().map(|part| home(part).map_or("?".into(), |host| host.0)).collect();
            return format!(
                "striped parts={} chunk={chunk_bytes} tiers={} hosts={}",
                parts.len(),
                tiers.join(","),
                hosts.join(",")
            );
        }
        let Some(backing) = inode.layout.backing() else { return inode.layout.name().to_owned() };
        let class = self.tiers.get(backing.tier).map(|tier| format!(" class={}", tier.class()));
        // Another host's tier is known by its number only.
        format!("{} tier={}{}", inode.layout.name(), backing.tier.0, class.unwrap_or_default())
    }

    /// Sets an attribute. Hints are validated; the log says what a refused one should have been.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] for the read-only ones, [`Error::Invalid`] for a malformed hint.
    pub(crate) fn set_xattr(
        &self,
        ino: InodeId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        if name == acl::ACCESS_NAME {
            return self.set_access_acl(ino, value);
        }
        if name == acl::DEFAULT_NAME && Acl::parse(value).is_none() {
            return Err(Error::Invalid("not an access control list".into()));
        }
        let hint = self.check_settable(ino, name, value)?;
        self.namespace.set_xattr(ino, name, value, mode, now())?;
        if let Some(hint) = hint {
            self.hinting.apply_hint(ino, hint.key(), Some(hint.value()));
        }
        Ok(())
    }

    /// Keeps list and mode bits in step; a list that says no more than the bits is not stored.
    fn set_access_acl(&self, ino: InodeId, value: &[u8]) -> Result<()> {
        let acl =
            Acl::parse(value).ok_or_else(|| Error::Invalid("not an access control list".into()))?;
        if acl.is_minimal() {
            match self.namespace.remove_xattr(ino, acl::ACCESS_NAME, now()) {
                Ok(()) | Err(Error::NoAttribute) => {}
                Err(e) => return Err(e),
            }
        } else {
            self.namespace.set_xattr(ino, acl::ACCESS_NAME, value, SetMode::Either, now())?;
        }
        let now = now();
        self.namespace.update(ino, |inode| {
            inode.perm = inode.perm & 0o7000 | acl.mode_bits();
            inode.ctime = now;
            Ok(())
        })?;
        Ok(())
    }

    /// Makes the access list, if there is one, follow a `chmod`.
    pub(crate) fn chmod_acl(&self, ino: InodeId, perm: u16) -> Result<()> {
        let value = match self.namespace.get_xattr(ino, acl::ACCESS_NAME) {
            Ok(value) => value,
            Err(Error::NoAttribute) => return Ok(()),
            Err(e) => return Err(e),
        };
        if let Some(mut acl) = Acl::parse(&value) {
            acl.set_mode(perm);
            let value = acl.encode();
            self.namespace.set_xattr(ino, acl::ACCESS_NAME, &value, SetMode::Either, now())?;
        }
        Ok(())
    }

    fn check_settable(
        &self,
        ino: InodeId,
        name: &[u8],
        value: &[u8],
    ) -> Result<Option<intarsia_types::Hint>> {
        let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
        if VIRTUAL_NAMES.contains(&name) {
            return Err(Error::NotPermitted);
        }
        match parse_attribute(name, value) {
            None => Ok(None),
            Some(Ok(hint)) => self.bodies.stripes.refuse_copies(ino, &hint).map(|()| Some(hint)),
            Some(Err(e)) => {
                tracing::warn!(%ino, attribute = name, "refused: {e}");
                Err(Error::Invalid(e.to_string()))
            }
        }
    }

    /// The value of an attribute.
    ///
    /// # Errors
    /// [`Error::NoAttribute`].
    pub(crate) fn get_xattr(&self, ino: InodeId, name: &[u8]) -> Result<Vec<u8>> {
        if name.starts_with(HINT_PREFIX.as_bytes())
            && let Some(value) = self.virtual_xattr(ino, name)?
        {
            return Ok(value.into_bytes());
        }
        if name == CAPABILITY_NAME && self.recollections.just_opened_without_attributes(ino) {
            return Err(Error::NoAttribute);
        }
        match self.namespace.get_xattr(ino, name) {
            Err(Error::NotFound) if self.attributes.departed_attributes(ino).is_some() => {
                Err(Error::NoAttribute)
            }
            other => other.map(|v| v.to_vec()),
        }
    }

    fn virtual_xattr(&self, ino: InodeId, name: &[u8]) -> Result<Option<String>> {
        let name = std::str::from_utf8(name).unwrap_or_default();
        if name == NODE_NAME {
            return Ok(Some(self.who_am_i()));
        }
        if name != LOCATION_NAME && name != LAYOUT_NAME && name != STATE_NAME {
            return Ok(None);
        }
        let inode = self.namespace.get(ino)?;
        if inode.kind != FileKind::Regular {
            return Err(Error::NoAttribute);
        }
        Ok(Some(match name {
            LOCATION_NAME => self
                .copies
                .hosts_of(&inode)?
                .into_iter()
                .map(|host| host.0)
                .collect::<Vec<_>>()
                .join(","),
            STATE_NAME => self.state_of(ino)?.to_owned(),
            _ => self.describe_layout(&inode),
        }))
    }

    /// Whether somebody has the file open for writing here, or may be writing to it, here or elsewhere.
    fn state_of(&self, ino: InodeId) -> Result<&'static str> {
        let here = self.live.with_existing(ino, |state| {
            let is_changed =
                state.mark.is_unsettled() || state.overlay.is_dirty || state.holds_lease();
            (state.writers > 0, is_changed)
        });
        Ok(match here {
            Some((true, _)) => "written",
            Some((_, true)) => "unsettled",
            _ if self.members.is_shared() && self.namespace.is_marked_writable(ino)? => "unsettled",
            _ => "settled",
        })
    }

    fn who_am_i(&self) -> String {
        serde_json::json!({
            "node": self.me.0,
            "store": self.store,
            "dir": self.dir,
            "pid": std::process::id(),
            "shared": self.members.is_shared(),
            "version": env!("CARGO_PKG_VERSION"),
        })
        .to_string()
    }

    /// The names of the attributes; those that only answer questions are left out, so that copying
    /// tools do not try to write them.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub(crate) fn list_xattr(&self, ino: InodeId) -> Result<Vec<Vec<u8>>> {
        match self.namespace.list_xattr(ino) {
            Err(Error::NotFound) if self.attributes.departed_attributes(ino).is_some() => {
                Ok(Vec::new())
            }
            other => other,
        }
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// [`Error::NoAttribute`], [`Error::NotPermitted`] for the read-only ones.
    pub(crate) fn remove_xattr(&self, ino: InodeId, name: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(name).unwrap_or_default();
        if VIRTUAL_NAMES.contains(&text) {
            return Err(Error::NotPermitted);
        }
        self.namespace.remove_xattr(ino, name, now())?;
        if let Some(key) = HintKey::from_attribute(text) {
            self.hinting.apply_hint(ino, key, None);
        }
        Ok(())
    }
}
