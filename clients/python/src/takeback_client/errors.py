"""The exceptions of the client. Each of them is a :class:`TakebackError`."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Type, cast

from .types import PlanResult, Report, RollbackResult


class TakebackError(Exception):
    """An error from takeback, or in the connection to it.

    ``hint`` is takeback's advice on what to do next, if it has any.
    """

    def __init__(self, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message


class StartError(TakebackError):
    """``takeback rpc`` could not be started, or speaks another version of the protocol."""


class ClosedError(TakebackError):
    """The client has been closed, or belongs to another process."""


class ProtocolError(TakebackError):
    """The program that was started does not speak takeback's protocol."""


class RequestTooLongError(TakebackError):
    """The request is longer than takeback accepts. It was not sent."""


class RequestTimeoutError(TakebackError, TimeoutError):
    """No answer arrived in time.

    If ``was_sent`` is true, takeback may still carry out the request. Otherwise it never will.
    """

    def __init__(self, method: str, seconds: float, was_sent: bool) -> None:
        message = f"takeback did not answer {method} within {seconds:g} s"
        hint = "takeback may still carry it out" if was_sent else "the request was not sent"
        super().__init__(message, hint)
        self.was_sent = was_sent


class ServerDiedError(TakebackError):
    """``takeback rpc`` exited before it answered a request, so the outcome is unknown.

    The next request starts a new process. The failed request is never sent again; the next
    operation in the workspace finishes or reverts the interrupted work.
    """

    def __init__(self, method: str, exit_code: Optional[int], warnings: List[str]) -> None:
        message = f"takeback {describe_exit(exit_code)} before it answered {method}"
        if warnings:
            message += ": " + " / ".join(warnings)
        super().__init__(message, "list the checkpoints to see what was done")
        self.exit_code = exit_code
        """The exit code, negative if a signal killed the process; None if it is unknown."""
        self.warnings = warnings
        """The last lines that the process wrote to standard error."""


def describe_refusal(report: Report) -> str:
    """Says why takeback refuses a call."""
    if report["tampering"]:
        return "it would " + "; ".join(report["tampering"])
    # Strict mode refuses calls that are not fully protected.
    lost = [f"{one['path']}: {one['reason']}" for one in report["unprotected"]]
    return "it is not fully protected: " + "; ".join(lost + report["failures"])


class ToolRefusedError(TakebackError):
    """takeback refuses a tool call, so the agent must not run it."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"takeback refuses this call: {describe_refusal(report)}")
        self.report = report


class RpcError(TakebackError):
    """takeback answered a request with an error."""

    def __init__(self, code: int, message: str, data: Dict[str, Any]) -> None:
        super().__init__(message, data.get("hint"))
        self.code = code
        self.data = data
        self.causes: List[str] = data.get("causes") or []

    def __str__(self) -> str:
        whole = ": ".join([self.message, *self.causes])
        return f"{whole} (hint: {self.hint})" if self.hint else whole


class InvalidRequestError(RpcError):
    """takeback could not read the request."""


class UnknownMethodError(RpcError):
    """This version of takeback does not have the method."""


class InvalidParamsError(RpcError):
    """A parameter is missing, wrong or unknown. The message says which."""


class InternalError(RpcError):
    """A bug in takeback."""


class OperationFailedError(RpcError):
    """The operation failed. ``causes`` and ``hint`` say why, and what to do."""


class PlanChangedError(RpcError):
    """The plan no longer has the given digest. Nothing was changed."""

    @property
    def now(self) -> PlanResult:
        """The plan as it would be now, with its digest."""
        return cast(PlanResult, self.data["now"])


class BlockedError(RpcError):
    """Some paths cannot be restored. Nothing was changed."""

    @property
    def plan(self) -> RollbackResult:
        """The plan, whose ``blocked`` lists these paths."""
        return cast(RollbackResult, self.data["plan"])


_BY_CODE: Dict[int, Type[RpcError]] = {
    -32700: InvalidRequestError,
    -32600: InvalidRequestError,
    -32601: UnknownMethodError,
    -32602: InvalidParamsError,
    -32603: InternalError,
    -32000: OperationFailedError,
    -32001: PlanChangedError,
    -32002: BlockedError,
}


def make_rpc_error(error: Dict[str, Any]) -> RpcError:
    """Builds the exception for the error in an answer."""
    code = error["code"]
    return _BY_CODE.get(code, RpcError)(code, error["message"], error.get("data") or {})


def describe_exit(exit_code: Optional[int]) -> str:
    """Says how a process ended."""
    if exit_code is None:
        return "closed its output"
    if exit_code < 0:
        return f"was killed by signal {-exit_code}"
    return f"ended with exit code {exit_code}"
