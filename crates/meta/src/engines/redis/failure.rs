//! What can go wrong between this node and a server, by what the caller has to do about it.

use std::fmt;

use redis::{ErrorKind, RedisError, ServerError};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Another server serves the slot from now on. An empty host means the host of the server that was asked.
    Moved(Address),
    /// The server has not loaded our functions yet.
    NoFunction,
    /// It is worth trying again until the time is up. Whether the server has done what was sent is not known.
    Transient(String),
    /// The server's memory is full.
    Full(String),
    /// Trying again does not help.
    Refused(String),
}

impl Failure {
    /// What happened, in words for users.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Moved(to) => format!("the slot moved to {to}"),
            Self::NoFunction => "it has not loaded the functions".into(),
            Self::Transient(why) | Self::Full(why) | Self::Refused(why) => why.clone(),
        }
    }
}

/// Answers that servers give only for a while: during a failover, a restart or a move of slots, while a disk is full, or when a
/// primary became a replica while it waited for its replicas.
const TRANSIENT: &[&str] = &[
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
    "UNKILLABLE",
];

impl From<&ServerError> for Failure {
    fn from(error: &ServerError) -> Self {
        let details = error.details().unwrap_or_default();
        let message = || format!("{} {details}", error.code());
        match error.code() {
            "MOVED" => redirect(details).map_or_else(|| Self::Refused(message()), Self::Moved),
            // The slot is being moved. Its new server has only some of the keys yet, and would answer that the others are
            // absent. So it is asked only once it has all of them.
            "ASK" => Self::Transient(message()),
            _ if details.contains("non local key") => Self::Transient(message()),
            "OOM" => Self::Full(message()),
            code if TRANSIENT.contains(&code) => Self::Transient(message()),
            _ if details.contains("Function not found") => Self::NoFunction,
            _ => Self::Refused(message()),
        }
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        let transient = error.code().is_some_and(|code| TRANSIENT.contains(&code));
        match error.kind() {
            _ if error.is_timeout() => Self::Transient("no answer in time".into()),
            ErrorKind::Io => Self::Transient(error.to_string()),
            _ if transient => Self::Transient(error.to_string()),
            _ => Self::Refused(error.to_string()),
        }
    }
}

/// The address in `SLOT HOST:PORT`.
fn redirect(details: &str) -> Option<Address> {
    let (_, address) = details.split_once(' ')?;
    let (host, port) = address.trim().rsplit_once(':')?;
    Some(Address { host: host.to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_change_of_roles_answers_is_tried_again() {
        let answers = [
            "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            "-READONLY You can't write against a read only replica.",
            "-CLUSTERDOWN The cluster is down",
        ];
        for answer in answers {
            let value = redis::parse_redis_value(format!("{answer}\r\n").as_bytes()).unwrap();
            let redis::Value::ServerError(error) = value else { panic!("{value:?}") };
            assert!(matches!(Failure::from(&error), Failure::Transient(_)), "{answer}");
        }
    }

    #[test]
    fn a_redirection_names_a_server() {
        let address = redirect("3999 ::1:6381").unwrap();
        assert_eq!((address.host.as_str(), address.port), ("::1", 6381));
        assert_eq!(redirect("3999 :6381").unwrap().host, "");
        assert_eq!(redirect("3999"), None);
    }
}
