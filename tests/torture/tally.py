"""What a trial of faults counts. Everything but ``tried`` must be 0."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """The counts of one kind of trial."""

    kind: str
    tried: int = 0
    lost: int = 0
    """Replies or results that had been there and were gone."""
    paid_twice: int = 0
    """Calls that were answered and kept, and asked again."""
    tracebacks: int = 0
    """Exceptions that reached the user, untyped failures, and processes that hung."""
    silent_changes: int = 0
    """Other results than without the fault, and no word about it; values that cannot be; forged turns."""
    notes: list[str] = field(default_factory=list)
    """What went wrong, how to see it again, or what could not be tried here."""

    @property
    def sound(self) -> bool:
        """Whether nothing went wrong, and anything was tried."""
        return self.tried > 0 and not (self.lost or self.paid_twice or self.tracebacks or self.silent_changes)

    def add(self, other: Tally) -> None:
        """Count what was found elsewhere, too."""
        self.tried += other.tried
        self.lost += other.lost
        self.paid_twice += other.paid_twice
        self.tracebacks += other.tracebacks
        self.silent_changes += other.silent_changes
        self.notes += other.notes
