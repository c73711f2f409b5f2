//! Agents' own logs: every entry is imported once, at its position, however often it is read.

use std::process::Stdio;

use proptest::prelude::*;
use serde_json::{Value, json};
use takeback_ledger::{
    Bookmark, CallRecord, Event, ForkLog, Ledger, LedgerOptions, LogEntry, LogFact, LogIntake,
    LogPage, MessageFilter, MessageRecord, NewFork, ParentKind, SearchOptions, SessionRecord,
    Tokens, UsageRecord,
};

use crate::support::{
    FOREVER, Fixture, at, child_arguments, masking, message, random_below, record_event, run_again,
    session,
};

const LOG: &str = "/logs/one.jsonl";

/// Builds an entry of session `s` from `text`. At the start of the text, `>` marks a prompt, `=` a
/// summary, and `$` the number of tokens that were used. Any other text is an answer from the
/// agent.
fn make_entry(origin: usize, seconds: i64, text: &str) -> LogEntry {
    let rest = text.get(1..).unwrap_or_default();
    let fact = match text.chars().next() {
        Some('>') => LogFact::Message(message("user", rest).into()),
        Some('=') => LogFact::Summary(message("user", rest).into()),
        Some('$') => LogFact::Usage(Box::new(UsageRecord {
            model: "m".into(),
            tokens: Tokens { input: rest.parse().unwrap(), ..Tokens::default() },
            ..UsageRecord::default()
        })),
        _ => LogFact::Message(message("assistant", text).into()),
    };
    LogEntry { session: "s".into(), origin: origin.to_string(), time: Some(at(seconds)), fact }
}

/// Builds a page of a log. The log is a list of entries, and offsets count entries.
fn make_page(from: Option<Bookmark>, log: &[(i64, &str)], upto: usize) -> LogPage {
    let first = from.as_ref().map_or(0, |from| from.offset as usize);
    let entries =
        (first..upto).map(|number| make_entry(number, log[number].0, log[number].1)).collect();
    let to = Bookmark {
        log: LOG.into(),
        agent: "test".into(),
        offset: upto as u64,
        identity: "same".into(),
        state: json!({ "line": upto }),
    };
    LogPage { from, to, entries }
}

/// Reads up to the entry `upto`, as a process does when it catches up with the log.
fn read_on(ledger: &mut Ledger, log: &[(i64, &str)], upto: usize) -> LogIntake {
    loop {
        let from = ledger.bookmark(LOG).unwrap();
        let now = at(log[upto.max(1) - 1].0 + 1);
        if let Some(taken) = ledger.take_in_page(&make_page(from, log, upto), now).unwrap() {
            return taken;
        }
    }
}

/// Records a prompt as a hook does.
fn report_prompt(ledger: &mut Ledger, seconds: i64, prompt: &str) {
    let message = MessageRecord { timestamp: Some(at(seconds)), ..message("user", prompt) };
    let events = [
        Event::Session { record: session("s").into() },
        Event::Messages { session: "s".into(), messages: vec![message] },
    ];
    ledger.record(&events, FOREVER, at(seconds)).unwrap();
}

fn text(message: &MessageRecord) -> String {
    message.content.as_ref().and_then(Value::as_str).unwrap().to_owned()
}

fn texts(ledger: &Ledger, filter: MessageFilter) -> Vec<String> {
    ledger.messages("s", filter).unwrap().iter().map(text).collect()
}

/// Returns the text of each message that has not been taken back.
fn remaining_texts(ledger: &Ledger) -> Vec<String> {
    let messages = ledger.messages("s", MessageFilter::All).unwrap();
    messages.iter().filter(|message| !message.undone).map(text).collect()
}

fn assert_whole(ledger: &mut Ledger) {
    assert_eq!(ledger.verify(&|_, _| {}).unwrap().problems, Vec::<String>::new());
    let turns = ledger.turns("s").unwrap();
    let messages = ledger.messages("s", MessageFilter::All).unwrap();
    let prompts: Vec<i64> = messages
        .iter()
        .filter(|message| message.role == "user" && message.summarizes.is_none())
        .map(|message| message.seq)
        .collect();
    assert_eq!(turns.iter().map(|turn| turn.first_seq).collect::<Vec<_>>(), prompts);
    assert!(turns.iter().zip(1..).all(|(turn, number)| turn.turn == number));
}

