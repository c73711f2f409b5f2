//! The output of a hook: notices for the model, warnings for the user, refusals of tool calls, and
//! answers to the user.

use serde_json::{Map, Value, json};

use crate::agent::{Agent, NoticeFormat, Refusal, WarningFormat};

impl Agent {
    /// True if a hook for this event can pass a notice to the agent's model.
    pub fn can_notify_on(&self, event: &str) -> bool {
        self.notice_format != NoticeFormat::None && self.notice_events.contains(&event)
    }

    /// Returns the output that passes a notice to the agent's model. Returns `None` for an event at
    /// which a hook cannot safely print a notice.
    pub fn notice_output(&self, event: &str, text: &str) -> Option<String> {
        if !self.can_notify_on(event) {
            return None;
        }
        let output = match self.notice_format {
            NoticeFormat::HookSpecificOutput => {
                json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
            }
            NoticeFormat::AdditionalContext => json!({ "additionalContext": text }),
            NoticeFormat::SnakeContext => json!({ "additional_context": text }),
            NoticeFormat::ContextModification => {
                json!({ "cancel": false, "contextModification": text })
            }
            NoticeFormat::Plugin => json!({ "notice": text }),
            NoticeFormat::None => return None,
        };
        Some(output.to_string())
    }

    /// Returns the output that shows a warning to the agent's user before a tool runs. It neither
    /// stops the tool nor grants permission. Returns `None` if the agent cannot show warnings.
    pub fn warning_output(&self, text: &str) -> Option<String> {
        let for_model = || format!("Tell the user about this warning in your next answer. {text}");
        let output = match self.warning_format {
            WarningFormat::SystemMessage => json!({ "systemMessage": text }),
            WarningFormat::UserMessage => json!({ "user_message": text, "userMessage": text }),
            WarningFormat::AdditionalContext => json!({ "additionalContext": for_model() }),
            WarningFormat::ContextModification => {
                json!({ "cancel": false, "contextModification": for_model() })
            }
            WarningFormat::Plugin => json!({ "warning": text }),
            WarningFormat::None => return None,
        };
        Some(output.to_string())
    }

    /// Returns the output that combines a notice and a warning. Either of them may be missing.
    pub fn combined_output(
        &self,
        event: &str,
        notice: Option<&str>,
        warning: Option<&str>,
    ) -> Option<String> {
        let notice = notice.and_then(|text| self.notice_output(event, text));
        let warning = warning.and_then(|text| self.warning_output(text));
        let (Some(notice), Some(warning)) = (&notice, &warning) else { return notice.or(warning) };
        let parse = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
        let (mut all, warning) = (parse(notice)?, parse(warning)?);
        for (key, value) in warning {
            let joined = match (all.get(&key), &value) {
                (Some(Value::String(known)), Value::String(new)) => {
                    json!(format!("{known}\n{new}"))
                }
                _ => value,
            };
            all.insert(key, joined);
        }
        Some(Value::Object(all).to_string())
    }

    /// Returns the output and the exit code that stop the agent from running a tool. For
    /// [`Refusal::Code`], the caller must print the reason to standard error.
    pub fn refusal_output(&self, reason: &str) -> (Option<String>, u8) {
        let output = match self.refusal {
            Refusal::Code(code) => return (None, code),
            Refusal::PermissionDecision => {
                json!({ "permissionDecision": "deny", "permissionDecisionReason": reason })
            }
            Refusal::Cancel => json!({ "cancel": true, "errorMessage": reason }),
            Refusal::Plugin => json!({ "refusal": reason }),
        };
        (Some(output.to_string()), 0)
    }

    /// Returns the output that answers the user's prompt without the model.
    pub fn answer_output(&self, text: &str) -> String {
        json!({ "decision": "block", "reason": text }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use crate::{AGENTS, find_agent};

    #[test]
    fn each_agent_gets_notices_in_its_own_format() {
        let output = |name: &str, event: &str| {
            find_agent(name).unwrap().notice_output(event, "hi \"there\"")
        };
        let hook = |event: &str| {
            Some(format!(
                r#"{{"hookSpecificOutput":{{"additionalContext":"hi \"there\"","hookEventName":"{event}"}}}}"#
            ))
        };
        for name in ["claude", "codex", "qwen"] {
            assert_eq!(output(name, "UserPromptSubmit"), hook("UserPromptSubmit"));
        }
        assert_eq!(output("gemini", "BeforeAgent"), hook("BeforeAgent"));
        assert_eq!(output("droid", "SessionStart"), hook("SessionStart"));
        let context = r#"{"additionalContext":"hi \"there\""}"#;
        assert_eq!(output("copilot", "postToolUse").as_deref(), Some(context));
        let context = r#"{"additional_context":"hi \"there\""}"#;
        assert_eq!(output("cursor", "sessionStart").as_deref(), Some(context));
        let context = r#"{"cancel":false,"contextModification":"hi \"there\""}"#;
        assert_eq!(output("cline", "PreToolUse").as_deref(), Some(context));
        let context = r#"{"notice":"hi \"there\""}"#;
        assert_eq!(output("opencode", "chat.message").as_deref(), Some(context));
        assert_eq!(output("pi", "before_agent_start").as_deref(), Some(context));
    }

    #[test]
    fn each_agent_shows_warnings_in_its_own_way() {
        let output = |name: &str| find_agent(name).unwrap().warning_output("mind \"this\"");
        for name in ["claude", "codex", "gemini", "qwen", "droid"] {
            let expected = r#"{"systemMessage":"mind \"this\""}"#;
            assert_eq!(output(name).as_deref(), Some(expected), "{name}");
        }
        for name in ["opencode", "pi"] {
            assert_eq!(output(name).as_deref(), Some(r#"{"warning":"mind \"this\""}"#), "{name}");
        }
        let expected = r#"{"userMessage":"mind \"this\"","user_message":"mind \"this\""}"#;
        assert_eq!(output("cursor").as_deref(), Some(expected));
        for name in ["copilot", "cline"] {
            let output = output(name).unwrap();
            assert!(output.contains(r#"Tell the user about this warning"#), "{output}");
        }
        for name in ["generic", "goose"] {
            assert_eq!(output(name), None, "{name}");
        }
        let both = find_agent("cline").unwrap().combined_output("PreToolUse", Some("n"), Some("w"));
        let both = both.unwrap();
        assert!(both.starts_with(r#"{"cancel":false,"contextModification":"n\nTell"#), "{both}");
        // A warning neither grants nor refuses permission.
        for agent in AGENTS {
            let output = agent.warning_output("hi").unwrap_or_default();
            for word in ["permission", "decision", "true", "refusal"] {
                assert!(!output.contains(word), "{}: {output}", agent.name);
            }
        }
    }

    #[test]
    fn no_notice_is_printed_where_it_would_do_harm() {
        for agent in AGENTS {
            // After output from one of these events, Claude Code would call its model again, up to
            // nine times.
            for event in ["Stop", "SubagentStop", "agentStop", "AfterAgent", "TaskComplete"] {
                assert_eq!(agent.notice_output(event, "hi"), None, "{}", agent.name);
            }
        }
        // Gemini would put the notice in front of the prompt.
        assert_eq!(find_agent("gemini").unwrap().notice_output("SessionStart", "hi"), None);
        assert_eq!(find_agent("generic").unwrap().notice_output("turn_start", "hi"), None);
        assert_eq!(find_agent("goose").unwrap().notice_output("PreToolUse", "hi"), None);
    }
}
