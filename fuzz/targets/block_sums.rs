//! Checksum records: taken whole or refused; what was taken is written as it was read.
#![no_main]

use intarsia_codec::BlockSums;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    let mut sums = BlockSums::default();
    let is_whole = sums.push_record(record);
    assert_eq!(is_whole, record.len() % 8 == 0);
    if is_whole {
        assert_eq!(sums.records().flatten().collect::<Vec<u8>>(), record);
    }
    // The same bytes as content: every block is what its sum says.
    let sums = BlockSums::of(record);
    for (index, block) in record.chunks(64 << 10).enumerate() {
        assert!(sums.verify(index, block));
    }
});
