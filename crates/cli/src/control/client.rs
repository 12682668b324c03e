//! The side of the verbs.

use std::io::BufReader;
use std::path::Path;

use serde_json::Value;

use super::message::{Reply, Request, receive, send};
use super::{TIMEOUT, socket};
use crate::exit::{Failure, Outcome};

/// Asks the node behind `path`. Every wait is bounded; `progress` hears what the node sends before its answer.
pub(crate) fn call(
    path: &Path,
    request: &Request,
    mut progress: impl FnMut(Value),
) -> Outcome<Value> {
    call_while(path, request, |value| {
        progress(value);
        Ok(())
    })
}

/// The same until `progress` fails; the node goes on with what it was asked for.
pub(crate) fn call_while(
    path: &Path,
    request: &Request,
    mut progress: impl FnMut(Value) -> Outcome,
) -> Outcome<Value> {
    let fail = |why: String| {
        Failure::general(format!("the node at {} does not answer: {why}", path.display()))
            .with_help("see node.log beside the socket; 'intarsia down --force' ends a hung node")
    };
    let mut stream = socket::connect(path).map_err(|e| fail(e.to_string()))?;
    stream
        .set_read_timeout(Some(TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)))
        .and_then(|()| send(&mut stream, request))
        .map_err(|e| fail(e.to_string()))?;
    let mut reader = BufReader::new(stream);
    loop {
        match receive(&mut reader).map_err(fail)? {
            Some(Reply::Progress(value)) => progress(value)?,
            Some(Reply::Done(value)) => return Ok(value),
            Some(Reply::Failed(failure)) => return Err(failure),
            None => return Err(fail("it closed the connection".into())),
        }
    }
}
