//! Random operations in a mount and, in step, in a native directory; both must always agree.
//!
//! The native file system is the reference because it knows every rule and every errno. Where the two
//! are free to differ (block counts, holes, the order of a listing) nothing is compared.

mod operation;
mod pair;
mod side;

use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use intarsia_posix_tests::{Mode, Settings, Store, in_both_modes, is_long};
use operation::{Operation, operations};
use pair::Pair;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

/// How long a case that failed is made shorter, in milliseconds.
const SHRINKING_MS: u32 = 120_000;

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
        max_shrink_time: SHRINKING_MS,
        ..Config::default()
    };
    let state = RefCell::new((store, 0));
    let broken = RefCell::new(None);
    let outcome = TestRunner::new(config).run(&operations(), |operations| {
        // A store that broke says nothing about shorter cases.
        if broken.borrow().is_some() {
            return Ok(());
        }
        let (store, case) = &mut *state.borrow_mut();
        *case += 1;
        let outcome =
            catch_unwind(AssertUnwindSafe(|| compare(store, native.path(), *case, &operations)));
        let outcome = outcome.unwrap_or_else(|panic| {
            *broken.borrow_mut() = Some(panic);
            Err("the store or the test broke".into())
        });
        outcome.inspect_err(|e| report(*case, e)).map_err(TestCaseError::fail)
    });
    if let Some(panic) = broken.into_inner() {
        resume_unwind(panic);
    }
    if let Err(e) = outcome {
        panic!("{e}");
    }
}

/// Says what a case found, past what keeps the output of a test until it has ended.
///
/// What a race shows once may not show again while the case is being shrunk.
fn report(case: usize, finding: &str) {
    let _ = writeln!(std::io::stderr(), "case {case}: {finding}");
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
