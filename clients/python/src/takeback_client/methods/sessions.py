"""Methods about the sessions of all agents."""

from __future__ import annotations

from typing import Literal, Optional, Sequence, overload

from ..types import (
    AnyPath,
    ClearedSession,
    ForkedSession,
    Json,
    RewoundSession,
    SearchResult,
    SessionList,
    SessionNode,
    SessionState,
    SessionStats,
    SessionTitle,
    StatsBy,
    Transcript,
)
from .caller import Caller, encode_optional_path, to_list


class SessionMethods(Caller):
    """Methods about the sessions of all agents."""

    def sessions_list(
        self,
        *,
        sources: Optional[Sequence[str]] = None,
        workspace: Optional[AnyPath] = None,
        limit: Optional[int] = None,
        archived: Optional[bool] = None,
    ) -> SessionList:
        """Lists sessions, latest activity first."""
        result: SessionList = self.call(
            "sessions.list",
            sources=to_list(sources),
            workspace=encode_optional_path(workspace),
            limit=limit,
            archived=archived,
        )
        return result

    @overload
    def sessions_get(
        self, session: str, *, format: Optional[Literal["json"]] = None
    ) -> Transcript: ...

    @overload
    def sessions_get(self, session: str, *, format: Literal["openai", "anthropic"]) -> Json: ...

    def sessions_get(self, session: str, *, format: Optional[str] = None) -> Json:
        """Returns a whole session, or the messages that would be sent to a model."""
        return self.call("sessions.get", session=session, format=format)

    def sessions_search(
        self,
        query: str,
        *,
        sources: Optional[Sequence[str]] = None,
        exclude_sources: Optional[Sequence[str]] = None,
        roles: Optional[Sequence[str]] = None,
        since: Optional[str] = None,
        undone: Optional[bool] = None,
        limit: Optional[int] = None,
    ) -> SearchResult:
        """Searches all messages."""
        result: SearchResult = self.call(
            "sessions.search",
            query=query,
            sources=to_list(sources),
            exclude_sources=to_list(exclude_sources),
            roles=to_list(roles),
            since=since,
            undone=undone,
            limit=limit,
        )
        return result

    def sessions_tree(self, session: str) -> SessionNode:
        """Returns the lineage of a session, from its oldest ancestor down."""
        result: SessionNode = self.call("sessions.tree", session=session)
        return result

    def sessions_title(
        self,
        session: str,
        title: str,
        *,
        next: Optional[bool] = None,
    ) -> SessionTitle:
        """Changes the title of a session."""
        result: SessionTitle = self.call("sessions.title", session=session, title=title, next=next)
        return result

    def sessions_end(self, session: str, *, reason: Optional[str] = None) -> SessionState:
        """Marks a session as ended."""
        result: SessionState = self.call("sessions.end", session=session, reason=reason)
        return result

    def sessions_reopen(self, session: str) -> SessionState:
        """Reopens a session that has ended."""
        result: SessionState = self.call("sessions.reopen", session=session)
        return result

    def sessions_archive(self, session: str, *, archived: Optional[bool] = None) -> SessionState:
        """Archives a session, or takes it out of the archive."""
        result: SessionState = self.call("sessions.archive", session=session, archived=archived)
        return result

    def sessions_clear(self, session: str) -> ClearedSession:
        """Deletes the messages of a session."""
        result: ClearedSession = self.call("sessions.clear", session=session)
        return result

    def sessions_fork(self, session: str, at: int) -> ForkedSession:
        """Copies the messages of a session, up to number ``at``, into a new session."""
        result: ForkedSession = self.call("sessions.fork", session=session, at=at)
        return result

    def sessions_undo(self, session: str, *, turns: Optional[int] = None) -> RewoundSession:
        """Takes back the last turns of a conversation, without files."""
        result: RewoundSession = self.call("sessions.undo", session=session, turns=turns)
        return result

    def sessions_redo(self, session: str) -> RewoundSession:
        """Reverses the latest ``sessions_undo``."""
        result: RewoundSession = self.call("sessions.redo", session=session)
        return result

    def sessions_stats(self, *, by: Optional[StatsBy] = None) -> SessionStats:
        """Returns the totals of tokens and costs."""
        result: SessionStats = self.call("sessions.stats", by=by)
        return result
