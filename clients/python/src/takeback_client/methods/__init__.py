"""The methods of the protocol. For example, ``tool.before`` becomes ``tool_before``."""

from .about import AboutMethods
from .agent import AgentMethods
from .checkpoints import CheckpointMethods
from .sessions import SessionMethods
from .threads import ThreadMethods

__all__ = [
    "AboutMethods",
    "AgentMethods",
    "CheckpointMethods",
    "SessionMethods",
    "ThreadMethods",
]
