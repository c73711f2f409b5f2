//! The supported agents: the tests send captured payloads of the agents' hooks to the real program.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::agent::{configure, hook, ledger, rows, steps};
use crate::session::Session;

/// An agent's turn, as a list of captured payloads.
struct Story {
    agent: &'static str,
    /// True if the agent passes the name of the event to its hooks as an argument.
    names_events: bool,
    begin: &'static [&'static str],
    write: [&'static str; 2],
    shell: [&'static str; 2],
    end: &'static [&'static str],
    /// Payloads of events that cannot carry a notice. They are sent after the rollback, and the
    /// hook prints nothing for them.
    silent: &'static [&'static str],
    /// The first payload for which the hook passes the notice to the model, and the JSON pointer to
    /// the notice in the hook's output.
    speaks: Option<(&'static str, &'static str)>,
}

const CONTEXT: &str = "/hookSpecificOutput/additionalContext";

const STORIES: [Story; 11] = [
    Story {
        agent: "claude",
        names_events: false,
        begin: &["SessionStart", "UserPromptSubmit"],
        write: ["PreToolUse.Write", "PostToolUse.Write"],
        shell: ["PreToolUse.Bash", "PostToolUse.Bash"],
        end: &["Stop", "SessionEnd"],
        silent: &["SessionStart", "PreToolUse.Bash", "PostToolBatch", "Stop"],
        speaks: Some(("UserPromptSubmit", CONTEXT)),
    },
    Story {
        agent: "codex",
        names_events: false,
        begin: &["SessionStart", "UserPromptSubmit"],
        write: ["PreToolUse.apply_patch", "PostToolUse.apply_patch"],
        shell: ["PreToolUse.Bash", "PostToolUse.Bash"],
        end: &["Stop", "SessionEnd"],
        silent: &["SessionStart", "Stop"],
        speaks: Some(("UserPromptSubmit", CONTEXT)),
    },
    Story {
        agent: "gemini",
        names_events: false,
        begin: &["SessionStart", "BeforeAgent", "PreCompress"],
        write: ["BeforeTool.write_file", "AfterTool.write_file"],
        shell: ["BeforeTool.run_shell_command", "AfterTool.run_shell_command"],
        end: &["AfterAgent", "SessionEnd"],
        silent: &["SessionStart", "PreCompress", "AfterAgent"],
        speaks: Some(("BeforeAgent", CONTEXT)),
    },
    Story {
        agent: "qwen",
        names_events: false,
        begin: &["Notification", "SessionStart", "UserPromptSubmit"],
        write: ["PreToolUse.write_file", "PostToolUse.write_file"],
        shell: ["PreToolUse.run_shell_command", "PostToolUse.run_shell_command"],
        end: &["Stop"],
        silent: &["SessionStart", "Stop"],
        speaks: Some(("UserPromptSubmit", CONTEXT)),
    },
    Story {
        agent: "copilot",
        names_events: true,
        begin: &["sessionStart", "userPromptSubmitted"],
        write: ["preToolUse.create", "postToolUse.create"],
        shell: ["preToolUse.bash", "postToolUse.bash"],
        end: &["agentStop", "sessionEnd"],
        silent: &["userPromptSubmitted", "permissionRequest.bash", "preToolUse.bash"],
        speaks: Some(("postToolUse.bash", "/additionalContext")),
    },
    Story {
        agent: "droid",
        names_events: false,
        // Droid does not report prompts.
        begin: &["SessionStart"],
        write: ["PreToolUse.Create", "PostToolUse.Create"],
        shell: ["PreToolUse.Execute", "PostToolUse.Execute"],
        end: &["Stop", "SessionEnd"],
        silent: &["Stop"],
        speaks: Some(("SessionStart", CONTEXT)),
    },
    Story {
        agent: "cline",
        names_events: true,
        begin: &["TaskStart"],
        write: ["PreToolUse.editor", "PostToolUse.editor"],
        shell: ["PreToolUse.run_commands", "PostToolUse.run_commands"],
        end: &["TaskComplete"],
        silent: &["TaskStart"],
        speaks: Some(("PreToolUse.run_commands", "/contextModification")),
    },
    Story {
        agent: "opencode",
        names_events: true,
        begin: &["event.session.created", "chat.message"],
        write: ["tool.execute.before.write", "tool.execute.after.write"],
        shell: ["tool.execute.before.bash", "tool.execute.after.bash"],
        end: &["event.session.idle"],
        silent: &["event.session.status", "command.execute.before", "tool.execute.before.bash"],
        speaks: Some(("chat.message", "/notice")),
    },
    Story {
        agent: "pi",
        names_events: true,
        begin: &["session_start", "input", "before_agent_start", "agent_start", "turn_start"],
        write: ["tool_call.write", "tool_result.write"],
        shell: ["tool_call.bash", "tool_result.bash"],
        end: &["turn_end", "agent_end", "session_shutdown"],
        silent: &["session_start", "input"],
        speaks: Some(("before_agent_start", "/notice")),
    },
    Story {
        agent: "cursor",
        names_events: false,
        begin: &["sessionStart", "beforeSubmitPrompt"],
        write: ["preToolUse.Write", "postToolUse.Write"],
        shell: ["preToolUse.Shell", "postToolUse.Shell"],
        end: &["stop", "sessionEnd"],
        silent: &["beforeSubmitPrompt", "stop"],
        speaks: Some(("sessionStart", "/additional_context")),
    },
    Story {
        agent: "goose",
        names_events: false,
        begin: &["SessionStart", "UserPromptSubmit"],
        write: ["PreToolUse.developer__write", "PostToolUse.developer__write"],
        shell: ["PreToolUse.developer__shell", "PostToolUse.developer__shell"],
        end: &["Stop", "SessionEnd"],
        silent: &["SessionStart", "UserPromptSubmit", "PreToolUse.developer__shell", "Stop"],
        speaks: None,
    },
];

