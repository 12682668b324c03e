"""What a user can put right."""


class TraceError(Exception):
    """A record cannot be used; the message names the file and the line or field, and the fix."""

    def __init__(self, source: str, place: str, what: str, advice: str = "") -> None:
        where = f"{source}: {place}: " if place else f"{source}: "
        super().__init__(f"{where}{what}" + (f"\nhelp: {advice}" if advice else ""))
