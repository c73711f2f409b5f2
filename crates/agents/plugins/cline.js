// Adds takeback's commands to Cline, which answers them without its model. Leaves the messages that
// were taken back out of the requests to the model.

import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"

const TAKEBACK = @TAKEBACK@

/** Cline waits for a command for a minute. */
const TIMEOUT_MS = 60_000

// Cline has an /undo of its own.
const COMMANDS = {
  rollback: "List takeback's checkpoints, or return to one: /rollback [N] [FILE…]",
  "takeback-undo": "Take back what the agent changed in its last turn",
}

/** The directory in which takeback lists the messages to leave out, one file per session. */
const HIDDEN = join(findHome(), "conversations", "hidden")

function findHome() {
  const option = TAKEBACK.indexOf("--home")
  if (option > 0) return TAKEBACK[option + 1]
  return process.env.TAKEBACK_HOME || join(homedir(), ".takeback")
}

/** The session that loaded this plugin. Cline runs commands in a process without a session. */
let session

/** Reads the ids of the messages that the model must not see. */
function readHiddenIds() {
  try {
    return new Set(JSON.parse(readFileSync(join(HIDDEN, `${session}.json`), "utf8")))
  } catch {
    // Nothing has been taken back in this session.
    return new Set()
  }
}

/** Leaves out the hidden messages. Cline splits a message into parts, whose ids begin with its id. */
function withoutHidden(messages, hidden) {
  let isHidden = false
  return messages.filter(({ id, role }) => {
    const entry = String(id ?? "").replace(/_(part_\d+|tool_.*)$/, "")
    // The result of a call goes with the call.
    isHidden = hidden.has(id) || hidden.has(entry) || (isHidden && role === "tool")
    return !isHidden
  })
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
  manifest: { capabilities: ["commands", "hooks"] },
  hooks: {
    beforeModel: ({ request }) => {
      const hidden = session ? readHiddenIds() : new Set()
      if (hidden.size > 0) return { messages: withoutHidden(request.messages, hidden) }
    },
  },
  setup(api, context) {
    session = context?.session?.sessionId
    const directory = context?.workspaceInfo?.rootPath ?? process.cwd()
    for (const [name, description] of Object.entries(COMMANDS)) {
      const words = ["--typed-in", "cline", "slash", name]
      const handler = (rest) => runTakeback([...words, rest ?? ""], directory)
      api.registerCommand({ name, description, handler })
    }
  },
}
