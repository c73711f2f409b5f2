//! Generating messages that resemble those of coding agents: English with realistic word
//! frequencies, Chinese, Japanese and Korean, source code, logs and tool calls.

use serde_json::{Value, json};

use super::languages::{Language, Vocabulary};
use crate::random::Random;

/// A message, in the form in which every contender receives it.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) session: String,
    pub(crate) role: &'static str,
    pub(crate) content: Option<String>,
    pub(crate) tool_name: Option<&'static str>,
    pub(crate) tool_call_id: Option<String>,
    pub(crate) tool_calls: Option<Value>,
}

impl Message {
    /// Returns the length of the text in bytes.
    pub(crate) fn text_length(&self) -> usize {
        self.content.as_ref().map_or(0, String::len)
            + self.tool_name.map_or(0, str::len)
            + self.tool_calls.as_ref().map_or(0, |calls| calls.to_string().len())
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "session": self.session,
            "role": self.role,
            "content": self.content,
            "tool_name": self.tool_name,
            "tool_call_id": self.tool_call_id,
            "tool_calls": self.tool_calls,
        })
    }
}

/// The number of simultaneous conversations.
const AT_ONCE: usize = 4;

/// The average number of messages in a conversation.
const IN_SESSION: usize = 200;

/// The percentage of conversations in Chinese, Japanese or Korean. Half of the messages in them are
/// code and logs.
const FOREIGN: usize = 33;

/// An endless stream of messages that are the same in every run.
pub(crate) struct Corpus {
    random: Random,
    vocabulary: Vocabulary,
    conversations: Vec<Conversation>,
    sessions: usize,
    calls: usize,
}

struct Conversation {
    session: String,
    language: Language,
    left: usize,
    next: NextMessage,
}

/// The kind of the next message in a conversation.
enum NextMessage {
    User,
    Assistant,
    Result { tool: &'static str, call: String },
}

const TOOLS: [&str; 6] =
    ["read_file", "terminal", "search_files", "write_file", "patch", "web_search"];

impl Corpus {
    pub(crate) fn new() -> Corpus {
        let mut random = Random(0x5eed_0f1e_d9e4_1234);
        let vocabulary = Vocabulary::new(&mut random);
        let mut corpus =
            Corpus { random, vocabulary, conversations: Vec::new(), sessions: 0, calls: 0 };
        corpus.conversations = (0..AT_ONCE).map(|_| corpus.start_conversation()).collect();
        corpus
    }

    pub(crate) fn take_messages(&mut self, count: usize) -> Vec<Message> {
        (0..count).map(|_| self.next_message()).collect()
    }

    fn start_conversation(&mut self) -> Conversation {
        self.sessions += 1;
        let language = match self.random.below(100) {
            foreign if foreign < FOREIGN => {
                [Language::Chinese, Language::Japanese, Language::Korean][foreign % 3]
            }
            _ => Language::English,
        };
        Conversation {
            session: format!("bench:{:06}", self.sessions),
            language,
            left: IN_SESSION / 2 + self.random.below(IN_SESSION),
            next: NextMessage::User,
        }
    }

    pub(crate) fn next_message(&mut self) -> Message {
        let turn = self.random.below(AT_ONCE);
        if self.conversations[turn].left == 0 {
            self.conversations[turn] = self.start_conversation();
        }
        let conversation = &mut self.conversations[turn];
        conversation.left -= 1;
        let (session, language) = (conversation.session.clone(), conversation.language);
        let said = std::mem::replace(&mut conversation.next, NextMessage::Assistant);
        let message = Message {
            session,
            role: "user",
            content: None,
            tool_name: None,
            tool_call_id: None,
            tool_calls: None,
        };
        match said {
            NextMessage::User => Message { content: Some(self.make_question(language)), ..message },
            NextMessage::Result { tool, call } => Message {
                role: "tool",
                content: Some(self.make_result(tool)),
                tool_name: Some(tool),
                tool_call_id: Some(call),
                ..message
            },
            NextMessage::Assistant if self.random.below(100) < 68 => {
                let (tool, call, calls) = self.make_call();
                self.conversations[turn].next = NextMessage::Result { tool, call };
                let says_why = self.random.below(100) < 40;
                let content = says_why.then(|| self.make_prose(language, 140.0, 0.7));
                Message { role: "assistant", content, tool_calls: Some(calls), ..message }
            }
            NextMessage::Assistant => {
                self.conversations[turn].next = NextMessage::User;
                Message { role: "assistant", content: Some(self.make_answer(language)), ..message }
            }
        }
    }

