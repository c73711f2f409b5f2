//! Copies of conversations that end at an earlier point.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use takeback_agents::{
    GoneMessage, LogRef, MovedDirectory, PreparedCopy, REWINDS, Rewind, RewindError, RewindRequest,
    find_rewind, log_format,
};
use takeback_ledger::{LogFact, LogPage, Time};
use tempfile::TempDir;

use crate::generated_logs::{ID, Said, Step, Transcript};
use crate::log_copy::{LogCopy, logs_of};

/// A session as the agent keeps it, with the log in the directory and under the name that the agent
/// expects.
pub(crate) struct Session {
    pub(crate) directory: TempDir,
    rewind: &'static Rewind,
    pub(crate) id: String,
    pub(crate) log: LogRef,
}

/// Lists the agents whose logs are files. opencode has a database, and imports copies itself.
fn copied_as_files() -> impl Iterator<Item = &'static Rewind> {
    REWINDS.iter().filter(|rewind| rewind.agent != "opencode")
}

/// A message in a log.
#[derive(Debug)]
struct LoggedMessage {
    origin: String,
    role: String,
    text: String,
}

impl Session {
    /// Sets up a session with a captured log.
    pub(crate) fn captured(agent: &str) -> Session {
        let is_captured = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("real.")
                || (name == "events.jsonl" && !path.to_str().unwrap().contains("rich"))
        };
        let source = logs_of(agent).into_iter().find(is_captured).unwrap();
        let id = list_pages(agent, &source)[0].entries[0].session.clone();
        let id = id.split_once(':').unwrap().1.to_owned();
        let session = Session::new(agent, &id, &join_chain(&fs::read_to_string(&source).unwrap()));
        if agent == "cline" {
            fs::copy(
                source.with_file_name("real.json"),
                session.log.path.with_file_name(format!("{id}.json")),
            )
            .unwrap();
        }
        session
    }

    fn new(agent: &str, id: &str, content: &str) -> Session {
        let directory = new_directory();
        let place = directory.path().join("sessions");
        let path = match agent {
            "codex" => place.join(format!("rollout-2026-11-16T06-52-04-{id}.jsonl")),
            "pi" => place.join(format!("2026-11-16T06-52-04-000Z_{id}.jsonl")),
            "copilot" => place.join(id).join("events.jsonl"),
            "cline" => place.join(id).join(format!("{id}.messages.json")),
            "gemini" | "qwen" => place.join("chats").join(format!("session-{id}.jsonl")),
            _ => place.join(format!("{id}.jsonl")),
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        if agent == "copilot" {
            fs::write(path.with_file_name("workspace.yaml"), format!("id: {id}\ncwd: /PROJECT\n"))
                .unwrap();
        }
        let log = LogRef { path, session: None };
        Session { directory, rewind: find_rewind(agent).unwrap(), id: id.to_owned(), log }
    }

    /// Sets up a session with an invented transcript.
    fn generated(agent: &'static str, transcript: &Transcript) -> Session {
        let directory = new_directory();
        let log = transcript.write(directory.path());
        Session { directory, rewind: find_rewind(agent).unwrap(), id: ID.to_owned(), log }
    }

    fn messages(&self) -> Vec<LoggedMessage> {
        list_messages(&read_pages(self.rewind.agent, &self.log))
    }

    /// Copies the conversation up to a message, or fails.
    fn copy(&self, messages: &[LoggedMessage], end: usize) -> Result<PreparedCopy, RewindError> {
        self.copy_to(messages, end, None)
    }

    /// Copies the conversation up to a message, optionally for another directory, or fails.
    fn copy_to(
        &self,
        messages: &[LoggedMessage],
        end: usize,
        moved: Option<MovedDirectory<'_>>,
    ) -> Result<PreparedCopy, RewindError> {
        let kept: Vec<&LoggedMessage> = messages[..end].iter().collect();
        let copy = self.prepare(&kept, messages.get(end), moved)?;
        copy.place()?;
        Ok(copy)
    }

    fn prepare(
        &self,
        kept: &[&LoggedMessage],
        gone: Option<&LoggedMessage>,
        moved: Option<MovedDirectory<'_>>,
    ) -> Result<PreparedCopy, RewindError> {
        let origins = kept.iter().map(|message| message.origin.clone()).collect();
        let gone =
            gone.map(|gone| GoneMessage { origin: &gone.origin, is_prompt: gone.role == "user" });
        self.rewind.prepare_copy(&RewindRequest {
            log: &self.log,
            session: &self.id,
            new: None,
            kept: &origins,
            last: &kept.last().expect("a message is kept").origin,
            gone,
            undone: BTreeSet::new(),
            moved,
            own_directory: &self.directory.path().join("own"),
            now: Time(1_800_000_000_000),
        })
    }

    /// Lists all files with their contents.
    fn files(&self) -> BTreeSet<(PathBuf, Vec<u8>)> {
        fn walk(directory: &Path, files: &mut BTreeSet<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => walk(&path, files),
                    false => drop(files.insert((path.clone(), fs::read(&path).unwrap()))),
                }
            }
        }
        let mut files = BTreeSet::new();
        walk(self.directory.path(), &mut files);
        files
    }

    /// Copies the first message of the conversation, then the first two messages, and so on. Checks
    /// that each copy has exactly these messages, and that nothing is written if a copy is
    /// impossible. Returns the number of messages in each copy.
    fn copy_everywhere(&self) -> Vec<usize> {
        let messages = self.messages();
        let mut copied = Vec::new();
        for end in 1..=messages.len() {
            let before = self.files();
            let Ok(copy) = self.copy(&messages, end) else {
                assert_eq!(self.files(), before, "after a failure at {end}");
                continue;
            };
            assert!(self.files().is_superset(&before), "the original has changed at {end}");
            let pages = list_pages(self.rewind.agent, &copy.log.path);
            let mark = |pages: &[LogPage]| {
                pages
                    .last()
                    .map(|page| (page.to.log.clone(), page.to.offset, page.to.identity.clone()))
            };
            assert_eq!(mark(&pages), mark(&copy.pages));
            let found = list_messages(&pages);
            let texts = |messages: &[LoggedMessage]| {
                messages.iter().map(|message| message.text.clone()).collect::<Vec<_>>()
            };
            assert_eq!(texts(&found), texts(&messages[..end]), "a copy that ends at {end}");
            let id = format!("{}:{}", self.rewind.agent, copy.session);
            assert!(pages.iter().flat_map(|page| &page.entries).all(|entry| entry.session == id));
            copied.push(end);
        }
        copied
    }
}

