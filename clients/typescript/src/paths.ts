/** The JSON form of paths: a string, or base64 if the path is not valid UTF-8. */

import { isUtf8 } from "node:buffer";

import type { JsonPath } from "./types/index.js";

/** Returns the JSON form of a path. */
export function encodePath(path: string | Uint8Array): JsonPath {
  if (typeof path === "string") return path;
  const bytes = Buffer.from(path);
  return isUtf8(bytes) ? bytes.toString("utf8") : { bytes: bytes.toString("base64") };
}

/** Returns a path from a result in a form that the functions of `node:fs` accept. */
export function decodePath(path: JsonPath): string | Buffer {
  return typeof path === "string" ? path : Buffer.from(path.bytes, "base64");
}
