//! `takeback help TOPIC`: shows a section of the book's chapter about concepts.

use std::process::ExitCode;

use crate::output::{self, Size, render_markdown};

/// The chapter whose sections are the topics.
const CONCEPTS: &str = include_str!("../../../docs/concepts.md");

/// The maximum width of text. Longer lines are hard to read.
const WIDEST: usize = 88;

/// Returns the names of all topics.
pub(crate) fn names() -> Vec<String> {
    sections().map(|(name, _)| name).collect()
}

/// Returns the topics with their texts.
fn sections() -> impl Iterator<Item = (String, &'static str)> {
    CONCEPTS.split("\n## ").skip(1).map(|section| {
        let (title, text) = section.split_once('\n').unwrap_or((section, ""));
        (title.to_lowercase(), text.trim())
    })
}

/// Prints a topic. Returns `None` if there is no topic with this name.
pub(crate) fn print(name: &str, json: bool) -> Option<ExitCode> {
    let (name, text) = sections().find(|(known, _)| known == &name.to_lowercase())?;
    if json {
        output::print_json(&serde_json::json!({ "topic": name, "text": text }));
        return Some(ExitCode::SUCCESS);
    }
    match Size::of(std::io::stdout()) {
        Some(size) => {
            render_markdown(text, size.columns.min(WIDEST))
                .iter()
                .for_each(|line| println!("{line}"));
        }
        // A program reads Markdown more easily than text for a terminal.
        None => println!("{text}"),
    }
    Some(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn a_topic_is_one_word_and_not_the_name_of_a_command() {
        let names = names();
        assert!(names.len() >= 8, "{names:?}");
        for name in names {
            assert!(!name.contains(char::is_whitespace), "{name}");
            assert!(Arguments::command().find_subcommand(&name).is_none(), "{name}");
        }
    }
}
