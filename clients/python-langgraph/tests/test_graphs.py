"""Real graphs, with threads that are forked, pruned and rolled back together with files."""

from __future__ import annotations

import os
import random
import signal
import threading
import unittest
from operator import add
from pathlib import Path
from typing import Annotated, Any, Dict, List, Set, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from support import ScratchTest
from takeback_langgraph import NoFilesError, TakebackSaver


class State(TypedDict):
    steps: Annotated[List[str], add]
    name: str


def config_of(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def make_graph(saver: TakebackSaver, project: Path) -> Any:
    """Builds a graph of two nodes, each of which writes a file."""

    def first(state: State) -> Dict[str, Any]:
        (project / "first").write_text(state["name"])
        return {"steps": [f"first {state['name']}"]}

    def second(state: State) -> Dict[str, Any]:
        (project / "second").write_text(state["name"])
        return {"steps": [f"second {state['name']}"]}

    graph = StateGraph(State)
    graph.add_node("first", first)
    graph.add_node("second", second)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    return graph.compile(checkpointer=saver)


class FilesTest(ScratchTest):
    def files(self) -> Dict[str, str]:
        found = sorted(path for path in self.project.iterdir() if path.name != "Makefile")
        return {path.name: path.read_text() for path in found}

    def run_twice(self) -> Any:
        saver = self.open_saver(workspace=self.project)
        graph = make_graph(saver, self.project)
        for name in ("one", "two"):
            graph.invoke({"name": name}, config_of("t"), durability="sync")
        return saver, graph

    def test_every_checkpoint_has_the_files_as_they_were_at_that_moment(self) -> None:
        saver, graph = self.run_twice()
        states = list(graph.get_state_history(config_of("t")))
        expected = {
            (): {},
            ("first one",): {"first": "one"},
            ("first one", "second one"): {"first": "one", "second": "one"},
            ("first one", "second one", "first two"): {"first": "two", "second": "one"},
            ("first one", "second one", "first two", "second two"): {
                "first": "two",
                "second": "two",
            },
        }
        self.assertEqual({tuple(state.values.get("steps", [])) for state in states}, {*expected})
        random.Random(1).shuffle(states)
        for state in states:
            saver.rollback(state.config)
            self.assertEqual(self.files(), expected[tuple(state.values.get("steps", []))])

    def test_a_graph_continues_from_a_checkpoint_with_its_files(self) -> None:
        saver, graph = self.run_twice()
        before_second = next(
            state
            for state in graph.get_state_history(config_of("t"))
            if state.values["steps"] == ["first one"]
        )
        config = saver.rollback(before_second.config)
        self.assertEqual(self.files(), {"first": "one"})
        result = graph.invoke(None, config, durability="sync")
        self.assertEqual(result["steps"], ["first one", "second one"])
        self.assertEqual(self.files(), {"first": "one", "second": "one"})
        saver.finish(config)

    def test_files_are_not_captured_while_the_next_step_is_running(self) -> None:
        saver = self.open_saver(workspace=self.project)
        with self.assertLogs("takeback_langgraph", "WARNING") as logged:
            make_graph(saver, self.project).invoke({"name": "one"}, config_of("t"))
        self.assertEqual(len(logged.output), 1)
        self.assertIn("durability='sync'", logged.output[0])
        with self.assertRaisesRegex(NoFilesError, "has no files"):
            saver.rollback(config_of("t"))

    def test_a_fork_has_its_own_thread_and_files(self) -> None:
        saver, graph = self.run_twice()
        state = next(
            state
            for state in graph.get_state_history(config_of("t"))
            if state.values["steps"] == ["first one"]
        )
        fork = self.scratch.base / "fork"
        config = saver.fork(state.config, "u", fork)
        self.assertEqual((fork / "first").read_text(), "one")
        self.assertFalse((fork / "second").exists())
        forked = make_graph(saver, fork)
        self.assertEqual(forked.invoke(None, config)["steps"], ["first one", "second one"])
        self.assertEqual((fork / "second").read_text(), "one")
        self.assertEqual(self.files(), {"first": "two", "second": "two"})
        steps = graph.get_state(config_of("t")).values["steps"]
        self.assertEqual(steps[-1], "second two")

    def test_a_rollback_to_files_that_were_not_captured_is_an_error(self) -> None:
        saver = self.open_saver()
        make_graph(saver, self.project).invoke({"name": "one"}, config_of("t"))
        with self.assertRaisesRegex(NoFilesError, "no workspace"):
            saver.rollback(config_of("t"))
        other = self.open_saver(workspace=self.project)
        with self.assertRaisesRegex(NoFilesError, "has no files"):
            other.rollback(config_of("t"))
        with self.assertRaisesRegex(NoFilesError, "no such checkpoint"):
            other.rollback(config_of("unknown"))


class Counted(TypedDict):
    log: Annotated[List[str], DeltaChannel(lambda old, new: [*old, *sum(new, [])])]


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class ThreadsTest(ScratchTest):
    def make_counter(self, saver: TakebackSaver) -> Any:
        graph = StateGraph(Counted)
        graph.add_node("count", lambda state: {"log": [str(len(state["log"]))]})
        graph.add_edge(START, "count")
        graph.add_edge("count", END)
        return graph.compile(checkpointer=saver)

    def test_a_pruned_thread_with_a_delta_channel_can_continue(self) -> None:
        saver = self.open_saver()
        graph = self.make_counter(saver)
        expected: List[str] = []
        for round in range(8):
            result = graph.invoke({"log": [f"in {round}"]}, config_of("t"))
            expected += [f"in {round}", str(len(expected) + 1)]
            self.assertEqual(result["log"], expected)
            saver.prune(["t"])
            self.assertEqual(graph.get_state(config_of("t")).values["log"], expected)

    def test_an_interrupted_graph_resumes_in_another_process(self) -> None:
        def ask(state: State) -> Dict[str, Any]:
            return {"steps": [interrupt("go on?")]}

        def compile_graph(saver: TakebackSaver) -> Any:
            graph = StateGraph(State)
            graph.add_node("ask", ask)
            graph.add_edge(START, "ask")
            graph.add_edge("ask", END)
            return graph.compile(checkpointer=saver)

        with self.scratch.saver() as first:
            result = compile_graph(first).invoke({"name": "x"}, config_of("t"))
            self.assertEqual(result["__interrupt__"][0].value, "go on?")
        graph = compile_graph(self.open_saver())
        result = graph.invoke(Command(resume="yes"), config_of("t"))
        self.assertEqual(result["steps"], ["yes"])

    def test_apps_do_not_see_each_others_threads(self) -> None:
        saver = self.open_saver()
        make_graph(saver, self.project).invoke({"name": "one"}, config_of("t"))
        another = TakebackSaver("another", takeback=saver.takeback)
        self.assertIsNone(another.get_tuple(config_of("t")))
        self.assertEqual(list(another.list(None)), [])
        self.assertGreater(len(list(saver.list(None))), 2)

    def test_nothing_acknowledged_is_lost_when_takeback_is_killed(self) -> None:
        chance = random.Random(7)
        saver = self.open_saver()
        graph = make_graph(saver, self.project)
        request = saver.takeback.call

        deaths = 0
        lock = threading.Lock()
        # The threads that are making a request, or repeating one because takeback died.
        busy: Set[int] = set()

        def call(method: str, **params: Any) -> Any:
            # takeback is killed before or while it answers, but never during a repeated request.
            nonlocal deaths
            thread = threading.get_ident()
            with lock:
                pid = None if busy else saver.takeback.server_pid
                busy.add(thread)
                if pid is not None and chance.random() < 0.5:
                    deaths += 1
                    threading.Timer(chance.random() / 200, kill, (pid,)).start()
            result = request(method, **params)
            with lock:
                busy.discard(thread)
            return result

        saver.takeback.call = call  # type: ignore[method-assign]
        for round in range(6):
            result = graph.invoke({"name": str(round)}, config_of("t"))
            self.assertEqual(len(result["steps"]), 2 * (round + 1))
        saver.copy_thread("t", "copy")
        self.assertGreater(deaths, 5)
        fresh = self.open_saver()
        for thread in ("t", "copy"):
            history = [one.checkpoint for one in fresh.list(config_of(thread))]
            self.assertEqual(len(history), 6 * 4)
            steps = history[0]["channel_values"]["steps"]
            self.assertEqual(steps[-1], "second 5")


if __name__ == "__main__":
    unittest.main()
