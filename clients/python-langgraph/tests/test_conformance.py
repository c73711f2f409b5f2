"""LangGraph's own suite for checkpointers."""

from __future__ import annotations

import asyncio
import unittest
from typing import AsyncGenerator

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

from support import Scratch


@checkpointer_test(name="TakebackSaver")
async def takeback_saver() -> AsyncGenerator[BaseCheckpointSaver[int], None]:
    scratch = Scratch()
    with scratch.saver() as saver:
        yield saver
    scratch.remove()


class ConformanceTest(unittest.TestCase):
    def test_the_whole_suite_passes(self) -> None:
        report = asyncio.run(validate(takeback_saver))
        failures = {name: result.failures for name, result in report.results.items()}
        self.assertEqual(failures, {capability.value: [] for capability in Capability})
        self.assertTrue(all(result.passed for result in report.results.values()))
        self.assertGreater(sum(result.tests_passed for result in report.results.values()), 80)


if __name__ == "__main__":
    unittest.main()
