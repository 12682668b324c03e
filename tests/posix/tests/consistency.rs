//! Several clients at once in one mount: what they saw of each other must have been possible.

use std::sync::Arc;
use std::time::Duration;

use intarsia_history::check::{Rules, check};
use intarsia_history::client::{self, Plan, Workload};
use intarsia_history::event::{Record, Recorder};
use intarsia_posix_tests::{Mode, Settings, Store, fresh_seed, in_both_modes, is_long};

const DIRECTORIES: u16 = 3;
const CLIENTS: u16 = 4;
const OPERATIONS: u64 = 2500;
const OPERATIONS_LONG: u64 = 20_000;

/// Opens, sizes, listings, renames, links and removals of clients that meet on the same names.
fn concurrent_clients(mode: Mode) {
    let operations = if is_long() { OPERATIONS_LONG } else { OPERATIONS };
    observe(mode, Workload::Mixed, operations);
}

/// Names that are replaced, removed and made again, with files of all sizes.
fn replacing_clients(mode: Mode) {
    let operations = if is_long() { OPERATIONS_LONG } else { OPERATIONS };
    observe(mode, Workload::Replacing, operations / 4);
}

fn observe(mode: Mode, workload: Workload, operations: u64) {
    let store = Store::start(Settings::new(mode));
    let records = tempfile::tempdir().unwrap();
    let seed = fresh_seed();
    client::make_directories(store.mount(), DIRECTORIES).unwrap();
    let record = |client: u16| records.path().join(format!("{client}.jsonl"));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let plan = Plan {
                root: store.mount().to_owned(),
                client,
                clients: CLIENTS,
                seed,
                workload,
                operations,
                time: Duration::from_secs(600),
                pause: Duration::ZERO,
                directories: DIRECTORIES,
                names: 6,
                gate: Arc::default(),
            };
            let recorder = Recorder::create(&record(client), client, seed).unwrap();
            scope.spawn(move || client::run(&plan, recorder).unwrap());
        }
    });
    let records: Vec<Record> = (0..CLIENTS).map(|c| Record::read(&record(c)).unwrap()).collect();
    let verdict = check(&records, Rules::default());
    assert!(verdict.is_clean(), "seed {seed}: {verdict:#?}");
    assert!(verdict.operations as u64 >= operations * u64::from(CLIENTS));
}

in_both_modes!(concurrent_clients, replacing_clients);