const TALK: [(i64, &str); 6] =
    [(10, ">one"), (11, "first"), (12, "$5"), (20, ">two"), (21, "second"), (22, "$7")];

#[test]
fn a_log_is_imported_once_and_its_prompts_begin_turns() {
    let mut fixture = Fixture::new();
    let taken = read_on(&mut fixture.ledger, &TALK, 6);
    assert_eq!((taken.messages, taken.new_sessions.len()), (4, 1));
    assert_eq!(texts(&fixture.ledger, MessageFilter::All), ["one", "first", "two", "second"]);
    assert_eq!(read_on(&mut fixture.ledger, &TALK, 6).messages, 0);
    let record = fixture.ledger.session("s").unwrap();
    assert_eq!((record.tokens.input, record.started_at), (12, Some(at(10))));
    assert_eq!(record.model.as_deref(), Some("m"));
    assert_whole(&mut fixture.ledger);
}

#[test]
fn reading_a_log_in_parts_gives_the_same_session() {
    let mut whole = Fixture::new();
    read_on(&mut whole.ledger, &TALK, 6);
    let whole = whole.ledger.transcript("s").unwrap();
    for split in 0..=6 {
        let mut fixture = Fixture::new();
        read_on(&mut fixture.ledger, &TALK, split);
        read_on(&mut fixture.ledger, &TALK, 6);
        assert_eq!(fixture.ledger.transcript("s").unwrap(), whole, "{split}");
    }
}

#[test]
fn a_log_that_is_read_again_from_its_beginning_adds_only_what_is_new() {
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &TALK, 4);
    let mut again = make_page(None, &TALK, 6);
    again.from = fixture.ledger.bookmark(LOG).unwrap();
    let taken = fixture.ledger.take_in_page(&again, at(30)).unwrap().unwrap();
    assert_eq!(taken.messages, 1);
    assert_eq!(texts(&fixture.ledger, MessageFilter::All), ["one", "first", "two", "second"]);
    assert_eq!(fixture.ledger.session("s").unwrap().tokens.input, 12);
    assert_whole(&mut fixture.ledger);
}

#[test]
fn a_process_that_was_overtaken_imports_nothing() {
    let mut fixture = Fixture::new();
    let mut other = fixture.open_another();
    let late = make_page(None, &TALK, 3);
    read_on(&mut other, &TALK, 6);
    assert_eq!(fixture.ledger.take_in_page(&late, at(30)).unwrap(), None);
    assert_eq!(fixture.ledger.bookmark(LOG).unwrap().unwrap().offset, 6);
}

#[test]
fn a_prompt_that_a_hook_reported_is_imported_once() {
    let mut fixture = Fixture::new();
    report_prompt(&mut fixture.ledger, 10, "one");
    assert_eq!(read_on(&mut fixture.ledger, &TALK, 3).messages, 1);
    report_prompt(&mut fixture.ledger, 20, " two\n");
    assert_eq!(read_on(&mut fixture.ledger, &TALK, 6).messages, 1);
    assert_eq!(texts(&fixture.ledger, MessageFilter::All), ["one", "first", " two\n", "second"]);
    assert_whole(&mut fixture.ledger);
}

#[test]
fn an_answer_comes_before_a_later_prompt_that_a_hook_reported_first() {
    let mut fixture = Fixture::new();
    report_prompt(&mut fixture.ledger, 10, "one");
    report_prompt(&mut fixture.ledger, 20, "two");
    record_event(&mut fixture.ledger, Event::TurnEnd { session: "s".into() }, at(29));
    report_prompt(&mut fixture.ledger, 30, "three");
    // So far, the log contains only the answer to the first prompt.
    read_on(&mut fixture.ledger, &TALK, 3);
    assert_eq!(texts(&fixture.ledger, MessageFilter::All), ["one", "first", "two", "three"]);
    assert_whole(&mut fixture.ledger);
    read_on(&mut fixture.ledger, &TALK, 6);
    assert_eq!(
        texts(&fixture.ledger, MessageFilter::All),
        ["one", "first", "two", "second", "three"]
    );
    assert_whole(&mut fixture.ledger);
    let ended: Vec<bool> =
        fixture.ledger.turns("s").unwrap().iter().map(|turn| turn.ended_at.is_some()).collect();
    assert_eq!(ended, [false, true, false]);
}

