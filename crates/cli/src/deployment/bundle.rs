//! The files of a deployment: its description, its passwords and its keys.

use std::path::{Path, PathBuf};

use intarsia_cluster::deployment::{Deployment, Engine};
use intarsia_cluster::secrets::{Secret, Secrets};
use intarsia_node::DeploymentKey;
use intarsia_types::Result;
use serde::{Deserialize, Serialize};

/// The files of a deployment as they travel to a host: through a pipe, never on a command line.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Bundle {
    description: String,
    secrets: String,
    key: String,
    /// The authority that signed the certificates of metadata servers that exist.
    authority: Option<String>,
}

impl std::fmt::Debug for Bundle {
    /// The rest is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundle").field("description", &self.description).finish_non_exhaustive()
    }
}

impl Bundle {
    /// Files with nothing secret in them.
    #[cfg(test)]
    pub(crate) fn for_tests(deployment: &Deployment) -> Self {
        let description = deployment.to_text().unwrap();
        Self { description, secrets: String::new(), key: String::new(), authority: None }
    }

    /// The files in this directory, if a deployment has put them there.
    pub(crate) fn pack(dir: &Path) -> Option<Result<Self>> {
        let path = description_path(dir);
        path.exists().then(|| {
            let read = intarsia_cluster::private::read_file;
            Ok(Self {
                description: read(&path)?,
                secrets: read(&secrets_path(dir))?,
                key: read(&key_path(dir))?,
                authority: authority_path(dir)
                    .exists()
                    .then(|| read(&authority_path(dir)))
                    .transpose()?,
            })
        })
    }

    /// The deployment that they are of.
    pub(crate) fn deployment(&self) -> Result<Deployment> {
        Deployment::parse(&self.description)
    }

    /// The same files with another description of the deployment.
    pub(crate) fn describing(&self, deployment: &Deployment) -> Result<Self> {
        Ok(Self { description: deployment.to_text()?, ..self.clone() })
    }

    /// Puts the files into a directory of this host that only its owner can enter.
    pub(crate) fn unpack(&self, dir: &Path) -> Result<()> {
        intarsia_cluster::private::make_dir(dir)?;
        let write = intarsia_cluster::private::write_file;
        write(&description_path(dir), self.description.as_bytes())?;
        write(&secrets_path(dir), self.secrets.as_bytes())?;
        write(&key_path(dir), self.key.as_bytes())?;
        match &self.authority {
            Some(authority) => write(&authority_path(dir), authority.as_bytes()),
            None => Ok(()),
        }
    }
}

pub(super) fn description_path(dir: &Path) -> PathBuf {
    dir.join("deployment.toml")
}

pub(super) fn secrets_path(dir: &Path) -> PathBuf {
    dir.join("secrets.toml")
}

pub(super) fn key_path(dir: &Path) -> PathBuf {
    dir.join("key.pem")
}

pub(super) fn authority_path(dir: &Path) -> PathBuf {
    dir.join("meta-ca.pem")
}

/// Metadata servers that exist.
#[derive(Default)]
pub(crate) struct Existing {
    /// Where one of them is, with user and password; none when the hosts run servers of their own.
    pub(crate) url: Option<String>,
    /// The authority that signed their certificates, in PEM; else those that the system trusts.
    pub(crate) authority: Option<String>,
}

impl Existing {
    /// Where they are, without what nobody else may know.
    pub(crate) fn engine(&self) -> Engine {
        self.url.as_deref().map_or(Engine::Servers, |url| Engine::Url(without_user(url)))
    }
}

/// A URL without user and password.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    format!("{scheme}://{place}{path}")
}

/// The files of a new deployment, with passwords and a key of its own.
pub(crate) fn found(deployment: &Deployment, existing: &Existing) -> Result<Bundle> {
    let mut secrets = Secrets::generate(&deployment.store)?;
    secrets.url = existing.url.clone().map(Secret::new);
    Ok(Bundle {
        description: deployment.to_text()?,
        secrets: secrets.to_text()?,
        key: DeploymentKey::generate()?,
        authority: existing.authority.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_no_user_and_no_password() {
        for (url, plain) in [
            ("rediss://me:se@cret@h:6379/0", "rediss://h:6379/0"),
            ("redis://h:6379", "redis://h:6379"),
            ("redis://:secret@[::1]:1", "redis://[::1]:1"),
        ] {
            assert_eq!(without_user(url), plain);
        }
    }
}
