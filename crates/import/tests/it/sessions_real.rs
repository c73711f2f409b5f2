//! A sessions database written by a real Hermes. Everything that Hermes reads back from it is
//! compared with the imported records.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use serde_json::{Map, Value, json};
use takeback_ledger::{MessageRecord, Transcript};

use crate::support::{HermesHome, read_all};

/// The version of Hermes that is installed from PyPI.
const RELEASE: &str = "0.19.0";

#[test]
fn imported_sessions_equal_what_hermes_reads() {
    let Some(python) = find_python() else {
        // `cargo xtask test` collects such lines.
        let _ = writeln!(std::io::stderr(), "skipped: hermes-agent cannot be installed");
        return;
    };
    let home = HermesHome::new();
    let expected = fill_database(&python, &home);
    assert!(fs::metadata(home.file().with_file_name("state.db-wal")).unwrap().len() > 0);

    let database = home.open().unwrap();
    assert_eq!(json!(database.version()), expected["version"]);
    let transcripts = read_all(&database);
    let stored = expected["stored"].as_object().unwrap();
    assert_eq!(transcripts.len(), stored.len());
    for transcript in &transcripts {
        compare_transcript(transcript, &stored[&transcript.session.id]);
    }
    check_parent_kinds(&transcripts);
    check_undone_and_compacted(&transcripts);
}

/// Compares a session, value by value.
fn compare_transcript(transcript: &Transcript, expected: &Value) {
    let read = serde_json::to_value(transcript).unwrap();
    let id = &transcript.session.id;
    if let Some(session) = expected["session"].as_object() {
        compare_row(session, &read, &format!("session {id}"));
    } else {
        assert_eq!(read["source"], json!("hermes"));
    }
    for (part, taken) in [("messages", &["id", "session_id"][..]), ("usage", &["session_id"])] {
        let rows = expected[part].as_array().unwrap();
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

fn compare_row(expected: &Map<String, Value>, read: &Value, what: &str) {
    for (name, value) in expected {
        let (name, value) = match (name.as_str(), value) {
            ("cwd", value) => ("workspace", value.clone()),
            ("archived", value) => ("archived", json!(value != 0)),
            // Checked by `check_undone_and_compacted`.
            ("active" | "compacted", _) => continue,
            // An empty part of a key is imported as null.
            (name, Value::String(text)) if name.starts_with("billing_") && text.is_empty() => {
                (name, Value::Null)
            }
            (name, Value::String(text)) if is_json_column(name) => {
                (name, serde_json::from_str(text).unwrap())
            }
            (name, value) if is_time_column(name) => (name, to_milliseconds(value)),
            (name, value) => (name, value.clone()),
        };
        let read =
            if is_time_column(name) { to_milliseconds(&read[name]) } else { read[name].clone() };
        // Hermes returns whole numbers as integers or as floating-point numbers.
        let same = read == value || read.as_f64().is_some_and(|read| Some(read) == value.as_f64());
        assert!(same, "{what}: {name} is {read}, not {value}");
    }
}

fn is_json_column(name: &str) -> bool {
    matches!(
        name,
        "model_config" | "reasoning_details" | "codex_reasoning_items" | "codex_message_items"
    )
}

fn is_time_column(name: &str) -> bool {
    matches!(name, "started_at" | "ended_at" | "timestamp" | "first_seen" | "last_seen")
}

fn to_milliseconds(seconds: &Value) -> Value {
    seconds.as_f64().map_or(Value::Null, |seconds| json!((seconds * 1e3).round() as i64))
}

fn check_parent_kinds(transcripts: &[Transcript]) {
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

fn check_undone_and_compacted(transcripts: &[Transcript]) {
    let flags = |id: &str| -> String {
        let found = transcripts.iter().find(|transcript| transcript.session.id == id).unwrap();
        let flag = |message: &MessageRecord| match message {
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

/// Runs Hermes's own code to fill the database. Returns everything that Hermes reads back.
fn fill_database(python: &Path, home: &HermesHome) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sessions_real.py");
    let output = Command::new(python)
        .arg(script)
        .arg(home.file())
        // Hermes must not use the configuration of the user who runs the tests.
        .env("HERMES_HOME", home.file().with_file_name("home"))
        .env_remove("PYTHONPATH")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns a Python installation that has Hermes. Creates the installation if it does not exist
/// yet. Returns `None` if the installation fails.
fn find_python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let kept = target.join(format!("hermes-venv-{RELEASE}"));
    let python = kept.join("bin/python");
    if !python.exists() {
        // Install under another name first, so that an incomplete installation is never used.
        let aside = target.join(format!("hermes-venv-{RELEASE}.{}", process::id()));
        let made = install_hermes(&aside) && (fs::rename(&aside, &kept).is_ok() || python.exists());
        let _ = fs::remove_dir_all(&aside);
        if !made {
            return None;
        }
    }
    Some(python)
}

fn install_hermes(venv: &Path) -> bool {
    let succeeds =
        |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let package = format!("hermes-agent=={RELEASE}");
    succeeds(Command::new("python3").args(["-m", "venv"]).arg(venv))
        && succeeds(
            // The module that writes the database needs none of the dependencies.
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
