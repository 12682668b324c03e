"""Failures of real machines: records, gaps between failures, fitted distributions.

```text
records (CSV, LANL) → gaps (per system, per node) → fit (maximum likelihood)
                                                    → goodness, figure, [failures] of a scenario
```
"""

from intarsia.simulate.failures.fit import Family, Fit, Parameter, fit, fit_all
from intarsia.simulate.failures.gaps import (
    Gaps,
    burst_sizes,
    node_gaps,
    repair_hours,
    select_system,
    system_gaps,
)
from intarsia.simulate.failures.goodness import Goodness, goodness
from intarsia.simulate.failures.records import (
    LANL_CITATION,
    Columns,
    RecordError,
    lanl,
    read_records,
)
from intarsia.simulate.failures.replay import replay_csv

__all__ = [
    "LANL_CITATION",
    "Columns",
    "Family",
    "Fit",
    "Gaps",
    "Goodness",
    "Parameter",
    "RecordError",
    "burst_sizes",
    "fit",
    "fit_all",
    "goodness",
    "lanl",
    "node_gaps",
    "read_records",
    "repair_hours",
    "replay_csv",
    "select_system",
    "system_gaps",
]