#[test]
fn calls_are_assigned_to_turns_that_only_a_log_reports() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    for (call, seconds) in [("a", 11), ("b", 21)] {
        let started_at = Some(at(seconds));
        let call = CallRecord { call: call.into(), started_at, ..CallRecord::default() };
        record_event(
            &mut fixture.ledger,
            Event::Call { session: "s".into(), call: call.clone() },
            at(1),
        );
    }
    read_on(&mut fixture.ledger, &TALK, 6);
    let turns: Vec<i64> =
        fixture.ledger.transcript("s").unwrap().calls.iter().map(|call| call.turn).collect();
    assert_eq!(turns, [1, 2]);
}

#[test]
fn a_call_that_a_hook_reported_gets_its_outcome() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let call = CallRecord { call: "a".into(), tool: "Bash".into(), ..CallRecord::default() };
    record_event(
        &mut fixture.ledger,
        Event::Call { session: "s".into(), call: call.clone() },
        at(1),
    );
    let mut page = make_page(None, &TALK, 1);
    for call in ["a", "unknown"] {
        let outcome = LogFact::Outcome { call: call.into(), outcome: "error".into() };
        page.entries.push(LogEntry { fact: outcome, ..make_entry(7, 11, "x") });
    }
    fixture.ledger.take_in_page(&page, at(12)).unwrap().unwrap();
    let calls = fixture.ledger.transcript("s").unwrap().calls;
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].outcome.as_deref(), calls[0].ended_at), (Some("error"), Some(at(11))));
}

#[test]
fn reading_further_does_not_restore_messages_that_were_taken_back() {
    let mut fixture = Fixture::new();
    report_prompt(&mut fixture.ledger, 10, "one");
    read_on(&mut fixture.ledger, &TALK, 3);
    report_prompt(&mut fixture.ledger, 20, "two");
    // The turn is taken back before its answer is read.
    fixture.ledger.rewind_turns("s", 1, at(40)).unwrap();
    read_on(&mut fixture.ledger, &TALK, 6);
    assert_eq!(texts(&fixture.ledger, MessageFilter::All), ["one", "first", "two", "second"]);
    assert_eq!(remaining_texts(&fixture.ledger), ["one", "first"]);
    assert_whole(&mut fixture.ledger);
    // The late answer does not count as a continuation, so the rewind can be reversed.
    assert_eq!(fixture.ledger.unrewind("s", at(41)).unwrap().messages, 2);
    assert_eq!(remaining_texts(&fixture.ledger).len(), 4);
}

#[test]
fn messages_after_a_rewind_stay() {
    let mut fixture = Fixture::new();
    let log = [TALK.as_slice(), &[(50, ">three"), (51, "third")]].concat();
    report_prompt(&mut fixture.ledger, 10, "one");
    report_prompt(&mut fixture.ledger, 20, "two");
    fixture.ledger.rewind_turns("s", 1, at(40)).unwrap();
    report_prompt(&mut fixture.ledger, 50, "three");
    read_on(&mut fixture.ledger, &log, log.len());
    assert_eq!(remaining_texts(&fixture.ledger), ["one", "first", "three", "third"]);
    assert_whole(&mut fixture.ledger);
    assert!(fixture.ledger.unrewind("s", at(60)).is_err());
}