    /// Returns a random length in bytes. One in five hundred is the length of a whole file or a
    /// long log.
    fn random_length(&mut self, median: f64, sigma: f64) -> usize {
        if self.random.below(500) == 0 {
            return 20_000 + self.random.below(80_000);
        }
        self.random.log_normal(median, sigma).clamp(10.0, 50_000.0) as usize
    }

    fn make_prose(&mut self, language: Language, median: f64, sigma: f64) -> String {
        let length = self.random.log_normal(median, sigma).clamp(10.0, 20_000.0) as usize;
        let mut text = String::with_capacity(length + 100);
        while text.len() < length {
            self.vocabulary.push_sentence(language, &mut self.random, &mut text);
        }
        text
    }

    fn make_question(&mut self, language: Language) -> String {
        let mut text = self.make_prose(language, 130.0, 0.9);
        if self.random.below(3) == 0 {
            text += &format!(" {}", self.make_path());
        }
        text
    }

    fn make_answer(&mut self, language: Language) -> String {
        let mut text = self.make_prose(language, 520.0, 0.8);
        if self.random.below(3) == 0 {
            let length = self.random_length(400.0, 0.8).min(4_000);
            text += "\n\n```rust\n";
            text += &self.make_lines(length, Corpus::make_code_line);
            text += "```\n";
        }
        text
    }

    fn make_call(&mut self) -> (&'static str, String, Value) {
        let tool = TOOLS[self.random.below(TOOLS.len())];
        self.calls += 1;
        let id = format!("call_{:08x}{:06}", self.random.next_number() as u32, self.calls);
        let arguments = match tool {
            "terminal" => json!({ "command": self.make_command() }),
            "write_file" => {
                let length = self.random_length(500.0, 0.9);
                json!({ "path": self.make_path(), "content": self.make_lines(length, Corpus::make_code_line) })
            }
            "patch" => {
                let (old, new) =
                    (self.make_lines(120, Corpus::make_code_line), self.make_code_line());
                json!({ "path": self.make_path(), "old_string": old, "new_string": new })
            }
            "read_file" => json!({ "path": self.make_path(), "offset": self.random.below(400) }),
            _ => json!({ "query": self.make_identifier(), "limit": 20 }),
        };
        let function = json!({ "name": tool, "arguments": arguments.to_string() });
        (tool, id.clone(), json!([{ "id": id, "type": "function", "function": function }]))
    }

    fn make_result(&mut self, tool: &str) -> String {
        match tool {
            "write_file" | "patch" => format!("ok: wrote {} bytes to {}", 512, self.make_path()),
            "read_file" => {
                let length = self.random_length(900.0, 1.1);
                self.make_lines(length, Corpus::make_code_line)
            }
            "search_files" => {
                let length = self.random_length(500.0, 1.1);
                self.make_lines(length, Corpus::make_found_line)
            }
            "web_search" => {
                let mut text = self.make_prose(Language::English, 700.0, 0.8);
                text += &format!("\nhttps://docs.{}.org/{}\n", self.pick_word(), self.make_path());
                text
            }
            _ => {
                let length = self.random_length(700.0, 1.2);
                self.make_lines(length, Corpus::make_log_line)
            }
        }
    }

    fn make_lines(&mut self, length: usize, line: fn(&mut Corpus) -> String) -> String {
        let mut text = String::with_capacity(length + 100);
        while text.len() < length {
            text += &line(self);
            text.push('\n');
        }
        text
    }

    fn pick_word(&mut self) -> String {
        self.vocabulary.pick_noun(&mut self.random).to_owned()
    }

    fn make_identifier(&mut self) -> String {
        let (a, b) = (self.pick_word(), self.pick_word());
        match self.random.below(5) {
            0 => a,
            1 => a + &capitalize(&b),
            2 => capitalize(&a) + &capitalize(&b),
            _ => format!("{a}_{b}"),
        }
    }

