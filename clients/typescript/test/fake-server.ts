/**
 * A program that stands in for `takeback rpc` and misbehaves.
 *
 * It appends the method of each request to the file `received`, so that tests can see which
 * requests were sent.
 */

import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [behavior, base] = process.argv.slice(2);
const INFO = { protocol: 1, version: "9.9", max_line_bytes: 200, methods: [] };

function answer(id: number | null, rest: object): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...rest })}\n`);
}

function serve(id: number, method: string): void {
  if (behavior === "stay silent") return;
  if (behavior === "speak nonsense") {
    process.stdout.write("hello\n");
  } else if (method === "initialize") {
    answer(id, { result: behavior === "speak protocol 2" ? { ...INFO, protocol: 2 } : INFO });
  } else if (behavior === "die") {
    process.stderr.write("the disk is on fire\n", () => process.exit(3));
  } else if (behavior === "answer with id null") {
    answer(null, { error: { code: -32600, message: "not a request" } });
  } else if (behavior === "answer another request") {
    answer(id + 7, { result: {} });
  } else {
    answer(id, { result: {} });
  }
}

if (behavior === "die at once") {
  process.stderr.write("no such option\n", () => process.exit(1));
} else {
  createInterface(process.stdin).on("line", (line) => {
    const { id, method } = JSON.parse(line) as { id: number; method: string };
    appendFileSync(`${base}/received`, `${method}\n`);
    serve(id, method);
  });
}