#[test]
fn a_summary_replaces_the_messages_before_it() {
    let mut fixture = Fixture::new();
    let log = [(10, ">one"), (11, "first"), (12, "=in short"), (13, ">two"), (14, "second")];
    for upto in 1..=log.len() {
        read_on(&mut fixture.ledger, &log, upto);
    }
    assert_eq!(texts(&fixture.ledger, MessageFilter::Current), ["in short", "two", "second"]);
    assert_eq!(texts(&fixture.ledger, MessageFilter::All).len(), 5);
    assert_whole(&mut fixture.ledger);
}

#[test]
fn a_session_that_was_imported_is_recognized() {
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &TALK, 6);
    let transcript = fixture.ledger.transcript("s").unwrap();
    let mut other = Fixture::new();
    other.ledger.import(&transcript, at(30)).unwrap();
    assert_eq!(read_on(&mut other.ledger, &TALK, 5).messages, 0);
    assert_whole(&mut other.ledger);
}

#[test]
fn subagents_have_separate_sessions() {
    let mut fixture = Fixture::new();
    let mut page = make_page(None, &TALK, 2);
    let record = SessionRecord {
        parent_session_id: Some("s".into()),
        parent_kind: Some(takeback_ledger::ParentKind::Subagent),
        workspace: Some("/here".into()),
        ..SessionRecord::default()
    };
    let child = |fact| LogEntry { session: "s/1".into(), fact, ..make_entry(8, 15, "x") };
    page.entries.push(child(LogFact::Session(record.into())));
    page.entries.push(child(LogFact::Message(message("assistant", "looked").into())));
    let taken = fixture.ledger.take_in_page(&page, at(20)).unwrap().unwrap();
    assert_eq!(taken.sessions.len(), 2);
    let child = fixture.ledger.session("s/1").unwrap();
    assert_eq!(child.parent_session_id.as_deref(), Some("s"));
    assert_eq!((child.workspace.as_deref(), child.message_count), (Some("/here"), 1));
}

#[test]
fn reading_further_does_not_restore_the_messages_of_a_deleted_session() {
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &TALK, 5);
    fixture.ledger.delete_session("s").unwrap();
    assert_eq!(read_on(&mut fixture.ledger, &TALK, 6).messages, 0);
    assert!(fixture.ledger.messages("s", MessageFilter::All).unwrap().is_empty());
}

#[test]
fn secrets_in_a_log_are_masked() {
    let fixture = Fixture::new();
    let options = masking();
    let mut ledger = Ledger::open(&fixture.path(), &options).unwrap();
    let key = format!("ghp_{}", "k9Qz7LmX2vRt8WbY4nHs6JpD3cFg5TaE1uVo");
    let (prompt, answer) = (format!(">my key is {key}"), format!("I will keep {key}"));
    report_prompt(&mut ledger, 10, &prompt[1..]);
    read_on(&mut ledger, &[(10, &prompt), (11, &answer)], 2);
    let texts = texts(&ledger, MessageFilter::All);
    assert_eq!(texts.len(), 2);
    assert!(texts.iter().all(|text| text.contains("[redacted")), "{texts:?}");
}

#[test]
fn messages_from_a_log_are_found_by_a_search() {
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &[(10, ">今日は何をしますか"), (11, "購物車を直します")], 2);
    let found = fixture.ledger.search("購物", &SearchOptions::default()).unwrap();
    assert_eq!(found.results.len(), 1);
}

/// Imports entries that the agent logged again. Returns the number of new messages.
fn write_again(ledger: &mut Ledger, entries: Vec<LogEntry>) -> usize {
    let from = ledger.bookmark(LOG).unwrap().unwrap();
    let to = Bookmark { state: json!({ "again": from.state }), ..from.clone() };
    let page = LogPage { from: Some(from), to, entries };
    ledger.take_in_page(&page, at(60)).unwrap().unwrap().messages
}

fn count_found(ledger: &mut Ledger, query: &str) -> usize {
    ledger.search(query, &SearchOptions::default()).unwrap().results.len()
}

