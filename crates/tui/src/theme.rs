//! The colors and signs that the screens use, and their meanings.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use takeback_undo::view::Token;
use takeback_undo::view::text::agent_hue;

/// The colors that the terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// No colors: the user does not want them, or the terminal has none.
    None,
    /// The sixteen colors of the user's theme.
    Basic,
    /// 256 colors. Only the names of agents need more than sixteen.
    Many,
}

/// The colors and characters that the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// The colors that the terminal has.
    pub colors: Colors,
    /// True if the terminal shows characters other than ASCII.
    pub is_unicode: bool,
}

/// The kind of a piece of text, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    Strong,
    Faint,
    Added,
    Removed,
    Warning,
    Here,
    /// A key that the user can press, or the chosen tab.
    Key,
    /// A word that a filter or a search found.
    Match,
    /// A turn that was taken back.
    TakenBack,
    /// A changed word within an added or removed line.
    AddedWord,
    RemovedWord,
}

/// The colors of agents, for terminals with 256 colors. They are as different from each other as
/// possible, on dark and on light backgrounds.
const HUES: [u8; 12] = [173, 72, 68, 134, 37, 104, 137, 167, 107, 31, 169, 65];

/// The colors of agents, for terminals with sixteen colors.
const BASIC_HUES: [Color; 4] = [Color::Magenta, Color::Cyan, Color::Blue, Color::LightMagenta];

impl Theme {
    /// Returns the style for a kind of text.
    pub(crate) fn style(self, ink: Ink) -> Style {
        let plain = Style::new();
        let color = |color: Color| match self.colors {
            Colors::None => plain,
            _ => plain.fg(color),
        };
        match ink {
            Ink::Text => plain,
            Ink::Strong => plain.add_modifier(Modifier::BOLD),
            Ink::Faint => plain.add_modifier(Modifier::DIM),
            Ink::Added => color(Color::Green),
            Ink::Removed => color(Color::Red),
            Ink::Warning => color(Color::Yellow),
            Ink::Here => color(Color::Cyan).add_modifier(Modifier::BOLD),
            Ink::Key => color(Color::Cyan),
            Ink::Match => plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            Ink::TakenBack => plain.add_modifier(Modifier::DIM | Modifier::CROSSED_OUT),
            Ink::AddedWord => {
                color(Color::Green).add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
            }
            Ink::RemovedWord => {
                color(Color::Red).add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
            }
        }
    }

    /// Returns the style of an agent's name.
    pub(crate) fn agent(self, agent: &str) -> Style {
        let hue = agent_hue(agent);
        match self.colors {
            Colors::None => Style::new(),
            Colors::Basic => Style::new().fg(BASIC_HUES[hue % BASIC_HUES.len()]),
            Colors::Many => Style::new().fg(Color::Indexed(HUES[hue % HUES.len()])),
        }
    }

    /// Returns the style for a kind of token.
    pub(crate) fn token(self, token: Token) -> Style {
        let color = match (self.colors, token) {
            (Colors::None, Token::Comment) => return self.style(Ink::Faint),
            (Colors::None, _) | (_, Token::Plain) => return Style::new(),
            (_, Token::Comment) => return self.style(Ink::Faint),
            (_, Token::Text) => Color::Yellow,
            (_, Token::Number) => Color::Cyan,
            (_, Token::Keyword) => Color::Magenta,
            (_, Token::Type | Token::Key) => Color::Blue,
            (_, Token::Call) => Color::Cyan,
        };
        Style::new().fg(color)
    }

    /// Replaces all characters that the terminal cannot show.
    pub(crate) fn restrict(self, buffer: &mut Buffer) {
        if self.is_unicode {
            return;
        }
        for cell in &mut buffer.content {
            if !cell.symbol().is_ascii() {
                cell.set_symbol(to_ascii(cell.symbol()));
            }
        }
    }
}

/// Returns the closest ASCII character.
fn to_ascii(symbol: &str) -> &'static str {
    match symbol {
        "●" => "*",
        "○" => "o",
        "◆" => "#",
        "◇" => "%",
        "⚠" => "!",
        "−" | "─" | "—" | "–" => "-",
        "│" | "▌" => "|",
        "┴" | "┼" => "+",
        "…" => "~",
        "“" | "”" => "\"",
        "’" | "‘" => "'",
        "·" => ".",
        "→" | "▸" => ">",
        "←" => "<",
        "↑" => "^",
        "↓" | "▾" => "v",
        "•" => "*",
        "✓" => "x",
        "×" => "x",
        _ => "?",
    }
}
