"""The base of the classes that contain the methods, and the encoding of parameters."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, TypeVar

from ..paths import encode_path
from ..types import AnyPath, FileResolution, JsonPath

T = TypeVar("T")


class Caller:
    """The base of the classes that contain the methods."""

    def call(self, method: str, **params: Any) -> Any:
        """Calls a method by its name in the protocol. Parameters that are None are left out."""
        raise NotImplementedError


def to_list(values: Optional[Sequence[T]]) -> Optional[List[T]]:
    if isinstance(values, (str, bytes)):
        # A string is also a sequence.
        raise TypeError("expected a list, not a string")
    return None if values is None else list(values)


def encode_optional_path(path: Optional[AnyPath]) -> Optional[JsonPath]:
    return None if path is None else encode_path(path)


def encode_paths(paths: Optional[Sequence[AnyPath]]) -> Optional[List[JsonPath]]:
    if paths is None:
        return None
    return [encode_path(path) for path in to_list(paths) or []]


def encode_files(files: Optional[Sequence[FileResolution]]) -> Optional[List[Dict[str, Any]]]:
    if files is None:
        return None
    return [{**file, "path": encode_path(file["path"])} for file in files]