#[test]
fn a_message_that_is_logged_again_with_more_content_grows() {
    for is_indexed in [false, true] {
        let mut fixture = Fixture::new();
        read_on(&mut fixture.ledger, &[(10, ">one"), (11, "half a sen"), (20, ">two")], 3);
        if is_indexed {
            fixture.ledger.optimize(&|_| {}).unwrap();
        }
        let whole = make_entry(1, 11, "half a sentence, and the rest");
        assert_eq!(write_again(&mut fixture.ledger, vec![whole]), 0);
        let texts = texts(&fixture.ledger, MessageFilter::All);
        assert_eq!(texts, ["one", "half a sentence, and the rest", "two"]);
        assert_eq!(count_found(&mut fixture.ledger, "rest"), 1);
        assert_eq!(count_found(&mut fixture.ledger, "sen"), 0);
        assert_whole(&mut fixture.ledger);
        fixture.ledger.optimize(&|_| {}).unwrap();
        assert_eq!(count_found(&mut fixture.ledger, "rest"), 1);
        assert_eq!(count_found(&mut fixture.ledger, "sen"), 0);
    }
}

#[test]
fn calls_that_come_later_are_counted() {
    let mut fixture = Fixture::new();
    let saying = |calls: Value| {
        let message =
            MessageRecord { tool_calls: Some(calls), ..message("assistant", "let me see") };
        LogEntry { fact: LogFact::Message(message.into()), ..make_entry(1, 11, "") }
    };
    let one = json!({ "id": "a", "type": "function", "function": { "name": "ls" } });
    let two = json!({ "id": "b", "type": "function", "function": { "name": "cat" } });
    let mut page = make_page(None, &TALK, 1);
    // The entry is logged twice within one page, and once more after it.
    page.entries.extend([make_entry(1, 11, "let"), saying(json!([one]))]);
    fixture.ledger.take_in_page(&page, at(20)).unwrap().unwrap();
    let calls = |ledger: &Ledger| ledger.session("s").unwrap().tool_call_count;
    assert_eq!(
        (texts(&fixture.ledger, MessageFilter::All)[1].as_str(), calls(&fixture.ledger)),
        ("let me see", 1)
    );
    write_again(&mut fixture.ledger, vec![saying(json!([one, two]))]);
    assert_eq!(calls(&fixture.ledger), 2);
    assert_eq!(count_found(&mut fixture.ledger, "cat"), 1);
    assert_whole(&mut fixture.ledger);
}

#[test]
fn a_message_that_is_logged_again_with_less_content_stays_whole() {
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &TALK, 6);
    let before = fixture.ledger.transcript("s").unwrap();
    // A longer version of a prompt is ignored, too, because agents add context to prompts for their
    // models.
    let entries =
        vec![make_entry(0, 10, ">one <context>"), make_entry(1, 11, "…"), make_entry(2, 12, "$50")];
    assert_eq!(write_again(&mut fixture.ledger, entries), 0);
    assert_eq!(fixture.ledger.transcript("s").unwrap(), before);
}

#[test]
fn a_message_that_was_taken_back_does_not_grow() {
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &TALK, 6);
    fixture.ledger.rewind_turns("s", 1, at(40)).unwrap();
    write_again(&mut fixture.ledger, vec![make_entry(4, 21, "second, and more")]);
    assert_eq!(texts(&fixture.ledger, MessageFilter::All), ["one", "first", "two", "second"]);
    assert_whole(&mut fixture.ledger);
}

#[test]
fn a_masked_secret_does_not_come_back() {
    let fixture = Fixture::new();
    let options = masking();
    let mut ledger = Ledger::open(&fixture.path(), &options).unwrap();
    let answer = format!("I will keep ghp_{}", "k9Qz7LmX2vRt8WbY4nHs6JpD3cFg5TaE1uVo");
    read_on(&mut ledger, &[(10, ">one"), (11, &answer)], 2);
    write_again(&mut fixture.open_another(), vec![make_entry(1, 11, &answer)]);
    assert!(texts(&ledger, MessageFilter::All)[1].contains("[redacted"));
}

