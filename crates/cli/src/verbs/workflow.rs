//! Running workflows, which the Python package does: `run`.

use super::python::{self, Part};
use crate::cli::PythonArguments;
use crate::exit::{Exit, Outcome};

/// Tasks over hosts; its page alone needs pandas and matplotlib.
const RUN: Part =
    Part { module: "intarsia.run", needs: &["dask", "distributed", "yaml"], extra: "run" };

pub(crate) fn run(arguments: &PythonArguments) -> Outcome<Exit> {
    python::run(&RUN, None, arguments)
}