/// Closes the gaps in a captured Claude Code log, from which some attachments were removed.
fn join_chain(content: &str) -> String {
    let mut last: Option<String> = None;
    let mut known = BTreeSet::new();
    let mut lines = Vec::new();
    for line in content.lines() {
        let Ok(mut value) = serde_json::from_str::<Value>(line) else { return content.to_owned() };
        let parent = value["parentUuid"].as_str().map(str::to_owned);
        if parent.is_some_and(|parent| !known.contains(&parent)) {
            value["parentUuid"] = json!(last);
        }
        if let Some(uuid) = value["uuid"].as_str() {
            known.insert(uuid.to_owned());
            last = Some(uuid.to_owned());
        }
        lines.push(value);
    }
    if known.is_empty() { content.to_owned() } else { to_lines(&lines) }
}

/// Creates a directory in memory, because every copy is synced, which is slow on disk.
fn new_directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

fn list_pages(agent: &str, path: &Path) -> Vec<LogPage> {
    read_pages(agent, &LogRef { path: path.to_owned(), session: None })
}

fn read_pages(agent: &str, log: &LogRef) -> Vec<LogPage> {
    let format = log_format(agent).unwrap();
    let mut pages: Vec<LogPage> = Vec::new();
    loop {
        let read = format.read_page(log, pages.last().map(|page| page.to.clone())).unwrap();
        pages.push(read.page);
        if !read.has_more {
            return pages;
        }
    }
}

/// Lists the messages in order. An agent may log a message again, so only the first occurrence
/// counts.
fn list_messages(pages: &[LogPage]) -> Vec<LoggedMessage> {
    let mut messages: Vec<LoggedMessage> = Vec::new();
    for entry in pages.iter().flat_map(|page| &page.entries) {
        let (LogFact::Message(message) | LogFact::Summary(message)) = &entry.fact else { continue };
        if !messages.iter().any(|known| known.origin == entry.origin) {
            let text = format!("{:?} {:?}", message.content, message.tool_calls);
            let (origin, role) = (entry.origin.clone(), message.role.clone());
            messages.push(LoggedMessage { origin, role, text });
        }
    }
    messages
}

