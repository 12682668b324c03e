"""Moving a file or a tree from one directory to another: verified, bounded in rate, undoable."""

from intarsia.characterise.migrate.executor import Report, migrate, plan_of, undo
from intarsia.characterise.migrate.journal import Journal, State

__all__ = ["Journal", "Report", "State", "migrate", "plan_of", "undo"]
