#!/usr/bin/env node
// Starts the takeback program from the package for this platform. npm installs that package as an
// optional dependency, so there is no download script.
"use strict";

const { spawn } = require("node:child_process");
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

const program = spawn(findProgram(), process.argv.slice(2), { stdio: "inherit" });
// The terminal sends these signals to the program as well. Only the program acts on them.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => program.kill(signal));
program.on("error", (error) => {
  console.error(`error: cannot start takeback: ${error.message}`);
  process.exit(1);
});
program.on("exit", (status, signal) => {
  process.exit(signal ? 128 + constants.signals[signal] : status);
});
