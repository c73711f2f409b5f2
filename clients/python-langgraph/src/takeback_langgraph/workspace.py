"""Takes a checkpoint of the files that a graph works on, at each step."""

from __future__ import annotations

import logging
import threading
from typing import Any, Dict, List, Optional

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from takeback_client import Takeback, TakebackError
from takeback_client.types import AnyPath

from .encoding import thread_of

logger = logging.getLogger(__name__)

#: The name of the agent in takeback's sessions for graphs.
AGENT = "langgraph"
#: The key of a configuration in which LangGraph passes on the argument `durability`.
DURABILITY = "__pregel_durability"
#: The maximum length of a prompt that is not taken from a message.
MAX_PROMPT = 2000


class NoFilesError(TakebackError):
    """A checkpoint has no files: they were not captured, or are no longer kept."""


class GraphWorkspace:
    """Reports the steps of a graph to takeback as calls. Each thread is a session.

    takeback captures the workspace before each call, that is, the files as they are when LangGraph
    stores its checkpoint.
    """

    def __init__(self, takeback: Takeback, app: str) -> None:
        self.takeback = takeback
        self._app = app
        self._lock = threading.Lock()
        self._has_warned = False
        #: For each thread, the step that is running, and the last checkpoint of the files.
        self._running: Dict[str, str] = {}
        self._last: Dict[str, Optional[str]] = {}

    def capture(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> Optional[str]:
        """Captures the files for a checkpoint of a thread. Returns the id of takeback's checkpoint.

        A failure is logged, and does not stop the graph.
        """
        thread = thread_of(config)
        if not is_waiting(config, metadata):
            self._warn_of_background()
            return None
        with self._lock:
            try:
                return self._capture(thread, checkpoint["id"], checkpoint, metadata)
            except TakebackError as error:
                logger.warning("the files of thread %s are not protected: %s", thread, error)
                return None

    def _warn_of_background(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "the files of the graph are not captured, because it does not wait for its "
                "checkpoints: run it with durability='sync'"
            )

    def finish(self, thread: str) -> None:
        """Reports that the graph has stopped, so that later changes are not attributed to it."""
        with self._lock:
            self._end_call(thread)
            self.takeback.turn_end(**self._who(thread))

    def roll_back(self, files: str) -> Dict[str, Any]:
        """Restores the files of a checkpoint. Returns what was done."""
        result = self.takeback.rollback_apply(files, scope="files")
        return dict(result)

    def _capture(
        self, thread: str, id: str, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> Optional[str]:
        self._end_call(thread)
        if metadata.get("source") == "input":
            prompt = describe_input(checkpoint["channel_values"].get("__start__"))
            self.takeback.turn_start(**self._who(thread), prompt=prompt)
        step = metadata.get("step")
        report = self.takeback.tool_before(
            **self._who(thread), call=id, tool="superstep", input={"step": step}
        )
        self._running[thread] = id
        for problem in report["failures"]:
            logger.warning("takeback: %s", problem)
        if report["missed"] or not report["enabled"]:
            files = None
        elif report["checkpoints"]:
            files = report["checkpoints"][0]
        else:
            # Nothing has changed since the last checkpoint of this thread.
            files = self._last.get(thread) or self._find_last(thread)
        self._last[thread] = files
        return files

    def _find_last(self, thread: str) -> Optional[str]:
        state = self.takeback.threads_get(self._app, thread)
        return state["files"] if state else None

    def _end_call(self, thread: str) -> None:
        call = self._running.pop(thread, None)
        if call is not None:
            self.takeback.tool_after(
                **self._who(thread), call=call, tool="superstep", input={}, outcome="ok"
            )

    def _who(self, thread: str) -> Dict[str, str]:
        return {"agent": AGENT, "session": f"{self._app}/{thread}"}


def is_waiting(config: RunnableConfig, metadata: CheckpointMetadata) -> bool:
    """Returns true if the graph waits until a checkpoint is stored.

    Otherwise its next step has already begun, and the files would be newer than the checkpoint.
    """
    return metadata.get("source") == "update" or config["configurable"].get(DURABILITY) == "sync"


def describe_input(value: Any) -> str:
    """Returns the last message in the input of a graph, or the input as text if it has none."""
    messages: List[Any] = []
    if isinstance(value, dict) and value.get("messages"):
        found = value["messages"]
        messages = list(found) if isinstance(found, (list, tuple)) else [found]
    if messages:
        last = messages[-1]
        if isinstance(last, dict):
            content = last.get("content")
        elif isinstance(last, (list, tuple)) and len(last) == 2:
            content = last[1]
        else:
            content = getattr(last, "content", last)
        return content if isinstance(content, str) else str(content)[:MAX_PROMPT]
    return str(value)[:MAX_PROMPT]


def find_workspace(takeback: Takeback, app: str, workspace: Optional[AnyPath]) -> (
    Optional[GraphWorkspace]
):
    if workspace is None:
        return None
    return GraphWorkspace(takeback.in_directory(workspace), app)
