//! The deployment's key: one certificate and its private key, held by every node of the deployment and nobody else.
//!
//! Each side of a connection proves in a TLS 1.3 handshake that it holds the private key and accepts no certificate
//! but this one. A node's name is therefore as true as the holders of the key are honest.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use intarsia_types::NodeId;
use intarsia_wire::{Protection, StoreId};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::{Config, StartError};

/// The name in the certificate, the same for all nodes: TLS wants one, ours are said in the hello.
const CERTIFICATE_NAME: &str = "node.intarsia.internal";

/// Who this node is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name in the deployment.
    pub node: NodeId,
    /// The store it serves.
    pub store: StoreId,
    /// Its incarnation: larger after each start.
    pub epoch: u64,
    /// What proves that it belongs.
    pub key: DeploymentKey,
}

/// The key of a deployment, ready for use by both sides of a connection.
#[derive(Clone)]
pub struct DeploymentKey {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
    fingerprint: String,
    protection: Protection,
}

impl fmt::Debug for DeploymentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeploymentKey({})", self.fingerprint)
    }
}

impl DeploymentKey {
    /// Makes a key and writes it to a new file that only its owner can read (mode 0600, PEM).
    ///
    /// # Errors
    /// The file exists already or cannot be written.
    pub fn create(path: &Path) -> Result<Self, StartError> {
        let pem = Self::generate()?;
        let cannot = |e| StartError::io(format!("writing the key {}", path.display()), e);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(cannot)?;
        file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()).map_err(cannot)?;
        Self::from_pem(pem.as_bytes())
    }

    /// Reads a key from its file.
    ///
    /// # Errors
    /// The file cannot be read, others may read it, or it holds no key.
    pub fn load(path: &Path) -> Result<Self, StartError> {
        let cannot = |e| StartError::io(format!("reading the key {}", path.display()), e);
        let mode = fs::metadata(path).map_err(cannot)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(StartError::Key(format!(
                "{path} has mode {mode:04o}, so others may read it; run: chmod 600 {path}",
                path = path.display()
            )));
        }
        let pem = fs::read(path).map_err(cannot)?;
        Self::from_pem(&pem).map_err(|e| StartError::key(format!("{}: {e}", path.display())))
    }

    /// A new certificate and private key (ECDSA P-256, no expiry) as PEM text.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<String, StartError> {
        let key = KeyPair::generate().map_err(StartError::key)?;
        let mut params =
            CertificateParams::new(vec![CERTIFICATE_NAME.to_owned()]).map_err(StartError::key)?;
        params.distinguished_name.push(DnType::CommonName, "Intarsia deployment");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.self_signed(&key).map_err(StartError::key)?;
        Ok(certificate.pem() + &key.serialize_pem())
    }

    /// Reads a key from PEM text: one certificate, one private key.
    ///
    /// # Errors
    /// The text holds no certificate, no private key, or one that does not fit the other.
    pub fn from_pem(pem: &[u8]) -> Result<Self, StartError> {
        let certificate = CertificateDer::from_pem_slice(pem)
            .map_err(|e| StartError::Key(format!("no certificate in it ({e})")))?;
        let private = || {
            PrivateKeyDer::from_pem_slice(pem)
                .map_err(|e| StartError::Key(format!("no private key in it ({e})")))
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).map_err(StartError::key)?;
        let roots = Arc::new(roots);
        Ok(Self {
            fingerprint: blake3::hash(&certificate).to_hex().chars().take(16).collect(),
            client: client_config(&provider, &roots, certificate.clone(), private()?)?,
            server: server_config(&provider, &roots, certificate, private()?)?,
            protection: Protection::Tagged,
        })
    }

    /// The same key for connections of which all is encrypted.
    #[must_use]
    pub fn encrypting(self) -> Self {
        Self { protection: Protection::Encrypted, ..self }
    }

    /// The usual limits and times, with the protection that goes with this key.
    #[must_use]
    pub fn config(&self) -> Config {
        Config { protection: self.protection, ..Config::default() }
    }

    /// A short name of the key for logs; it tells nothing about the private part.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    pub(crate) fn server_name() -> Result<ServerName<'static>, StartError> {
        ServerName::try_from(CERTIFICATE_NAME).map_err(StartError::key)
    }

    /// Random bytes from the same source as the keys.
    pub(crate) fn random(&self) -> Result<u64, StartError> {
        let mut bytes = [0; 8];
        self.client
            .crypto_provider()
            .secure_random
            .fill(&mut bytes)
            .map_err(|_| StartError::key("the system gives no random numbers"))?;
        Ok(u64::from_le_bytes(bytes))
    }
}

fn client_config(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ClientConfig>, StartError> {
    let mut config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(StartError::key)?
        .with_root_certificates(Arc::clone(roots))
        .with_client_auth_cert(vec![certificate], key)
        .map_err(StartError::key)?;
    // Every connection proves the key anew, and nothing but our frames follows a handshake.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn server_config(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, StartError> {
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
            .build()
            .map_err(StartError::key)?;
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(StartError::key)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .map_err(StartError::key)?;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_for_its_owner_alone_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        let made = DeploymentKey::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = DeploymentKey::load(&path).unwrap();
        assert_eq!(made.fingerprint(), read.fingerprint());
        assert!(DeploymentKey::create(&path).is_err(), "a key is never overwritten");
    }

    #[test]
    fn a_key_that_others_may_read_is_refused_with_the_fix() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        DeploymentKey::create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = DeploymentKey::load(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let pem = DeploymentKey::generate().unwrap();
        let certificate_only = pem.split("-----BEGIN PRIVATE").next().unwrap();
        for text in ["", "no key", certificate_only] {
            assert!(DeploymentKey::from_pem(text.as_bytes()).is_err(), "{text}");
        }
        let other = DeploymentKey::generate().unwrap();
        let mixed = certificate_only.to_owned()
            + "-----BEGIN PRIVATE"
            + other.split("-----BEGIN PRIVATE").nth(1).unwrap();
        assert!(DeploymentKey::from_pem(mixed.as_bytes()).is_err(), "key of another certificate");
    }
}