#[test]
fn facts_that_arrive_late_are_imported_but_do_not_recreate_a_deleted_session() {
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &TALK, 6);
    let title = |title: &str| {
        let record = SessionRecord { title: Some(title.into()), ..SessionRecord::default() };
        vec![LogEntry { fact: LogFact::Session(record.into()), ..make_entry(9, 30, "") }]
    };
    write_again(&mut fixture.ledger, title("Two words"));
    let record = fixture.ledger.session("s").unwrap();
    assert_eq!(record.title.as_deref(), Some("Two words"));
    fixture.ledger.delete_session("s").unwrap();
    write_again(&mut fixture.ledger, title("Other words"));
    assert!(fixture.ledger.session("s").is_err());
}

/// Returns a log that is long enough to be read in several pages.
fn make_long_log() -> Vec<(i64, &'static str)> {
    let talk = [">go on", "I went on", "$1", "and on"];
    (0..400).map(|number| (number as i64 * 700, talk[number % 4])).collect()
}

#[test]
fn concurrent_readers_that_may_be_killed_neither_lose_nor_repeat_anything() {
    const TEST: &str =
        "logs::concurrent_readers_that_may_be_killed_neither_lose_nor_repeat_anything";
    let log = make_long_log();
    if let Some((path, seed)) = child_arguments() {
        let mut ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
        let step = seed.parse::<usize>().unwrap();
        for upto in (1..=log.len()).step_by(step).chain([log.len()]) {
            let done = ledger.bookmark(LOG).unwrap().map_or(0, |known| known.offset as usize);
            if done < upto {
                read_on(&mut ledger, &log, upto);
            }
        }
        return;
    }
    let fixture = Fixture::new();
    let start =
        |step: &str| run_again(TEST, &fixture.path(), step).stdout(Stdio::null()).spawn().unwrap();
    for _ in 0..4 {
        let mut doomed = start("1");
        std::thread::sleep(std::time::Duration::from_millis(20 + random_below(60)));
        doomed.kill().unwrap();
        doomed.wait().unwrap();
    }
    let mut readers = ["1", "3", "7"].map(start);
    assert!(readers.iter_mut().all(|reader| reader.wait().unwrap().success()));
    let mut ledger = fixture.open_another();
    let expected: Vec<&str> = log
        .iter()
        .map(|(_, text)| text.trim_start_matches('>'))
        .filter(|text| !text.starts_with('$'))
        .collect();
    assert_eq!(texts(&ledger, MessageFilter::All), expected);
    assert_eq!(ledger.session("s").unwrap().tokens.input, 100);
    assert_whole(&mut ledger);
}

/// The plan of a turn: the prompt, the delay with which a hook reports it (`None` for no hook), the
/// number of answers, and how many entries of the log are read in two reads, one before the turn is
/// logged and one after that (`None` for no read).
#[derive(Clone, Debug)]
struct TurnPlan {
    prompt: &'static str,
    hook: Option<i64>,
    answers: usize,
    reads: [Option<usize>; 2],
}

fn turn_plan() -> impl Strategy<Value = TurnPlan> {
    let read = || proptest::option::of(0..8_usize);
    let prompt = proptest::sample::select(vec!["go on", "fix it", "and now?"]);
    (prompt, proptest::option::of(0..3_i64), 0..4_usize, [read(), read()])
        .prop_map(|(prompt, hook, answers, reads)| TurnPlan { prompt, hook, answers, reads })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The ledger has the same conversation as the log, regardless of the order in which hooks
    /// report and logs are read.
    #[test]
    fn hooks_and_logs_make_one_conversation_regardless_of_their_order(plans in proptest::collection::vec(turn_plan(), 1..7)) {
        let mut fixture = Fixture::new();
        let mut log: Vec<(i64, String)> = Vec::new();
        let mut done = 0;
        let mut read = |ledger: &mut Ledger, log: &[(i64, String)], more: usize| {
            done = (done + more).min(log.len());
            let log: Vec<(i64, &str)> = log.iter().map(|(time, text)| (*time, text.as_str())).collect();
            if done > 0 {
                read_on(ledger, &log, done);
            }
        };
        for (number, TurnPlan { prompt, hook, answers, reads }) in (1..).zip(&plans) {
            let time = number * 100;
            if let Some(later) = hook {
                report_prompt(&mut fixture.ledger, time + later, prompt);
            }
            if let Some(more) = reads[0] {
                read(&mut fixture.ledger, &log, more);
            }
            log.push((time, format!(">{prompt}")));
            log.extend((0..*answers).map(|answer| (time + 10 + answer as i64, format!("{number}.{answer}"))));
            if let Some(more) = reads[1] {
                read(&mut fixture.ledger, &log, more);
            }
        }
        read(&mut fixture.ledger, &log, usize::MAX / 2);
        let expected: Vec<&str> = log.iter().map(|(_, text)| text.trim_start_matches('>')).collect();
        prop_assert_eq!(texts(&fixture.ledger, MessageFilter::All), expected);
        assert_whole(&mut fixture.ledger);
    }
}

