// It tells takeback what pi does, and pi's model what takeback did.

import { spawn } from "node:child_process"
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent"

const TAKEBACK: string[] = @TAKEBACK@

/** Longer than any hook of takeback waits by itself. */
const LIMIT_MS = 120_000

const COMMANDS = {
  rollback: "List takeback's checkpoints, or return to one: /rollback [N] [paths]",
  undo: "Take back what the agent changed in its last turn",
}

/** Runs takeback. Whatever happens there, this does not fail. */
function run(words: string[], directory: string, input = ""): Promise<string> {
  return new Promise((resolve) => {
    let output = ""
    const done = () => resolve(output)
    try {
      const options = { cwd: directory, timeout: LIMIT_MS }
      const child = spawn(TAKEBACK[0], [...TAKEBACK.slice(1), ...words], options)
      child.on("error", done)
      child.on("close", done)
      child.stdin.on("error", () => {})
      child.stdout.setEncoding("utf8").on("data", (data) => (output += data))
      child.stderr.resume()
      child.stdin.end(input)
    } catch {
      done()
    }
  })
}

/** What takeback has to say: a notice for the model, the refusal of a call. */
function answerIn(output: string): { notice?: string; refusal?: string } {
  for (const line of output.split("\n")) {
    try {
      const answer = JSON.parse(line)
      if (answer && typeof answer === "object") return answer
    } catch {
      // Something else that was said.
    }
  }
  return {}
}

export default function takeback(pi: ExtensionAPI) {
  const tell = (event: string, ctx: ExtensionContext, payload: object = {}) => {
    const session = ctx.sessionManager.getSessionId()
    const all = { ...payload, type: event, cwd: ctx.cwd, session, model: ctx.model?.id }
    return run(["hook", "pi", event], ctx.cwd, JSON.stringify(all))
  }

  pi.on("session_start", async (_, ctx) => void (await tell("session_start", ctx)))
  pi.on("before_agent_start", async (event, ctx) => {
    const said = await tell("before_agent_start", ctx, { prompt: event.prompt })
    const { notice: content } = answerIn(said)
    if (content) return { message: { customType: "takeback", content, display: true } }
  })
  pi.on("tool_call", async ({ toolName, toolCallId, input }, ctx) => {
    const { refusal } = answerIn(await tell("tool_call", ctx, { toolName, toolCallId, input }))
    // Only with strict = true in takeback's configuration.
    return refusal ? { block: true, reason: refusal } : undefined
  })
  pi.on("tool_result", async ({ toolName, toolCallId, input, isError }, ctx) => {
    await tell("tool_result", ctx, { toolName, toolCallId, input, isError })
    return undefined
  })
  pi.on("agent_end", async (_, ctx) => void (await tell("agent_end", ctx)))
  pi.on("session_shutdown", async (_, ctx) => void (await tell("session_shutdown", ctx)))

  for (const [name, description] of Object.entries(COMMANDS)) {
    pi.registerCommand(name, {
      description,
      handler: async (rest, ctx) => {
        const output = await run(["slash", name, rest], ctx.cwd)
        if (ctx.hasUI) ctx.ui.notify(output.trimEnd(), "info")
        else console.log(output.trimEnd())
      },
    })
  }
}
