"""What a user can put right."""


class DedupError(Exception):
    """Input that cannot be used; the message says what is wrong, where, and what to do."""
