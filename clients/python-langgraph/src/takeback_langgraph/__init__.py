"""A LangGraph checkpointer that keeps threads in takeback's ledger, and checkpoints of their files."""

from .saver import TakebackSaver
from .workspace import NoFilesError

__all__ = ["NoFilesError", "TakebackSaver"]
