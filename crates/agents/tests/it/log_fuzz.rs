//! Random and damaged logs: reading must end, and must not panic.

use std::fs;

use proptest::prelude::*;
use serde_json::Value;
use takeback_agents::{LOG_FORMATS, LogRef, log_format};
use tempfile::TempDir;

use crate::log_copy::{growing_logs, logs_of};

/// Reads arbitrary bytes as a log.
fn read_anything(agent: &str, name: &str, bytes: &[u8]) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    let log = LogRef { path, session: Some("ses_x".into()).filter(|_| agent == "opencode") };
    let format = log_format(agent).unwrap();
    let mut from = None;
    loop {
        // Reading may fail, but it must not panic or loop forever.
        let Ok(read) = format.read_page(&log, from) else { return };
        from = Some(read.page.to);
        if !read.has_more {
            return;
        }
    }
}

fn log_name_for(agent: &str) -> &'static str {
    match agent {
        "cline" => "x.messages.json",
        "opencode" => "opencode.db",
        _ => "x.jsonl",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn reading_any_file_as_a_log_ends_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        for format in LOG_FORMATS {
            read_anything(format.agent, log_name_for(format.agent), &bytes);
        }
        read_anything("gemini", "x.json", &bytes);
    }

    #[test]
    fn reading_a_damaged_log_ends_without_a_panic(which in 0..64_usize, cuts in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..20)) {
        let logs: Vec<_> = LOG_FORMATS.iter().flat_map(|format| logs_of(format.agent).into_iter().map(move |path| (format.agent, path))).collect();
        let (agent, source) = &logs[which % logs.len()];
        let mut bytes = fs::read(source).unwrap();
        for (at, byte) in cuts {
            let at = usize::from(at) * 7 % bytes.len();
            match byte % 3 {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        read_anything(agent, source.file_name().unwrap().to_str().unwrap(), &bytes);
    }

    /// The JSON is valid, but one field has an unexpected value.
    #[test]
    fn reading_a_record_with_an_odd_field_ends_without_a_panic(which in 0..64_usize, line in any::<u16>(), at in any::<u16>(), with in crate::payload_fuzz::any_json()) {
        let logs = growing_logs();
        let (agent, source) = &logs[which % logs.len()];
        let text = fs::read_to_string(source).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let index = usize::from(line) % lines.len();
        let mut value: Value = serde_json::from_str(&lines[index]).unwrap();
        crate::payload_fuzz::mutate_value(&mut value, &mut (usize::from(at) % 40), Some(&with));
        lines[index] = value.to_string();
        read_anything(agent, log_name_for(agent), lines.join("\n").as_bytes());
    }
}
