"""A LangGraph checkpointer that keeps threads in takeback's ledger, and files with them."""

from .saver import TakebackSaver
from .workspace import NoFilesError

__all__ = ["NoFilesError", "TakebackSaver"]
