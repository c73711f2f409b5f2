"""Methods about threads: the conversations of apps that run a graph."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from ..types import (
    Channel,
    Encoded,
    NewWrite,
    StateCount,
    StoredThreadState,
    StoredWrites,
    ThreadPage,
    ThreadPosition,
    ThreadState,
)
from .caller import Caller, to_list


class ThreadMethods(Caller):
    """Methods about threads: the conversations of apps that run a graph."""

    def threads_put(
        self,
        app: str,
        thread: str,
        id: str,
        content: Encoded,
        *,
        namespace: Optional[str] = None,
        parent: Optional[str] = None,
        files: Optional[str] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        deltas: Optional[Sequence[str]] = None,
        channels: Optional[Sequence[Channel]] = None,
    ) -> StoredThreadState:
        """Stores a state, unless the values of some channels are missing."""
        result: StoredThreadState = self.call(
            "threads.put",
            app=app,
            thread=thread,
            namespace=namespace,
            id=id,
            parent=parent,
            files=files,
            metadata=metadata,
            deltas=to_list(deltas),
            content=content,
            channels=to_list(channels),
        )
        return result

    def threads_write(
        self,
        app: str,
        thread: str,
        state: str,
        task: str,
        writes: Sequence[NewWrite],
        *,
        namespace: Optional[str] = None,
        path: Optional[str] = None,
    ) -> StoredWrites:
        """Stores results of a task that the graph runs in the step after a state."""
        result: StoredWrites = self.call(
            "threads.write",
            app=app,
            thread=thread,
            namespace=namespace,
            state=state,
            task=task,
            path=path,
            writes=to_list(writes),
        )
        return result

    def threads_get(
        self, app: str, thread: str, *, namespace: Optional[str] = None, id: Optional[str] = None
    ) -> Optional[ThreadState]:
        """Returns the state with this id, or the latest one."""
        result: Optional[ThreadState] = self.call(
            "threads.get", app=app, thread=thread, namespace=namespace, id=id
        )
        return result

    def threads_list(
        self,
        app: str,
        *,
        thread: Optional[str] = None,
        namespace: Optional[str] = None,
        id: Optional[str] = None,
        before: Optional[str] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        after: Optional[ThreadPosition] = None,
        limit: Optional[int] = None,
    ) -> ThreadPage:
        """Lists states, those with the greatest id first."""
        result: ThreadPage = self.call(
            "threads.list",
            app=app,
            thread=thread,
            namespace=namespace,
            id=id,
            before=before,
            metadata=metadata,
            after=after,
            limit=limit,
        )
        return result

    def threads_copy(self, app: str, from_: str, to: str) -> StateCount:
        """Copies all states of a thread into a new thread."""
        result: StateCount = self.call("threads.copy", **{"app": app, "from": from_, "to": to})
        return result

    def threads_prune(self, app: str, thread: str) -> StateCount:
        """Deletes all states except the latest of each namespace and those that these need."""
        result: StateCount = self.call("threads.prune", app=app, thread=thread)
        return result

    def threads_delete(self, app: str, thread: str) -> StateCount:
        """Deletes a thread."""
        result: StateCount = self.call("threads.delete", app=app, thread=thread)
        return result

    def threads_delete_runs(self, app: str, runs: Sequence[str]) -> StateCount:
        """Deletes the states that these runs created, except those that other states need."""
        result: StateCount = self.call("threads.delete_runs", app=app, runs=to_list(runs))
        return result
