"""An agent that uses the client: checkpoints, rollback, notices, and the ledger."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

from support import PROGRAM, ScratchTest
from takeback_client import (
    BlockedError,
    InvalidParamsError,
    OperationFailedError,
    PlanChangedError,
    ToolRefusedError,
    UnknownMethodError,
    decode_path,
    encode_path,
)


class AgentTest(ScratchTest):
    def test_a_turn_is_taken_back_with_its_messages_and_the_model_is_told(self) -> None:
        takeback = self.connect()
        self.write("a", "mine\n")
        with takeback.session("mine", 1, model="m") as session:
            session.start_turn("improve a")
            with session.tool_call("bash", {"command": "echo better > a"}, call="c1") as call:
                self.write("a", "better\n")
            assert call.report
            self.assertEqual(len(call.report["checkpoints"]), 1)
            self.assertEqual(list(call.warnings), [])
            numbers = session.append({"role": "assistant", "content": "a is better"})
            self.assertEqual(numbers, [2])
            session.record_usage({"model": "m", "input_tokens": 7})
            session.end_turn()

            planned = takeback.rollback_plan(1)
            self.assertEqual(planned["plan"]["restored"], ["a"])
            done = takeback.rollback_apply(1, digest=planned["digest"])
            self.assertEqual(done["undone_messages"], 2)
            self.assertEqual(self.read("a"), "mine\n")
            notice = session.take_notice()
            assert notice
            self.assertIn("read this file again", notice)
            self.assertIsNone(session.take_notice())

        kept = takeback.sessions_get(session.id)
        self.assertEqual(kept["input_tokens"], 7)
        self.assertEqual([one["content"] for one in kept["messages"]], ["improve a", "a is better"])
        self.assertTrue(all(one["undone"] for one in kept["messages"]))
        self.assertEqual([one["outcome"] for one in kept["calls"]], ["ok"])
        self.assertIsNotNone(kept["ended_at"])

    def test_an_exception_in_a_tool_is_reported_as_an_error(self) -> None:
        takeback = self.connect()
        session = takeback.session("mine", "s")
        with self.assertRaises(ZeroDivisionError):
            with session.tool_call("Write", {"path": "a"}):
                raise ZeroDivisionError
        with session.tool_call("Write", {"path": "a"}) as call:
            call.outcome = "denied"
        outcomes = [one["outcome"] for one in takeback.sessions_get(session.id)["calls"]]
        self.assertEqual(outcomes, ["error", "denied"])

    def test_a_call_that_would_delete_the_history_is_refused_and_does_not_run(self) -> None:
        session = self.connect().session("mine", "s")
        session.start_turn("clean up")
        ran = False
        with self.assertRaises(ToolRefusedError) as caught:
            with session.tool_call("bash", {"command": "takeback checkpoints clear --force"}):
                ran = True
        self.assertFalse(ran)
        self.assertIn("takeback refuses this call: it would", str(caught.exception))

    def test_strict_mode_refuses_a_call_that_is_not_protected_and_says_why(self) -> None:
        home = self.base / ".takeback"
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text("[checkpoints]\nstrict = true\nmax_named_mb = 1\n")
        (self.project / "model.bin").write_bytes(os.urandom(12_000_000))
        session = self.connect().session("mine", "s")
        session.start_turn("clean up")
        with self.assertRaises(ToolRefusedError) as caught:
            with session.tool_call("bash", {"command": "rm model.bin"}):
                self.fail("it ran")
        self.assertRegex(str(caught.exception), "not fully protected: .*model.bin: .+")

    def test_an_outdated_plan_and_a_blocked_one_change_nothing(self) -> None:
        takeback = self.connect()
        self.write("a", "1")
        takeback.checkpoint_create(reason="by hand")
        self.write("a", "2")
        planned = takeback.rollback_plan(1)
        self.write("a", "3")
        with self.assertRaises(PlanChangedError) as changed:
            takeback.rollback_apply(1, digest=planned["digest"])
        self.assertEqual(self.read("a"), "3")
        self.assertIn("nothing was changed", changed.exception.hint or "")
        takeback.rollback_apply(1, digest=changed.exception.now["digest"])
        self.assertEqual(self.read("a"), "1")

        os.remove(self.project / "a")
        os.mkfifo(self.project / "a")
        with self.assertRaises(BlockedError) as blocked:
            takeback.rollback_apply(1)
        self.assertEqual([one["path"] for one in blocked.exception.plan["blocked"]], ["a"])

    def test_errors_have_types_and_causes_and_hints(self) -> None:
        takeback = self.connect()
        with self.assertRaises(OperationFailedError) as failed:
            takeback.checkpoint_diff(9)
        self.assertEqual(failed.exception.code, -32000)
        self.assertIn(failed.exception.message, str(failed.exception))
        with self.assertRaisesRegex(InvalidParamsError, "limit must be at least 1"):
            takeback.sessions_list(limit=0)
        with self.assertRaisesRegex(UnknownMethodError, "hint: `initialize` lists the methods"):
            takeback.call("no.such")
        # The connection still works.
        self.assertEqual(takeback.initialize()["protocol"], 1)

    def test_paths_that_are_not_utf8_arrive_unchanged(self) -> None:
        takeback = self.connect()
        name = os.fsdecode(b"caf\xe9")
        self.write(name, "1")
        takeback.checkpoint_create()
        self.write(name, "2")
        restored = takeback.rollback_apply(1, paths=[name])["restored"]
        self.assertEqual([decode_path(path) for path in restored], [name])
        self.assertEqual(self.read(name), "1")
        self.assertEqual(encode_path(name), restored[0])
        with self.assertRaises(TypeError):
            takeback.checkpoint_diff(1, paths="caf")

    def test_the_example_in_the_readme_works(self) -> None:
        readme = (Path(__file__).parents[1] / "README.md").read_text()
        code = readme.split("```python\n", 1)[1].split("```", 1)[0]
        (self.project / "src/old").mkdir(parents=True)
        self.write("src/old/a", "mine")
        (self.base / "takeback").symlink_to(PROGRAM)
        environment = {
            **self.environment,
            "PATH": f"{self.base}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        output = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.project,
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        self.assertIn("restores ['src/old', 'src/old/a'] deletes []", output.stdout)
        self.assertIn("takeback restored", output.stdout)
        self.assertEqual(self.read("src/old/a"), "mine")

    def test_another_directory_uses_the_same_process(self) -> None:
        takeback = self.connect()
        other = self.base / "other"
        other.mkdir()
        there = takeback.in_directory("../other")
        there.checkpoint_create(reason="there")
        listed = takeback.in_directory(other).checkpoint_list()
        self.assertEqual(listed["workspace"], str(other))
        self.assertEqual(len(listed["checkpoints"]), 1)
        self.assertEqual(takeback.checkpoint_list()["checkpoints"], [])
        self.assertEqual(there.server_pid, takeback.server_pid)


if __name__ == "__main__":
    unittest.main()
