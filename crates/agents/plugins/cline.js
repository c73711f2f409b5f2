// Adds takeback's commands to Cline, which answers them without its model.

import { spawn } from "node:child_process"

const TAKEBACK = @TAKEBACK@

/** Cline waits for the answer to a command for up to a minute. */
const TIMEOUT_MS = 60_000

// Cline has an /undo of its own.
const COMMANDS = {
  rollback: "List takeback's checkpoints, or return to one: /rollback [N] [FILE…]",
  "takeback-undo": "Take back what the agent changed in its last turn",
}

/** Runs takeback and resolves to its output. */
function runTakeback(words, directory) {
  return new Promise((resolve) => {
    let output = ""
    const fail = (error) => resolve(`takeback could not be started: ${error.message}`)
    try {
      const options = { cwd: directory, timeout: TIMEOUT_MS, stdio: ["ignore", "pipe", "ignore"] }
      const child = spawn(TAKEBACK[0], [...TAKEBACK.slice(1), ...words], options)
      child.on("error", fail)
      child.on("close", () => resolve(output.trimEnd()))
      child.stdout.setEncoding("utf8").on("data", (data) => (output += data))
    } catch (error) {
      fail(error)
    }
  })
}

export default {
  name: "takeback",
  manifest: { capabilities: ["commands"] },
  setup(api, context) {
    const directory = context?.workspaceInfo?.rootPath ?? process.cwd()
    for (const [name, description] of Object.entries(COMMANDS)) {
      const handler = (rest) => runTakeback(["slash", name, rest ?? ""], directory)
      api.registerCommand({ name, description, handler })
    }
  },
}
