"""What a user can put right."""


class SeedError(Exception):
    """A directory cannot be measured; the message says what is wrong, where, and what to do."""
