//! Random messages survive the way; random bytes are read or refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod samples;

use intarsia_types::{BackingFileId, TierId};
use intarsia_wire::{
    Body, Handle, Header, Hello, MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, PREFIX_BYTES, Prefix,
    Request, Response, Verdict, WireError,
};
use proptest::prelude::*;

fn bodies() -> impl Strategy<Value = Body> {
    let requests: Vec<Request> = samples::requests().into_iter().map(|(_, r)| r).collect();
    let responses: Vec<Response> = samples::responses().into_iter().map(|(_, r)| r).collect();
    let request = prop_oneof![
        proptest::sample::select(requests),
        (any::<u64>(), any::<u64>(), any::<u32>(), any::<u64>()).prop_map(
            |(handle, offset_bytes, len_bytes, read_ahead_bytes)| Request::Read {
                handle: Handle(handle),
                offset_bytes,
                len_bytes,
                read_ahead_bytes,
            }
        ),
        (any::<u16>(), proptest::collection::vec(any::<u64>(), 0..200)).prop_map(
            |(tier, files)| Request::Reclaim {
                tier: TierId(tier),
                files: files.into_iter().map(BackingFileId).collect(),
            }
        ),
    ];
    let response = prop_oneof![
        proptest::sample::select(responses),
        any::<u64>().prop_map(|size_bytes| Response::Data { size_bytes }),
    ];
    prop_oneof![
        (any::<u64>(), any::<u32>(), request.clone())
            .prop_map(|(id, patience_ms, request)| Body::Request { id, patience_ms, request }),
        (any::<u64>(), response).prop_map(|(id, response)| Body::Response { id, response }),
        request.prop_map(|request| Body::OneWay { request }),
    ]
}

proptest! {
    #[test]
    fn headers_survive(payload_sum: u64, body in bodies()) {
        let header = Header { payload_sum, body };
        let bytes = header.encode().unwrap();
        prop_assert_eq!(Header::decode(&bytes).unwrap(), header);
    }

    #[test]
    fn a_cut_or_grown_header_is_refused(body in bodies(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Header { payload_sum: 1, body }.encode().unwrap();
        prop_assert!(Header::decode(&bytes[..cut.index(bytes.len())]).is_err());
        bytes.push(0);
        prop_assert!(Header::decode(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(header) = Header::decode(&bytes) {
            prop_assert_eq!(Header::decode(&header.encode().unwrap()).unwrap(), header);
        }
        let _ = Hello::decode(&bytes);
        let _ = Verdict::decode(&bytes);
    }

    #[test]
    fn the_start_of_a_frame_is_prefix_gap_header(
        body in bodies(), payload in 0..=MAX_PAYLOAD_BYTES, gap in 0usize..64,
    ) {
        let header = Header { payload_sum: 3, body };
        let head = header.encode_frame(payload, gap).unwrap();
        let prefix = Prefix::decode(*head.first_chunk::<PREFIX_BYTES>().unwrap()).unwrap();
        prop_assert_eq!(prefix.payload_bytes(), payload);
        prop_assert!(head[PREFIX_BYTES..PREFIX_BYTES + gap].iter().all(|b| *b == 0));
        let rest = &head[PREFIX_BYTES + gap..];
        prop_assert_eq!(rest.len(), prefix.header_bytes());
        prop_assert_eq!(Header::decode(rest).unwrap(), header);
    }
}

#[test]
fn a_header_beyond_the_limit_is_not_sent() {
    let files = (0..10_000).map(|n| BackingFileId(u64::MAX - n)).collect();
    let request = Request::Reclaim { tier: TierId(0), files };
    let header = Header { payload_sum: 0, body: Body::OneWay { request } };
    assert!(matches!(header.encode(), Err(WireError::HeaderTooLong { .. })));
    assert!(matches!(header.encode_frame(0, 32), Err(WireError::HeaderTooLong { .. })));
    assert!(Header::decode(&vec![0; MAX_HEADER_BYTES + 1]).is_err());
}