#[test]
fn a_captured_conversation_is_copied_up_to_each_later_prompt() {
    for rewind in copied_as_files() {
        let session = Session::captured(rewind.agent);
        let messages = session.messages();
        let copied = session.copy_everywhere();
        for (end, message) in messages.iter().enumerate().skip(1) {
            let is_prompt = message.role == "user" && message.text.contains("String");
            assert!(!is_prompt || copied.contains(&end), "{}: {}", rewind.agent, message.text);
        }
    }
}

#[test]
fn a_copy_never_ends_with_an_open_call() {
    for rewind in copied_as_files() {
        let session = Session::captured(rewind.agent);
        let messages = session.messages();
        for end in session.copy_everywhere() {
            let last = &messages[end - 1];
            assert!(!last.text.contains("Some(Array"), "{}: {}", rewind.agent, last.text);
        }
    }
}

#[test]
fn the_command_that_continues_a_session_contains_the_id_of_the_session() {
    for rewind in REWINDS {
        let command = rewind.command("1234-id", Path::new("/own/1234-id.jsonl"));
        assert!(command.len() > 1 && command.join(" ").contains("1234-id"), "{command:?}");
        assert_eq!(rewind.new_command(), command[..1]);
        let typed = rewind.typed("x", None);
        assert!(typed.is_none_or(|line| line.starts_with('/') && line.contains('x')));
    }
}

#[test]
fn a_log_of_an_unknown_version_is_not_copied() {
    let known: [(&str, &str, &str); 5] = [
        ("claude", "\"version\": \"2.1.325\"", "\"version\": \"9.0.0\""),
        ("qwen", "\"version\": \"0.24.4\"", "\"version\": \"9.0.0\""),
        ("pi", "\"version\": 3", "\"version\": 4"),
        ("droid", "\"version\": 2", "\"version\": 3"),
        ("cline", "\"version\": 1", "\"version\": 2"),
    ];
    for (agent, known, unknown) in known {
        let session = Session::captured(agent);
        let content = fs::read_to_string(&session.log.path).unwrap();
        let compact = |text: &str| text.replace("\": ", "\":");
        let other = content.replace(known, unknown).replace(&compact(known), &compact(unknown));
        assert_ne!(content, other, "{agent}");
        fs::write(&session.log.path, other).unwrap();
        assert!(session.copy_everywhere().is_empty(), "{agent}");
    }
}

/// Builds a line of a Claude Code log.
fn claude_line(uuid: &str, parent: Option<&str>, role: &str, content: &Value) -> Value {
    json!({
        "uuid": uuid, "parentUuid": parent, "type": role, "sessionId": "s", "version": "2.1.325",
        "cwd": "/p", "isSidechain": false, "timestamp": "2026-01-02T03:04:05.000Z",
        "message": { "role": role, "content": content, "id": format!("m-{uuid}") },
    })
}

fn to_lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn an_earlier_branch_is_left_out() {
    let said = |text: &str| json!([{ "type": "text", "text": text }]);
    let lines = [
        claude_line("a1", None, "user", &said("first")),
        claude_line("a2", Some("a1"), "assistant", &said("answer")),
        claude_line("dead", Some("a2"), "user", &said("taken back in the agent")),
        claude_line("b1", Some("a2"), "user", &said("second")),
        claude_line("b2", Some("b1"), "assistant", &said("another answer")),
        claude_line("c1", Some("b2"), "user", &said("third")),
    ];
    let session = Session::new("claude", "s", &to_lines(&lines));
    let kept: BTreeSet<String> = ["a1", "a2", "b1", "b2"].map(str::to_owned).into();
    let own_directory = session.directory.path().join("own");
    let request = RewindRequest {
        log: &session.log,
        session: "s",
        new: None,
        kept: &kept,
        last: "b2",
        gone: Some(GoneMessage { origin: "c1", is_prompt: true }),
        undone: BTreeSet::new(),
        moved: None,
        own_directory: &own_directory,
        now: Time(0),
    };
    let copy = session.rewind.prepare_copy(&request).unwrap();
    copy.place().unwrap();
    let content = fs::read_to_string(&copy.log.path).unwrap();
    assert!(
        !content.contains("taken back in the agent") && !content.contains("third"),
        "{content}"
    );
    assert!(content.trim_end().lines().last().unwrap().contains("\"leafUuid\":\"b2\""));
    // The ledger knows a message that the branch lacks, so nothing is written.
    let more = kept.iter().cloned().chain(["dead".to_owned()]).collect();
    let before = session.files();
    let error = session.rewind.prepare_copy(&RewindRequest { kept: &more, ..request }).unwrap_err();
    assert!(matches!(error, RewindError::Differs), "{error}");
    assert_eq!(session.files(), before);
}

