"""Types about threads: the conversations of apps that run a graph."""

from __future__ import annotations

from typing import List, Optional, TypedDict

from .basic import Json


class Encoded(TypedDict):
    """Data that only the app can read. ``data`` is base64."""

    type: str
    data: str


class Channel(TypedDict):
    """A channel of a state. If it has no value, the value in the parent state applies."""

    channel: str
    version: str
    value: Optional[Encoded]


class NewWrite(TypedDict):
    """A result of a task. The position is negative for errors, interrupts and similar results."""

    position: int
    channel: str
    value: Encoded


class ThreadWrite(NewWrite):
    """A stored result of a task."""

    task: str
    path: str


class ThreadState(TypedDict):
    """A state of a thread."""

    app: str
    thread: str
    namespace: str
    id: str
    parent: Optional[str]
    time: float
    files: Optional[str]
    metadata: Json
    deltas: List[str]
    content: Encoded
    channels: List[Channel]
    writes: List[ThreadWrite]


class ThreadPosition(TypedDict):
    """A position in a list of states."""

    id: str
    number: int


class ThreadPage(TypedDict):
    """A part of a list of states. The list continues after ``next``, unless that is None."""

    states: List[ThreadState]
    next: Optional[ThreadPosition]


class StoredThreadState(TypedDict):
    """The channels whose values are needed. If there are any, the state was not stored."""

    missing: List[str]


class StoredWrites(TypedDict):
    """The state after which the writes were stored."""

    state: str


class StateCount(TypedDict):
    """The number of states that were copied or deleted."""

    states: int
