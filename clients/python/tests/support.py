"""Scratch homes for the tests, which run the real takeback."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, List, Optional

from takeback_client import Takeback

#: The program to test, such as target/debug/takeback.
PROGRAM = os.environ.get("TAKEBACK", "takeback")
#: A server that misbehaves as a test tells it to.
FAKE = str(Path(__file__).with_name("fake_server.py"))


class ScratchTest(unittest.TestCase):
    """A test with a home directory and a project of its own."""

    def setUp(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="takeback-client-"))
        self.addCleanup(shutil.rmtree, self.base, ignore_errors=True)
        # If this directory were inside a repository, that whole repository would be rolled back.
        assert not any((above / ".git").exists() for above in self.base.parents), self.base
        self.project = self.base / "project"
        self.project.mkdir()
        self.environment = {"HOME": str(self.base), "TZ": "UTC", "PATH": os.environ["PATH"]}
        self.warnings: List[str] = []

    def connect(self, timeout: Optional[float] = 60.0) -> Takeback:
        """Starts the real takeback in the project."""
        client = Takeback(
            self.project,
            program=PROGRAM,
            environment=self.environment,
            timeout=timeout,
            on_warning=self.warnings.append,
        )
        self.addCleanup(client.close)
        return client

    def stop(self, client: Takeback) -> int:
        """Suspends the process, so that it cannot answer. Returns its id."""
        pid = client.server_pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        return pid

    def connect_fake(self, behavior: str, **options: Any) -> Takeback:
        """Starts the fake server."""
        program = self.base / "fake"
        program.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "{behavior}" "{self.base}"\n'
        )
        program.chmod(0o755)
        options.setdefault("on_warning", self.warnings.append)
        client = Takeback(self.project, program=str(program), **options)
        self.addCleanup(client.close)
        return client

    def received(self) -> List[str]:
        """Returns the methods that all fake servers of this test have received."""
        return (self.base / "received").read_text().split()

    def write(self, name: str, text: str) -> None:
        (self.project / name).write_text(text)

    def read(self, name: str) -> str:
        return (self.project / name).read_text()


def parameters_for(method: str) -> Dict[str, Any]:
    """Returns values for the required parameters of a method, so that an unknown parameter is the
    only error in a call."""
    every = {
        "checkpoint": 1,
        "from": "1",
        "messages": [],
        "to": "x",
        "usage": {},
        "session": "x",
        "query": "x",
        "title": "x",
        "at": 1,
        "line": "x",
        "command": "x",
        "app": "x",
        "thread": "x",
        "id": "x",
        "content": {"type": "x", "data": ""},
        "state": "x",
        "task": "x",
        "writes": [],
        "runs": [],
    }
    needed = {
        "checkpoint.diff": ["checkpoint"],
        "fork": ["from"],
        "rollback.plan": ["checkpoint"],
        "rollback.apply": ["checkpoint"],
        "messages.append": ["messages"],
        "session.compress": ["to"],
        "usage.record": ["usage"],
        "sessions.search": ["query"],
        "sessions.title": ["session", "title"],
        "sessions.fork": ["session", "at"],
        "slash": ["line"],
        "explain": ["command"],
        "threads.put": ["app", "thread", "id", "content"],
        "threads.write": ["app", "thread", "state", "task", "writes"],
        "threads.get": ["app", "thread"],
        "threads.list": ["app"],
        "threads.copy": ["app", "from", "to"],
        "threads.prune": ["app", "thread"],
        "threads.delete": ["app", "thread"],
        "threads.delete_runs": ["app", "runs"],
    }
    one_session = ["get", "tree", "end", "reopen", "archive", "clear", "undo", "redo"]
    needed.update({f"sessions.{name}": ["session"] for name in one_session})
    return {name: every[name] for name in needed.get(method, [])}