#[test]
fn the_results_of_parallel_calls_are_kept() {
    let call = |id: &str| json!([{ "type": "tool_use", "id": id, "name": "Bash", "input": {} }]);
    let result =
        |id: &str| json!([{ "type": "tool_result", "tool_use_id": id, "content": "done" }]);
    let mut first = claude_line("c1", Some("a1"), "assistant", &call("t1"));
    let mut second = claude_line("c2", Some("c1"), "assistant", &call("t2"));
    first["message"]["id"] = json!("m");
    second["message"]["id"] = json!("m");
    let lines = [
        claude_line("a1", None, "user", &json!("do both")),
        first,
        second,
        claude_line("r1", Some("c1"), "user", &result("t1")),
        claude_line("r2", Some("c2"), "user", &result("t2")),
        claude_line("e1", Some("r2"), "assistant", &json!([{ "type": "text", "text": "Done" }])),
        claude_line("b1", Some("e1"), "user", &json!("and now this")),
    ];
    let session = Session::new("claude", "s", &to_lines(&lines));
    assert!(session.copy_everywhere().contains(&6));
}

#[test]
fn a_copy_for_another_directory_names_that_directory() {
    let to = Path::new("/NEW/dir.x");
    for (agent, old, new) in [
        ("claude", "-PROJECT", "-NEW-dir-x"),
        ("qwen", "-PROJECT/chats", "-NEW-dir-x/chats"),
        ("droid", "-PROJECT", "-NEW-dir.x"),
        ("pi", "--PROJECT--", "--NEW-dir.x--"),
        ("codex", "2026", "2026"),
        ("copilot", "", ""),
        ("cline", "", ""),
    ] {
        let mut session = Session::captured(agent);
        if !old.is_empty() {
            let sessions = session.directory.path().join("sessions");
            let path = sessions.join(old).join(session.log.path.file_name().unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::rename(&session.log.path, &path).unwrap();
            session.log.path = path;
        }
        let messages = session.messages();
        let moved = MovedDirectory { from: Path::new("/PROJECT"), to };
        let copy = session.copy_to(&messages, messages.len(), Some(moved)).unwrap();
        assert!(copy.log.path.to_str().unwrap().contains(new), "{agent}: {:?}", copy.log.path);
        let pages = list_pages(agent, &copy.log.path);
        let workspaces: BTreeSet<&str> = pages
            .iter()
            .flat_map(|page| &page.entries)
            .filter_map(|entry| match &entry.fact {
                LogFact::Session(record) => record.workspace.as_deref(),
                _ => None,
            })
            .collect();
        let expected = ["/NEW/dir.x"];
        assert!(workspaces.iter().eq(&expected), "{agent}: {workspaces:?}");
    }
}

#[test]
fn a_running_gemini_can_load_a_copy_of_its_conversation() {
    let session = Session::captured("gemini");
    let projects = session.directory.path();
    fs::write(projects.join("sessions/.project_root"), "/PROJECT\n").unwrap();
    let messages = session.messages();
    let is_prompt = |message: &LoggedMessage| message.text.contains("Say hello");
    let end = messages.iter().position(is_prompt).unwrap();
    let copy = session.copy(&messages, end).unwrap();
    let typed = session.rewind.typed(&copy.session, Some(projects)).unwrap();
    let name = typed.strip_prefix("/chat resume ").unwrap();
    let saved = fs::read_to_string(projects.join(format!("sessions/checkpoint-{name}.json")));
    let saved: Value = serde_json::from_str(&saved.unwrap()).unwrap();
    let kinds: Vec<&str> = saved["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|content| {
            let has = |kind: &str| content["parts"].to_string().contains(kind);
            match () {
                () if has("functionCall") => "call",
                () if has("functionResponse") => "result",
                () => content["role"].as_str().unwrap(),
            }
        })
        .collect();
    // The first message describes the environment.
    assert_eq!(kinds, ["user", "user", "call", "result", "call", "result", "model"]);
    assert!(!saved.to_string().contains("Say hello"), "{saved:#}");
    assert_eq!(session.rewind.typed(&session.id, Some(projects)), None, "it has no saved chat");
    let directory_of = |copy: &PreparedCopy| {
        fs::read_to_string(copy.log.path.with_file_name(".project_root")).unwrap()
    };
    assert_eq!(directory_of(&copy), "/PROJECT");
    // Gemini CLI is not running in the new directory, so nothing can be typed into it there.
    let moved = MovedDirectory { from: Path::new("/PROJECT"), to: Path::new("/NEW") };
    let copy = session.copy_to(&messages, end, Some(moved)).unwrap();
    assert_eq!(directory_of(&copy), "/NEW");
    assert_eq!(session.rewind.typed(&copy.session, Some(projects)), None);
}

