"""Methods by which an agent reports its work, and keeps its conversation in the ledger."""

from __future__ import annotations

from typing import Optional, Sequence

from ..types import (
    AppendedMessages,
    CompressedSession,
    Json,
    Message,
    Name,
    Notices,
    Report,
    SessionName,
    Usage,
)
from .caller import Caller, to_list


class AgentMethods(Caller):
    """Methods by which an agent reports its work, and keeps its conversation in the ledger."""

    def session_start(
        self,
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
        parent: Optional[Name] = None,
        turn: Optional[Name] = None,
        model: Optional[str] = None,
    ) -> Report:
        """Reports that a session begins."""
        result: Report = self.call(
            "session.start", agent=agent, session=session, parent=parent, turn=turn, model=model
        )
        return result

    def turn_start(
        self,
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
        parent: Optional[Name] = None,
        turn: Optional[Name] = None,
        model: Optional[str] = None,
        prompt: Optional[str] = None,
    ) -> Report:
        """Reports that a turn begins, with the user's message."""
        result: Report = self.call(
            "turn.start",
            agent=agent,
            session=session,
            parent=parent,
            turn=turn,
            model=model,
            prompt=prompt,
        )
        return result

    def tool_before(
        self,
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
        parent: Optional[Name] = None,
        turn: Optional[Name] = None,
        model: Optional[str] = None,
        call: Optional[Name] = None,
        tool: Optional[str] = None,
        input: Json = None,
    ) -> Report:
        """Reports a tool call before it runs. Returns when the checkpoint is complete.

        If that takes longer than the setting `timeout_ms`, the result has `late`.
        """
        result: Report = self.call(
            "tool.before",
            agent=agent,
            session=session,
            parent=parent,
            turn=turn,
            model=model,
            call=call,
            tool=tool,
            input=input,
        )
        return result

    def tool_after(
        self,
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
        parent: Optional[Name] = None,
        turn: Optional[Name] = None,
        model: Optional[str] = None,
        call: Optional[Name] = None,
        tool: Optional[str] = None,
        input: Json = None,
        outcome: Json = None,
    ) -> Report:
        """Reports that a tool call has ended."""
        result: Report = self.call(
            "tool.after",
            agent=agent,
            session=session,
            parent=parent,
            turn=turn,
            model=model,
            call=call,
            tool=tool,
            input=input,
            outcome=outcome,
        )
        return result

    def turn_end(
        self,
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
        parent: Optional[Name] = None,
        turn: Optional[Name] = None,
        model: Optional[str] = None,
    ) -> Report:
        """Reports that a turn has ended."""
        result: Report = self.call(
            "turn.end", agent=agent, session=session, parent=parent, turn=turn, model=model
        )
        return result

    def session_end(
        self,
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
        parent: Optional[Name] = None,
        turn: Optional[Name] = None,
        model: Optional[str] = None,
        reason: Optional[str] = None,
    ) -> Report:
        """Reports that a session has ended."""
        result: Report = self.call(
            "session.end",
            agent=agent,
            session=session,
            parent=parent,
            turn=turn,
            model=model,
            reason=reason,
        )
        return result

    def session_set(
        self,
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
        user: Optional[str] = None,
        model: Optional[str] = None,
        model_config: Json = None,
        system_prompt: Optional[str] = None,
    ) -> SessionName:
        """Replaces the given settings of a session."""
        result: SessionName = self.call(
            "session.set",
            agent=agent,
            session=session,
            user=user,
            model=model,
            model_config=model_config,
            system_prompt=system_prompt,
        )
        return result

    def session_compress(
        self,
        to: Name,
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
    ) -> CompressedSession:
        """Ends a session as compacted, and continues it as the session ``to``."""
        result: CompressedSession = self.call(
            "session.compress", to=to, agent=agent, session=session
        )
        return result

    def notices_take(
        self,
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
    ) -> Notices:
        """Takes the session's pending notices. Each notice is returned only once."""
        result: Notices = self.call("notices.take", agent=agent, session=session)
        return result

    def messages_append(
        self,
        messages: Sequence[Message],
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
    ) -> AppendedMessages:
        """Appends messages to the session, and returns their numbers. Report the user's messages
        as the prompts of ``turn_start`` instead.
        """
        result: AppendedMessages = self.call(
            "messages.append", messages=to_list(messages), agent=agent, session=session
        )
        return result

    def usage_record(
        self,
        usage: Usage,
        *,
        agent: Optional[Name] = None,
        session: Optional[Name] = None,
    ) -> SessionName:
        """Adds to the recorded usage of a session."""
        result: SessionName = self.call("usage.record", usage=usage, agent=agent, session=session)
        return result
