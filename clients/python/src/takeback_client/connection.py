"""A connection to takeback that several threads can share."""

from __future__ import annotations

import json
import os
import threading
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from .errors import (
    ClosedError,
    ProtocolError,
    RequestTimeoutError,
    RequestTooLongError,
    ServerDiedError,
    StartError,
    make_rpc_error,
)
from .process import Deadline, ServerProcess
from .types import ServerInfo

#: The version of the protocol that this client speaks.
PROTOCOL = 1
#: The maximum length of a request until takeback has said what length it accepts.
_FIRST_LINE_BYTES = 1 << 20


class Connection:
    """Starts ``takeback rpc``, and restarts it for the next request if it has exited.

    Each request is sent at most once. Threads take turns, because takeback answers one request at a
    time.
    """

    def __init__(
        self,
        command: Sequence[str],
        directory: Optional[str],
        environment: Optional[Mapping[str, str]],
        on_warning: Callable[[str], None],
    ) -> None:
        self._start_process: Callable[[], ServerProcess] = lambda: ServerProcess(
            command, directory, environment, on_warning
        )
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._server: Optional[ServerProcess] = None
        self._last_id = 0
        self._max_line_bytes = _FIRST_LINE_BYTES
        self._is_closed = False

    def request(self, method: str, params: Mapping[str, Any], seconds: Optional[float]) -> Any:
        """Sends a request and returns its result."""
        deadline = Deadline(seconds)
        self._lock_before(deadline, method)
        try:
            server = self._running_server(method, deadline)
            return self._ask(server, method, params, deadline)
        finally:
            self._lock.release()

    def start(self, seconds: Optional[float]) -> None:
        """Starts takeback, unless it is already running."""
        deadline = Deadline(seconds)
        self._lock_before(deadline, "initialize")
        try:
            self._running_server("initialize", deadline)
        finally:
            self._lock.release()

    def close(self, seconds: float) -> None:
        """Stops takeback, after waiting for any request that another thread has sent."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._is_closed = True
            self._drop_server(seconds)

    def server_pid(self) -> Optional[int]:
        server = self._server
        return server.pid if server else None

    def _lock_before(self, deadline: Deadline, method: str) -> None:
        if os.getpid() != self._owner:
            # Otherwise, two processes would read each other's answers.
            hint = "create a client in each process"
            raise ClosedError(f"this client belongs to process {self._owner}", hint)
        remaining = deadline.remaining()
        if not self._lock.acquire(timeout=-1 if remaining is None else remaining):
            raise deadline.expired(method, was_sent=False)
        if self._is_closed:
            self._lock.release()
            raise ClosedError("this client has been closed")

    def _running_server(self, method: str, deadline: Deadline) -> ServerProcess:
        if self._server is not None and not self._server.has_ended():
            return self._server
        self._drop_server(0.0)
        self._server = self._start_process()
        try:
            self._greet(self._server, deadline)
        except RequestTimeoutError:
            self._drop_server(0.0)
            raise deadline.expired(method, was_sent=False) from None
        except (ServerDiedError, ProtocolError) as error:
            raise StartError(f"cannot start takeback rpc: {error.message}") from error
        except BaseException:
            self._drop_server(0.0)
            raise
        return self._server

    def _greet(self, server: ServerProcess, deadline: Deadline) -> None:
        """Checks that the process speaks this version of the protocol."""
        info: ServerInfo = self._ask(server, "initialize", {}, deadline)
        if info["protocol"] != PROTOCOL:
            theirs = f"takeback {info['version']} speaks protocol {info['protocol']}"
            message = f"{theirs}, but this client speaks protocol {PROTOCOL}"
            raise StartError(message, "update the older of the two")
        self._max_line_bytes = info["max_line_bytes"]

    def _ask(
        self, server: ServerProcess, method: str, params: Mapping[str, Any], deadline: Deadline
    ) -> Any:
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        line = json.dumps(request, allow_nan=False, separators=(",", ":")).encode("ascii")
        if len(line) > self._max_line_bytes:
            message = f"{method} needs {len(line)} bytes, more than {self._max_line_bytes}"
            raise RequestTooLongError(message, "the request was not sent")
        try:
            answer = server.exchange(self._last_id, method, line + b"\n", deadline)
        except (ServerDiedError, ProtocolError):
            self._drop_server(0.0)
            raise
        if "error" in answer:
            error: Dict[str, Any] = answer["error"]
            raise make_rpc_error(error)
        return answer["result"]

    def _drop_server(self, seconds: float) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close(seconds)
