//! Making untrusted text safe to show on a terminal, and recognizing mistyped names.

/// True if a terminal interprets this character instead of showing it: the character controls the
/// terminal, breaks the line, or reorders the text around it.
pub fn is_armed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}')
}

/// Escapes the characters that a terminal would interpret. Escaping the result again changes
/// nothing.
pub fn disarm(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_armed(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// Appends one line to `text`. Escapes control characters, so that a file name cannot start a new
/// line.
pub fn push_line(text: &mut String, line: &str) {
    text.push_str(&disarm(line));
    text.push('\n');
}

/// Formats a number of bytes: `1.2 MB`.
pub fn format_bytes(size: u64) -> String {
    match size {
        0..1_000 => format!("{size} B"),
        1_000..1_000_000 => format!("{:.1} kB", size as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", size as f64 / 1e6),
        _ => format!("{:.1} GB", size as f64 / 1e9),
    }
}

/// Finds the name that is most similar to a mistyped one. Returns `None` if no name is similar
/// enough.
pub fn find_similar<'n>(typed: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    find_similar_at_least(0.7, typed, names)
}

/// Finds the name that is most similar to `typed`, if the similarity (from 0 to 1) is at least
/// `least`. If several names are equally similar, returns the last one.
pub fn find_similar_at_least<'n>(
    least: f64,
    typed: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let typed = typed.to_lowercase();
    let rated = names.into_iter().map(|name| (strsim::jaro(&typed, &name.to_lowercase()), name));
    let best = rated.max_by(|left, right| left.0.total_cmp(&right.0));
    best.filter(|(similarity, _)| *similarity >= least).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disarming_disarmed_text_changes_nothing() {
        let once = disarm("a\u{1b}[31mb\u{202e}c");
        assert_eq!(once, "a\\u{1b}[31mb\\u{202e}c");
        assert_eq!(disarm(&once), once);
    }

    #[test]
    fn line_breaks_and_direction_marks_are_escaped() {
        for character in ['\u{7f}', '\u{85}', '\u{9b}', '\u{61c}', '\u{2028}', '\u{2029}'] {
            assert!(is_armed(character), "{character:?}");
        }
        // Joiners are kept, because emoji and several scripts need them.
        assert_eq!(disarm("é 中 \u{200d}"), "é 中 \u{200d}");
    }

    #[test]
    fn a_mistyped_name_is_recognized() {
        let names = ["anthropic", "openai", "openrouter", "llamacpp"];
        for (typed, meant) in [
            ("antropic", Some("anthropic")),
            ("OpenAI", Some("openai")),
            ("llama.cpp", Some("llamacpp")),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(find_similar(typed, names), meant, "{typed}");
        }
    }
}
