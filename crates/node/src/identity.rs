//! `DIR/store.json`: what this store is called and which tiers it has, in the order of their numbers.
//!
//! Owns that file.
//! Asks the file system, and the caller for the numbers of tiers that several hosts share.
//! Promises that a number is never given to another tier, that a tier keeps its number where it is
//! moved, and that a directory of another store is refused.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use intarsia_store::{replace_file, tier_at};
use intarsia_types::{Durability, Error, Result, TierId, TierSpec};
use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;

/// Deals a number to the tier in a directory of this host.
type Register<'a> = dyn Fn(&Path) -> Result<TierId> + 'a;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    format: u32,
    /// Random, so that a tier can tell whose it is.
    pub(crate) store: String,
    /// Directories by tier number. A number is never given to another tier.
    tiers: Vec<PathBuf>,
    /// The same in a store of several hosts, where the numbers are dealt to all of them in turn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    shared_tiers: BTreeMap<u16, PathBuf>,
    /// Whether the content was meant to outlive the node.
    pub(crate) is_volatile: bool,
}

impl Identity {
    /// Loads the identity, or founds a store in a new or empty directory. `shared` is the name of the
    /// store of several hosts that this directory is, or becomes, a part of.
    pub(crate) fn load_or_found(
        dir: &Path,
        durability: Durability,
        shared: Option<&str>,
    ) -> Result<Self> {
        make_store_directory(dir)?;
        let path = dir.join("store.json");
        let identity = match std::fs::read(&path) {
            Ok(text) => Self::parse(&path, &text, durability),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Self::found(dir, durability, shared)
            }
            Err(e) => Err(Error::io(format!("read {}", path.display()), e)),
        }?;
        match shared {
            Some(store) if store != identity.store => Err(Error::Invalid(format!(
                "directory {} belongs to store {}, not to {store}; name an empty or a new one",
                dir.display(),
                identity.store
            ))),
            _ => Ok(identity),
        }
    }

    fn parse(path: &Path, text: &[u8], durability: Durability) -> Result<Self> {
        let identity: Self = serde_json::from_slice(text).map_err(|e| {
            Error::Invalid(format!("{} is damaged: {e}; restore it from a copy", path.display()))
        })?;
        if identity.format != FORMAT {
            return Err(Error::Invalid(format!(
                "{} is of format {}, this version reads format {FORMAT}",
                path.display(),
                identity.format
            )));
        }
        if identity.is_volatile && durability != Durability::Memory {
            return Err(Error::Invalid(format!(
                "{} is of a store in memory, which cannot begin to last; choose another directory, or remove it first with 'intarsia down --purge'",
                path.display()
            )));
        }
        if !identity.is_volatile && durability == Durability::Memory {
            return Err(Error::Invalid(format!(
                "{} holds a lasting store; durability=memory would clear it: choose another directory, or remove it first with 'intarsia down --purge'",
                path.display()
            )));
        }
        Ok(identity)
    }

    fn found(dir: &Path, durability: Durability, shared: Option<&str>) -> Result<Self> {
        let fail = |e| Error::io(format!("list {}", dir.display()), e);
        // What is here before the store is: the log, and what makes the host one of a deployment.
        let known = [
            "node.log",
            "control.sock",
            "metrics.prom",
            "lost+found",
            "store.json.new",
            "deployment",
            "servers",
            "verb.lock",
            "node.lock",
            "mount-point-made",
        ];
        for entry in std::fs::read_dir(dir).map_err(fail)? {
            let name = entry.map_err(fail)?.file_name();
            if !known.iter().any(|k| name == *k) {
                return Err(Error::Invalid(format!(
                    "directory {} is not empty (it holds '{}') and is no store; name an empty or a new one",
                    dir.display(),
                    name.display()
                )));
            }
        }
        let store = shared.map_or_else(random_name, |store| Ok(store.to_owned()))?;
        let is_volatile = durability == Durability::Memory;
        let identity = Self {
            format: FORMAT,
            store,
            tiers: Vec::new(),
            shared_tiers: BTreeMap::new(),
            is_volatile,
        };
        identity.save(dir)?;
        Ok(identity)
    }

    /// The numbers of the configured tiers; new directories get the next ones. The caller saves the
    /// identity once the tiers have proved usable: until then nothing has changed on disk.
    ///
    /// With several hosts `register` deals the numbers, so that each means one tier of one host.
    pub(crate) fn number_tiers(
        &mut self,
        specs: &[TierSpec],
        register: Option<&Register<'_>>,
    ) -> Result<Vec<TierId>> {
        let mut ids = Vec::with_capacity(specs.len());
        for spec in specs {
            let path = std::path::absolute(&spec.dir).unwrap_or_else(|_| spec.dir.clone());
            let id = match register {
                Some(register) => self.number_shared(&path, register)?,
                None => self.number_own(&path)?,
            };
            if ids.contains(&id) {
                return Err(Error::Invalid(format!("tier {} is named twice", path.display())));
            }
            ids.push(id);
        }
        Ok(ids)
    }

    fn number_own(&mut self, path: &Path) -> Result<TierId> {
        if !self.tiers.iter().any(|known| known == path) {
            self.take_moved(path)?;
        }
        let at = self.tiers.iter().position(|t| t == path).unwrap_or_else(|| {
            self.tiers.push(path.to_owned());
            self.tiers.len() - 1
        });
        Ok(TierId(u16::try_from(at).map_err(|_| Error::Invalid("too many tiers".into()))?))
    }

    /// Notes where a tier of this store is now, if the directory is one that was moved there.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a copy of a tier that is at its place.
    fn take_moved(&mut self, path: &Path) -> Result<()> {
        let Some(id) = tier_at(path, &self.store) else { return Ok(()) };
        let Some(known) = self.tiers.get_mut(usize::from(id.0)) else { return Ok(()) };
        if tier_at(known, &self.store) == Some(id) {
            return Err(is_copy(id, path, known));
        }
        tracing::info!(%id, from = %known.display(), to = %path.display(), "a tier of this store was moved");
        path.clone_into(known);
        Ok(())
    }

    fn number_shared(&mut self, path: &Path, register: &Register<'_>) -> Result<TierId> {
        if let Some((id, _)) = self.shared_tiers.iter().find(|(_, known)| *known == path) {
            return Ok(TierId(*id));
        }
        let id = register(path)?;
        self.shared_tiers.insert(id.0, path.to_owned());
        Ok(id)
    }

    /// Tiers of this host that other hosts know by these numbers. A directory has the tier that lies in it, whatever did before.
    pub(crate) fn keep_tiers(&mut self, tiers: impl IntoIterator<Item = (TierId, PathBuf)>) {
        for (id, dir) in tiers {
            self.shared_tiers.retain(|_, known| *known != dir);
            self.shared_tiers.insert(id.0, dir);
        }
    }

    /// Forgets tiers that were on disks which are gone; their directories get new numbers.
    pub(crate) fn drop_tiers(&mut self, gone: &[TierId]) {
        self.shared_tiers.retain(|id, _| !gone.contains(&TierId(*id)));
    }

    /// Directories that the store once had and the configuration leaves out.
    pub(crate) fn absent_tiers(&self, present: &[TierId]) -> Vec<(TierId, PathBuf)> {
        let own = (0u16..).zip(&self.tiers);
        own.chain(self.shared_tiers.iter().map(|(id, path)| (*id, path)))
            .map(|(id, path)| (TierId(id), path))
            .filter(|(id, _)| !present.contains(id))
            .map(|(id, path)| (id, path.clone()))
            .collect()
    }

    pub(crate) fn save(&self, dir: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::Invalid(format!("store identity: {e}")))?;
        replace_file(&dir.join("store.json"), &text)
    }
}

/// Says that a directory is a copy of a tier which is at its place.
pub(crate) fn is_copy(id: TierId, copy: &Path, known: &Path) -> Error {
    Error::Invalid(format!(
        "directory {} is a copy of tier {id} of this store, which is at {}; name that one, or move it away if the copy is to take its place",
        copy.display(),
        known.display()
    ))
}

fn make_store_directory(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(dir).map_err(|e| {
        Error::io(
            format!(
                "store directory {} cannot be made (is the path right, may we write there?)",
                dir.display()
            ),
            e,
        )
    })
}

/// 128 random bits in hexadecimal.
fn random_name() -> Result<String> {
    use std::io::Read;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut bytes))
        .map_err(|e| Error::io("read /dev/urandom", e))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
