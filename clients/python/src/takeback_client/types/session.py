"""Types of the agent's own reports, messages and notices."""

from __future__ import annotations

from typing import List, Optional, TypedDict, Union

from .basic import Effect, Json, JsonPath


class Unprotected(TypedDict):
    """A path that a call may change and that no checkpoint can restore."""

    path: str
    reason: str
    replaceable: bool


class Report(TypedDict):
    """The answer to an agent's report."""

    session: str
    enabled: bool
    checkpoints: List[str]
    missed: bool
    late: bool
    failures: List[str]
    unprotected: List[Unprotected]
    tampering: List[str]
    refused: bool


class NoticeFile(TypedDict):
    path: JsonPath
    removed: bool


class Notice(TypedDict):
    """The files and effects that the agent must know about after a rollback."""

    workspace: JsonPath
    files: List[NoticeFile]
    more: int
    effects: List[Effect]


class Notices(TypedDict):
    session: str
    notices: List[Notice]
    text: Optional[str]


class _MessageExtras(TypedDict, total=False):
    seq: int
    content: Json
    tool_call_id: Optional[str]
    tool_calls: Json
    tool_name: Optional[str]
    timestamp: Union[float, str, None]
    token_count: Optional[int]
    finish_reason: Optional[str]
    reasoning: Optional[str]
    reasoning_content: Optional[str]
    reasoning_details: Json
    codex_reasoning_items: Json
    codex_message_items: Json
    undone: bool
    compacted: bool
    summarizes: int


class Message(_MessageExtras):
    """A message in the exchange format."""

    role: str


class Usage(TypedDict, total=False):
    """The usage of one model."""

    model: str
    billing_provider: Optional[str]
    billing_base_url: Optional[str]
    billing_mode: Optional[str]
    api_call_count: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    estimated_cost_usd: Optional[float]
    actual_cost_usd: Optional[float]
    cost_status: Optional[str]
    cost_source: Optional[str]
    pricing_version: Optional[str]
    first_seen: Union[float, str, None]
    last_seen: Union[float, str, None]


class AppendedMessages(TypedDict):
    session: str
    messages: List[int]


class SessionName(TypedDict):
    session: str


class CompressedSession(TypedDict):
    session: str
    parent: str
    title: Optional[str]
