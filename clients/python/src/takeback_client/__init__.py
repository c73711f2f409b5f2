"""A client for ``takeback rpc``: checkpoints, rollback and a ledger for your own agent."""

from .agent_session import AgentSession, ToolCall
from .client import Takeback
from .errors import (
    BlockedError,
    ClosedError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    OperationFailedError,
    PlanChangedError,
    ProtocolError,
    RequestTimeoutError,
    RequestTooLongError,
    RpcError,
    ServerDiedError,
    StartError,
    TakebackError,
    ToolRefusedError,
    UnknownMethodError,
)
from .paths import decode_path, encode_path

__all__ = [
    "AgentSession",
    "BlockedError",
    "ClosedError",
    "InternalError",
    "InvalidParamsError",
    "InvalidRequestError",
    "OperationFailedError",
    "PlanChangedError",
    "ProtocolError",
    "RequestTimeoutError",
    "RequestTooLongError",
    "RpcError",
    "ServerDiedError",
    "StartError",
    "Takeback",
    "TakebackError",
    "ToolCall",
    "ToolRefusedError",
    "UnknownMethodError",
    "decode_path",
    "encode_path",
]
