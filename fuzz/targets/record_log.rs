//! Logs of recorded operations: any bytes are read or refused, and what was read is written and read again.
#![no_main]

use intarsia_trace::log::{MARK, Reader, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(reader) = Reader::new(input) {
        let _ = reader.count();
    }
    // Behind a right checksum, which no input finds by chance.
    let log = [MARK.as_slice(), &intarsia_trace::log::block(input)].concat();
    let Ok(reader) = Reader::new(&log) else { return };
    let records: Vec<_> = reader.collect();
    let mut again = Vec::new();
    records.iter().for_each(|record| Writer::encode(record, &mut again));
    let log = [MARK.as_slice(), &intarsia_trace::log::block(&again)].concat();
    let read: Vec<_> = Reader::new(&log).expect("what was read begins with a host").collect();
    assert_eq!(read, records);
});
