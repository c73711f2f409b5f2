"""The translation between LangGraph's checkpoints and the states of takeback's threads."""

from __future__ import annotations

import base64
import json
from typing import Any, Dict, List, Optional, Tuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from takeback_client.types import Channel, Encoded, ThreadState


def encode(serde: SerializerProtocol, value: Any) -> Encoded:
    kind, data = serde.dumps_typed(value)
    return {"type": kind, "data": base64.b64encode(data).decode("ascii")}


def decode(serde: SerializerProtocol, value: Encoded) -> Any:
    return serde.loads_typed((value["type"], base64.b64decode(value["data"])))


def thread_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def namespace_of(config: RunnableConfig) -> str:
    return str(config["configurable"].get("checkpoint_ns", ""))


def make_config(thread: str, namespace: str, id: str) -> RunnableConfig:
    """Builds the configuration that identifies a checkpoint."""
    configurable = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}
    return {"configurable": configurable}


def encode_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> Dict[str, Any]:
    """Converts the metadata to JSON. Values of other types, such as UUIDs, become text."""
    found = get_serializable_checkpoint_metadata(config, metadata)
    encoded: Dict[str, Any] = json.loads(json.dumps(found, default=str))
    return encoded


def list_deltas(checkpoint: Checkpoint, metadata: CheckpointMetadata) -> List[str]:
    """Lists the channels whose values are computed from earlier checkpoints and their writes.

    LangGraph counts the steps since such a channel was last stored as a whole.
    """
    counted = metadata.get("counters_since_delta_snapshot") or {}
    return sorted(channel for channel in counted if channel not in checkpoint["channel_values"])


def encode_channels(
    serde: SerializerProtocol, checkpoint: Checkpoint, needed: Any
) -> List[Channel]:
    """Encodes the channels that have a value. Only the values that are needed are included."""
    channels: List[Channel] = []
    versions: ChannelVersions = checkpoint["channel_versions"]
    for channel, value in checkpoint["channel_values"].items():
        encoded: Optional[Encoded] = encode(serde, value) if channel in needed else None
        version = str(versions.get(channel, ""))
        channels.append({"channel": channel, "version": version, "value": encoded})
    return channels


def encode_content(serde: SerializerProtocol, checkpoint: Checkpoint) -> Encoded:
    """Encodes a checkpoint without the values of its channels."""
    return encode(serde, {**checkpoint, "channel_values": {}})


def decode_state(serde: SerializerProtocol, state: ThreadState) -> CheckpointTuple:
    """Builds a checkpoint from a stored state."""
    checkpoint: Checkpoint = decode(serde, state["content"])
    checkpoint["channel_values"] = {
        channel["channel"]: decode(serde, channel["value"])
        for channel in state["channels"]
        if channel["value"] is not None
    }
    thread, namespace, parent = state["thread"], state["namespace"], state["parent"]
    writes: List[Tuple[str, str, Any]] = [
        (write["task"], write["channel"], decode(serde, write["value"]))
        for write in state["writes"]
    ]
    return CheckpointTuple(
        config=make_config(thread, namespace, state["id"]),
        checkpoint=checkpoint,
        metadata=state["metadata"],
        parent_config=None if parent is None else make_config(thread, namespace, parent),
        pending_writes=writes,
    )


__all__ = [
    "decode_state",
    "encode",
    "encode_channels",
    "encode_content",
    "encode_metadata",
    "get_checkpoint_id",
    "list_deltas",
    "make_config",
    "namespace_of",
    "thread_of",
]
