//! Masking secrets wherever data enters or leaves the ledger.

use std::fs;

use serde_json::{Value, json};
use takeback_ledger::{
    CallRecord, EffectRecord, Event, Ledger, LedgerOptions, MessageRecord, SearchOptions,
    SessionRecord, Transcript, UsageRecord, mask_transcript,
};

use crate::support::{
    Fixture, at, export_line, impatient, import_lines, masking, message, open_raw, prompt_event,
    record_event, session,
};

#[test]
fn secrets_are_masked_on_export_and_on_import() {
    let key = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let calls =
        json!([{ "function": { "name": "x", "arguments": json!({ "key": key }).to_string() } }]);
    let said =
        MessageRecord { tool_calls: Some(calls), ..message("user", &format!("use {key} now")) };
    fixture.ledger.append("s", std::slice::from_ref(&said), at(1)).unwrap();
    assert!(export_line(&fixture.ledger, "s").contains(&key));
    let mut transcript = fixture.ledger.transcript("s").unwrap();
    mask_transcript(&mut transcript);
    let masked = serde_json::to_string(&transcript).unwrap();
    assert!(!masked.contains(&key) && masked.contains("use [redacted:"), "{masked}");
    serde_json::from_str::<Value>(&masked).unwrap();

    let mut careful = Fixture::new();
    let options = masking();
    careful.ledger = Ledger::open(&careful.path(), &options).unwrap();
    careful.create_session("t");
    careful.ledger.append("t", &[said], at(1)).unwrap();
    import_lines(&mut careful.ledger, &export_line(&fixture.ledger, "s"));
    for id in ["s", "t"] {
        assert!(!export_line(&careful.ledger, id).contains(&key));
    }
    let found = careful.ledger.search(&key, &SearchOptions::default()).unwrap();
    assert_eq!(found.total, 0);
    let again = import_lines(&mut careful.ledger, &export_line(&fixture.ledger, "s"));
    assert!(again.bad.is_empty(), "a masked message is the same message");
}

#[test]
fn every_write_masks_secrets() {
    let fixture = Fixture::new();
    let options = masking();
    let mut ledger = Ledger::open(&fixture.path(), &options).unwrap();
    let secret = format!("ghp_{}", "x7Kq9LmZ2vB4".repeat(3));
    let prompt = SessionRecord { system_prompt: Some(format!("use {secret}")), ..session("s") };
    ledger.create_session(&prompt, at(0)).unwrap();
    ledger.append("s", &[message("user", &secret)], at(1)).unwrap();
    ledger.compact("s", 1, &message("user", &secret), at(1)).unwrap();
    ledger.set_title("s", Some(&secret)).unwrap();
    let call = CallRecord {
        call: "c".into(),
        input: Some(json!({ "a": secret })),
        outcome: Some(format!("error: bad credentials {secret}")),
        ..CallRecord::default()
    };
    record_event(&mut ledger, Event::Call { session: "s".into(), call: call.clone() }, at(1));
    let usage = UsageRecord {
        billing_base_url: Some(format!("https://proxy.local/{secret}/v1")),
        extra: [("note".to_owned(), json!(secret))].into_iter().collect(),
        ..UsageRecord::default()
    };
    record_event(&mut ledger, Event::Usage { session: "s".into(), usage }, at(1));
    let reason = format!("crashed: {secret}");
    record_event(&mut ledger, Event::SessionEnd { session: "s".into(), reason }, at(1));
    let effect = EffectRecord { command: format!("curl -H {secret}"), ..EffectRecord::default() };
    record_event(&mut ledger, Event::Effect { session: "s".into(), effect }, at(1));
    ledger.add_notice("s", &json!({ "a": secret }), at(1)).unwrap();
    let transcript = serde_json::to_string(&ledger.transcript("s").unwrap()).unwrap();
    assert!(!transcript.contains(&secret), "{transcript}");
    assert!(!format!("{:?}", ledger.take_notices("s", at(2)).unwrap()).contains(&secret));
}

#[test]
fn all_text_in_a_transcript_is_masked() {
    let secret = format!("ghp_{}", "x7Kq9LmZ2vB4".repeat(3));
    let text = || Some(format!("use {secret}"));
    let value = || Some(json!({ "a": [secret] }));
    let extra = || [("unknown".to_owned(), json!(secret))].into_iter().collect();
    let mut transcript = Transcript {
        session: SessionRecord {
            model_config: value(),
            system_prompt: text(),
            end_reason: text(),
            billing_base_url: text(),
            title: text(),
            extra: extra(),
            ..session("s")
        },
        messages: vec![MessageRecord {
            content: value(),
            tool_calls: value(),
            reasoning: text(),
            reasoning_content: text(),
            reasoning_details: value(),
            codex_reasoning_items: value(),
            codex_message_items: value(),
            extra: extra(),
            ..MessageRecord::default()
        }],
        usage: vec![UsageRecord {
            billing_base_url: text(),
            extra: extra(),
            ..UsageRecord::default()
        }],
        calls: vec![CallRecord { input: value(), outcome: text(), ..CallRecord::default() }],
        effects: vec![EffectRecord { command: text().unwrap(), ..EffectRecord::default() }],
    };
    mask_transcript(&mut transcript);
    let masked = serde_json::to_string(&transcript).unwrap();
    assert!(!masked.contains(&secret), "{masked}");
}

#[test]
fn secrets_are_masked_before_they_reach_the_spool() {
    let fixture = Fixture::new();
    let other = open_raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let key = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let options = LedgerOptions { redact: true, ..impatient() };
    let events =
        [Event::Session { record: session("s").into() }, prompt_event("s", &format!("use {key}"))];
    Ledger::record_in(&fixture.path(), &options, &events, at(1)).unwrap();
    let file = fixture.directory.path().join(format!("spool/{:020}.json", 1));
    assert!(!fs::read_to_string(file).unwrap().contains(&key));
}
