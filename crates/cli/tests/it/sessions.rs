//! `takeback sessions`: listing, showing, searching and editing sessions.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::session::Session;

/// The time at which the example sessions start: 2026-05-28 20:26:40 UTC.
pub(crate) const START: i64 = 1_780_000_000;

/// Returns sessions of two agents: one with two turns and a subagent, and one with a single
/// message.
pub(crate) fn example_sessions() -> Vec<Value> {
    let call = json!([{ "id": "c1", "function": { "name": "bash", "arguments": "{\"command\":\"ls\"}" } }]);
    vec![
        json!({
            "id": "claude-code:4f2a9c01-aaaa", "source": "claude-code", "model": "opus",
            "title": "Fix Docker Build", "started_at": START, "workspace": "/code/shop",
            "git_branch": "main", "input_tokens": 12_345, "output_tokens": 99,
            "estimated_cost_usd": 0.0123, "system_prompt": "Be careful.",
            "messages": [
                { "role": "user", "content": "please fix chat-send in main.rs" },
                { "role": "assistant", "content": "I look.", "tool_calls": call,
                  "timestamp": START + 60 },
                { "role": "tool", "tool_call_id": "c1", "tool_name": "bash",
                  "content": "src\nmain.rs C++ 50%" },
                { "role": "user", "content": "now in 東京, too", "timestamp": START + 120 },
                { "role": "assistant", "content": "Done." },
            ],
        }),
        json!({
            "id": "claude-code:77000000-sub", "source": "claude-code", "model": "haiku",
            "parent_session_id": "claude-code:4f2a9c01-aaaa", "parent_kind": "subagent",
            "started_at": START + 61, "ended_at": START + 90, "end_reason": "done",
            "messages": [{ "role": "user", "content": "list all files" }],
        }),
        json!({
            "id": "codex:4f2b0000-bbbb", "source": "codex", "started_at": START + 86_400,
            "messages": [{ "role": "user", "content": "write a changelog" }],
        }),
    ]
}

pub(crate) fn to_json_lines(sessions: &[Value]) -> String {
    sessions.iter().map(|session| format!("{session}\n")).collect()
}

/// Writes a file beside the project and returns its path.
pub(crate) fn write_file(session: &Session, name: &str, content: &str) -> PathBuf {
    let path = session.base().join(name);
    fs::write(&path, content).unwrap();
    path
}

