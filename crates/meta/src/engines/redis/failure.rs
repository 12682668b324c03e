//! What can go wrong between us and a server, by what the caller does about it.

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
    /// The slot is served there from now on. An empty host means the one that was asked.
    Moved(Address),
    /// The server has not loaded our functions yet.
    NoFunction,
    /// Worth trying again until the time is up; the outcome of what was sent is unknown.
    Transient(String),
    /// The server's memory is full.
    Full(String),
    /// Trying again does not help.
    Refused(String),
}

impl Failure {
    /// For people.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Moved(to) => format!("the slot moved to {to}"),
            Self::NoFunction => "it has not loaded the functions".into(),
            Self::Transient(why) | Self::Full(why) | Self::Refused(why) => why.clone(),
        }
    }
}

/// Answers that pass: a failover, a restart, a move of slots, a full disk that is being emptied, a primary that became a
/// replica while it waited for its replicas.
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
            // The slot is on its way. Its new server has some of the keys only, and would say of the
            // others that they are absent: it is asked once it has all.
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
