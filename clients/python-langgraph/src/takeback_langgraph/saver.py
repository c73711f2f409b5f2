"""The checkpointer."""

from __future__ import annotations

import asyncio
from functools import partial
from types import TracebackType
from typing import (
    Any,
    AsyncIterator,
    Callable,
    Dict,
    Iterator,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
)

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from takeback_client import ServerDiedError, Takeback
from takeback_client.types import AnyPath, ThreadPage, ThreadPosition, ThreadState

from .encoding import (
    decode_state,
    encode,
    encode_channels,
    encode_content,
    encode_metadata,
    get_checkpoint_id,
    list_deltas,
    make_config,
    namespace_of,
    thread_of,
)
from .workspace import GraphWorkspace, NoFilesError, find_workspace

Result = TypeVar("Result")

#: The strategies of `prune`.
STRATEGIES = ("keep_latest", "delete")


class TakebackSaver(BaseCheckpointSaver[int]):
    """Keeps the threads of a LangGraph app in takeback's ledger.

    ``app`` is the name of the app. Apps with different names do not see each other's threads.

    With a ``workspace``, the files in that directory are captured whenever LangGraph stores a
    checkpoint. `rollback` restores them, and `fork` copies them.

    Data that a method has stored is not lost if a process is killed.

    ``takeback`` is an existing client for the saver to use. Without one, the saver starts takeback
    with ``options``, which are those of the client, and stops takeback when the saver is closed.
    """

    def __init__(
        self,
        app: str,
        *,
        workspace: Optional[AnyPath] = None,
        takeback: Optional[Takeback] = None,
        serde: Optional[SerializerProtocol] = None,
        **options: Any,
    ) -> None:
        super().__init__(serde=serde)
        if not app.strip():
            raise ValueError("app must not be empty")
        self.app = app
        self._owns_client = takeback is None
        self.takeback = Takeback(workspace, **options) if takeback is None else takeback
        self._workspace = find_workspace(self.takeback, app, workspace)

    def close(self) -> None:
        """Stops takeback, if this saver started it."""
        if self._owns_client:
            self.takeback.close()

    def __enter__(self) -> TakebackSaver:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    # Checkpoints

    def get_tuple(self, config: RunnableConfig) -> Optional[CheckpointTuple]:
        """Returns the checkpoint that a configuration names, or the latest one of its thread."""
        state = self._get_state(config)
        return None if state is None else decode_state(self.serde, state)

    def list(
        self,
        config: Optional[RunnableConfig],
        *,
        filter: Optional[Dict[str, Any]] = None,
        before: Optional[RunnableConfig] = None,
        limit: Optional[int] = None,
    ) -> Iterator[CheckpointTuple]:
        """Lists checkpoints, latest first; without a configuration, those of all threads."""
        after: Optional[ThreadPosition] = None
        while limit is None or limit > 0:
            page = self._list_page(config, filter, before, limit, after)
            for state in page["states"]:
                yield decode_state(self.serde, state)
            after = page["next"]
            if after is None:
                return
            if limit is not None:
                limit -= len(page["states"])

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint after capturing its files."""
        thread, namespace, id = thread_of(config), namespace_of(config), checkpoint["id"]
        files: Optional[str] = None
        # The steps of a subgraph belong to one step of the graph, and are not captured separately.
        if self._workspace is not None and not namespace:
            files = self._workspace.capture(config, checkpoint, metadata)

        def put_values(needed: Any) -> Sequence[str]:
            stored = self._repeat(
                lambda: self.takeback.threads_put(
                    self.app,
                    thread,
                    id,
                    encode_content(self.serde, checkpoint),
                    namespace=namespace,
                    parent=get_checkpoint_id(config),
                    files=files,
                    metadata=encode_metadata(config, metadata),
                    deltas=list_deltas(checkpoint, metadata),
                    channels=encode_channels(self.serde, checkpoint, needed),
                )
            )
            return stored["missing"]

        missing = put_values(new_versions)
        if missing:
            put_values({*new_versions, *missing})
        return make_config(thread, namespace, id)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[Tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Stores the results of a task in the step after a checkpoint."""
        encoded = [
            {
                "position": WRITES_IDX_MAP.get(channel, position),
                "channel": channel,
                "value": encode(self.serde, value),
            }
            for position, (channel, value) in enumerate(writes)
        ]
        self._repeat(
            lambda: self.takeback.call(
                "threads.write",
                app=self.app,
                thread=thread_of(config),
                namespace=namespace_of(config),
                state=config["configurable"]["checkpoint_id"],
                task=task_id,
                path=task_path,
                writes=encoded,
            )
        )

    # Threads

    def delete_thread(self, thread_id: str) -> None:
        """Deletes a thread. The checkpoints of its files are kept."""
        self._repeat(lambda: self.takeback.threads_delete(self.app, str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of runs, except those that other checkpoints need."""
        runs = [str(run) for run in run_ids]
        self._repeat(lambda: self.takeback.threads_delete_runs(self.app, runs))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread into a new one."""
        source, target = str(source_thread_id), str(target_thread_id)
        try:
            self.takeback.threads_copy(self.app, source, target)
        except ServerDiedError:
            # A copy is made completely or not at all.
            if self._list_page({"configurable": {"thread_id": target}}, limit=1)["states"]:
                return
            self.takeback.threads_copy(self.app, source, target)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes all checkpoints of threads, or all but the latest and the ones that it needs."""
        if strategy not in STRATEGIES:
            raise ValueError(f"unknown strategy {strategy!r}; use one of {', '.join(STRATEGIES)}")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._repeat(partial(self.takeback.threads_prune, self.app, thread))

    # Files

    def rollback(self, config: RunnableConfig) -> RunnableConfig:
        """Restores the files of a checkpoint. Returns the configuration to continue with.

        The current state is captured first, so ``takeback rollback undo`` can reverse the rollback.
        """
        workspace, state, files = self._find_files(config)
        workspace.roll_back(files)
        return make_config(state["thread"], state["namespace"], state["id"])

    def fork(
        self, config: RunnableConfig, thread_id: str, directory: AnyPath
    ) -> RunnableConfig:
        """Copies a thread, and copies the files of a checkpoint into a new directory.

        Returns the configuration with which the copy continues at that checkpoint.
        """
        workspace, state, files = self._find_files(config)
        self.copy_thread(state["thread"], thread_id)
        try:
            workspace.takeback.fork(files, directory=directory)
        except BaseException:
            self.delete_thread(thread_id)
            raise
        return make_config(str(thread_id), state["namespace"], state["id"])

    def finish(self, config: RunnableConfig) -> None:
        """Reports that the graph has stopped, so that later changes are not attributed to it."""
        if self._workspace is not None:
            self._workspace.finish(thread_of(config))

    def _find_files(self, config: RunnableConfig) -> Tuple[GraphWorkspace, ThreadState, str]:
        thread = thread_of(config)
        state = self._get_state(config)
        if state is None:
            raise NoFilesError(f"thread {thread} has no such checkpoint")
        if self._workspace is None:
            raise NoFilesError("this saver has no workspace", "pass workspace=DIRECTORY")
        if state["files"] is None:
            raise NoFilesError(f"checkpoint {state['id']} of thread {thread} has no files")
        return self._workspace, state, state["files"]

    # The protocol

    def _get_state(self, config: RunnableConfig) -> Optional[ThreadState]:
        return self._repeat(
            lambda: self.takeback.threads_get(
                self.app,
                thread_of(config),
                namespace=namespace_of(config),
                id=get_checkpoint_id(config),
            )
        )

    def _list_page(
        self,
        config: Optional[RunnableConfig],
        filter: Optional[Dict[str, Any]] = None,
        before: Optional[RunnableConfig] = None,
        limit: Optional[int] = None,
        after: Optional[ThreadPosition] = None,
    ) -> ThreadPage:
        chosen = config["configurable"] if config else {}
        thread = chosen.get("thread_id")
        return self._repeat(
            lambda: self.takeback.threads_list(
                self.app,
                thread=None if thread is None else str(thread),
                namespace=chosen.get("checkpoint_ns"),
                id=chosen.get("checkpoint_id"),
                before=get_checkpoint_id(before) if before else None,
                metadata=filter,
                after=after,
                limit=limit,
            )
        )

    def _repeat(self, request: Callable[[], Result]) -> Result:
        """Makes a request that is safe to repeat, and repeats it once if takeback died."""
        try:
            return request()
        except ServerDiedError:
            return request()

    # The asynchronous methods make their requests in other threads.

    async def aget_tuple(self, config: RunnableConfig) -> Optional[CheckpointTuple]:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: Optional[RunnableConfig],
        *,
        filter: Optional[Dict[str, Any]] = None,
        before: Optional[RunnableConfig] = None,
        limit: Optional[int] = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[Tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))

    async def arollback(self, config: RunnableConfig) -> RunnableConfig:
        return await asyncio.to_thread(self.rollback, config)

    async def afork(
        self, config: RunnableConfig, thread_id: str, directory: AnyPath
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.fork, config, thread_id, directory)
