"""One running ``takeback rpc``, and its pipes."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import threading
import time
import traceback
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence

from .errors import ProtocolError, RequestTimeoutError, ServerDiedError, StartError

#: The number of bytes to read or write in one system call.
_CHUNK = 1 << 16
#: The maximum number of lines from standard error that an error shows.
_SHOWN_WARNINGS = 5
#: The seconds to wait for a process to exit after it has closed its output.
_EXIT_WAIT = 5.0


class Deadline:
    """The time at which a request gives up."""

    def __init__(self, seconds: Optional[float]) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def remaining(self) -> Optional[float]:
        """Returns the remaining seconds, at least 0, or None if there is no limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def expired(self, method: str, was_sent: bool) -> RequestTimeoutError:
        """Builds the error for a request that got no answer in time."""
        return RequestTimeoutError(method, self.seconds or 0.0, was_sent)


class ServerProcess:
    """A running ``takeback rpc``.

    At most one request is in progress, because takeback answers one at a time. So a request
    that waits for another one has not been sent, and can give up without consequences.
    This class is not thread-safe.
    """

    def __init__(
        self,
        command: Sequence[str],
        directory: Optional[str],
        environment: Optional[Mapping[str, str]],
        on_warning: Callable[[str], None],
    ) -> None:
        if directory is not None and not os.path.isdir(directory):
            raise StartError(f"there is no directory {directory}")
        try:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                # Ctrl-C in the agent's terminal must not stop takeback.
                start_new_session=True,
            )
        except OSError as error:
            hint = "install takeback, or pass its path as `program`"
            raise StartError(f"cannot run {command[0]}: {error}", hint) from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._input, self._output = self._process.stdin, self._process.stdout
        self._errors = os.fdopen(os.dup(self._process.stderr.fileno()), "rb")
        self._process.stderr.close()
        os.set_blocking(self._input.fileno(), False)
        os.set_blocking(self._output.fileno(), False)
        self._outgoing = memoryview(b"")
        self._incoming = bytearray()
        self._searched = 0
        self._awaited: Optional[int] = None
        self._warnings: Deque[str] = deque(maxlen=_SHOWN_WARNINGS)
        self._on_warning = on_warning
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def exchange(
        self, request: int, method: str, line: bytes, deadline: Deadline
    ) -> Dict[str, Any]:
        """Sends a request and returns the answer."""
        # If an earlier request has timed out, its answer comes first.
        if self._awaited is not None and self._receive(deadline, method) is None:
            raise deadline.expired(method, was_sent=False)
        self._outgoing = memoryview(line)
        self._awaited = request
        answer = self._receive(deadline, method)
        if answer is None:
            raise deadline.expired(method, was_sent=True)
        return answer

    def close(self, seconds: float) -> None:
        """Closes the pipes and waits for the process to exit.

        A process that is still completing a late checkpoint is left alone. It exits by itself.
        """
        self._input.close()
        self._output.close()
        self._listener.join(seconds)

    def _receive(self, deadline: Deadline, method: str) -> Optional[Dict[str, Any]]:
        """Returns the answer to the awaited request, or None if it does not arrive in time."""
        while True:
            answer = self._take_answer()
            if answer is not None:
                self._awaited = None
                return answer
            ready = self._wait(deadline)
            if not ready:
                return None
            if self._input in ready:
                self._write_some()
            if self._output in ready and not self._read_some():
                raise self._died(method)

    def _wait(self, deadline: Deadline) -> List[Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if self._outgoing:
                selector.register(self._input, selectors.EVENT_WRITE)
            return [key.fileobj for key, _ in selector.select(deadline.remaining())]

    def _write_some(self) -> None:
        try:
            count = os.write(self._input.fileno(), self._outgoing[:_CHUNK])
            self._outgoing = self._outgoing[count:]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            # Ignore this error: the process has exited, and its exit code says more.
            self._outgoing = memoryview(b"")

    def _read_some(self) -> bool:
        """Reads the bytes that have arrived. Returns False at the end of the output."""
        try:
            data = os.read(self._output.fileno(), _CHUNK)
        except BlockingIOError:
            return True
        self._incoming += data
        return bool(data)

    def _take_answer(self) -> Optional[Dict[str, Any]]:
        """Takes the next complete line, which answers the awaited request."""
        end = self._incoming.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._incoming)
            return None
        line = bytes(self._incoming[:end])
        del self._incoming[: end + 1]
        self._searched = 0
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        # A request that takeback could not read is answered with id null.
        if not isinstance(answer, dict) or answer.get("id") not in (self._awaited, None):
            shown = line[:200].decode("utf-8", "replace")
            raise ProtocolError(f"expected the answer to request {self._awaited}, got {shown}")
        return answer

    def _died(self, method: str) -> ServerDiedError:
        self._listener.join(_EXIT_WAIT)
        return ServerDiedError(method, self._process.poll(), list(self._warnings))

    def _listen(self) -> None:
        """Reads standard error to its end, and waits for the exit code of the process."""
        with self._errors:
            for line in self._errors:
                self._pass_on(line.decode("utf-8", "replace").rstrip("\n"))
        self._process.wait()

    def _pass_on(self, warning: str) -> None:
        self._warnings.append(warning)
        try:
            self._on_warning(warning)
        except Exception:
            # A full pipe would block takeback, so the remaining lines must still be read.
            traceback.print_exc()
