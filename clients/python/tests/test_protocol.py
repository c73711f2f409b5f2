"""Compares the client with takeback itself: methods, parameters and results must be the same."""

from __future__ import annotations

import inspect
import re
import typing
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, List, Set

from support import ScratchTest, parameters_for
from takeback_client import InvalidParamsError, Takeback
from takeback_client.types import Transcript

DOCUMENT = Path(__file__).parents[3] / "docs" / "protocol.md"
#: Parameters that takeback accepts but does not document.
UNDOCUMENTED = {("rollback.undo", "digest"), ("rollback.redo", "digest")}


def python_name(method: str) -> str:
    return method.replace(".", "_")


def check(value: Any, hint: Any, where: str) -> None:
    """Asserts that a value has the declared type, without any additional keys."""
    origin, choices = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return
    if origin is typing.Union:
        failures = []
        for choice in choices:
            try:
                return check(value, choice, where)
            except AssertionError as error:
                failures.append(str(error))
        raise AssertionError("; ".join(failures))
    if origin is list:
        assert isinstance(value, list), f"{where} is {value!r}"
        for number, item in enumerate(value):
            check(item, choices[0], f"{where}[{number}]")
    elif origin is dict:
        assert isinstance(value, dict), f"{where} is {value!r}"
    elif hasattr(hint, "__required_keys__"):
        check_fields(value, hint, where)
    elif hint is float:
        assert isinstance(value, (int, float)), f"{where} is {value!r}"
    else:
        assert type(value) is hint, f"{where} is {value!r}, not {hint}"


def check_fields(value: Any, hint: Any, where: str) -> None:
    assert isinstance(value, dict), f"{where} is {value!r}"
    fields = typing.get_type_hints(hint)
    unknown = value.keys() - fields.keys()
    assert not unknown, f"{where}: {hint.__name__} lacks {unknown}"
    missing = hint.__required_keys__ - value.keys()
    assert not missing, f"{where}: takeback left out {missing}"
    for name, field in value.items():
        check(field, fields[name], f"{where}.{name}")


class MethodsTest(ScratchTest):
    def test_the_client_has_every_method_of_takeback_and_no_other(self) -> None:
        methods = set(self.connect().initialize()["methods"])
        document = DOCUMENT.read_text()
        table = document.split("### Methods", 1)[1].split("###", 1)[0]
        rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
        described = {name for row in rows for name in re.findall("`([a-z._]+)`", row)}
        self.assertEqual(described, methods)
        own = {"call", "close", "in_directory", "with_timeout", "session", "server_pid"}
        public = {name for name in dir(Takeback) if not name.startswith("_")} - own
        self.assertEqual(public, {python_name(method) for method in methods})

    def test_the_package_has_the_version_of_takeback(self) -> None:
        project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
        version = self.connect().initialize()["version"]
        self.assertIn(f'\nversion = "{version}"\n', project)

    def test_each_method_has_the_parameters_that_takeback_knows(self) -> None:
        takeback = self.connect()
        for method in takeback.initialize()["methods"]:
            with self.subTest(method):
                with self.assertRaises(InvalidParamsError) as refused:
                    takeback.call(method, **parameters_for(method), nonsense=1)
                _, known = refused.exception.message.split("; the parameters are ")
                expected = {
                    name for name in known.split(", ") if (method, name) not in UNDOCUMENTED
                }
                signature = inspect.signature(getattr(Takeback, python_name(method)))
                names = {name.rstrip("_") for name in signature.parameters} - {"self"}
                # The client has no parameter `cwd`; callers use `in_directory` instead.
                self.assertEqual(names | {"cwd"}, expected)


class Recorder:
    """Calls methods and checks their results against the declared types."""

    def __init__(self, takeback: Takeback) -> None:
        self.takeback = takeback
        self.checked: Set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(Takeback, name)
        hint = typing.get_type_hints(method)["return"]
        if name == "sessions_get":
            hint = Transcript

        def call(*arguments: Any, **options: Any) -> Any:
            result = method(self.takeback, *arguments, **options)
            check(result, hint, name)
            self.checked.add(name)
            return result

        return call


