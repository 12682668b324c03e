//! The metadata that all hosts hold together, as a node opens it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use intarsia_cluster::client::CLIENT_USER;
use intarsia_cluster::deployment::{Deployment, Encrypt, Engine, ServerAddress};
use intarsia_cluster::formation;
use intarsia_cluster::secrets::Secrets;
use intarsia_cluster::servers::Replication;
use intarsia_meta::engines::{RedisEngine, RedisOptions, RedisTls};
use intarsia_types::{Error, Result};

use super::bundle::{authority_path, key_path};

/// Between two looks for metadata servers that are still being formed into a cluster.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn is_encrypted(deployment: &Deployment) -> bool {
    deployment.engine == Engine::Servers && deployment.encrypt != Encrypt::Off
}

pub(super) fn open_engine(
    deployment: &Deployment,
    secrets: &Secrets,
    files: &Path,
    deadline: Instant,
) -> Result<RedisEngine> {
    let options = engine_options(deployment, secrets, files)?;
    loop {
        match RedisEngine::open(&options) {
            // The first host makes the cluster; until then there is nothing to open.
            Err(error @ Error::Engine(_)) if Instant::now() + PAUSE < deadline => {
                tracing::debug!(%error, "the metadata servers are not ready");
                std::thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

pub(super) fn engine_options(
    deployment: &Deployment,
    secrets: &Secrets,
    files: &Path,
) -> Result<RedisOptions> {
    let urls = match &deployment.engine {
        Engine::Url(url) => {
            vec![secrets.url.as_ref().map_or_else(|| url.clone(), |url| url.reveal().to_owned())]
        }
        Engine::Servers => {
            let scheme = if is_encrypted(deployment) { "rediss" } else { "redis" };
            let places = (0..2).flat_map(|number| {
                deployment.hosts_to_ask().map(move |member| member.server(number))
            });
            places.map(|place| Ok(url_of(scheme, place?, secrets))).collect::<Result<_>>()?
        }
    };
    Ok(RedisOptions {
        urls,
        tls: trusted(deployment, files)?,
        store: deployment.store.clone(),
        require_replica: formation::replication_of(deployment) == Replication::Required,
        ..RedisOptions::default()
    })
}

/// Whose metadata servers are believed; none for those that the system trusts.
fn trusted(deployment: &Deployment, files: &Path) -> Result<Option<RedisTls>> {
    let read = |path: &Path| intarsia_cluster::private::read_file(path).map(String::into_bytes);
    if is_encrypted(deployment) {
        return Ok(Some(RedisTls::Deployment(read(&key_path(files))?)));
    }
    let path = authority_path(files);
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(RedisTls::Authority { authority: read(&path)?, identity: None }))
}

fn url_of(scheme: &str, server: ServerAddress, secrets: &Secrets) -> String {
    let password = secrets.client_password.reveal();
    let place = SocketAddr::new(server.ip, server.port);
    format!("{scheme}://{CLIENT_USER}:{password}@{place}")
}
