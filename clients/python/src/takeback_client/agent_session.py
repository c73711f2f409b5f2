"""A session of your agent: turns, tool calls, messages and notices."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Type

from .errors import TakebackError, ToolRefusedError
from .types import Json, Message, Name, Report, Usage

if TYPE_CHECKING:
    from .client import Takeback


class AgentSession:
    """A session of your agent, made by `Takeback.session`.

    As a context manager, it reports the start and the end of the session.
    """

    def __init__(
        self,
        takeback: Takeback,
        agent: str,
        session: Name,
        model: Optional[str] = None,
        parent: Optional[Name] = None,
    ) -> None:
        self.takeback = takeback
        self._who: Dict[str, Any] = {"agent": agent, "session": session}
        self._reporter: Dict[str, Any] = {**self._who, "model": model, "parent": parent}

    @property
    def id(self) -> str:
        """The id of the session in the ledger, as the methods about sessions expect it."""
        return f"{self._who['agent']}:{self._who['session']}"

    def start(self) -> Report:
        return self.takeback.session_start(**self._reporter)

    def end(self, reason: Optional[str] = None) -> Report:
        return self.takeback.session_end(**self._reporter, reason=reason)

    def start_turn(self, prompt: str, turn: Optional[Name] = None) -> Report:
        """Begins a turn with the user's message."""
        return self.takeback.turn_start(**self._reporter, prompt=prompt, turn=turn)

    def end_turn(self) -> Report:
        return self.takeback.turn_end(**self._reporter)

    def tool_call(self, tool: str, input: Json, call: Optional[Name] = None) -> ToolCall:
        """Returns a tool call. Run the tool inside ``with``: the checkpoint is taken first."""
        return ToolCall(self, tool, input, call)

    def append(self, *messages: Message) -> List[int]:
        """Appends messages of the agent to the ledger, and returns their numbers."""
        return self.takeback.messages_append(messages, **self._who)["messages"]

    def record_usage(self, usage: Usage) -> None:
        self.takeback.usage_record(usage, **self._who)

    def take_notice(self) -> Optional[str]:
        """Returns the text that tells the model what a rollback changed, or None.

        Each notice is returned only once. Add it to the next message to the model.
        """
        return self.takeback.notices_take(**self._who)["text"]

    def __enter__(self) -> AgentSession:
        self.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            self.end()
        except TakebackError:
            # An exception from the agent matters more than a failure to report the session's end.
            if kind is None:
                raise


class ToolCall:
    """A tool call of the agent.

    On entry, takeback completes the checkpoint, or raises :class:`ToolRefusedError`; in that case,
    the call must not run. On exit, the end of the call is reported.
    """

    def __init__(self, session: AgentSession, tool: str, input: Json, call: Optional[Name]) -> None:
        self._takeback = session.takeback
        self._params = {**session._reporter, "tool": tool, "input": input, "call": call}
        self.report: Optional[Report] = None
        """takeback's answer: the checkpoints, and everything that it could not protect."""
        self.outcome: Optional[str] = None
        """The outcome to report. By default ``ok``, or ``error`` after an exception."""

    @property
    def warnings(self) -> Sequence[str]:
        """A description of everything that is not protected, to be shown to the user."""
        report = self.report
        if report is None:
            return []
        lost = [f"{path['path']}: {path['reason']}" for path in report["unprotected"]]
        harm = [f"this call would {clause}" for clause in report["tampering"]]
        return report["failures"] + lost + harm

    def __enter__(self) -> ToolCall:
        self.report = self._takeback.tool_before(**self._params)
        if self.report["refused"]:
            raise ToolRefusedError(self.report)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        outcome = self.outcome or ("ok" if kind is None else "error")
        try:
            self._takeback.tool_after(**self._params, outcome=outcome)
        except TakebackError:
            # An exception from the tool matters more than a failure to report the end of the call.
            if kind is None:
                raise