/// A project with an agent in it.
struct Scene {
    session: Session,
    agent: &'static str,
    names_events: bool,
}

impl Scene {
    fn new(agent: &'static str) -> Scene {
        let session = Session::new();
        session.write("src/main.rs", "fn main(){}\n");
        session.write("kept.txt", "kept\n");
        let names_events = STORIES.iter().any(|it| it.agent == agent && it.names_events);
        Scene { session, agent, names_events }
    }

    /// Returns a captured payload in which the paths are those of this project.
    fn payload(&self, name: &str) -> Value {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/tests/fixtures");
        let text = fs::read_to_string(fixtures.join(self.agent).join(format!("{name}.json")));
        let project = self.session.project();
        let text = text.unwrap().replace("/PROJECT", project.to_str().unwrap());
        let mut payload: Value = serde_json::from_str(&text).unwrap();
        if self.agent == "opencode" {
            // The plugin adds this field.
            payload["cwd"] = json!(project);
        }
        payload
    }

    /// Runs the hook with a payload and returns the hook's output.
    fn tell(&self, name: &str) -> String {
        self.tell_with(name, |_| {})
    }

    /// Runs the hook with a modified payload and returns the hook's output.
    fn tell_with(&self, name: &str, change: impl FnOnce(&mut Value)) -> String {
        let mut payload = self.payload(name);
        change(&mut payload);
        let mut arguments = vec!["hook", self.agent];
        // The name of a payload consists of its event, or of its event and its tool.
        let event = match name.rsplit_once('.') {
            Some((event, _)) if !name.starts_with("event.") && name != "chat.message" => event,
            _ => name,
        };
        if self.names_events {
            arguments.push(event);
        }
        let output = hook(&self.session.base(), &arguments, payload.to_string().as_bytes());
        assert_eq!(output.status.code(), Some(0), "{name}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{name}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the hook with each payload. The hook must print nothing.
    fn tell_all(&self, names: &[&str]) {
        for name in names {
            assert_eq!(self.tell(name), "", "{} {name}", self.agent);
        }
    }

    /// Reports a turn that writes a file and deletes a directory with a shell command.
    fn turn(&self, story: &Story) {
        self.tell_all(story.begin);
        self.tell_all(&story.write[..1]);
        self.session.write("written.txt", "hello from mock\n");
        self.tell_all(&story.write[1..]);
        self.tell_all(&story.shell[..1]);
        fs::remove_dir_all(self.session.project().join("src")).unwrap();
        self.session.write("new.txt", "hi\n");
        self.tell_all(&story.shell[1..]);
        self.tell_all(story.end);
    }

    fn is_restored(&self) -> bool {
        let project = self.session.project();
        let names = ["written.txt", "new.txt"].map(|name| project.join(name).exists());
        self.session.read("src/main.rs") == "fn main(){}\n" && names == [false, false]
    }
}

fn story_of(agent: &str) -> &'static Story {
    STORIES.iter().find(|story| story.agent == agent).unwrap()
}

fn check_agent(agent: &str) {
    let story = story_of(agent);
    let scene = Scene::new(story.agent);
    scene.turn(story);
    let rows = rows(&scene.session);
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(steps(&rows[0]).len(), 2, "{rows:#?}");
    assert_eq!(rows[0]["agent"], agent);
    let knows_prompt = !["droid", "cline"].contains(&agent);
    let prompt = rows[0]["prompt"].as_str().map(|prompt| prompt.trim_matches('"'));
    assert_eq!(prompt, knows_prompt.then_some("Do the work"));
    assert_eq!(rows[0]["files_changed"], 3);

    // Roll back to the step before the shell command, then to the beginning.
    assert!(scene.session.output(&["rollback", "1.2", "--yes"]).status.success());
    assert_eq!(scene.session.read("src/main.rs"), "fn main(){}\n");
    assert_eq!(scene.session.read("written.txt"), "hello from mock\n");
    assert!(scene.session.output(&["rollback", "1", "--yes"]).status.success());
    assert!(scene.is_restored());

    scene.tell_all(story.silent);
    let Some((event, pointer)) = story.speaks else { return };
    let said = scene.tell(event);
    let answer: Value = serde_json::from_str(&said).unwrap();
    let text = answer.pointer(pointer).unwrap().as_str().unwrap();
    let project = scene.session.project();
    let opening =
        format!("takeback restored these files in {} to an earlier state. ", project.display());
    assert!(text.contains(&opening), "{text}");
    for line in ["- src/main.rs\n", "- new.txt (deleted)", "- written.txt (deleted)"] {
        assert_eq!(text.matches(line).count(), 1, "{line} in {text}");
    }
    assert!(!text.contains("kept.txt"));
    if pointer == CONTEXT {
        assert_eq!(answer["hookSpecificOutput"]["hookEventName"], event);
    }
    // The notice is given only once.
    scene.tell_all(&[event]);
}

#[test]
fn claude_code_is_protected_and_learns_of_a_rollback() {
    check_agent("claude");
}

#[test]
fn codex_is_protected_and_learns_of_a_rollback() {
    check_agent("codex");
}

#[test]
fn gemini_cli_is_protected_and_learns_of_a_rollback() {
    check_agent("gemini");
}

#[test]
fn qwen_code_is_protected_and_learns_of_a_rollback() {
    check_agent("qwen");
}

#[test]
fn copilot_cli_is_protected_and_learns_of_a_rollback() {
    check_agent("copilot");
}

#[test]
fn droid_is_protected_and_learns_of_a_rollback() {
    check_agent("droid");
}

#[test]
fn cline_is_protected_and_learns_of_a_rollback() {
    check_agent("cline");
}

#[test]
fn opencode_is_protected_and_learns_of_a_rollback() {
    check_agent("opencode");
}

#[test]
fn pi_is_protected_and_learns_of_a_rollback() {
    check_agent("pi");
}

#[test]
fn cursor_is_protected_and_learns_of_a_rollback() {
    check_agent("cursor");
}

#[test]
fn goose_is_protected() {
    check_agent("goose");
}

#[test]
fn files_changed_since_the_rollback_are_not_in_the_notice() {
    let scene = Scene::new("claude");
    scene.turn(story_of("claude"));
    assert!(scene.session.output(&["rollback", "1", "--yes"]).status.success());
    scene.session.write("src/main.rs", "fn main() { again() }\n");
    scene.session.write("new.txt", "again\n");
    let answer: Value = serde_json::from_str(&scene.tell("UserPromptSubmit")).unwrap();
    let text = answer.pointer(CONTEXT).unwrap().as_str().unwrap();
    assert!(text.starts_with("takeback restored this file in"), "{text}");
    assert!(text.contains("\n- written.txt (deleted)\nThe user took back the prompt"), "{text}");
    assert!(!text.contains("new.txt") && !text.contains("main.rs"), "{text}");

    // The rollback is undone, so there is no notice about it.
    let scene = Scene::new("claude");
    scene.turn(story_of("claude"));
    for command in [&["rollback", "1", "--yes"][..], &["rollback", "undo", "--yes"]] {
        assert!(scene.session.output(command).status.success());
    }
    fs::remove_file(scene.session.project().join("written.txt")).unwrap();
    scene.session.write("new.txt", "mine\n");
    scene.session.write("src/main.rs", "mine\n");
    scene.tell_all(&["UserPromptSubmit"]);
}

#[test]
fn effects_are_in_the_notice() {
    let scene = Scene::new("claude");
    scene.tell_all(&["UserPromptSubmit"]);
    let command = "psql shop -c 'drop table carts' && rm -rf src";
    let change = |payload: &mut Value| payload["tool_input"]["command"] = json!(command);
    scene.tell_with("PreToolUse.Bash", change);
    fs::remove_dir_all(scene.session.project().join("src")).unwrap();
    scene.tell_with("PostToolUse.Bash", change);
    scene.tell_all(&["Stop"]);
    assert!(scene.session.output(&["rollback", "1", "--yes"]).status.success());
    let said = scene.tell("UserPromptSubmit");
    assert!(said.contains("because no rollback reverses them:\\n- database: psql"), "{said}");
}

#[test]
fn the_work_of_a_subagent_is_part_of_the_turn_of_its_parent() {
    let scene = Scene::new("claude");
    let child = |payload: &mut Value| payload["agent_id"] = json!("a1");
    scene.tell_all(&["SessionStart", "UserPromptSubmit", "PreToolUse.Write"]);
    scene.session.write("written.txt", "hello from mock\n");
    scene.tell_all(&["PostToolUse.Write"]);
    scene.tell_with("SessionStart", |payload| {
        child(payload);
        payload["hook_event_name"] = json!("SubagentStart");
    });
    scene.tell_with("PreToolUse.Bash", child);
    fs::remove_dir_all(scene.session.project().join("src")).unwrap();
    scene.tell_with("PostToolUse.Bash", child);
    scene.tell_with("Stop", |payload| {
        child(payload);
        payload["hook_event_name"] = json!("SubagentStop");
    });
    scene.tell_all(&["Stop"]);
    let rows = rows(&scene.session);
    assert_eq!(rows.len(), 1);
    assert_eq!(steps(&rows[0]).len(), 2, "{rows:#?}");
    let id = "claude:f543ce77-5e46-4b77-8c54-b329a14b9eff";
    assert_eq!(rows[0]["session"], id);
    let query = "SELECT s.id FROM sessions s JOIN sessions p ON s.parent_session_id = p.id";
    let known: Result<String, _> = ledger(&scene.session).query_row(query, [], |row| row.get(0));
    assert_eq!(known.unwrap(), format!("{id}/a1"));
}

#[test]
fn an_empty_prompt_from_qwen_begins_no_turn() {
    let scene = Scene::new("qwen");
    let story = story_of("qwen");
    let empty = |payload: &mut Value| payload["prompt"] = json!("");
    scene.tell_all(&["UserPromptSubmit", story.write[0]]);
    scene.session.write("written.txt", "hello from mock\n");
    scene.tell_all(&[story.write[1]]);
    assert_eq!(scene.tell_with("UserPromptSubmit", empty), "");
    scene.tell_all(&[story.shell[0], story.shell[1]]);
    assert_eq!(scene.tell_with("UserPromptSubmit", empty), "");
    scene.tell_all(&["Stop", "UserPromptSubmit", story.shell[0], story.shell[1], "Stop"]);
    assert_eq!(rows(&scene.session).len(), 2);
}

#[test]
fn every_file_that_a_patch_names_is_protected() {
    let scene = Scene::new("codex");
    let outside = scene.session.base().join("elsewhere.txt");
    fs::write(&outside, "outside\n").unwrap();
    scene.session.write(".gitignore", "ignored/\n");
    scene.session.write("ignored/a", "a\n");
    scene.session.write("ignored/b", "b\n");
    let patch = format!(
        "*** Begin Patch\n*** Update File: ignored/a\n*** Move to: ignored/c\n@@\n-a\n+c\n\
         *** Delete File: ignored/b\n*** Update File: {}\n@@\n-outside\n+x\n*** End Patch\n",
        outside.display()
    );
    let change = |payload: &mut Value| payload["tool_input"]["command"] = json!(patch);
    scene.tell_all(&["UserPromptSubmit"]);
    scene.tell_with("PreToolUse.apply_patch", change);
    let ignored = scene.session.project().join("ignored");
    fs::rename(ignored.join("a"), ignored.join("c")).unwrap();
    fs::remove_file(ignored.join("b")).unwrap();
    fs::write(&outside, "x\n").unwrap();
    scene.tell_with("PostToolUse.apply_patch", change);
    scene.tell_all(&["Stop"]);
    let rows = rows(&scene.session);
    assert_eq!(steps(&rows[0]), ["before apply_patch ignored/a and 3 more"]);
    assert!(scene.session.output(&["rollback", "1", "--yes"]).status.success());
    assert_eq!(
        (scene.session.read("ignored/a"), scene.session.read("ignored/b")),
        ("a\n".into(), "b\n".into())
    );
    let path = outside.to_str().unwrap();
    assert!(scene.session.output(&["-C", path, "rollback", "1", "--yes"]).status.success());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "outside\n");
}