pub(crate) fn import_sessions(session: &Session, sessions: &[Value]) {
    let path = write_file(session, "import.jsonl", &to_json_lines(sessions));
    let output = session.output(&["sessions", "import", path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

pub(crate) fn with_examples() -> Session {
    let session = Session::new();
    import_sessions(&session, &example_sessions());
    session
}

fn session_ids(rows: &Value) -> Vec<&str> {
    rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn an_empty_ledger_says_so() {
    let mut session = Session::new();
    session.takeback(&["sessions"]);
    session.takeback(&["sessions", "list", "--source", "x"]);
    session.takeback(&["sessions", "search", "x"]);
    session.takeback(&["sessions", "stats"]);
    session.takeback(&["sessions", "show", "x"]);
    session.assert(
        "
$ takeback sessions
No sessions yet. Run `takeback install AGENT` to record new ones, or `takeback sessions import` to import old ones.
$ takeback sessions list --source x
No matching sessions.
$ takeback sessions search x
No matching messages.
$ takeback sessions stats
No sessions yet.
$ takeback sessions show x
! error: no session \"x\"
! hint: `takeback sessions list` lists the sessions
[exit Some(1)]
",
    );
    assert_eq!(session.json(&["sessions"]), json!({ "sessions": [] }));
}

#[test]
fn sessions_are_listed() {
    let mut session = with_examples();
    session.takeback(&["sessions"]);
    session.takeback(&["sessions", "list", "--source", "codex"]);
    session.takeback(&["sessions", "--limit", "1"]);
    session.takeback(&["sessions", "--source", "codex", "verify"]);
    session.assert(
        "
$ takeback sessions
4f2b0000  <date> <time>  codex         1 message  “write a changelog”
4f2a9c01  <date> <time>  claude-code  5 messages  Fix Docker Build
77000000  <date> <time>  claude-code   1 message  “list all files”
$ takeback sessions list --source codex
4f2b0000  <date> <time>  codex  1 message  “write a changelog”
$ takeback sessions --limit 1
4f2b0000  <date> <time>  codex  1 message  “write a changelog”
… and more (--limit N shows more)
$ takeback sessions --source codex verify
! error: unexpected argument '--source' found
! hint: --source is an option of `takeback sessions list`, `takeback sessions search` and `takeback sessions export`
! Usage: takeback sessions verify [OPTIONS]
[exit Some(2)]
",
    );
    let list = session.json(&["sessions", "list", "--limit", "2"]);
    assert_eq!(
        session_ids(&list["sessions"]),
        ["codex:4f2b0000-bbbb", "claude-code:4f2a9c01-aaaa"]
    );
    assert_eq!(
        list["sessions"][1],
        json!({
            "id": "claude-code:4f2a9c01-aaaa", "source": "claude-code", "model": "opus",
            "title": "Fix Docker Build", "preview": "please fix chat-send in main.rs",
            "started_at": START, "ended_at": null, "end_reason": null,
            "last_activity": START + 120, "message_count": 5, "tool_call_count": 1,
            "input_tokens": 12_345, "output_tokens": 99, "estimated_cost_usd": 0.0123,
            "actual_cost_usd": null, "workspace": "/code/shop", "git_branch": "main",
            "parent_session_id": null, "parent_kind": null, "archived": false,
        })
    );
}

#[test]
fn the_list_can_be_limited_to_a_workspace_and_hides_archived_sessions() {
    let session = Session::new();
    let here = session.project().to_string_lossy().into_owned();
    import_sessions(
        &session,
        &[
            json!({ "id": "a", "source": "x", "workspace": here, "messages": [] }),
            json!({ "id": "b", "source": "x", "workspace": "/gone", "messages": [] }),
            json!({ "id": "c", "source": "y", "archived": true, "messages": [] }),
        ],
    );
    let listed = |arguments: &[&str]| {
        let list = session.json(&[&["sessions"], arguments].concat());
        let mut ids: Vec<String> =
            session_ids(&list["sessions"]).into_iter().map(str::to_owned).collect();
        ids.sort();
        ids.join(" ")
    };
    assert_eq!(listed(&[]), "a b");
    assert_eq!(listed(&["--archived"]), "a b c");
    assert_eq!(listed(&["--workspace", "."]), "a");
    assert_eq!(listed(&["-C", "/", "--workspace", "gone"]), "b");
    assert_eq!(listed(&["list", "--source", "x", "--source", "y", "--archived"]), "a b c");
    let text = String::from_utf8(session.output(&["sessions", "--archived"]).stdout).unwrap();
    assert!(text.contains("(no messages)  (archived)"), "{text}");
}

#[test]
fn a_session_is_shown() {
    let mut session = with_examples();
    session.output(&["sessions", "rewind", "4f2a"]);
    session.takeback(&["sessions", "show", "Fix Docker Build"]);
    session.assert(
        "
$ takeback sessions show Fix Docker Build
Fix Docker Build
  id         claude-code:4f2a9c01-aaaa
  source     claude-code
  model      opus
  workspace  /code/shop (main)
  started    <date> <time>
  messages   3, 1 tool call
  tokens     12,345 in, 99 out
  cost       about $0.0123

[1] user  <date> <time>
please fix chat-send in main.rs

[2] assistant  <date> <time>
I look.
▸ bash  ls

[3] tool bash  <date> <time>
  src
  main.rs C++ 50%

[4] user  <date> <time>  (undone)
now in 東京, too

[5] assistant  <date> <time>  (undone)
Done.
",
    );
    let whole = session.json(&["sessions", "show", "4f2a"]);
    assert_eq!(whole["messages"].as_array().unwrap().len(), 5);
    assert_eq!(whole["messages"][3]["undone"], true);
    assert_eq!(whole["system_prompt"], "Be careful.");
    let output = session.output(&["sessions", "show", "4f2a", "--format", "json"]).stdout;
    assert_eq!(serde_json::from_slice::<Value>(&output).unwrap(), whole);
    // `--json` can come before or after the command.
    let output = session.output(&["sessions", "--json", "show", "4f2a"]).stdout;
    assert_eq!(serde_json::from_slice::<Value>(&output).unwrap(), whole);
    // Undone messages are not sent to a model.
    for format in ["openai", "anthropic"] {
        let sent = session.json(&["sessions", "show", "4f2a", "--format", format]).to_string();
        assert!(sent.contains("please fix chat-send") && !sent.contains("東京"), "{sent}");
    }
}

#[test]
fn the_text_format_conflicts_with_json() {
    let mut session = with_examples();
    session.takeback(&["sessions", "show", "4f2a", "--json", "--format", "text"]);
    session.assert(
        "
$ takeback sessions show 4f2a --json --format text
{\"error\":{\"causes\":[],\"hint\":\"drop one of them\",\"message\":\"--json conflicts with --format text\"}}
[exit Some(1)]
",
    );
}

#[test]
fn content_blocks_are_shown() {
    let mut session = Session::new();
    import_sessions(
        &session,
        &[json!({ "id": "x", "source": "s", "ended_at": START, "end_reason": "bye",
            "parent_session_id": "gone", "parent_kind": "fork", "actual_cost_usd": 2.5,
            "started_at": START, "messages": [
            { "role": "assistant", "content": [
                { "type": "text", "text": "look" }, { "type": "image", "source": {} },
                { "type": "tool_use", "name": "read", "input": { "path": "a" } }, "plain"] },
            { "role": "user", "content": [
                { "type": "tool_result", "content": [{ "type": "text", "text": "found" }] }] },
            { "role": "assistant", "content": null, "compacted": true,
              "tool_calls": [{ "name": "write", "arguments": { "text": "y".repeat(300) } }] },
        ] })],
    );
    session.takeback(&["sessions", "show", "x"]);
    session.assert(&format!(
        "
$ takeback sessions show x
(no title)
  id         x
  source     s
  parent     gone (fork)
  started    <date> <time>
  ended      <date> <time> (bye)
  messages   3, 1 tool call
  cost       $2.50

[1] assistant  <date> <time>
look
[image]
▸ read  a
plain

[2] user  <date> <time>
  found

[3] assistant  <date> <time>  (compacted)
▸ write  {{ \"text\": \"{}…
",
        "y".repeat(79)
    ));
}

#[test]
fn tool_calls_are_folded_and_edits_are_shown_in_full_on_request() {
    let mut session = Session::new();
    let call = json!({ "type": "tool_use", "name": "Edit", "input": {
        "file_path": "cart.py", "old_string": "a\nb", "new_string": "c" } });
    let result = json!({ "type": "tool_result", "content": "1\n2\n3\n4\n5" });
    let mut messages = vec![
        json!({ "role": "user", "content": "fix the cart" }),
        json!({ "role": "assistant", "content": [call] }),
        json!({ "role": "user", "content": [result] }),
    ];
    messages.extend(
        (4..=20).map(|number| json!({ "role": "assistant", "content": format!("step {number}") })),
    );
    import_sessions(&session, &[json!({ "id": "x", "source": "s", "messages": messages })]);
    session.takeback(&["sessions", "show", "x", "--around", "1"]);
    session.takeback(&["sessions", "show", "x", "--around", "20"]);
    let full = session.output(&["sessions", "show", "x", "--full", "--around", "2"]);
    let full = String::from_utf8(full.stdout).unwrap();
    assert!(full.contains("▸ Edit  cart.py\n  − a\n  − b\n  + c\n"), "{full}");
    assert!(full.contains("  4\n  5\n"), "{full}");
    session.assert(
        "
$ takeback sessions show x --around 1
(no title)
  id         x
  source     s
  started    <date> <time>
  messages   20

[1] user  <date> <time>
fix the cart

[2] assistant  <date> <time>
▸ Edit  cart.py

[3] user  <date> <time>
  1
  2
  3
  … 2 more lines (--full)

[4] assistant  <date> <time>
step 4

[5] assistant  <date> <time>
step 5

[6] assistant  <date> <time>
step 6

… 14 later messages
$ takeback sessions show x --around 20
(no title)
  id         x
  source     s
  started    <date> <time>
  messages   20

… 14 earlier messages

[15] assistant  <date> <time>
step 15

[16] assistant  <date> <time>
step 16

[17] assistant  <date> <time>
step 17

[18] assistant  <date> <time>
step 18

[19] assistant  <date> <time>
step 19

[20] assistant  <date> <time>
step 20
",
    );
}

#[test]
fn a_search_is_grouped_and_suggests_another_spelling() {
    let mut session = Session::new();
    let say = |role: &str, text: &str| json!({ "role": role, "content": text });
    import_sessions(
        &session,
        &[
            json!({ "id": "a", "source": "s", "workspace": session.project(), "messages": [
                say("tool", "migration migration"), say("user", "plan the migration") ] }),
            json!({ "id": "b", "source": "t", "workspace": "/blog", "messages": [
                say("assistant", "the migration is done") ] }),
        ],
    );
    assert!(session.output(&["sessions", "optimize"]).status.success());
    session.takeback(&["search", "migration"]);
    session.takeback(&["search", "migration", "--workspace", ".", "--limit", "1"]);
    session.takeback(&["search", "migration", "--agent", "t"]);
    session.takeback(&["search", "Migartion"]);
    session.assert(
        "
$ takeback search migration
a  <date> <time>  s
    migration migration
  > [2] user  plan the >>>migration<<<
  > [1] tool  >>>migration<<< >>>migration<<<
    plan the migration
b  <date> <time>  t
  > [1] assistant  the >>>migration<<< is done
3 messages found.
`takeback sessions show a --around 2` shows the best one in full.
$ takeback search migration --workspace . --limit 1
a  <date> <time>  s
    migration migration
  > [2] user  plan the >>>migration<<<
Showing the best 1 of 2 messages.
`takeback sessions show a --around 2` shows the best one in full.
$ takeback search migration --agent t
b  <date> <time>  t
  > [1] assistant  the >>>migration<<< is done
1 message found.
`takeback sessions show b --around 1` shows the best one in full.
$ takeback search Migartion
No matching messages.
Did you mean: migration
",
    );
}

#[test]
fn costs_are_estimated_from_prices_that_the_user_sets() {
    let mut session = Session::new();
    import_sessions(
        &session,
        &[
            json!({ "id": "a", "source": "s", "model": "mine-large", "input_tokens": 500_000,
                "output_tokens": 0, "messages": [] }),
            json!({ "id": "b", "source": "s", "model": "claude-sonnet-4-5", "input_tokens": 1_000_000,
                "messages": [] }),
        ],
    );
    session.takeback(&["sessions", "stats"]);
    session.takeback(&["sessions", "show", "a"]);
    session.takeback(&["config", "set", "prices.mine-*.input", "8"]);
    session.takeback(&["sessions", "stats", "--by", "agent"]);
    session.takeback(&["sessions", "show", "a"]);
    session.assert(
        "
$ takeback sessions stats
sessions  messages  tool calls  tokens in  tokens out     cost  model
       1         0           0  1,000,000           0   ~$3.00  claude-sonnet-4-5
       1         0           0    500,000           0  unknown  mine-large

Most expensive sessions:
  ~$3.00  b

1 session used a model without a known price (+): `takeback help prices`.
$ takeback sessions show a
(no title)
  id         a
  source     s
  model      mine-large
  started    <date> <time>
  messages   0
  tokens     500,000 in, 0 out
  cost       unknown (no price for mine-large: `takeback help prices`)
$ takeback config set prices.mine-*.input 8
prices.mine-*.input = 8.0  (was null)
$ takeback sessions stats --by agent
sessions  messages  tool calls  tokens in  tokens out    cost  agent
       2         0           0  1,500,000           0  ~$7.00  s

Most expensive sessions:
  ~$4.00  a
  ~$3.00  b
$ takeback sessions show a
(no title)
  id         a
  source     s
  model      mine-large
  started    <date> <time>
  messages   0
  tokens     500,000 in, 0 out
  cost       about $4.00
",
    );
}

#[test]
fn messages_are_found() {
    let mut session = with_examples();
    session.takeback(&["sessions", "search", "chat-send"]);
    session.takeback(&["sessions", "search", "main.rs", "C++"]);
    session.takeback(&["sessions", "search", "東京"]);
    session.takeback(&["sessions", "search", "\"all files"]);
    session.takeback(&["sessions", "search", "fix OR list OR write", "--limit", "1"]);
    session.takeback(&["sessions", "search", "chat-sen"]);
    session.assert(
        "
$ takeback sessions search chat-send
4f2a9c01  <date> <time>  claude-code  Fix Docker Build
  > [1] user  please fix >>>chat-send<<< in main.rs
    I look.
1 message found.
`takeback sessions show 4f2a9c01 --around 1` shows the best one in full.
$ takeback sessions search main.rs C++
4f2a9c01  <date> <time>  claude-code  Fix Docker Build
    I look.
  > [3] tool  src >>>main.rs<<< >>>C++<<< 50%
    now in 東京, too
1 message found.
`takeback sessions show 4f2a9c01 --around 3` shows the best one in full.
$ takeback sessions search 東京
4f2a9c01  <date> <time>  claude-code  Fix Docker Build
    src main.rs C++ 50%
  > [4] user  now in >>>東京<<<, too
    Done.
1 message found.
`takeback sessions show 4f2a9c01 --around 4` shows the best one in full.
$ takeback sessions search \"all files
77000000  <date> <time>  claude-code
  > [1] user  list >>>all<<< >>>files<<<
1 message found.
`takeback sessions show 77000000 --around 1` shows the best one in full.
$ takeback sessions search fix OR list OR write --limit 1
77000000  <date> <time>  claude-code
  > [1] user  >>>list<<< all files
Showing the best 1 of 3 messages.
`takeback sessions show 77000000 --around 1` shows the best one in full.
$ takeback sessions search chat-sen
No matching messages.
",
    );
}

#[test]
fn a_search_prints_json_and_can_be_filtered() {
    let session = with_examples();
    assert_eq!(
        session.json(&["sessions", "search", "C++"]),
        json!({
            "query": "C++",
            "results": [{
                "session": "claude-code:4f2a9c01-aaaa", "message": 3, "role": "tool",
                "time": START + 60, "snippet": "src main.rs >>>C++<<< 50%",
                "before": "I look.", "after": "now in 東京, too", "source": "claude-code",
                "model": "opus", "title": "Fix Docker Build", "session_started": START,
            }],
            "total": 1,
            "more": false,
            "stopped": false,
        })
    );
    let total = |arguments: &[&str]| {
        session.json(&[&["sessions", "search"], arguments].concat())["total"].clone()
    };
    assert_eq!(total(&["main.rs"]), 2);
    assert_eq!(total(&["main.rs", "--role", "tool"]), 1);
    assert_eq!(total(&["main.rs", "--role", "tool", "--role", "user"]), 2);
    assert_eq!(total(&["fix OR write"]), 2);
    assert_eq!(total(&["fix OR write", "--source", "codex"]), 1);
    assert_eq!(total(&["fix OR write", "--exclude-source", "codex", "--exclude-source", "x"]), 1);
    assert_eq!(total(&["fix OR write", "--since", "2026-05-29"]), 1);
    assert_eq!(total(&["fix OR write", "--since", "2026-05-28T20:26:40Z"]), 2);
    assert_eq!(total(&["fix OR write", "--since", "1m"]), 0);
    session.output(&["sessions", "rewind", "Fix Docker Build"]);
    assert_eq!(total(&["東京"]), 0);
    assert_eq!(total(&["東京", "--undone"]), 1);
}

#[test]
fn malformed_times_are_refused() {
    let session = with_examples();
    for arguments in
        [["search", "x", "--since", "soon"], ["prune", "--dry-run", "--older-than", "7"]]
    {
        let output = session.output(&[&["sessions"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("30m, 12h, 7d, 3w, 6mo or 1y, or a date"), "{said}");
    }
}

#[test]
fn sessions_can_be_named_by_id_or_title_or_prefix() {
    let mut session = with_examples();
    let id = |typed: &str| session.json(&["sessions", "show", typed])["id"].clone();
    for typed in ["claude-code:4f2a9c01-aaaa", "claude-code:4f2a", "4f2a", "Fix Docker Build"] {
        assert_eq!(id(typed), "claude-code:4f2a9c01-aaaa", "{typed}");
    }
    session.takeback(&["sessions", "show", "4f2"]);
    session.takeback(&["sessions", "rewind", ""]);
    session.assert(
        "
$ takeback sessions show 4f2
! error: \"4f2\" is ambiguous: codex:4f2b0000-bbbb or claude-code:4f2a9c01-aaaa
! hint: give more of the id
[exit Some(1)]
$ takeback sessions rewind \n! error: no session \"\"
! hint: `takeback sessions list` lists the sessions
[exit Some(1)]
",
    );
}

#[test]
fn turns_are_rewound_and_unrewound() {
    let mut session = with_examples();
    session.takeback(&["sessions", "rewind", "4f2a"]);
    session.takeback(&["sessions", "unrewind", "4f2a"]);
    session.takeback(&["sessions", "unrewind", "4f2a"]);
    session.takeback(&["sessions", "rewind", "4f2a", "--turns", "5"]);
    session.takeback(&["sessions", "rewind", "4f2a"]);
    session.assert(
        "
$ takeback sessions rewind 4f2a
Rewound 1 turn (2 messages), from message 4 on.
The prompt was: now in 東京, too
$ takeback sessions unrewind 4f2a
Restored 1 turn (2 messages), from message 4 on.
The prompt was: now in 東京, too
$ takeback sessions unrewind 4f2a
! error: no messages to restore in session claude-code:4f2a9c01-aaaa
[exit Some(1)]
$ takeback sessions rewind 4f2a --turns 5
Rewound 2 turns (5 messages), from message 1 on.
The prompt was: please fix chat-send in main.rs
$ takeback sessions rewind 4f2a
! error: no turn left to take back in session claude-code:4f2a9c01-aaaa
[exit Some(1)]
",
    );
    let expected = json!({
        "session": "claude-code:4f2a9c01-aaaa", "messages": 5, "turns": 2, "from_message": 1,
        "prompt": "please fix chat-send in main.rs",
    });
    assert_eq!(session.json(&["sessions", "unrewind", "4f2a"]), expected);
    assert_eq!(session.json(&["sessions", "rewind", "4f2a", "--turns", "2"]), expected);
    // More messages are imported, so the conversation has continued.
    let mut longer = example_sessions().remove(0);
    let message = json!({ "seq": 6, "role": "user", "content": "hm", "timestamp": START + 200 });
    longer["messages"].as_array_mut().unwrap().push(message);
    import_sessions(&session, &[longer]);
    session.takeback(&["sessions", "unrewind", "4f2a"]);
    session.assert(
        "
$ takeback sessions unrewind 4f2a
! error: session claude-code:4f2a9c01-aaaa has continued since then, so its messages cannot be restored
! hint: `takeback sessions show` still shows them, marked as undone
[exit Some(1)]
",
    );
}

#[test]
fn sessions_undo_still_rewinds() {
    let session = with_examples();
    let undone = session.json(&["sessions", "undo", "4f2a", "--turns", "1"]);
    assert_eq!((&undone["messages"], &undone["from_message"]), (&json!(2), &json!(4)));
}

#[test]
fn sessions_redo_still_unrewinds() {
    let session = with_examples();
    let rewound = session.json(&["sessions", "rewind", "4f2a"]);
    assert_eq!(session.json(&["sessions", "redo", "4f2a"]), rewound);
}

#[test]
fn the_old_words_for_rewinding_are_not_in_the_help() {
    let session = Session::new();
    let help = String::from_utf8(session.output(&["sessions", "--help"]).stdout).unwrap();
    assert!(help.contains("\n  rewind ") && help.contains("\n  unrewind "), "{help}");
    assert!(!help.contains("\n  undo ") && !help.contains("\n  redo "), "{help}");
}

#[test]
fn titles_are_set_and_removed() {
    let mut session = with_examples();
    session.takeback(&["sessions", "title", "codex:4f2b", "  Notes\tfor\u{202e} users "]);
    session.takeback(&["sessions", "title", "77", "Fix Docker Build"]);
    session.takeback(&["sessions", "title", "Notes for users", ""]);
    session.takeback(&["sessions", "title", "77", &"x".repeat(101)]);
    session.assert(&format!(
        "
$ takeback sessions title codex:4f2b   Notes\tfor\u{202e} users \nSet the title of codex:4f2b0000-bbbb to Notes for users.
$ takeback sessions title 77 Fix Docker Build
! error: session claude-code:4f2a9c01-aaaa already has the title \"Fix Docker Build\"
! hint: choose another title, or rename the other session first
[exit Some(1)]
$ takeback sessions title Notes for users \nRemoved the title of codex:4f2b0000-bbbb.
$ takeback sessions title 77 {}
! error: the title has 101 characters; the limit is 100
[exit Some(1)]
",
        "x".repeat(101)
    ));
    assert_eq!(
        session.json(&["sessions", "title", "77", "New"]),
        json!({ "session": "claude-code:77000000-sub", "title": "New" })
    );
    let view = session.json(&["sessions", "title", "New", ""]);
    assert_eq!(view, json!({ "session": "claude-code:77000000-sub", "title": null }));
}

#[test]
fn a_fork_appears_in_the_tree() {
    let mut session = with_examples();
    let fork = session.json(&["sessions", "fork", "4f2a", "--at", "3"]);
    let id = fork["session"].as_str().unwrap().to_owned();
    assert_eq!(
        fork,
        json!({ "session": id, "parent": "claude-code:4f2a9c01-aaaa", "at": 3,
            "title": "Fix Docker Build #2" })
    );
    let messages = session.json(&["sessions", "show", &id])["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 3);
    session.output(&["sessions", "title", &id, "Another way"]);

    let tree = session.json(&["sessions", "tree", "77000000"]);
    assert_eq!((&tree["id"], &tree["asked"]), (&json!("claude-code:4f2a9c01-aaaa"), &json!(false)));
    assert_eq!(session_ids(&tree["children"]), ["claude-code:77000000-sub", &id]);
    assert_eq!(tree["children"][0]["asked"], true);
    assert_eq!(tree["children"][0]["parent_kind"], "subagent");
    assert_eq!(tree["children"][1]["children"], json!([]));

    // A fork of a fork is shown below the first fork.
    let below = session.json(&["sessions", "fork", &id, "--at", "1"])["session"].clone();
    session.output(&["sessions", "title", below.as_str().unwrap(), "Deeper"]);
    let text = String::from_utf8(session.output(&["sessions", "tree", "77000000"]).stdout).unwrap();
    let text =
        text.replace(&id[9..17], "<fork 1>").replace(&below.as_str().unwrap()[9..17], "<fork 2>");
    let without_time = |line: &str| {
        let at = line.find("  20").unwrap();
        format!("{}{}", &line[..at], &line[at + "  2026-05-28 20:26".len()..])
    };
    let lines: Vec<String> = text.lines().map(without_time).collect();
    assert_eq!(
        lines.join("\n"),
        "\
4f2a9c01                  5 messages  Fix Docker Build
├─ 77000000     subagent   1 message  ← this session
└─ <fork 1>     fork      3 messages  Another way
   └─ <fork 2>  fork       1 message  Deeper"
    );
    session.takeback(&["sessions", "fork", "4f2a", "--at", "9"]);
    session.assert(
        "
$ takeback sessions fork 4f2a --at 9
! error: session claude-code:4f2a9c01-aaaa has no message 9
! hint: `takeback sessions show claude-code:4f2a9c01-aaaa` shows the numbers of its messages
[exit Some(1)]
",
    );
}

#[test]
fn usage_is_added_up() {
    let mut session = with_examples();
    session.takeback(&["sessions", "stats"]);
    session.takeback(&["sessions", "stats", "--by", "source"]);
    session.takeback(&["sessions", "stats", "--by", "workspace"]);
    session.assert(
        "
$ takeback sessions stats
sessions  messages  tool calls  tokens in  tokens out      cost  model
       1         5           1     12,345          99  ~$0.0123  opus
       1         1           0          0           0            (unknown)
       1         1           0          0           0            haiku

Most expensive sessions:
  ~$0.0123  claude-code:4f2a9c01-aaaa  Fix Docker Build
$ takeback sessions stats --by source
sessions  messages  tool calls  tokens in  tokens out      cost  agent
       2         6           1     12,345          99  ~$0.0123  claude-code
       1         1           0          0           0            codex

Most expensive sessions:
  ~$0.0123  claude-code:4f2a9c01-aaaa  Fix Docker Build
$ takeback sessions stats --by workspace
sessions  messages  tool calls  tokens in  tokens out      cost  workspace
       1         5           1     12,345          99  ~$0.0123  /code/shop
       2         2           0          0           0            (unknown)

Most expensive sessions:
  ~$0.0123  claude-code:4f2a9c01-aaaa  Fix Docker Build
",
    );
    let days = session.json(&["sessions", "stats", "--by", "day"]);
    assert_eq!(days["by"], "day");
    let keys: Vec<&Value> =
        days["totals"].as_array().unwrap().iter().map(|total| &total["key"]).collect();
    assert_eq!(keys, ["2026-05-29", "2026-05-28"]);
    assert_eq!(days["totals"][1]["input_tokens"], 12_345);
}

#[test]
fn session_text_cannot_control_the_terminal() {
    let session = Session::new();
    let bad = "a\u{1b}[2J\u{9b}31m\u{7}\u{202e}\r\u{2028}z";
    import_sessions(
        &session,
        &[json!({
            "id": format!("x:{bad}"), "source": bad, "model": bad, "workspace": bad,
            "git_branch": bad, "end_reason": bad, "ended_at": START, "started_at": START,
            "parent_session_id": bad, "title": "t",
            "messages": [
                { "role": "user", "content": format!("{bad}\nneedle") },
                { "role": bad, "content": [{ "type": bad }, { "type": "text", "text": bad }],
                  "tool_name": bad, "tool_calls": [{ "name": bad, "arguments": bad }] },
                { "role": "user", "content": bad },
            ],
        })],
    );
    // Titles are cleaned on import. Remove the title, so that the list shows the first prompt.
    session.output(&["sessions", "title", "x:", ""]);
    let all: &[&[&str]] = &[
        &["list"],
        &["show", "x:"],
        &["show", "x:", "--json"],
        &["search", "needle"],
        &["search", "needle", "--json"],
        &["tree", "x:"],
        &["stats", "--by", "source"],
        &["stats"],
        &["fork", "x:", "--at", "9"],
        &["rewind", "x:"],
        &["unrewind", "x:", "--json"],
        &["title", "x:", "t"],
        &["show", bad],
        &["prune", "--older-than", "1d", "--dry-run"],
        &["delete", "x:"],
    ];
    for arguments in all {
        let output = session.output(&[&["sessions"], *arguments].concat());
        let seen = [output.stdout, output.stderr].concat();
        let seen = String::from_utf8(seen).unwrap();
        let armed = seen
            .chars()
            .find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{2028}'));
        assert_eq!(armed, None, "{arguments:?}: {seen:?}");
        assert!(!seen.trim().is_empty(), "{arguments:?}");
    }
}