#[test]
fn the_log_of_a_fork_adds_only_what_is_new() {
    let log = [(0, ">ask"), (1, "answer"), (1, "$5"), (2, ">ask again"), (3, "again"), (3, "$7")];
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &log, 3);
    let of_fork = |mut page: LogPage| {
        page.to.log = "/logs/fork.jsonl".into();
        page.entries.iter_mut().for_each(|entry| entry.session = "fork".into());
        page
    };
    let copied = [of_fork(make_page(None, &log, 3))];
    let log_of_fork = ForkLog { pages: &copied, origins: None };
    let new = NewFork { id: "fork", log: log_of_fork, ..NewFork::default() };
    fixture.ledger.fork_at("s", &new, at(50)).unwrap();
    let origins = fixture.ledger.message_origins("fork").unwrap();
    assert!(origins.iter().all(|message| message.inherited && message.origin.is_some()));
    // The agent continues the fork, and the log is read from its beginning once more.
    let mut page = of_fork(make_page(None, &log, 6));
    page.from = Some(copied[0].to.clone());
    assert_eq!(fixture.ledger.take_in_page(&page, at(60)).unwrap().unwrap().messages, 2);
    assert_eq!(fixture.current_texts("fork"), ["ask", "answer", "ask again", "again"]);
    assert_eq!(fixture.ledger.session("fork").unwrap().tokens.input, 7);
    assert_eq!(fixture.ledger.session("s").unwrap().tokens.input, 5);
}

/// Reads a log as the log of the session `fork`. The log of another session begins with the same
/// entries.
fn read_fork(ledger: &mut Ledger, log: &[(i64, &str)], upto: usize) -> LogIntake {
    let from = ledger.bookmark("/logs/fork.jsonl").unwrap();
    let mut page = make_page(None, log, upto);
    page.to.log = "/logs/fork.jsonl".into();
    page.from = from;
    page.entries.iter_mut().for_each(|entry| entry.session = "fork".into());
    ledger.take_in_page(&page, at(60)).unwrap().unwrap()
}

#[test]
fn a_log_that_begins_like_another_one_is_a_fork() {
    let log = [(0, ">ask"), (1, "answer"), (1, "$5"), (2, ">ask again"), (3, "again"), (3, "$7")];
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &log, 6);
    let other = [(0, ">ask"), (1, "answer"), (1, "$5"), (7, ">other"), (8, "else"), (8, "$9")];
    let mut page = make_page(None, &other, 6);
    page.to.log = "/logs/fork.jsonl".into();
    for (number, entry) in page.entries.iter_mut().enumerate() {
        entry.session = "fork".into();
        if number >= 3 {
            entry.origin = format!("own-{number}");
        }
    }
    let taken = fixture.ledger.take_in_page(&page, at(60)).unwrap().unwrap();
    assert_eq!(taken.messages, 2, "the shared messages are not new");
    assert_eq!(fixture.current_texts("fork"), ["ask", "answer", "other", "else"]);
    let fork = fixture.ledger.session("fork").unwrap();
    assert_eq!(fork.parent_session_id.as_deref(), Some("s"));
    assert_eq!(fork.parent_kind, Some(ParentKind::Fork));
    assert_eq!(fork.tokens.input, 9);
    let origins = fixture.ledger.message_origins("fork").unwrap();
    assert_eq!(origins.iter().filter(|message| message.inherited).count(), 2);
    assert_eq!(fixture.find("answer"), [("s".to_owned(), 2)]);
    assert_whole(&mut fixture.ledger);
}

