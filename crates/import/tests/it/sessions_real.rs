//! A database that Hermes itself wrote, read back and compared with what Hermes says is in it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use serde_json::{Map, Value, json};
use takeback_ledger::Transcript;

use crate::sessions::{Home, read_all};

const RELEASE: &str = "0.19.0";

#[test]
fn what_hermes_stored_is_what_is_read() {
    let Some(python) = python_with_hermes() else {
        // `cargo xtask test` collects such lines.
        let _ = writeln!(std::io::stderr(), "skipped: hermes-agent cannot be installed");
        return;
    };
    let home = Home::new();
    let said = fill(&python, &home);
    assert!(fs::metadata(home.file().with_file_name("state.db-wal")).unwrap().len() > 0);

    let database = home.open().unwrap();
    assert_eq!(json!(database.version()), said["version"]);
    let transcripts = read_all(&database);
    let stored = said["stored"].as_object().unwrap();
    assert_eq!(transcripts.len(), stored.len());
    for transcript in &transcripts {
        compare(transcript, &stored[&transcript.session.id]);
    }
    compare_kinds(&transcripts);
    compare_undone_and_compacted(&transcripts);
}

/// What Hermes says of a session, value by value.
fn compare(transcript: &Transcript, said: &Value) {
    let read = serde_json::to_value(transcript).unwrap();
    let id = &transcript.session.id;
    if let Some(session) = said["session"].as_object() {
        compare_row(session, &read, &format!("session {id}"));
    } else {
        assert_eq!(read["source"], json!("hermes"));
    }
    for (part, taken) in [("messages", &["id", "session_id"][..]), ("usage", &["session_id"])] {
        let rows = said[part].as_array().unwrap();
        let read = read[part].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(read.len(), rows.len(), "{part} of {id}");
        for (place, (row, read)) in rows.iter().zip(read).enumerate() {
            let mut row = row.as_object().unwrap().clone();
            row.retain(|name, _| !taken.contains(&name.as_str()));
            compare_row(&row, read, &format!("{part} {place} of {id}"));
        }
    }
    let seqs: Vec<_> = transcript.messages.iter().map(|message| message.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as i64).collect::<Vec<_>>());
}

fn compare_row(said: &Map<String, Value>, read: &Value, what: &str) {
    for (name, value) in said {
        let (name, value) = match (name.as_str(), value) {
            ("cwd", value) => ("workspace", value.clone()),
            ("archived", value) => ("archived", json!(value != 0)),
            // Compared by hand below.
            ("active" | "compacted", _) => continue,
            // No difference between none and an empty part of a key.
            (name, Value::String(text)) if name.starts_with("billing_") && text.is_empty() => {
                (name, Value::Null)
            }
            (name, Value::String(text)) if is_json(name) => {
                (name, serde_json::from_str(text).unwrap())
            }
            (name, value) if is_time(name) => (name, milliseconds(value)),
            (name, value) => (name, value.clone()),
        };
        let read = if is_time(name) { milliseconds(&read[name]) } else { read[name].clone() };
        // Hermes gives back an integer for a whole number, and the other way round.
        let same = read == value || read.as_f64().is_some_and(|read| Some(read) == value.as_f64());
        assert!(same, "{what}: {name} is {read}, not {value}");
    }
}

fn is_json(name: &str) -> bool {
    matches!(
        name,
        "model_config" | "reasoning_details" | "codex_reasoning_items" | "codex_message_items"
    )
}

fn is_time(name: &str) -> bool {
    matches!(name, "started_at" | "ended_at" | "timestamp" | "first_seen" | "last_seen")
}

fn milliseconds(seconds: &Value) -> Value {
    seconds.as_f64().map_or(Value::Null, |seconds| json!((seconds * 1e3).round() as i64))
}

fn compare_kinds(transcripts: &[Transcript]) {
    let mut kinds = Map::new();
    for transcript in transcripts {
        let kind = serde_json::to_value(transcript.session.parent_kind).unwrap();
        kinds.insert(transcript.session.id.clone(), kind);
    }
    assert_eq!(
        Value::Object(kinds),
        json!({
            "plain": null, "compacted": null, "long": null, "orphan": null,
            "long-2": "compaction", "branch": "fork",
            "worker": "subagent", "worker-2": "compaction",
        })
    );
}

fn compare_undone_and_compacted(transcripts: &[Transcript]) {
    let flags = |id: &str| -> String {
        let found = transcripts.iter().find(|transcript| transcript.session.id == id).unwrap();
        let flag = |message: &takeback_ledger::MessageRecord| match message {
            message if message.undone => 'u',
            message if message.compacted => 'c',
            _ => '-',
        };
        found.messages.iter().map(flag).collect()
    };
    assert_eq!(flags("plain"), "-----uu-");
    assert_eq!(flags("compacted"), "cccccu---");
    assert_eq!(flags("long"), "------");
}

/// Runs Hermes' store; what it says afterwards.
fn fill(python: &Path, home: &Home) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sessions_real.py");
    let output = Command::new(python)
        .arg(script)
        .arg(home.file())
        // Nothing of whoever runs the tests.
        .env("HERMES_HOME", home.file().with_file_name("home"))
        .env_remove("PYTHONPATH")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A Python that has Hermes, made once and kept.
fn python_with_hermes() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let kept = target.join(format!("hermes-venv-{RELEASE}"));
    let python = kept.join("bin/python");
    if !python.exists() {
        // Aside first, so that a half-made one is never taken for whole.
        let aside = target.join(format!("hermes-venv-{RELEASE}.{}", process::id()));
        let made = install(&aside) && (fs::rename(&aside, &kept).is_ok() || python.exists());
        let _ = fs::remove_dir_all(&aside);
        if !made {
            return None;
        }
    }
    Some(python)
}

fn install(venv: &Path) -> bool {
    let succeeds =
        |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let package = format!("hermes-agent=={RELEASE}");
    succeeds(Command::new("python3").args(["-m", "venv"]).arg(venv))
        && succeeds(
            // Its store needs nothing that it depends on.
            Command::new(venv.join("bin/python")).args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                &package,
            ]),
        )
}
