//! The current version can read a ledger that takeback 0.1 wrote, including its spool.

use std::fs;
use std::io::Write;

use serde_json::{Value, json};

use crate::agent::{hook, ledger};
use crate::on_disk::{OLD, moved_home, unpacked_home};
use crate::rpc_client::Client;
use crate::session::Session;

/// Returns the messages of a session as (role, content, undone, compacted).
pub(crate) fn conversation(session: &Session, id: &str) -> Vec<(String, String, bool, bool)> {
    let shown = session.json(&["sessions", "show", id, "--format", "json"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = shown["messages"].as_array().unwrap().iter();
    messages
        .map(|message| {
            let flag = |name: &str| message[name].as_bool().unwrap();
            let (role, content) = (text(&message["role"]), text(&message["content"]));
            (role, content, flag("undone"), flag("compacted"))
        })
        .collect()
}

#[test]
fn events_in_the_old_spool_are_imported() {
    let session = unpacked_home();
    let waiting = || {
        let entries = fs::read_dir(session.base().join(".takeback/spool")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "lock").count()
    };
    assert_eq!(waiting(), 3);
    let said = [("user".into(), "written while the ledger was locked".into(), false, false)];
    assert_eq!(conversation(&session, "mine:s3"), said);
    assert_eq!(waiting(), 0);
    let call: (String, String, i64, i64) = ledger(&session)
        .query_row(
            "SELECT c.tool, c.input, c.turn, c.ended_at IS NOT NULL FROM calls c
             JOIN sessions s ON s.key = c.session WHERE s.id = 'mine:s3'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .unwrap();
    assert_eq!(call, ("Write".into(), r#"{"path":"late.txt"}"#.into(), 1, 1));
}

#[test]
fn notices_of_an_old_home_are_delivered_only_once() {
    // Leave the history at its old path, because the notices name the old paths.
    let session = unpacked_home();
    let mut client = Client::new(&session);
    let mut take = || client.call("notices.take", json!({ "agent": "mine", "session": "s2" }));
    let removed = json!([{ "path": "notes.md", "removed": true }]);
    let project = format!("{OLD}/project");
    assert_eq!(
        take()["notices"],
        json!([{ "workspace": project, "files": removed, "more": 0, "effects": [] }])
    );
    assert_eq!(take()["notices"], json!([]));
    client.end();

    let prompt = json!({
        "session_id": "c1", "cwd": session.project(), "hook_event_name": "UserPromptSubmit",
        "prompt_id": "p2", "prompt": "続けて",
    });
    let tell = || hook(&session.base(), &["hook", "claude"], prompt.to_string().as_bytes());
    let answer: Value = serde_json::from_slice(&tell().stdout).unwrap();
    let context = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned();
    let items = context.lines().filter_map(|line| line.strip_prefix("- "));
    let items: Vec<&str> = items.map(|item| item.split(" (").next().unwrap()).collect();
    assert_eq!(items, ["made.txt", "publish: git push origin main", "notes.md"]);
    assert_eq!(tell().stdout, b"");
}

#[test]
fn old_conversations_are_shown_and_found() {
    let session = moved_home();
    let message = |role: &str, content: &str, undone, compacted| {
        (role.to_owned(), content.to_owned(), undone, compacted)
    };
    let mut long = vec![
        message("user", "where is the wheel?", false, true),
        message("assistant", "Under the bench.", false, true),
        message("tool", "wheel", false, true),
        message("summary", "The wheel was found.", false, false),
        message("user", "購物車要兩個輪子", false, false),
        message("assistant", "好的，兩個輪子。", false, false),
    ];
    let fork = session.json(&["sessions", "tree", "other:long"])["children"][1].clone();
    assert_eq!((&fork["title"], &fork["parent_kind"]), (&json!("A long one #2"), &json!("fork")));
    assert_eq!(conversation(&session, fork["id"].as_str().unwrap()), long);
    long.push(message("user", "paint it red", true, false));
    long.push(message("assistant", "It is red.", true, false));
    assert_eq!(conversation(&session, "other:long"), long);
    assert_eq!(
        conversation(&session, "The cart"),
        [
            message("user", "add the cart", false, false),
            message("user", "clean up", true, false),
            message("assistant", "The cart is there.", false, false),
        ]
    );

    let found = |arguments: &[&str]| {
        let found = session.json(&[&["sessions", "search"], arguments].concat());
        let results = found["results"].as_array().unwrap().iter();
        let mut ids: Vec<_> = results
            .filter(|result| result["session"] != fork["id"])
            .map(|result| format!("{} {}", result["session"].as_str().unwrap(), result["message"]))
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(found(&["wheel"]), ["other:long 1", "other:long 3", "other:long 4"]);
    assert_eq!(found(&["輪子"]), ["other:long 5", "other:long 6"]);
    assert_eq!(found(&["設定"]), ["claude:c1 1", "claude:c1 2"]);
    assert_eq!(found(&["cart", "NOT", "add"]), ["mine:s1 3"]);
    assert_eq!(found(&["red"]), [""; 0]);
    assert_eq!(found(&["red", "--undone"]), ["other:long 7", "other:long 8"]);
}

#[test]
fn an_old_conversation_is_unrewound_and_rewound() {
    let session = moved_home();
    let redone = session.json(&["sessions", "unrewind", "other:long"]);
    let expected = json!({ "session": "other:long", "messages": 2, "turns": 1,
        "from_message": 7, "prompt": "paint it red" });
    assert_eq!(redone, expected);
    assert_eq!(session.json(&["sessions", "search", "red"])["total"], 2);
    let undone = session.json(&["sessions", "rewind", "other:long", "--turns", "2"]);
    assert_eq!((&undone["messages"], &undone["from_message"]), (&json!(4), &json!(5)));
}

#[test]
fn old_usage_and_cost_are_added_up() {
    let session = moved_home();
    let stats = session.json(&["sessions", "stats"]);
    let totals: Vec<_> = stats["totals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|total| {
            let tokens = [&total["input_tokens"], &total["output_tokens"]];
            json!([total["key"], tokens, total["api_calls"], total["estimated_cost_usd"]])
        })
        .collect();
    assert!(totals.contains(&json!(["opus", [1010, 55], 3, 0.75])), "{totals:?}");
    assert!(totals.contains(&json!(["claude-x", [100, 20], 1, 0.0])), "{totals:?}");
}

#[test]
fn an_old_ledger_is_exported_and_imported_into_a_new_one() {
    let session = moved_home();
    let exported = session.output(&["sessions", "export", "--all"]).stdout;
    let text = String::from_utf8(exported).unwrap();
    assert_eq!(text.lines().count(), 9);
    let long: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&long["id"], &long["system_prompt"]),
        (&json!("other:long"), &json!("Be careful."))
    );
    assert_eq!(long["messages"][6]["of_theirs"], json!([1.5]), "unknown fields are kept");
    let cart = text.lines().find(|line| line.contains("\"id\":\"mine:s1\"")).unwrap();
    let cart: Value = serde_json::from_str(cart).unwrap();
    assert_eq!(cart["workspace"], json!(session.project()));
    assert_eq!(cart["calls"].as_array().unwrap().len(), 5);
    assert_eq!(cart["effects"].as_array().unwrap().len(), 2);

    let other = Session::new();
    let file = other.base().join("all.jsonl");
    fs::write(&file, &text).unwrap();
    let report = other.json(&["sessions", "import", file.to_str().unwrap()]);
    assert_eq!((&report["new_sessions"], &report["messages"]), (&json!(9), &json!(23)));
    assert_eq!(report["bad"], json!([]));
    let again = other.output(&["sessions", "export", "--all"]).stdout;
    assert_eq!(String::from_utf8(again).unwrap(), text);
}

#[test]
fn reading_an_old_log_continues_at_its_bookmark() {
    let session = moved_home();
    let import = || session.json(&["sessions", "import", "--from", "claude"]);
    assert_eq!(import()["messages"], 0);
    let log = session.base().join(".claude/projects/-project/c1.jsonl");
    let more = json!({ "type": "assistant", "uuid": "a2", "sessionId": "c1",
        "cwd": session.project(), "timestamp": "2030-01-01T00:00:00.000Z",
        "message": { "role": "assistant", "id": "m2", "model": "claude-x", "content": "以上です。" } });
    let mut file = fs::OpenOptions::new().append(true).open(log).unwrap();
    writeln!(file, "{more}").unwrap();
    assert_eq!(import()["messages"], 1);
    let said = conversation(&session, "claude:c1");
    let said: Vec<&str> = said.iter().map(|(_, content, ..)| content.as_str()).collect();
    assert_eq!(said, ["設定の名前を変えて", "設定の名前を変えました。", "以上です。"]);
}

#[test]
fn old_wiring_is_reported_as_outdated_and_can_be_removed() {
    let session = unpacked_home();
    let agents = session.json(&["install"]);
    let claude = agents.as_array().unwrap().iter().find(|row| row["agent"] == "claude").unwrap();
    assert_eq!(claude["state"], "outdated");
    session.json(&["uninstall", "claude"]);
    let settings = fs::read_to_string(session.base().join(".claude/settings.json")).unwrap();
    assert_eq!(settings, "{\n  // mine\n  \"model\": \"opus\"\n}\n");
    assert!(!session.base().join(".claude/commands/rollback.md").exists());
}