#[test]
fn a_log_outside_its_usual_directory_is_not_copied_for_another_directory() {
    let session = Session::captured("claude");
    let messages = session.messages();
    let moved = MovedDirectory { from: Path::new("/ELSEWHERE"), to: Path::new("/NEW") };
    session.copy_to(&messages, messages.len(), Some(moved)).unwrap_err();
}

#[test]
fn a_session_in_a_database_is_copied_with_new_ids() {
    let copy = LogCopy::new("opencode", &logs_of("opencode")[0]);
    let database = rusqlite::Connection::open(&copy.log.path).unwrap();
    database.execute_batch("ALTER TABLE session ADD slug TEXT NOT NULL DEFAULT 'x'").unwrap();
    let rewind = find_rewind("opencode").unwrap();
    let id = copy.log.session.clone().unwrap();
    let read = copy.format.read_page(&copy.log, None).unwrap();
    let messages = list_messages(&[read.page]);
    let own_directory = copy.directory.path().join("own");
    let prepare = |kept: &BTreeSet<String>, end: usize| {
        rewind.prepare_copy(&RewindRequest {
            log: &copy.log,
            session: &id,
            new: None,
            kept,
            last: &messages[end - 1].origin,
            gone: messages
                .get(end)
                .map(|gone| GoneMessage { origin: &gone.origin, is_prompt: gone.role == "user" }),
            undone: BTreeSet::new(),
            moved: None,
            own_directory: &own_directory,
            now: Time(0),
        })
    };
    let origins = |end: usize| -> BTreeSet<String> {
        messages[..end].iter().map(|message| message.origin.clone()).collect()
    };
    for end in 1..=messages.len() {
        let is_prompt = messages.get(end).is_none_or(|message| message.role == "user");
        let Ok(prepared) = prepare(&origins(end), end) else {
            assert!(!is_prompt, "{end}");
            continue;
        };
        assert_eq!(prepared.log.session.as_deref(), Some(prepared.session.as_str()));
        let copied = list_messages(&prepared.pages);
        let texts = |messages: &[LoggedMessage]| -> Vec<String> {
            messages.iter().map(|message| message.text.clone()).collect()
        };
        assert_eq!(texts(&copied), texts(&messages[..end]));
        assert!(copied.iter().all(|message| !origins(end).contains(&message.origin)));
    }
    let end = messages.len();
    let error = prepare(&origins(end - 1), end).unwrap_err();
    assert!(matches!(error, RewindError::Differs), "{error}");
    assert_eq!(fs::read_dir(&own_directory).unwrap().count(), 0, "temporary files are removed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// In these logs, lines are missing, repeated, torn or of an unknown kind. A copy is either
    /// exact or not made at all.
    #[test]
    fn a_damaged_log_is_copied_exactly_or_not_at_all(
        agent in prop::sample::select(copied_as_files().map(|rewind| rewind.agent).collect::<Vec<_>>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..5_u8), 1..4),
    ) {
        let session = Session::captured(agent);
        let content = fs::read_to_string(&session.log.path).unwrap();
        let mut lines: Vec<String> = content.lines().map(str::to_owned).collect();
        for (index, kind) in changes {
            let index = index.index(lines.len());
            match kind {
                0 => drop(lines.remove(index)),
                1 => lines.insert(index, lines[index].clone()),
                2 => lines.insert(index, "{\"type\":\"unheard-of\",\"uuid\":\"u\"}".into()),
                3 => { let line = &lines[index]; lines[index] = line[..line.floor_char_boundary(line.len() / 2)].to_owned(); }
                _ => lines.truncate(index + 1),
            }
            if lines.is_empty() { return Ok(()); }
        }
        fs::write(&session.log.path, lines.join("\n")).unwrap();
        let format = log_format(agent).unwrap();
        if format.read_page(&session.log, None).is_ok() {
            session.copy_everywhere();
        }
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_u8, any::<bool>()).prop_map(|(calls, together)| Step::Turn { calls, together }),
        1 => Just(Step::Child),
        1 => Just(Step::Unknown),
        1 => Just(Step::Compaction),
        1 => (0..4_usize).prop_map(Step::Rewind),
    ]
}

