"""Types of checkpoints, diffs and forks."""

from __future__ import annotations

from typing import List, Optional, TypedDict, Union

from .basic import Effect, Failure, JsonPath, Name

#: The number of a row or of a step (``"2.3"``), a name, or an id.
CheckpointName = Union[int, str]


class _UncoveredExtras(TypedDict, total=False):
    size: int
    error: str


class Uncovered(_UncoveredExtras):
    """A path that a checkpoint does not cover."""

    path: JsonPath
    reason: str


class NewCheckpoint(TypedDict):
    id: str
    number: int
    created: str
    name: Optional[str]
    pinned: bool
    files: int
    new: bool
    uncovered: List[Uncovered]


class Step(TypedDict):
    number: str
    id: str
    time: str
    reason: str
    tool: Optional[str]
    call: Optional[str]
    late: bool


class UncoveredPaths(TypedDict):
    count: int
    paths: List[JsonPath]


class _RowExtras(TypedDict, total=False):
    unsettled: List[JsonPath]
    taken_back: bool


class Row(_RowExtras):
    """A manual checkpoint, or a turn with its steps."""

    number: int
    id: str
    time: str
    name: Optional[str]
    pinned: bool
    kind: str
    reason: str
    agent: Optional[str]
    session: Optional[str]
    turn: Optional[Name]
    tool: Optional[str]
    prompt: Optional[str]
    files_changed: Optional[int]
    insertions: Optional[int]
    deletions: Optional[int]
    effects: List[Effect]
    uncovered: UncoveredPaths
    late: bool
    steps: List[Step]


class _CheckpointsExtras(TypedDict, total=False):
    failures: List[Failure]
    unreadable: List[str]
    repositories: List[JsonPath]
    ledger_error: str
    inner: Checkpoints


class Checkpoints(_CheckpointsExtras):
    workspace: JsonPath
    checkpoints: List[Row]


class ChangeSide(TypedDict):
    mode: str
    oid: str
    size: int


class LineCounts(TypedDict):
    insertions: int
    deletions: int


class _ChangeExtras(TypedDict, total=False):
    renamed_from: JsonPath


# `from` is a keyword, so it cannot be the name of a field in a class.
_ChangeFrom = TypedDict("_ChangeFrom", {"from": Optional[ChangeSide]})


class Change(_ChangeExtras, _ChangeFrom):
    """The change to one path."""

    path: JsonPath
    kind: str
    to: Optional[ChangeSide]
    lines: Optional[LineCounts]
    binary: bool
    private: bool


class _DiffExtras(TypedDict, total=False):
    to: str


class Diff(_DiffExtras):
    checkpoint: str
    files_changed: int
    insertions: int
    deletions: int
    changes: List[Change]
    diff: str
    left_out: int


class Head(TypedDict):
    """The commit and the branch that a repository is on."""

    commit: Optional[str]
    branch: Optional[str]


class _ResumeExtras(TypedDict, total=False):
    file: str


class Resume(_ResumeExtras):
    """Instructions for continuing an agent's own conversation."""

    agent: str
    session: Optional[str]
    argv: List[str]
    cwd: Optional[str]
    typed: Optional[str]
    in_place: bool


class _ForkExtras(TypedDict, total=False):
    unsettled: List[JsonPath]
    unprivileged: List[JsonPath]
    repositories: List[JsonPath]
    resume: Resume
    warnings: List[str]


class Fork(_ForkExtras):
    session: Optional[str]
    parent: Optional[str]
    turn: Optional[int]
    messages: Optional[int]
    title: Optional[str]
    checkpoint: Optional[str]
    workspace: Optional[JsonPath]
    directory: Optional[JsonPath]
    files: int
    cloned: int
    uncovered: List[Uncovered]
    repository: Optional[Head]
