//! Random operations in a mount and, in step, in a native directory; both must always agree.
//!
//! The native file system is the reference because it knows every rule and every errno. Where the two
//! are free to differ (block counts, holes, the order of a listing) nothing is compared.

mod operation;
mod pair;
mod side;

use std::cell::RefCell;

use intarsia_posix_tests::{Mode, Settings, Store, in_both_modes, is_long};
use operation::{Operation, operations};
use pair::Pair;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

fn agrees_with_native(mode: Mode) {
    explore(mode, false);
}

/// Verified reads: nothing goes past the process, whatever the mount offers.
fn agrees_with_native_when_strict(mode: Mode) {
    explore(mode, true);
}

in_both_modes!(agrees_with_native, agrees_with_native_when_strict);

fn explore(mode: Mode, is_strict: bool) {
    let store = Store::start(Settings::new(mode));
    if is_strict {
        xattr::set(store.mount(), "user.intarsia.integrity", b"strict").unwrap();
    }
    let native = tempfile::tempdir().unwrap();
    let config = Config {
        cases: if is_long() { 500 } else { 20 },
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/model/regressions"
        )))),
        max_shrink_iters: 400,
        ..Config::default()
    };
    let state = RefCell::new((store, 0));
    let outcome = TestRunner::new(config).run(&operations(), |operations| {
        let (store, case) = &mut *state.borrow_mut();
        *case += 1;
        let outcome = compare(store, native.path(), *case, &operations);
        // What a race shows once may not show again while the case is being shrunk.
        outcome.inspect_err(|e| eprintln!("case {case}: {e}")).map_err(TestCaseError::fail)
    });
    if let Err(e) = outcome {
        panic!("{e}");
    }
}

/// Runs one sequence in fresh directories; the first disagreement, in words.
fn compare(
    store: &mut Store,
    native: &std::path::Path,
    case: usize,
    operations: &[Operation],
) -> Result<(), String> {
    let name = format!("case{case}");
    let mut pair = Pair::new(&store.path(&name), &native.join(&name));
    for (i, operation) in operations.iter().enumerate() {
        if matches!(operation, Operation::Remount) {
            pair.close_all();
            store.remount();
        }
        pair.perform(operation).map_err(|e| format!("step {i}, {operation:?}: {e}"))?;
    }
    pair.close_all();
    pair.compare_trees()?;
    store.settle();
    pair.compare_trees().map_err(|e| format!("after settling: {e}"))
}
