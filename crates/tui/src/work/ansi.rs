//! Text with control sequences for colors, as styled lines.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Converts a line. All control sequences except those for colors are dropped.
pub(super) fn parse_line(text: &str, has_colors: bool) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = Style::new();
    let mut rest = text;
    while let Some(start) = rest.find('\u{1b}') {
        if start > 0 {
            spans.push(Span::styled(rest[..start].to_owned(), style));
        }
        rest = &rest[start + 1..];
        let Some(sequence) = rest.strip_prefix('[') else { continue };
        let end = sequence.find(|end: char| ('\u{40}'..='\u{7e}').contains(&end));
        let Some(end) = end else {
            rest = "";
            break;
        };
        if sequence[end..].starts_with('m') {
            sequence[..end].split(';').for_each(|code| apply_code(&mut style, code, has_colors));
        }
        rest = &sequence[end + 1..];
    }
    if !rest.is_empty() {
        spans.push(Span::styled(rest.to_owned(), style));
    }
    Line::from(spans)
}

fn apply_code(style: &mut Style, code: &str, has_colors: bool) {
    const COLORS: [Color; 8] = [
        Color::Black,
        Color::Red,
        Color::Green,
        Color::Yellow,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Gray,
    ];
    let modifier = match code.parse().unwrap_or(0_usize) {
        0 => return *style = Style::new(),
        1 => Modifier::BOLD,
        2 => Modifier::DIM,
        3 => Modifier::ITALIC,
        4 => Modifier::UNDERLINED,
        7 => Modifier::REVERSED,
        9 => Modifier::CROSSED_OUT,
        color @ 30..=37 if has_colors => return *style = style.fg(COLORS[color - 30]),
        39 => return *style = style.fg(Color::Reset),
        _ => return,
    };
    *style = style.add_modifier(modifier);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_become_styles_and_other_sequences_are_dropped() {
        let line = parse_line("a\u{1b}[1;31mb\u{1b}[0mc\u{1b}[2Kd\u{1b}", true);
        let spans: Vec<(&str, Style)> =
            line.spans.iter().map(|span| (&*span.content, span.style)).collect();
        let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        let plain = Style::new();
        assert_eq!(spans, [("a", plain), ("b", red), ("c", plain), ("d", plain)]);
    }

    #[test]
    fn without_colors_bold_text_stays_bold() {
        let line = parse_line("\u{1b}[1;31mb", false);
        assert_eq!(line.spans[0].style, Style::new().add_modifier(Modifier::BOLD));
    }
}
