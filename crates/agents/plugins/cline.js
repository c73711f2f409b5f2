// Adds takeback's commands to Cline, and answers them without the model. Also leaves messages that
// were taken back out of the requests to the model.

import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"

const TAKEBACK = @TAKEBACK@

/** Cline waits up to a minute for the answer to a command. */
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

/**
 * Reads which messages the model must not see. Returns null if there are none. Otherwise, maps each
 * part of a message to a list that says for each occurrence of the part whether it is hidden.
 */
function readHidden() {
  try {
    const parts = new Map()
    for (const { part, hidden } of JSON.parse(readFileSync(join(HIDDEN, `${session}.json`), "utf8"))) {
      if (!parts.has(part)) parts.set(part, [])
      parts.get(part).push(hidden)
    }
    return parts
  } catch {
    return null
  }
}

/** Returns takeback's name for a call or a result, and null for any other block. */
function nameBlock({ type, id, tool_use_id: call }) {
  if (type === "tool_use") return `call:${id}`
  return type === "tool_result" ? `result:${call}` : null
}

function nameText(role, blocks) {
  const text = blocks.map((block) => (block.type === "text" ? block.text : "")).join("")
  return `${role}:${createHash("sha256").update(text.trim()).digest("hex")}`
}

/** Leaves out the messages that were taken back. */
function withoutHidden(messages) {
  const parts = session && Array.isArray(messages) ? readHidden() : null
  if (!parts) return messages
  let isHidden = false
  // A part that is not in the list is treated like the part before it, unless it is a prompt: a new
  // prompt is newer than the list.
  const look = (part, isPrompt) => (isHidden = parts.get(part)?.shift() ?? (isHidden && !isPrompt))
  const left = []
  for (const message of messages) {
    const { role, content } = message
    const blocks = Array.isArray(content) ? content : [{ type: "text", text: String(content) }]
    const called = blocks.filter(nameBlock)
    if (called.length === 0) {
      if (!look(nameText(role, blocks), role === "user")) left.push(message)
      continue
    }
    // Cline puts the results from several messages into one message.
    const gone = new Set(called.filter((block) => look(nameBlock(block), false)))
    if (gone.size === 0) left.push(message)
    else if (gone.size < called.length) {
      left.push({ ...message, content: blocks.filter((block) => !gone.has(block)) })
    }
  }
  return left
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
  manifest: { capabilities: ["commands", "messageBuilders"] },
  setup(api, context) {
    session = context?.session?.sessionId
    // A hook before each request would get the ids of the messages, but if it took more than three
    // seconds on a busy machine, Cline would end the turn. A message builder may take a minute.
    api.registerMessageBuilder({ name: "takeback", build: withoutHidden })
    const directory = context?.workspaceInfo?.rootPath ?? process.cwd()
    for (const [name, description] of Object.entries(COMMANDS)) {
      const words = ["--typed-in", "cline", "slash", name]
      const handler = (rest) => runTakeback([...words, rest ?? ""], directory)
      api.registerCommand({ name, description, handler })
    }
  },
}
