// Reports pi's actions to takeback, passes takeback's notices to pi's model, and shows takeback's
// warnings to the user.

import { spawn } from "node:child_process"
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent"

const TAKEBACK: string[] = @TAKEBACK@

/** The time after which a takeback process is assumed to hang, and is killed. */
const TIMEOUT_MS = 120_000

const COMMANDS = {
  rollback: "List takeback's checkpoints, or return to one: /rollback [N] [FILE…]",
  undo: "Take back what the agent changed in its last turn",
}

/** Runs takeback and resolves to its output. Never rejects: a failure must not stop pi. */
function runTakeback(words: string[], directory: string, input = ""): Promise<string> {
  return new Promise((resolve) => {
    let output = ""
    const finish = () => resolve(output)
    try {
      const options = { cwd: directory, timeout: TIMEOUT_MS }
      const child = spawn(TAKEBACK[0], [...TAKEBACK.slice(1), ...words], options)
      child.on("error", finish)
      child.on("close", finish)
      child.stdin.on("error", () => {})
      child.stdout.setEncoding("utf8").on("data", (data) => (output += data))
      child.stderr.resume()
      child.stdin.end(input)
    } catch {
      finish()
    }
  })
}

type Answer = {
  notice?: string
  warning?: string
  refusal?: string
  text?: string
  resume?: { file?: string }
}

/** Finds takeback's answer: a notice for the model, a warning for the user, or a refusal. */
function parseAnswer(output: string): Answer {
  for (const line of output.split("\n")) {
    try {
      const answer = JSON.parse(line)
      if (answer && typeof answer === "object") return answer
    } catch {
      // This line is some other output, not the answer.
    }
  }
  return {}
}

export default function takeback(pi: ExtensionAPI) {
  const report = (event: string, ctx: ExtensionContext, payload: object = {}) => {
    const session = ctx.sessionManager.getSessionId()
    const all = { ...payload, type: event, cwd: ctx.cwd, session, model: ctx.model?.id }
    return runTakeback(["hook", "pi", event], ctx.cwd, JSON.stringify(all))
  }

  pi.on("session_start", async (_, ctx) => void (await report("session_start", ctx)))
  pi.on("before_agent_start", async (event, ctx) => {
    const output = await report("before_agent_start", ctx, { prompt: event.prompt })
    const { notice: content } = parseAnswer(output)
    if (content) return { message: { customType: "takeback", content, display: true } }
  })
  pi.on("tool_call", async ({ toolName, toolCallId, input }, ctx) => {
    const output = await report("tool_call", ctx, { toolName, toolCallId, input })
    const { refusal, warning } = parseAnswer(output)
    if (warning && ctx.hasUI) ctx.ui.notify(warning, "warning")
    else if (warning) console.error(warning)
    // takeback refuses a call only if its configuration has strict = true.
    return refusal ? { block: true, reason: refusal } : undefined
  })
  pi.on("tool_result", async ({ toolName, toolCallId, input, isError }, ctx) => {
    await report("tool_result", ctx, { toolName, toolCallId, input, isError })
    return undefined
  })
  pi.on("agent_end", async (_, ctx) => void (await report("agent_end", ctx)))
  pi.on("session_shutdown", async (_, ctx) => void (await report("session_shutdown", ctx)))

  for (const [name, description] of Object.entries(COMMANDS)) {
    pi.registerCommand(name, {
      description,
      handler: async (rest, ctx) => {
        // Without a user interface, a script may have written the prompt.
        const limits = ctx.hasUI ? [] : ["--list-only"]
        const session = `pi:${ctx.sessionManager.getSessionId()}`
        const words = ["slash", ...limits, "--session", session, name, rest]
        const printed = await runTakeback(words, ctx.cwd)
        const { text = printed, resume } = parseAnswer(printed)
        if (!ctx.hasUI) return console.log(text.trimEnd())
        ctx.ui.notify(text.trimEnd(), "info")
        // Show the copy that ends at the chosen point in place of this conversation.
        if (resume?.file) await ctx.switchSession(resume.file)
      },
    })
  }
}
