"""The JSON form of paths: a string, or base64 if the path is not valid UTF-8."""

from __future__ import annotations

import base64
import os

from .types import AnyPath, JsonPath


def encode_path(path: AnyPath) -> JsonPath:
    """Returns the JSON form of a path."""
    raw = os.fsencode(path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(raw).decode("ascii")}


def decode_path(path: JsonPath) -> str:
    """Returns a path from a result as a string that :func:`open` accepts."""
    if isinstance(path, str):
        return os.fsdecode(path.encode("utf-8"))
    return os.fsdecode(base64.b64decode(path["bytes"]))