#[test]
fn a_fork_keeps_the_prompts_that_its_hooks_have_reported() {
    let log = [(0, ">ask"), (1, "answer")];
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &log, 2);
    let message = MessageRecord { timestamp: Some(at(20)), ..message("user", "next") };
    let events = [
        Event::Session { record: session("fork").into() },
        Event::Messages { session: "fork".into(), messages: vec![message] },
    ];
    fixture.ledger.record(&events, FOREVER, at(20)).unwrap();
    read_fork(&mut fixture.ledger, &log, 2);
    assert_eq!(fixture.current_texts("fork"), ["ask", "answer", "next"]);
    let turns = fixture.ledger.turns("fork").unwrap();
    let turns: Vec<_> = turns.iter().map(|turn| (turn.turn, turn.first_seq)).collect();
    assert_eq!(turns, [(1, 1), (2, 3)]);
    assert_whole(&mut fixture.ledger);
}

#[test]
fn a_fork_whose_log_begins_at_the_fork_also_has_the_messages_before_it() {
    let log = [(0, ">ask"), (1, "answer"), (2, ">ask again"), (3, "again")];
    let mut fixture = Fixture::new();
    let numbered = |mut page: LogPage| {
        for entry in &mut page.entries {
            entry.origin = format!("#{}", entry.origin);
        }
        page
    };
    fixture.ledger.take_in_page(&numbered(make_page(None, &log, 4)), at(5)).unwrap().unwrap();
    let mut page = numbered(make_page(None, &[(9, ">other"), (10, "else")], 2));
    page.to.log = "/logs/fork.jsonl".into();
    for (number, entry) in page.entries.iter_mut().enumerate() {
        (entry.session, entry.origin) = ("fork".into(), format!("#{}", number + 2));
    }
    let fact = LogFact::ForkedFrom { parent: "s".into(), before: 2 };
    let first = LogEntry { session: "fork".into(), origin: String::new(), time: None, fact };
    page.entries.insert(0, first);
    assert_eq!(fixture.ledger.take_in_page(&page, at(60)).unwrap().unwrap().messages, 2);
    assert_eq!(fixture.current_texts("fork"), ["ask", "answer", "other", "else"]);
    assert_eq!(fixture.find("answer"), [("s".to_owned(), 2)]);
    assert_whole(&mut fixture.ledger);
}

#[test]
fn a_fork_whose_log_repeats_a_message_also_shares_the_later_ones() {
    let log = [(0, ">ask"), (1, "answer"), (2, "more")];
    let mut fixture = Fixture::new();
    read_on(&mut fixture.ledger, &log, 3);
    let mut page = make_page(None, &log, 3);
    page.to.log = "/logs/fork.jsonl".into();
    page.entries.insert(2, make_entry(1, 1, "answer"));
    page.entries.iter_mut().for_each(|entry| entry.session = "fork".into());
    assert_eq!(fixture.ledger.take_in_page(&page, at(60)).unwrap().unwrap().messages, 0);
    assert_eq!(fixture.current_texts("fork"), ["ask", "answer", "more"]);
    assert_eq!(fixture.find("more"), [("s".to_owned(), 3)]);
}

#[test]
fn logs_with_numbered_lines_are_not_mistaken_for_forks() {
    let mut fixture = Fixture::new();
    for session in ["s", "other"] {
        let mut page = make_page(None, &[(0, ">ask"), (1, "answer")], 2);
        page.to.log = format!("/logs/{session}.jsonl");
        for entry in &mut page.entries {
            (entry.session, entry.origin) = (session.into(), format!("#{}", entry.origin));
        }
        assert_eq!(fixture.ledger.take_in_page(&page, at(5)).unwrap().unwrap().messages, 2);
    }
    assert_eq!(fixture.ledger.session("other").unwrap().parent_session_id, None);
}
