// Adds takeback's commands to Copilot CLI; they are answered without the model. After a rollback,
// shows the conversation that continues.

import { spawn } from "node:child_process"
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { joinSession } from "@github/copilot-sdk/extension"

const TAKEBACK = @TAKEBACK@

/** This is longer than a rollback takes, so that only a hung process is killed. */
const TIMEOUT_MS = 120_000

// Copilot CLI has an /undo of its own.
const COMMANDS = {
  rollback: "List takeback's checkpoints, or return to one: /rollback [N] [FILE…]",
  "takeback-undo": "Take back what the agent changed in its last turn",
}

/**
 * The file with an answer that is to be shown in another session, in the directory of that session.
 * Each session has its own process of this extension.
 */
const ANSWER = "takeback-answer.txt"

/** Runs takeback and resolves to its output. */
function runTakeback(words) {
  return new Promise((resolve) => {
    let output = ""
    const fail = (error) => resolve(`takeback could not be started: ${error.message}`)
    try {
      const options = { timeout: TIMEOUT_MS, stdio: ["ignore", "pipe", "ignore"] }
      const child = spawn(TAKEBACK[0], [...TAKEBACK.slice(1), ...words], options)
      child.on("error", fail)
      child.on("close", () => resolve(output.trimEnd()))
      child.stdout.setEncoding("utf8").on("data", (data) => (output += data))
    } catch (error) {
      fail(error)
    }
  })
}

/** Finds takeback's answer: its text, and the conversation to show. */
function parseAnswer(output) {
  try {
    const { text, resume } = JSON.parse(output)
    return { text: text.trimEnd(), resume }
  } catch {
    return { text: output }
  }
}

/** Shows a text to the user. It is neither kept in the session nor sent to the model. */
const show = (text) => session.log(text, { ephemeral: true })

/**
 * Makes the terminal continue another session, as if the user had typed /resume. The present
 * session stays as it is.
 */
async function showSession({ session: id, file }, text) {
  const answer = join(dirname(file), ANSWER)
  try {
    writeFileSync(answer, text, { mode: 0o600 })
    const { queued } = await session.rpc.commands.enqueue({ command: `/resume ${id}` })
    if (queued) return
  } catch {
    // The text says what to type.
  }
  rmSync(answer, { force: true })
  await show(text)
}

async function answer(name, rest) {
  const words = ["slash", "--session", `copilot:${session.sessionId}`, name, rest ?? ""]
  const { text, resume } = parseAnswer(await runTakeback(words))
  await (resume?.file ? showSession(resume, text) : show(text))
}

const commands = Object.entries(COMMANDS).map(([name, description]) => {
  return { name, description, handler: ({ args }) => answer(name, args) }
})
const session = await joinSession({ commands })

try {
  const path = join(session.workspacePath, ANSWER)
  const text = readFileSync(path, "utf8")
  rmSync(path)
  await show(text)
} catch {
  // There is no answer to show.
}
