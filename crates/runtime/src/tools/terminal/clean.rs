//! The output of a command as a terminal would show it in the end: without colors, and without the
//! earlier states of a progress bar.

/// Removes escape sequences and control characters, and the text that a carriage return overwrites.
pub(super) fn clean_text(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        return text.to_owned();
    }
    let plain = remove_escapes(text);
    let mut clean = String::with_capacity(plain.len());
    for line in plain.split_inclusive('\n') {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => (body, "\n"),
            None => (line, ""),
        };
        let body = body.trim_end_matches('\r');
        clean.extend(
            body.rsplit('\r')
                .next()
                .unwrap_or_default()
                .chars()
                .filter(|c| *c == '\t' || !c.is_control()),
        );
        clean.push_str(end);
    }
    clean
}

/// Removes the escape sequences that control a terminal: colors, cursor movements, titles, links.
fn remove_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        rest = skip_escape(&rest[at + 1..]);
    }
    plain + rest
}

/// Skips the rest of a sequence, after its escape character.
fn skip_escape(text: &str) -> &str {
    match text.chars().next() {
        // Parameters, then a letter.
        Some('[') => {
            let end = text[1..].find(|c: char| !matches!(c, ' '..='?'));
            match end.and_then(|at| text[1 + at..].chars().next().map(|last| (at, last))) {
                Some((at, '@'..='~')) => &text[2 + at..],
                // This is an incomplete sequence, or not a sequence at all.
                Some((at, _)) => &text[1 + at..],
                None => "",
            }
        }
        // A title or a link, up to a bell or a string terminator.
        Some(']' | 'P' | '_' | '^') => match text.find(['\u{7}', '\u{1b}', '\n']) {
            Some(at) => match &text[at..] {
                end if end.starts_with("\u{1b}\\") => &text[at + 2..],
                end if end.starts_with('\u{7}') => &text[at + 1..],
                end => end,
            },
            None => "",
        },
        // The selection of a character set.
        Some('(' | ')') => text.get(2..).unwrap_or_default(),
        Some(c) if c.is_ascii_graphic() => &text[1..],
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_shown_as_a_terminal_shows_it_in_the_end() {
        for (output, shown) in [
            ("plain\n\ttext", "plain\n\ttext"),
            ("\u{1b}[1;31mred\u{1b}[0m text", "red text"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\b", "ab"),
            ("10%\r50%\r100%\ndone", "100%\ndone"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("a\r\r\n", "a\n"),
            ("working\r", "working"),
            ("a\0b\u{7}c\u{8}", "abc"),
            ("\u{1b}(Bx\u{1b}=y", "xy"),
            ("\u{1b}[", ""),
            ("\u{1b}", ""),
            ("\u{1b}[3é", "é"),
            ("\u{1b}é", "é"),
            ("\u{1b}(é", ""),
            ("\u{1b}]cut\nnext", "\nnext"),
        ] {
            assert_eq!(clean_text(output), shown, "{output:?}");
        }
    }
}
