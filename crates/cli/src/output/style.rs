//! The colors of text. Text is always painted; the streams in [`super`] strip the colors where they
//! are not wanted.

use anstyle::{AnsiColor, Style as Ansi};

/// The kind of a piece of text, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Id,
    Faint,
    Good,
    Bad,
    Warning,
    /// A line that an edit added or removed.
    Added,
    Removed,
    /// Words that a search found.
    Match,
    /// A turn that was taken back.
    TakenBack,
    /// A heading, or the word `hint` or `Usage` at the beginning of a line.
    Label,
}

impl Style {
    fn to_ansi(self) -> Ansi {
        match self {
            Style::Id | Style::Warning => AnsiColor::Yellow.on_default(),
            Style::Faint => Ansi::new().dimmed(),
            Style::TakenBack => Ansi::new().dimmed().strikethrough(),
            Style::Good | Style::Added => AnsiColor::Green.on_default(),
            Style::Bad | Style::Removed => AnsiColor::Red.on_default(),
            Style::Match | Style::Label => Ansi::new().bold(),
        }
    }
}

/// Returns the text with the color of this style.
pub(crate) fn paint(style: Style, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let ansi = style.to_ansi();
    format!("{ansi}{text}{ansi:#}")
}
