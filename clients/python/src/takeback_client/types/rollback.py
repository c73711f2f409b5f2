"""Types of plans, rollbacks and undos."""

from __future__ import annotations

from typing import List, Literal, Optional, TypedDict

from .basic import AnyPath, Effect, JsonPath
from .checkpoint import Head, Resume, Uncovered

#: The part of a checkpoint to restore.
Scope = Literal["both", "files", "chat"]
#: A way to resolve a conflict.
Resolution = Literal["leave", "theirs", "ours", "markers"]


class KeptPath(TypedDict):
    path: JsonPath
    reason: str


class Writer(TypedDict):
    """A process that has a file open for writing."""

    pid: int
    command: str


class _BlockedPathExtras(TypedDict, total=False):
    reason: str
    size: int
    error: str
    writers: List[Writer]


class BlockedPath(_BlockedPathExtras):
    path: JsonPath
    blocked: str


class Conflict(TypedDict):
    path: JsonPath
    reason: str
    resolved: bool


class Doubt(TypedDict):
    """A file that others may have changed during the turn."""

    path: JsonPath
    reason: str


class _ElsewhereExtras(TypedDict, total=False):
    others: List[JsonPath]
    left: List[JsonPath]
    blocked: List[BlockedPath]
    error: str


class Elsewhere(_ElsewhereExtras):
    """The part of a rollback that affects a directory or file outside the workspace."""

    workspace: JsonPath
    restored: List[JsonPath]
    deleted: List[JsonPath]
    safety_checkpoint: Optional[str]


class RewoundChat(TypedDict):
    session: str
    prompt: Optional[str]
    resume: Optional[str]


class _MovedSessionExtras(TypedDict, total=False):
    prompt: str
    resume: Resume
    stays: str


class MovedSession(_MovedSessionExtras):
    session: str
    undone_messages: int
    redone_messages: int
    undone_turns: int


class HeadMoved(TypedDict):
    then: Head
    now: Head
    command: Optional[str]


class _RollbackResultExtras(TypedDict, total=False):
    row: int
    unsettled: List[JsonPath]
    privileged: List[JsonPath]
    unprivileged: List[JsonPath]
    disowned: List[JsonPath]
    skipped: List[BlockedPath]
    conflicts: List[Conflict]
    uncertain: List[JsonPath]
    doubts: List[Doubt]
    elsewhere: List[Elsewhere]
    chat: RewoundChat
    sessions: List[MovedSession]


class RollbackResult(_RollbackResultExtras):
    """The result of a rollback or an undo, or the plan for one."""

    action: str
    checkpoint: str
    safety_checkpoint: Optional[str]
    restored: List[JsonPath]
    deleted: List[JsonPath]
    guarded: List[JsonPath]
    kept: List[KeptPath]
    saved: List[JsonPath]
    uncovered: List[Uncovered]
    blocked: List[BlockedPath]
    others: List[JsonPath]
    effects: List[Effect]
    undone_messages: int
    redone_messages: int
    index: bool
    repository: Optional[HeadMoved]
    warnings: List[str]


class PlanResult(TypedDict):
    plan: RollbackResult
    digest: str


class FileResolution(TypedDict):
    """A way to resolve the conflicts in one file."""

    path: AnyPath
    resolution: Resolution
