"""What a profile really did, for run.json."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ProfileReport:
    """Filled in while the first passes run."""

    name: str
    call: str  # "direct", or "pipeline" where the pipeline is called as it comes
    stages: dict[str, str] = field(default_factory=dict)  # how each stage runs
    setup_seconds: float = 0.0  # compiling, probing and recording, all in the first pass of each input shape
    attention: str | None = None  # the backend that the probe found fastest
    steps_run: int | None = None

    def say(self, stage: str, how: str, seconds: float) -> None:
        """Note how a stage runs and what it took to get there."""
        self.stages[stage] = how
        self.setup_seconds += seconds

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**vars(self), "setup_seconds": round(self.setup_seconds, 3)}
