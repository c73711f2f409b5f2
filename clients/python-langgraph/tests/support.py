"""Scratch homes for the tests, which run the real takeback."""

from __future__ import annotations

import os
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any, List

from takeback_client import Takeback
from takeback_langgraph import TakebackSaver

#: The program to test, such as target/debug/takeback.
PROGRAM = os.environ.get("TAKEBACK", "takeback")


class Scratch:
    """A temporary home directory with a project in it."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="takeback-langgraph-"))
        # If this directory were inside a repository, that whole repository would be rolled back.
        assert not any((above / ".git").exists() for above in self.base.parents), self.base
        self.project = self.base / "project"
        self.project.mkdir()
        (self.project / "Makefile").write_text("")
        self.environment = {"HOME": str(self.base), "TZ": "UTC", "PATH": os.environ["PATH"]}
        self.warnings: List[str] = []

    def connect(self) -> Takeback:
        return Takeback(
            self.project,
            program=PROGRAM,
            environment=self.environment,
            on_warning=self.warnings.append,
        )

    def saver(self, **options: Any) -> TakebackSaver:
        return TakebackSaver(
            "tests",
            program=PROGRAM,
            environment=self.environment,
            on_warning=self.warnings.append,
            **options,
        )

    def remove(self) -> None:
        shutil.rmtree(self.base, ignore_errors=True)


class ScratchTest(unittest.TestCase):
    """A test with a scratch home and a saver."""

    def setUp(self) -> None:
        self.scratch = Scratch()
        self.addCleanup(self.scratch.remove)
        self.project = self.scratch.project

    def open_saver(self, **options: Any) -> TakebackSaver:
        saver = self.scratch.saver(**options)
        self.addCleanup(saver.close)
        return saver
