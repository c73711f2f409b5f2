"""Types about the sessions of all agents."""

from __future__ import annotations

from typing import List, Literal, Optional, TypedDict

from .basic import Json
from .session import Message, Usage

#: The property that totals are grouped by.
StatsBy = Literal["model", "day", "workspace", "source", "session"]


class SessionRow(TypedDict):
    id: str
    source: str
    model: Optional[str]
    title: Optional[str]
    preview: str
    started_at: Optional[float]
    ended_at: Optional[float]
    end_reason: Optional[str]
    last_activity: float
    message_count: int
    tool_call_count: int
    input_tokens: int
    output_tokens: int
    estimated_cost_usd: Optional[float]
    actual_cost_usd: Optional[float]
    workspace: Optional[str]
    git_branch: Optional[str]
    parent_session_id: Optional[str]
    parent_kind: Optional[str]
    archived: bool


class SessionList(TypedDict):
    sessions: List[SessionRow]


class Hit(TypedDict):
    """A message that a search found."""

    session: str
    message: int
    role: str
    time: float
    snippet: str
    before: Optional[str]
    after: Optional[str]
    source: str
    model: Optional[str]
    title: Optional[str]
    session_started: float


class SearchResult(TypedDict):
    query: str
    results: List[Hit]
    total: int
    more: bool
    stopped: bool


class SessionNode(TypedDict):
    """A session with its descendants."""

    id: str
    title: Optional[str]
    source: str
    model: Optional[str]
    parent_kind: Optional[str]
    started_at: Optional[float]
    ended_at: Optional[float]
    message_count: int
    archived: bool
    workspace: Optional[str]
    asked: bool
    children: List[SessionNode]


class SessionTitle(TypedDict):
    session: str
    title: Optional[str]


class SessionState(TypedDict):
    session: str
    ended_at: Optional[float]
    end_reason: Optional[str]
    archived: bool


class ClearedSession(TypedDict):
    session: str
    messages: int


class ForkedSession(TypedDict):
    session: str
    parent: str
    at: int
    title: Optional[str]


class RewoundSession(TypedDict):
    session: str
    messages: int
    turns: int
    from_message: int
    prompt: Optional[str]


class UsageTotal(TypedDict):
    key: str
    sessions: int
    messages: int
    tool_calls: int
    api_calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    estimated_cost_usd: float
    actual_cost_usd: float
    unpriced_sessions: int


class SessionStats(TypedDict):
    by: str
    totals: List[UsageTotal]


class Call(TypedDict):
    """A tool call, as recorded in the ledger."""

    call: str
    turn: int
    tool: str
    input: Json
    outcome: Optional[str]
    started_at: Optional[float]
    ended_at: Optional[float]
    workspace: Optional[str]
    checkpoint: Optional[str]
    tree_before: Optional[str]
    tree_after: Optional[str]
    uncertain: bool


class RecordedEffect(TypedDict):
    """An effect that no rollback reverses, as recorded in the ledger."""

    turn: int
    call: Optional[str]
    kind: str
    command: str
    workspace: Optional[str]
    time: Optional[float]


class _TranscriptExtras(TypedDict, total=False):
    usage: List[Usage]
    calls: List[Call]
    effects: List[RecordedEffect]


class Transcript(_TranscriptExtras):
    """A session in the exchange format."""

    id: str
    source: str
    user_id: Optional[str]
    model: Optional[str]
    model_config: Json
    system_prompt: Optional[str]
    parent_session_id: Optional[str]
    parent_kind: Optional[str]
    started_at: Optional[float]
    ended_at: Optional[float]
    end_reason: Optional[str]
    message_count: int
    tool_call_count: int
    api_call_count: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    billing_provider: Optional[str]
    billing_base_url: Optional[str]
    billing_mode: Optional[str]
    estimated_cost_usd: Optional[float]
    actual_cost_usd: Optional[float]
    cost_status: Optional[str]
    cost_source: Optional[str]
    pricing_version: Optional[str]
    title: Optional[str]
    workspace: Optional[str]
    git_branch: Optional[str]
    archived: bool
    messages: List[Message]