#[test]
fn a_shell_command_that_runs_in_another_directory_is_protected_there() {
    let scene = Scene::new("gemini");
    let elsewhere = scene.session.base().join("elsewhere");
    fs::create_dir_all(elsewhere.join(".git")).unwrap();
    fs::write(elsewhere.join("a"), "1").unwrap();
    let at = |command: &'static str, directory: Value| {
        move |payload: &mut Value| {
            payload["tool_input"]["command"] = json!(command);
            payload["tool_input"]["dir_path"] = directory;
        }
    };
    scene.tell_all(&["BeforeAgent"]);
    let tool = "BeforeTool.run_shell_command";
    assert_eq!(scene.tell_with(tool, at("ls -l", json!("src"))), "");
    assert_eq!(rows(&scene.session), Vec::<Value>::new());
    assert_eq!(scene.tell_with(tool, at("rm a", json!(elsewhere))), "");
    fs::remove_file(elsewhere.join("a")).unwrap();
    let path = elsewhere.to_str().unwrap();
    assert!(scene.session.output(&["-C", path, "rollback", "1", "--yes"]).status.success());
    assert_eq!(fs::read_to_string(elsewhere.join("a")).unwrap(), "1");
}

#[test]
fn an_unknown_agent_is_not_blocked() {
    let session = Session::new();
    for (strict, code) in [(false, 0), (true, 1)] {
        let mut arguments = vec!["hook", "hal", "PreToolUse"];
        arguments.extend(strict.then_some("--strict"));
        let output = hook(&session.base(), &arguments, b"{}");
        assert_eq!(output.status.code(), Some(code));
        assert!(output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with("takeback: unknown agent \"hal\": use generic, claude,"),
            "{said}"
        );
    }
}

