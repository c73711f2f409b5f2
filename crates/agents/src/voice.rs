//! How a model is told something.

use serde_json::json;

use crate::spec::{Agent, Refusal, Signal, Voice};

impl Agent {
    /// Whether its model may be told something when this happens.
    pub fn speaks_on(&self, event: &str) -> bool {
        self.voice != Voice::None && self.speaks_on.contains(&event)
    }

    /// What a hook prints for the model to read `text`; nothing where that is not safe.
    pub fn say(&self, event: &str, text: &str) -> Option<String> {
        if !self.speaks_on(event) {
            return None;
        }
        let answer = match self.voice {
            Voice::HookSpecificOutput => {
                json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
            }
            Voice::AdditionalContext => json!({ "additionalContext": text }),
            Voice::SnakeContext => json!({ "additional_context": text }),
            Voice::ContextModification => {
                json!({ "cancel": false, "contextModification": text })
            }
            Voice::Plugin => json!({ "notice": text }),
            Voice::None => return None,
        };
        Some(answer.to_string())
    }

    /// Whether a hook that was started for this event may keep the agent from something: it is about
    /// a call, or nothing says what it is about.
    pub fn may_refuse_on(&self, event: Option<&str>) -> bool {
        let known = event.and_then(|event| self.events.iter().find(|(known, _)| *known == event));
        known.is_none_or(|(_, signal)| matches!(signal, Signal::BeforeTool))
    }

    /// What a hook prints, and the code that it exits with, to keep the agent from running a tool.
    pub fn refuse(&self, why: &str) -> (Option<String>, u8) {
        let why = format!("takeback could not protect this call, and is told to be strict: {why}");
        let answer = match self.refusal {
            Refusal::Code(code) => return (None, code),
            Refusal::PermissionDecision => {
                json!({ "permissionDecision": "deny", "permissionDecisionReason": why })
            }
            Refusal::Cancel => json!({ "cancel": true, "errorMessage": why }),
            Refusal::Plugin => json!({ "refusal": why }),
        };
        (Some(answer.to_string()), 0)
    }

    /// What a hook prints to answer what the user typed, so that no model is asked.
    pub fn answer(&self, text: &str) -> String {
        json!({ "decision": "block", "reason": text }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use crate::{AGENTS, agent};

    #[test]
    fn each_agent_is_told_in_its_own_way() {
        let say = |name: &str, event: &str| agent(name).unwrap().say(event, "hi \"there\"");
        let hook = |event: &str| {
            Some(format!(
                r#"{{"hookSpecificOutput":{{"additionalContext":"hi \"there\"","hookEventName":"{event}"}}}}"#
            ))
        };
        for name in ["claude", "codex", "qwen"] {
            assert_eq!(say(name, "UserPromptSubmit"), hook("UserPromptSubmit"));
        }
        assert_eq!(say("gemini", "BeforeAgent"), hook("BeforeAgent"));
        assert_eq!(say("droid", "SessionStart"), hook("SessionStart"));
        let context = r#"{"additionalContext":"hi \"there\""}"#;
        assert_eq!(say("copilot", "postToolUse").as_deref(), Some(context));
        let context = r#"{"additional_context":"hi \"there\""}"#;
        assert_eq!(say("cursor", "sessionStart").as_deref(), Some(context));
        let context = r#"{"cancel":false,"contextModification":"hi \"there\""}"#;
        assert_eq!(say("cline", "PreToolUse").as_deref(), Some(context));
        let context = r#"{"notice":"hi \"there\""}"#;
        assert_eq!(say("opencode", "chat.message").as_deref(), Some(context));
        assert_eq!(say("pi", "before_agent_start").as_deref(), Some(context));
    }

    #[test]
    fn nothing_is_said_where_it_would_do_harm() {
        for agent in AGENTS {
            // Claude would call its model again, up to nine times.
            for event in ["Stop", "SubagentStop", "agentStop", "AfterAgent", "TaskComplete"] {
                assert_eq!(agent.say(event, "hi"), None, "{}", agent.name);
            }
        }
        // It would be put in front of the prompt.
        assert_eq!(agent("gemini").unwrap().say("SessionStart", "hi"), None);
        assert_eq!(agent("generic").unwrap().say("turn_start", "hi"), None);
        assert_eq!(agent("goose").unwrap().say("PreToolUse", "hi"), None);
    }
}
