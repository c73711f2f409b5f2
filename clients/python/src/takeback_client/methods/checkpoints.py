"""Methods that take, list, compare and restore checkpoints."""

from __future__ import annotations

from typing import Optional, Sequence

from ..types import (
    AnyPath,
    CheckpointName,
    Checkpoints,
    Diff,
    FileResolution,
    Fork,
    NewCheckpoint,
    PlanResult,
    Resolution,
    RollbackResult,
    Scope,
)
from .caller import Caller, encode_files, encode_optional_path, encode_paths


class CheckpointMethods(Caller):
    """Methods that take, list, compare and restore checkpoints."""

    def checkpoint_create(
        self,
        *,
        reason: Optional[str] = None,
        name: Optional[str] = None,
        pinned: Optional[bool] = None,
    ) -> NewCheckpoint:
        """Takes a manual checkpoint."""
        result: NewCheckpoint = self.call(
            "checkpoint.create", reason=reason, name=name, pinned=pinned
        )
        return result

    def checkpoint_list(self) -> Checkpoints:
        """Lists the checkpoints of the workspace, newest first."""
        result: Checkpoints = self.call("checkpoint.list")
        return result

    def checkpoint_diff(
        self,
        checkpoint: CheckpointName,
        *,
        paths: Optional[Sequence[AnyPath]] = None,
        full: Optional[bool] = None,
    ) -> Diff:
        """Compares a checkpoint with the current state."""
        result: Diff = self.call(
            "checkpoint.diff", checkpoint=checkpoint, paths=encode_paths(paths), full=full
        )
        return result

    def fork(
        self,
        from_: CheckpointName,
        *,
        directory: Optional[AnyPath] = None,
        chat_only: Optional[bool] = None,
        git: Optional[bool] = None,
        agent: Optional[str] = None,
    ) -> Fork:
        """Copies a conversation up to a point, and writes the files at that point to a directory.

        The agent's own conversation is copied as well. `agent` names the agent that will continue
        the copy, if it is not the agent of the session.
        """
        result: Fork = self.call(
            "fork",
            directory=encode_optional_path(directory),
            chat_only=chat_only,
            git=git,
            agent=agent,
            **{"from": from_},
        )
        return result

    def rollback_plan(
        self,
        checkpoint: CheckpointName,
        *,
        paths: Optional[Sequence[AnyPath]] = None,
        scope: Optional[Scope] = None,
        index: Optional[bool] = None,
        skip_blocked: Optional[bool] = None,
        workspace_only: Optional[bool] = None,
    ) -> PlanResult:
        """Plans a return to a checkpoint. Changes nothing."""
        result: PlanResult = self.call(
            "rollback.plan",
            checkpoint=checkpoint,
            paths=encode_paths(paths),
            scope=scope,
            index=index,
            skip_blocked=skip_blocked,
            workspace_only=workspace_only,
        )
        return result

    def rollback_apply(
        self,
        checkpoint: CheckpointName,
        *,
        paths: Optional[Sequence[AnyPath]] = None,
        scope: Optional[Scope] = None,
        index: Optional[bool] = None,
        skip_blocked: Optional[bool] = None,
        workspace_only: Optional[bool] = None,
        digest: Optional[str] = None,
    ) -> RollbackResult:
        """Returns to a checkpoint; with a digest, only if the plan still has this digest."""
        result: RollbackResult = self.call(
            "rollback.apply",
            checkpoint=checkpoint,
            paths=encode_paths(paths),
            scope=scope,
            index=index,
            skip_blocked=skip_blocked,
            workspace_only=workspace_only,
            digest=digest,
        )
        return result

    def rollback_undo(
        self,
        *,
        dry_run: Optional[bool] = None,
        skip_blocked: Optional[bool] = None,
        workspace_only: Optional[bool] = None,
    ) -> RollbackResult:
        """Undoes the latest rollback or undo."""
        result: RollbackResult = self.call(
            "rollback.undo",
            dry_run=dry_run,
            skip_blocked=skip_blocked,
            workspace_only=workspace_only,
        )
        return result

    def rollback_redo(
        self,
        *,
        dry_run: Optional[bool] = None,
        skip_blocked: Optional[bool] = None,
        workspace_only: Optional[bool] = None,
    ) -> RollbackResult:
        """Reverses the latest ``rollback_undo``."""
        result: RollbackResult = self.call(
            "rollback.redo",
            dry_run=dry_run,
            skip_blocked=skip_blocked,
            workspace_only=workspace_only,
        )
        return result

    def undo_plan(
        self,
        *,
        turn: Optional[int] = None,
        conflicts: Optional[Resolution] = None,
        uncertain: Optional[bool] = None,
        taken: Optional[Sequence[AnyPath]] = None,
        files: Optional[Sequence[FileResolution]] = None,
        skip_blocked: Optional[bool] = None,
        workspace_only: Optional[bool] = None,
    ) -> PlanResult:
        """Plans how to take back one turn and keep later edits. Changes nothing."""
        result: PlanResult = self.call(
            "undo.plan",
            turn=turn,
            conflicts=conflicts,
            uncertain=uncertain,
            taken=encode_paths(taken),
            files=encode_files(files),
            skip_blocked=skip_blocked,
            workspace_only=workspace_only,
        )
        return result

    def undo_apply(
        self,
        *,
        turn: Optional[int] = None,
        conflicts: Optional[Resolution] = None,
        uncertain: Optional[bool] = None,
        taken: Optional[Sequence[AnyPath]] = None,
        files: Optional[Sequence[FileResolution]] = None,
        skip_blocked: Optional[bool] = None,
        workspace_only: Optional[bool] = None,
        digest: Optional[str] = None,
    ) -> RollbackResult:
        """Takes back one turn, by default the last one, and keeps later edits."""
        result: RollbackResult = self.call(
            "undo.apply",
            turn=turn,
            conflicts=conflicts,
            uncertain=uncertain,
            taken=encode_paths(taken),
            files=encode_files(files),
            skip_blocked=skip_blocked,
            workspace_only=workspace_only,
            digest=digest,
        )
        return result