#[test]
fn a_late_hook_leaves_the_notice_pending() {
    let scene = Scene::new("claude");
    scene.turn(story_of("claude"));
    assert!(scene.session.output(&["rollback", "1", "--yes"]).status.success());
    let payload = scene.payload("PostToolUse.Write").to_string();
    let arguments = ["hook", "claude", "--late", "\"aa762217-d55a-481e-9e96-5398fbafdfd2\""];
    let output = hook(&scene.session.base(), &arguments, payload.as_bytes());
    assert!(output.stdout.is_empty());
    // The notice stays pending until a hook can pass it on.
    assert!(scene.tell("UserPromptSubmit").contains("takeback restored these files"));
}

#[test]
fn odd_payloads_do_not_block_an_agent() {
    let session = Session::new();
    for story in &STORIES {
        for payload in ["", "[]", "{", "{\"hook_event_name\": 7, \"type\": {}}", "\u{feff}{}"] {
            for event in [None, Some(story.shell[0].split('.').next().unwrap()), Some("Future")] {
                let mut arguments = vec!["hook", story.agent];
                arguments.extend(event);
                let output = hook(&session.base(), &arguments, payload.as_bytes());
                assert_eq!(output.status.code(), Some(0), "{arguments:?} {payload}");
                assert!(output.stdout.is_empty(), "{arguments:?} {payload}");
            }
        }
    }
}