    fn make_path(&mut self) -> String {
        let folder = ["src", "crates/core/src", "tests", "lib", "app/models"][self.random.below(5)];
        let extension = ["rs", "py", "ts", "go", "md", "json"][self.random.below(6)];
        match self.random.below(4) {
            0 => format!("{folder}/main.{extension}"),
            1 => format!("{folder}/{}/{}.{extension}", self.pick_word(), self.pick_word()),
            _ => format!("{folder}/{}_{}.{extension}", self.pick_word(), self.pick_word()),
        }
    }

    fn make_command(&mut self) -> String {
        match self.random.below(4) {
            0 => format!("cargo test -p {} -- {}", self.pick_word(), self.make_identifier()),
            1 => format!("rg -n \"{}\" {}", self.make_identifier(), self.make_path()),
            2 => format!("git log --oneline -n {} -- {}", self.random.below(50), self.make_path()),
            _ => format!(
                "python -m {} --{}={}",
                self.pick_word(),
                self.pick_word(),
                self.make_path()
            ),
        }
    }

    fn make_code_line(&mut self) -> String {
        let margin = "    ".repeat(self.random.below(4));
        let (a, b) = (self.make_identifier(), self.make_identifier());
        let line = match self.random.below(8) {
            0 => format!("fn {a}({b}: &str) -> Result<{}, Error> {{", self.make_identifier()),
            1 => format!("let mut {a} = {b}.{}(&self.{});", self.pick_word(), self.pick_word()),
            2 => format!("if {a}.len() > {} && !{b} {{", self.random.below(4_096)),
            3 => format!("return Err(Error::{a}({b:?}));"),
            4 => "}".to_owned(),
            5 => format!(
                "// {} the {} of {} is {}",
                capitalize(&a),
                self.pick_word(),
                b,
                self.pick_word()
            ),
            6 => format!(
                "self.{a}.insert(\"{}\", {b}[{}]);",
                self.pick_word(),
                self.random.below(64)
            ),
            _ => format!("assert_eq!({a}.{}(), {b}::{});", self.pick_word(), self.pick_word()),
        };
        margin + &line
    }

    fn make_found_line(&mut self) -> String {
        format!("{}:{}:{}", self.make_path(), 1 + self.random.below(900), self.make_code_line())
    }

    fn make_log_line(&mut self) -> String {
        let (minute, second) = (self.random.below(60), self.random.below(60));
        let time = format!("2026-03-14T{:02}:{minute:02}:{second:02}Z", self.random.below(24));
        match self.random.below(6) {
            0 => format!(
                "{time} INFO {}: {} {}",
                self.pick_word(),
                self.pick_word(),
                self.make_path()
            ),
            1 => format!(
                "{time} WARN retry {} after {} ms",
                self.pick_word(),
                self.random.below(5_000)
            ),
            2 => format!(
                "{:07x} {} {}",
                self.random.next_number() & 0xfff_ffff,
                self.pick_word(),
                self.pick_word()
            ),
            3 => format!("test {}::{} ... ok", self.pick_word(), self.make_identifier()),
            4 => format!("   Compiling {} v0.{}.{}", self.pick_word(), 3, self.random.below(40)),
            _ => {
                let mut text = format!("{time} ERROR ");
                self.vocabulary.push_sentence(Language::English, &mut self.random, &mut text);
                text
            }
        }
    }
}

fn capitalize(word: &str) -> String {
    let mut characters = word.chars();
    characters
        .next()
        .map(|first| first.to_ascii_uppercase())
        .into_iter()
        .chain(characters)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_have_the_intended_lengths_and_languages() {
        let messages = Corpus::new().take_messages(20_000);
        let mean = messages.iter().map(Message::text_length).sum::<usize>() / messages.len();
        assert!((600..680).contains(&mean), "{mean} bytes on average");
        let is_foreign = |message: &&Message| {
            message.content.as_ref().is_some_and(|text| text.chars().any(|c| c > '\u{2fff}'))
        };
        let foreign = messages.iter().filter(is_foreign).count() * 100 / messages.len();
        assert!((12..19).contains(&foreign), "{foreign}% are in Chinese, Japanese or Korean");
        assert!(messages.iter().any(|message| message.text_length() > 50_000));
    }

    #[test]
    fn the_messages_are_always_the_same() {
        let text = |messages: Vec<Message>| {
            messages.iter().map(|message| message.to_json().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(text(Corpus::new().take_messages(500)), text(Corpus::new().take_messages(500)));
    }
}
