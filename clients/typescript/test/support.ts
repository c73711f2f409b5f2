/** Scratch homes for the tests, which run the real takeback. */

import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { Takeback } from "../src/index.js";
import type { TakebackOptions } from "../src/index.js";

/** The program to test, such as target/debug/takeback. */
export const PROGRAM = process.env["TAKEBACK"] ?? "takeback";

/** The root of the repository. */
export const REPOSITORY = process.env["REPOSITORY"] ?? "../..";

/** A home directory and a project, which are removed after the test. */
export class Scratch {
  readonly base = mkdtempSync(join(tmpdir(), "takeback-client-"));
  readonly project = join(this.base, "project");
  readonly warnings: string[] = [];
  readonly #test: TestContext;

  constructor(test: TestContext) {
    this.#test = test;
    // If this directory were inside a repository, that whole repository would be rolled back.
    for (let above = dirname(this.base); above !== dirname(above); above = dirname(above)) {
      assert.ok(!existsSync(join(above, ".git")), this.base);
    }
    mkdirSync(this.project);
    test.after(() => {
      try {
        rmSync(this.base, { recursive: true, force: true });
      } catch {
        // A background process of takeback may still be writing.
      }
    });
  }

  /** Starts the real takeback in the project. */
  connect(options: TakebackOptions = {}): Promise<Takeback> {
    const environment = { HOME: this.base, TZ: "UTC", PATH: process.env["PATH"] };
    return this.#start({ program: PROGRAM, environment, ...options });
  }

  /** Starts a server that misbehaves. */
  connectFake(behavior: string, options: TakebackOptions = {}): Promise<Takeback> {
    const program = join(this.base, "fake");
    const server = fileURLToPath(new URL("./fake-server.js", import.meta.url));
    const words = [process.execPath, server, behavior, this.base].map((word) => `"${word}"`);
    writeFileSync(program, `#!/bin/sh\nexec ${words.join(" ")}\n`);
    chmodSync(program, 0o755);
    return this.#start({ program, ...options });
  }

  /** Returns the methods that all fake servers of this test have received. */
  received(): string[] {
    return readFileSync(join(this.base, "received"), "utf8").trim().split("\n");
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.project, name), text);
  }

  read(name: string): string {
    return readFileSync(join(this.project, name), "utf8");
  }

  async #start(options: TakebackOptions): Promise<Takeback> {
    const onWarning = (line: string) => this.warnings.push(line);
    const takeback = await Takeback.start({ directory: this.project, onWarning, ...options });
    this.#test.after(() => takeback.close());
    return takeback;
  }
}
