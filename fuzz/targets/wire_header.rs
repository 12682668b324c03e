//! Headers of frames between nodes, with every request, response and error in them.
#![no_main]

use intarsia_types::Error;
use intarsia_wire::{Body, Fault, Header, Response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = Header::decode(bytes) else { return };
    let again = header.encode().expect("what was read can be written");
    assert_eq!(Header::decode(&again).as_ref(), Ok(&header));
    if let Body::Response { response: Response::Failed(fault), .. } = header.body {
        let error = Error::from(fault);
        assert_eq!(Error::from(Fault::from(&error)).errno(), error.errno());
    }
});
