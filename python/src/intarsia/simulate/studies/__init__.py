"""The studies that come with the program, one file each."""

from intarsia.simulate.studies.built_in import BuiltIn
from intarsia.simulate.studies.fusionsim import FUSIONSIM
from intarsia.simulate.studies.intervals import INTERVALS
from intarsia.simulate.studies.machines import MACHINES
from intarsia.simulate.studies.networks import NETWORKS
from intarsia.simulate.studies.rxsim import RXSIM

BUILT_IN: dict[str, BuiltIn] = {
    study.name: study for study in (RXSIM, FUSIONSIM, INTERVALS, MACHINES, NETWORKS)
}

__all__ = ["BUILT_IN", "BuiltIn"]
