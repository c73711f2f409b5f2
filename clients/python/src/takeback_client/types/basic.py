"""Types that several methods share, and types about takeback itself."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, TypedDict, Union


class RawPath(TypedDict):
    """A path that is not valid UTF-8: its bytes in base64. ``decode_path`` decodes it."""

    bytes: str


#: A path in a result.
JsonPath = Union[str, RawPath]
#: A path in a parameter.
AnyPath = Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]
#: The agent's name for a session, a turn or a call.
Name = Union[str, int]
#: Any JSON value.
Json = Any


class ServerInfo(TypedDict):
    protocol: int
    version: str
    home: JsonPath
    cwd: JsonPath
    max_line_bytes: int
    methods: List[str]


class Effect(TypedDict):
    """A command whose effect no rollback reverses."""

    kind: str
    command: str


class Failure(TypedDict):
    """An error in a hook, such as a missed checkpoint."""

    workspace: JsonPath
    checkpoint: bool
    message: str
    since: float
    until: float
    count: int


class LegacyArchive(TypedDict):
    name: str
    bytes: int


class WorkspaceStatus(TypedDict):
    path: JsonPath
    checkpoints: int
    last_touched: str
    state: str


class MirrorStatus(TypedDict):
    path: JsonPath
    updated: Optional[str]


class Status(TypedDict):
    home: JsonPath
    total_bytes: int
    store_bytes: int
    max_bytes: int
    can_shrink: bool
    clock_jump: Optional[Dict[str, str]]
    legacy: List[LegacyArchive]
    workspaces: List[WorkspaceStatus]
    failures: List[Failure]
    mirror: Optional[MirrorStatus]


class Setting(TypedDict):
    key: str
    value: Json
    source: str
    meaning: Optional[str]


class Settings(TypedDict):
    file: str
    profile: Optional[str]
    profiles: List[str]
    settings: List[Setting]


class HistoryCommand(TypedDict):
    """A command that deletes takeback's own history or hooks."""

    command: str


class Explanation(TypedDict):
    mutates: bool
    because: str
    effects: List[Effect]
    paths: List[str]
    outside: List[str]
    sweeps: List[str]
    unknown: List[str]
    history: List[HistoryCommand]
    bounded: bool


class SlashAnswer(TypedDict):
    text: str
    data: Json
    action: Optional[Dict[str, Json]]
    failed: bool