#[test]
fn strict_mode_refuses_unprotected_calls_in_each_agents_format() {
    for story in &STORIES {
        let scene = Scene::new(story.agent);
        configure(&scene.session, "[checkpoints]\nstrict = true\n");
        fs::write(scene.session.base().join(".takeback/checkpoints"), "in the way").unwrap();
        let run = |name: &str| {
            let mut arguments = vec!["hook", story.agent];
            let event = name.rsplit_once('.').map_or(name, |(event, _)| event);
            arguments.extend(story.names_events.then_some(event));
            let payload = scene.payload(name).to_string();
            hook(&scene.session.base(), &arguments, payload.as_bytes())
        };
        let refused = run(story.write[0]);
        let said = String::from_utf8(refused.stdout).unwrap();
        let answer: Value = serde_json::from_str(&said).unwrap_or_default();
        let why = match story.agent {
            "copilot" => &answer["permissionDecisionReason"],
            "cline" => &answer["errorMessage"],
            "opencode" | "pi" => &answer["refusal"],
            _ => &Value::Null,
        };
        if why.is_null() {
            assert_eq!((refused.status.code(), said.as_str()), (Some(2), ""), "{}", story.agent);
            assert!(!refused.stderr.is_empty());
        } else {
            assert_eq!(refused.status.code(), Some(0), "{}", story.agent);
            assert!(why.as_str().unwrap().contains("takeback could not protect this call"));
        }
        // A call that has ended cannot be refused.
        let after = run(story.write[1]);
        assert_eq!((after.status.code(), after.stdout.len()), (Some(0), 0), "{}", story.agent);
        // Without strict mode, the call is not refused.
        configure(&scene.session, "");
        let output = run(story.write[0]);
        assert_eq!(output.status.code(), Some(0), "{}", story.agent);
        // Instead, the user gets a warning.
        let said = String::from_utf8(output.stdout).unwrap();
        let answer: Value = serde_json::from_str(&said).unwrap_or_default();
        let shown = match story.agent {
            "copilot" => &answer["additionalContext"],
            "cline" => &answer["contextModification"],
            "opencode" | "pi" => &answer["warning"],
            "cursor" => &answer["user_message"],
            "goose" => &json!("takeback cannot take back everything"),
            _ => &answer["systemMessage"],
        };
        let shown = shown.as_str().unwrap();
        assert!(shown.contains("takeback cannot take back everything"), "{}", story.agent);
    }
}
