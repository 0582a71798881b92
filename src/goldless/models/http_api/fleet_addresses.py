"""The addresses of a fleet, as users give them: ``http://a:8000/v1,http://b:8000/v1`` or ``http:@FILE``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from goldless.errors import ModelSpecError
from goldless.models.http_api.addresses import checked_url

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class FleetAddresses:
    """Several addresses of one model, fixed or in a file that may change while goldless runs."""

    said: str
    """What the user wrote, without the model."""
    file: Path | None = None

    @classmethod
    def find(cls, said: str) -> FleetAddresses | None:
        """The addresses of a fleet; None if it is one address."""
        _, at, file = said.partition(":@")
        if at:
            if not file:
                raise ModelSpecError("a file must follow http:@, as in http:@servers.txt#MODEL")
            return cls(said, Path(file))
        return cls(said) if "," in said else None

    def read(self) -> tuple[str, ...]:
        """The addresses now, each once, in the given order. Raises ModelSpecError that names every bad one."""
        found, bad = [], []
        for place, address in self._written():
            if "#" in address:
                bad.append(f"{place}: the model must follow the last address or the file, got {address!r}")
                continue
            try:
                found.append(checked_url(address, said=place))
            except ModelSpecError as error:
                bad.append(str(error))
        if bad:
            more = [f"… and {len(bad) - _SHOWN} more"] if len(bad) > _SHOWN else []
            raise ModelSpecError("\n".join([*bad[:_SHOWN], *more]))
        if not found:
            raise ModelSpecError(f"{self.said} has no address. Write one per line, such as http://host:8000/v1")
        return tuple(dict.fromkeys(found))

    def _written(self) -> list[tuple[str, str]]:
        """Where each address is written, and the address."""
        if self.file is None:
            return [("the model", part.strip()) for part in self.said.split(",")]
        try:
            lines = self.file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ModelSpecError(f"the addresses in {self.file} cannot be read: {error}") from None
        numbered = ((f"{self.file}, line {number}", line.strip()) for number, line in enumerate(lines, 1))
        return [(place, line) for place, line in numbered if line and not line.startswith("#")]
