"""The client: a takeback process, and the methods of its protocol."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any, Callable, List, Mapping, Optional, Type

from .agent_session import AgentSession
from .connection import Connection
from .methods import (
    AboutMethods,
    AgentMethods,
    CheckpointMethods,
    SessionMethods,
    ThreadMethods,
)
from .paths import encode_path
from .types import AnyPath, Name

#: The default number of seconds that a request may take.
DEFAULT_TIMEOUT = 120.0


def print_warning(line: str) -> None:
    """Prints a line that takeback wrote to its standard error."""
    print(line, file=sys.stderr)


class Takeback(AboutMethods, AgentMethods, CheckpointMethods, SessionMethods, ThreadMethods):
    """A running ``takeback rpc``. Several threads can share it.

    The process is started immediately; if that fails, :class:`StartError` says why. If the process
    dies, the request in progress raises :class:`ServerDiedError` and is never sent again, and the
    next request starts a new process. All state is on disk, so nothing else is lost.

    ``directory`` is the directory to work in; by default, the working directory of this process.
    ``program`` is the name or path of takeback, and ``home`` is its home directory. takeback gets
    ``environment`` in place of the environment of this process. ``timeout`` is in seconds; with
    None, a request waits forever. ``on_warning`` gets each line of takeback's standard error, in
    another thread; by default, the line is printed.
    """

    def __init__(
        self,
        directory: Optional[AnyPath] = None,
        *,
        program: str = "takeback",
        home: Optional[AnyPath] = None,
        environment: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = DEFAULT_TIMEOUT,
        on_warning: Callable[[str], None] = print_warning,
    ) -> None:
        command: List[str] = [os.path.abspath(program) if os.sep in program else program]
        if home is not None:
            command += ["--home", os.path.abspath(os.fsdecode(home))]
        command.append("rpc")
        started_in = None if directory is None else os.fsdecode(directory)
        self._connection = Connection(command, started_in, environment, on_warning)
        self._directory: Optional[AnyPath] = None
        self._timeout = timeout
        self._connection.start(timeout)

    def call(self, method: str, **params: Any) -> Any:
        """Calls a method by its name in the protocol. Parameters that are None are left out."""
        sent = {name: value for name, value in params.items() if value is not None}
        if self._directory is not None:
            sent.setdefault("cwd", encode_path(self._directory))
        return self._connection.request(method, sent, self._timeout)

    def in_directory(self, directory: AnyPath) -> Takeback:
        """Returns a client that works in another directory, over the same connection.

        A relative path is relative to the directory that takeback was started in.
        """
        return self._copy(directory, self._timeout)

    def with_timeout(self, seconds: Optional[float]) -> Takeback:
        """Returns a client with another timeout, over the same connection."""
        return self._copy(self._directory, seconds)

    def session(
        self,
        agent: str,
        session: Name,
        *,
        model: Optional[str] = None,
        parent: Optional[Name] = None,
    ) -> AgentSession:
        """Returns a session of your agent, which adds these parameters to each report."""
        return AgentSession(self, agent, session, model, parent)

    @property
    def server_pid(self) -> Optional[int]:
        """The id of the running process, or None if there is none at the moment."""
        return self._connection.server_pid()

    def close(self, seconds: float = 10.0) -> None:
        """Stops takeback, and waits up to ``seconds`` for it to exit.

        A process that is still completing a late checkpoint is not killed. It exits by itself.
        """
        self._connection.close(seconds)

    def __enter__(self) -> Takeback:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def _copy(self, directory: Optional[AnyPath], timeout: Optional[float]) -> Takeback:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._directory, copy._timeout = directory, timeout
        return copy