/// Copies a transcript up to each prompt after the first, and as a whole. Checks that each copy has
/// exactly the texts before that point, and that reading the copy yields exactly the messages
/// before that point.
fn copy_up_to_every_turn(agent: &'static str, steps: &[Step]) {
    let transcript = Transcript::new(agent, steps);
    let session = Session::generated(agent, &transcript);
    let position = |message: &LoggedMessage| {
        transcript.said.iter().position(|said| message.text.contains(&said.text))
    };
    // The ledger knows that the user has left a branch only if takeback took the branch back.
    let is_ours = |said: &Said| said.is_own && (said.is_live || !transcript.is_tree());
    let logged = session.messages();
    let own: Vec<(usize, &LoggedMessage)> = logged
        .iter()
        .filter_map(|message| Some((position(message)?, message)))
        .filter(|(place, _)| is_ours(&transcript.said[*place]))
        .collect();
    let is_read = |said: &Said| own.iter().any(|(_, message)| message.text.contains(&said.text));
    let is_complete = transcript.said.iter().filter(|said| is_ours(said)).all(is_read);
    assert!(is_complete, "{agent}: {logged:?}");
    for end in 1..=own.len() {
        let gone = own.get(end);
        let first_gone = gone.map_or(transcript.said.len(), |(place, _)| *place);
        let is_cut = |said: &Said| said.is_prompt && said.is_live;
        if !transcript.said.get(first_gone).is_none_or(is_cut) {
            continue;
        }
        let kept: Vec<&LoggedMessage> = own[..end].iter().map(|(_, message)| *message).collect();
        let before = session.files();
        let copy = session.prepare(&kept, gone.map(|(_, message)| *message), None);
        let copy = copy.unwrap_or_else(|error| panic!("{agent} at {end}: {error}"));
        assert_eq!(session.files(), before, "nothing is written yet");
        let (pages, content) = match agent {
            // Only opencode can import the copy.
            "opencode" => (copy.pages.clone(), format!("{:?}", copy.pages)),
            _ => {
                copy.place().unwrap();
                let content = fs::read_to_string(&copy.log.path).unwrap();
                (read_pages(agent, &copy.log), content)
            }
        };
        assert!(session.files().is_superset(&before), "the original has changed");
        for (place, said) in transcript.said.iter().enumerate().filter(|(_, said)| said.is_own) {
            let is_left = !said.is_live && transcript.is_tree();
            let expected = place < first_gone && !is_left;
            assert_eq!(content.contains(&said.text), expected, "{agent} {said:?}: {content}");
        }
        let texts = |messages: &mut dyn Iterator<Item = &LoggedMessage>| -> Vec<String> {
            messages.filter(|message| position(message).is_some()).map(|m| m.text.clone()).collect()
        };
        let is_own = |message: &&LoggedMessage| {
            position(message).is_some_and(|place| transcript.said[place].is_own)
        };
        let found = list_messages(&pages);
        assert_eq!(
            texts(&mut found.iter().filter(is_own)),
            texts(&mut kept.into_iter()),
            "{agent} at {end}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn a_generated_transcript_is_copied_exactly_up_to_every_turn(
        steps in prop::collection::vec(any_step(), 0..7),
    ) {
        for rewind in REWINDS {
            copy_up_to_every_turn(rewind.agent, &steps);
        }
    }
}
