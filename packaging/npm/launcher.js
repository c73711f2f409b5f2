#!/usr/bin/env node
// Starts the takeback program from the package for this platform. npm installs that package as an
// optional dependency, so there is no download script.
"use strict";

const { spawnSync } = require("node:child_process");
const { constants } = require("node:os");

const name = `takeback-${process.platform}-${process.arch}`;

function findProgram() {
  try {
    return require.resolve(`${name}/bin/takeback`);
  } catch {
    console.error(`error: the package ${name} is not installed`);
    console.error("hint: takeback runs only on Linux and macOS, on x64 and arm64; install it without --omit=optional");
    process.exit(1);
  }
}

const result = spawnSync(findProgram(), process.argv.slice(2), { stdio: "inherit" });
if (result.error) {
  console.error(`error: cannot start takeback: ${result.error.message}`);
  process.exit(1);
}
process.exit(result.signal ? 128 + constants.signals[result.signal] : result.status);
