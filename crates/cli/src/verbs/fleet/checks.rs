//! What `up` over several hosts can know to be wrong before it asks any of them.

use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use super::{HOST, Hosts};
use crate::cli::Up;
use crate::config::Settings;
use crate::exit::{Failure, Outcome};

/// How long a metadata server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// Of Redis and Valkey.
const DEFAULT_PORT: u16 = 6379;

/// Refuses flags that contradict each other or the hosts.
pub(super) fn check(hosts: &Hosts, settings: &Settings, arguments: &Up) -> Outcome {
    let count = hosts.members.len();
    if arguments.settings.name.is_some() {
        return Err(Failure::usage("--name: it is the name of one host, and this means several")
            .with_help("leave --name away; the hosts are called as --hosts names them"));
    }
    // Hosts that join are not all of the store.
    if arguments.join.is_none() && usize::from(settings.replicas) > count {
        return Err(Failure::usage(format!(
            "--replicas: {} copies need as many hosts, and there are {count}",
            settings.replicas
        ))
        .with_help("name more hosts, or fewer copies"));
    }
    let from_environment = std::env::var("INTARSIA_META").ok().filter(|url| !url.is_empty());
    match (&arguments.meta, from_environment) {
        (Some(url), _) => host_of("--meta", url).map(drop),
        (None, Some(url)) if arguments.join.is_none() => host_of("INTARSIA_META", &url).map(drop),
        _ => Ok(()),
    }
}

/// Refuses a place of two of the hosts, each named with its host, where all hosts have the same files.
pub(super) fn check_apart<'a>(places: impl IntoIterator<Item = (&'a String, &'a Path)>) -> Outcome {
    let mut seen: BTreeMap<&Path, &str> = BTreeMap::new();
    for (host, place) in places {
        if let Some(other) = seen.insert(place, host) {
            return Err(Failure::usage(format!(
                "{other} and {host} would both use {}; put {HOST} into the mount point and the directories, as in /mnt/{HOST}",
                place.display()
            )));
        }
    }
    Ok(())
}

/// Whether a host reaches the metadata server that a URL names.
pub(crate) fn check_reached(url: &str) -> Outcome {
    let place = host_of("--meta", url)?;
    let not_reached = |why: String| {
        Failure::general(format!("--meta: the metadata server at {place} is not reached: {why}"))
            .with_help("see that it runs, and that it listens on an address that all hosts reach")
    };
    let addresses = place.to_socket_addrs().map_err(|e| not_reached(e.to_string()))?;
    let mut why = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(_) => return Ok(()),
            Err(error) => why = error.to_string(),
        }
    }
    Err(not_reached(why))
}

/// Host and port of the URL of a metadata server. The password that may be in it is not shown.
fn host_of(source: &str, url: &str) -> Outcome<String> {
    let refuse = |why: String| {
        Failure::usage(format!("{source}: {why}"))
            .with_help("write it as redis://USER:PASSWORD@HOST:PORT, or rediss://… for TLS")
    };
    let rest = url.strip_prefix("redis://").or_else(|| url.strip_prefix("rediss://"));
    let Some(rest) = rest else {
        return Err(refuse("the URL begins with neither redis:// nor rediss://".into()));
    };
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let port = place.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    match port {
        _ if place.is_empty() => Err(refuse("the URL names no host".into())),
        None => Ok(format!("{place}:{DEFAULT_PORT}")),
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0) => {
            Ok(place.to_owned())
        }
        Some(_) => Err(refuse(format!("'{place}' is no host with a port"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_metadata_server_is_found_without_its_password() {
        for (url, place) in [
            ("redis://h", "h:6379"),
            ("rediss://me:se:cr@et@h:7000/0", "h:7000"),
            ("redis://[::1]", "[::1]:6379"),
            ("redis://[::1]:1", "[::1]:1"),
        ] {
            assert_eq!(host_of("--meta", url).unwrap(), place);
        }
        for bad in ["h:6379", "http://h", "redis://", "redis://u:p@", "redis://h:0", "redis://h:x"]
        {
            let failure = host_of("--meta", bad).unwrap_err();
            assert!(failure.message.starts_with("--meta: "), "{}", failure.message);
            assert!(!failure.message.contains("u:p"), "{}", failure.message);
        }
    }

    #[test]
    fn a_server_that_refuses_is_named() {
        let failure = check_reached("redis://u:secret@127.0.0.1:1").unwrap_err();
        assert!(failure.message.contains("127.0.0.1:1 is not reached"), "{}", failure.message);
        assert!(!failure.message.contains("secret"));
    }
}
