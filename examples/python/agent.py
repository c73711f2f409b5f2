"""A small agent with takeback built in: checkpoints, a ledger, a rollback, and a notice.

    pip install takeback-client
    python examples/python/agent.py

The model is a script, and the project and takeback's home are in a scratch directory, so the
example runs anywhere. To build your own agent, replace only `ScriptedModel` and `main`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

from takeback_client import AgentSession, StartError, Takeback, ToolRefusedError
from takeback_client.types import Message


class ScriptedModel:
    """A model that answers each prompt with one shell command, and then with a sentence."""

    def __init__(self, commands: Dict[str, str]) -> None:
        self.commands = commands

    def answer(self, messages: List[Message]) -> Message:
        last = messages[-1]
        if last["role"] == "tool":
            return {"role": "assistant", "content": "Done."}
        asked = str(last["content"])
        command = next(self.commands[prompt] for prompt in self.commands if asked.endswith(prompt))
        arguments = json.dumps({"command": command})
        function = {"name": "bash", "arguments": arguments}
        return {"role": "assistant", "tool_calls": [{"id": "call-1", "function": function}]}


class Agent:
    """A loop: ask the model, run the tool that it calls, tell it the result."""

    def __init__(self, model: ScriptedModel, session: AgentSession, directory: Path) -> None:
        self.model = model
        self.session = session
        self.directory = directory
        self.messages: List[Message] = []

    def prompt(self, text: str) -> Any:
        """Works on a prompt, and returns the model's last answer."""
        self.session.start_turn(text)
        # After a rollback, the model must know that its picture of the files is out of date.
        notice: Optional[str] = self.session.take_notice()
        content = f"{notice}\n\n{text}" if notice else text
        self.messages.append({"role": "user", "content": content})
        while True:
            answer = self.model.answer(self.messages)
            self.remember(answer)
            calls = answer.get("tool_calls")
            if not calls:
                self.session.end_turn()
                return answer["content"]
            for call in calls:
                output = self.run_tool(call["id"], json.loads(call["function"]["arguments"]))
                self.remember({"role": "tool", "tool_call_id": call["id"], "content": output})

    def remember(self, message: Message) -> None:
        """Adds a message to the conversation and to takeback's ledger."""
        self.messages.append(message)
        self.session.append(message)

    def run_tool(self, call_id: str, arguments: Dict[str, str]) -> str:
        """Runs a shell command after takeback has taken a checkpoint."""
        command = arguments["command"]
        try:
            with self.session.tool_call("bash", arguments, call=call_id) as call:
                for warning in call.warnings:
                    print("  takeback:", warning)
                print("  $", command)
                done = subprocess.run(
                    command, shell=True, cwd=self.directory, capture_output=True, text=True
                )
                call.outcome = "ok" if done.returncode == 0 else "error"
                return done.stdout + done.stderr
        except ToolRefusedError as refused:
            return str(refused)


def main() -> None:
    scratch = Path(tempfile.mkdtemp())
    project = scratch / "shop"
    project.mkdir()
    (project / "cart.py").write_text("total = 0\n")
    program = os.environ.get("TAKEBACK", "takeback")
    try:
        with Takeback(project, program=program, home=scratch / "home") as takeback:
            with takeback.session("example", "1") as session:
                work(takeback, session, project)
    except StartError as error:
        raise SystemExit(f"this example needs takeback: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def work(takeback: Takeback, session: AgentSession, project: Path) -> None:
    model = ScriptedModel(
        {"tidy up": "rm cart.py", "clear the history": "takeback checkpoints clear --yes"}
    )
    agent = Agent(model, session, project)
    print("> tidy up\n ", agent.prompt("tidy up"))
    assert not (project / "cart.py").exists()

    planned = takeback.rollback_plan(1)
    print("A rollback would restore", planned["plan"]["restored"])
    takeback.rollback_apply(1, digest=planned["digest"])
    assert (project / "cart.py").read_text() == "total = 0\n"

    agent.messages.clear()  # The turn was taken back, so the model must not see it any more.
    print("> clear the history\n ", agent.prompt("clear the history"))
    told = str(agent.messages[0]["content"])
    assert "cart.py" in told, told
    assert "takeback refuses this call" in str(agent.messages[2]["content"]), agent.messages

    kept = takeback.sessions_get(session.id)["messages"]
    print(
        "The ledger has",
        len(kept),
        "messages;",
        sum(bool(one.get("undone")) for one in kept),
        "taken back",
    )


if __name__ == "__main__":
    main()
