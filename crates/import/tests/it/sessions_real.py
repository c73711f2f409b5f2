"""Fills a database through Hermes's own code and prints everything that Hermes reads back.

The argument is the path of the new database. At the end, the database is not closed, as after a crash.
"""

import json
import os
import sys
from pathlib import Path

from hermes_state import SCHEMA_VERSION, SessionDB

db = SessionDB(Path(sys.argv[1]))


def call(number, command):
    arguments = json.dumps({"command": command})
    function = {"name": "terminal", "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def converse(session):
    db.append_message(session, "user", "Räum auf 🧹 整理")
    db.append_message(
        session,
        "assistant",
        "",
        tool_calls=[call(1, "ls 'é'"), call(2, "rm -r x")],
        token_count=12,
        finish_reason="tool_calls",
        reasoning="First look.",
        reasoning_content="First look…",
        reasoning_details=[{"type": "text", "text": "ℝ"}],
        codex_reasoning_items=[{"id": "rs_1", "summary": []}],
        codex_message_items=[{"id": "msg_1"}],
    )
    db.append_message(session, "tool", "a\nb\0c", tool_name="terminal", tool_call_id="call_1")
    db.append_message(
        session,
        "tool",
        "gone",
        tool_name="terminal",
        tool_call_id="call_2",
        effect_disposition="none",
    )
    db.append_message(session, "assistant", "Done.", finish_reason="stop", timestamp=1731715200.5)
    parts = [{"type": "text", "text": "And this? 🙂"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    return db.append_message(
        session, "user", parts, platform_message_id="77", observed=True, api_content="sent"
    )


# A session that was undone in part.
db.create_session(
    "plain",
    "telegram",
    model="m",
    model_config={"max_tokens": 5},
    system_prompt="Be brief.",
    user_id="u",
    session_key="k",
    chat_id="c",
    chat_type="dm",
    thread_id="t",
)
target = converse("plain")
db.append_message("plain", "assistant", "Never mind.")
db.rewind_to_message("plain", target)
db.append_message("plain", "user", "Something else")
db.set_session_title("plain", "Größe #1")
db.update_session_cwd("plain", "/home/me/project", "main", "/home/me/project")
db.set_session_archived("plain", True)
for model in ("m", "n"):
    db.update_token_counts(
        "plain",
        input_tokens=10,
        output_tokens=20,
        model=model,
        cache_read_tokens=3,
        reasoning_tokens=4,
        estimated_cost_usd=0.125,
        cost_status="estimated",
        billing_provider="openrouter",
        api_call_count=1,
    )
db.record_auxiliary_usage("plain", "vision", model="v", input_tokens=7, output_tokens=1)
db.end_session("plain", "cli_close")

# A session that was undone in part, summarized in place, and continued.
db.create_session("compacted", "cli", model="m")
db.rewind_to_message("compacted", converse("compacted"))
db.archive_and_compact(
    "compacted",
    [{"role": "user", "content": "Summary of before"}, {"role": "assistant", "content": "Done."}],
)
db.append_message("compacted", "user", "Go on")

# A session that was summarized into another one.
db.create_session("long", "cli", model="m")
converse("long")
db.end_session("long", "compression")
db.create_session("long-2", "cli", model="m", parent_session_id="long")
db.append_message("long-2", "user", "[summary]")

# A branch, and delegated work that is summarized into another session.
marks = {"_branched_from": "plain"}
db.create_session("branch", "cli", model_config=marks, parent_session_id="plain")
converse("branch")
marks = {"_delegate_from": "plain"}
db.create_session("worker", "cli", model_config=marks, parent_session_id="plain")
db.append_message("worker", "user", "Do it")
db.end_session("worker", "compression")
db.create_session("worker-2", "cli", model_config=marks, parent_session_id="worker")

# Messages without a session, as left behind by failed migrations.
db._conn.execute("PRAGMA foreign_keys = OFF")
db.append_message("orphan", "user", "Anybody?")

sessions = [dict(row) for row in db._conn.execute("SELECT id FROM sessions")]
names = [session["id"] for session in sessions] + ["orphan"]
usage = "SELECT * FROM session_model_usage WHERE session_id = ? ORDER BY rowid"
stored = {
    name: {
        "session": db.get_session(name),
        "messages": db.get_messages(name, include_inactive=True),
        "usage": [dict(row) for row in db._conn.execute(usage, (name,))],
    }
    for name in names
}
json.dump({"version": SCHEMA_VERSION, "stored": stored}, sys.stdout)
sys.stdout.flush()
os._exit(0)
