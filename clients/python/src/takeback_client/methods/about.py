"""Methods about takeback itself."""

from __future__ import annotations

from typing import Optional

from ..types import Explanation, ServerInfo, Settings, SlashAnswer, Status
from .caller import Caller


class AboutMethods(Caller):
    """Methods about takeback itself."""

    def initialize(self) -> ServerInfo:
        """Describes the server: its version, its home and its methods."""
        result: ServerInfo = self.call("initialize")
        return result

    def status(self) -> Status:
        """Describes the store and its workspaces."""
        result: Status = self.call("status")
        return result

    def config_get(self) -> Settings:
        """Lists all settings, and the source of each value."""
        result: Settings = self.call("config.get")
        return result

    def explain(self, command: str) -> Explanation:
        """Analyzes a shell command without running it."""
        result: Explanation = self.call("explain", command=command)
        return result

    def slash(
        self,
        line: str,
        *,
        session: Optional[str] = None,
        model: Optional[str] = None,
        headless: Optional[bool] = None,
    ) -> Optional[SlashAnswer]:
        """Answers a slash command. Returns None if the line is a prompt for the model."""
        result: Optional[SlashAnswer] = self.call(
            "slash", line=line, session=session, model=model, headless=headless
        )
        return result