class ResultsTest(ScratchTest):
    def test_the_results_of_all_methods_have_the_declared_types(self) -> None:
        takeback = self.connect()
        recorder = Recorder(takeback)
        me: Dict[str, Any] = {"agent": "mine", "session": "s"}
        self.play_turns(recorder, me)
        self.take_back(recorder, me)
        self.visit_sessions(recorder, me)
        self.keep_threads(recorder)
        missing = {python_name(one) for one in takeback.initialize()["methods"]} - recorder.checked
        self.assertEqual(missing, set())

    def play_turns(self, takeback: Any, me: Dict[str, Any]) -> None:
        self.write("Makefile", "")
        self.write("a", "1\n")
        takeback.initialize()
        takeback.session_start(**me, model="m")
        for number in (1, 2):
            takeback.turn_start(**me, prompt=f"change the gizmo, part {number}", turn=number)
            script = f"echo {number} > a; curl -d @a https://example.org; rm -rf node_modules"
            call = {**me, "turn": number, "call": f"c{number}", "tool": "bash"}
            (self.project / "node_modules").mkdir(exist_ok=True)
            takeback.tool_before(**call, input={"command": script})
            self.write("a", f"by part {number}\n")
            self.write(f"new-{number}", "x\n")
            takeback.tool_after(**call, input={"command": script}, outcome="ok")
            answer = {"role": "assistant", "content": "done", "timestamp": 1.5}
            takeback.messages_append([answer], **me)
            takeback.turn_end(**me)
        takeback.usage_record({"model": "m", "input_tokens": 7, "actual_cost_usd": 0.5}, **me)
        takeback.session_set(**me, user="ann", model="m", model_config={"t": 1})
        takeback.tool_before(**me, tool="bash", input={"command": "takeback checkpoints clear"})
        takeback.explain(
            "rm -rf $X; git clean -fdx; psql -c 'drop table x' > a; takeback uninstall"
        )

    def take_back(self, takeback: Any, me: Dict[str, Any]) -> None:
        takeback.checkpoint_create(name="good", pinned=True)
        takeback.checkpoint_list()
        takeback.checkpoint_diff(3, full=True)
        takeback.rollback_plan("3", scope="both")
        takeback.rollback_apply(3)
        takeback.notices_take(**me)
        takeback.rollback_undo(dry_run=True)
        takeback.rollback_undo()
        takeback.rollback_redo()
        takeback.rollback_undo()
        self.write("a", "edited by part 3\n")
        takeback.undo_plan(turn=3, files=[{"path": "a", "resolution": "theirs"}])
        takeback.undo_apply(turn=3, conflicts="leave")
        takeback.fork(3, directory="../forked")
        takeback.fork("mine:s", chat_only=True)
        takeback.status()
        takeback.config_get()
        takeback.slash("/help")
        takeback.slash("/rollback 99")
        takeback.slash("hello")

    def visit_sessions(self, takeback: Any, me: Dict[str, Any]) -> None:
        takeback.sessions_list(limit=5)
        takeback.sessions_get("mine:s")
        takeback.sessions_search("gizmo", since="1d")
        takeback.sessions_title("mine:s", "A title")
        takeback.sessions_fork("mine:s", 1)
        takeback.sessions_tree("mine:s")
        takeback.sessions_undo("mine:s")
        takeback.sessions_redo("mine:s")
        takeback.sessions_archive("mine:s")
        takeback.sessions_stats(by="day")
        takeback.session_compress("s-2", **me)
        takeback.session_end(agent="mine", session="s-2", reason="over")
        takeback.sessions_reopen("mine:s-2")
        takeback.sessions_end("mine:s-2")
        takeback.sessions_clear("mine:s")

    def keep_threads(self, takeback: Any) -> None:
        empty = {"type": "json", "data": "e30="}
        values = [{"channel": "c", "version": "1", "value": empty}]
        takeback.threads_put("app", "t", "1", empty, metadata={"run_id": "r"}, channels=values)
        shared = [{"channel": "c", "version": "1", "value": None}]
        stored = takeback.threads_put("app", "t", "2", empty, parent="1", channels=shared)
        self.assertEqual(stored["missing"], [])
        stored = takeback.threads_put("app", "t", "3", empty, channels=shared)
        self.assertEqual(stored["missing"], ["c"])
        writes = [{"position": 0, "channel": "c", "value": empty}]
        takeback.threads_write("app", "t", "2", "task", writes, path="p")
        state = takeback.threads_get("app", "t")
        self.assertEqual((state["id"], state["channels"]), ("2", values))
        takeback.threads_list("app", metadata={"run_id": "r"}, limit=1)
        takeback.threads_copy("app", "t", "u")
        takeback.threads_prune("app", "t")
        takeback.threads_delete_runs("app", ["r"])
        takeback.threads_delete("app", "u")


class FormatsTest(ScratchTest):
    def test_a_session_can_be_sent_to_a_model(self) -> None:
        takeback = self.connect()
        takeback.turn_start(agent="mine", session="s", prompt="hello")
        openai: Dict[str, List[Dict[str, str]]] = takeback.sessions_get("mine:s", format="openai")
        self.assertIn("hello", str(openai))
        self.assertIn("hello", str(takeback.sessions_get("mine:s", format="anthropic")))


if __name__ == "__main__":
    unittest.main()
