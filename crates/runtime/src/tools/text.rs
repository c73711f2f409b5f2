//! Text in files and results: line endings, binary content, cutting to size.

/// The number of bytes at the start of a file that are checked to decide whether it is text.
pub(super) const SNIFFED: usize = 8192;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The first bytes of well-known kinds of binary files.
const KINDS: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (b"\x7fELF", "ELF program"),
    (b"\0asm", "WebAssembly module"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

/// Determines the kind of a binary file from its first bytes. Returns `None` for text.
pub(super) fn find_binary_kind(start: &[u8]) -> Option<&'static str> {
    let start = &start[..start.len().min(SNIFFED)];
    let kind = KINDS.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, kind)| *kind);
    kind.or_else(|| start.contains(&0).then_some("binary file"))
}

/// Returns true if a text has line endings and all of them are CRLF.
pub(super) fn has_crlf(text: &[u8]) -> bool {
    let mut ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').peekable();
    ends.peek().is_some() && ends.all(|(at, _)| at > 0 && text[at - 1] == b'\r')
}

/// Replaces all line endings with CRLF.
pub(super) fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Gives new content the line endings and the byte order mark of the content that it replaces.
/// Models normally write neither CRLF nor a byte order mark.
pub(super) fn keep_conventions(content: &str, replaced: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    if replaced.starts_with(BYTE_ORDER_MARK) && !content.as_bytes().starts_with(BYTE_ORDER_MARK) {
        kept.extend_from_slice(BYTE_ORDER_MARK);
    }
    match has_crlf(replaced) {
        true => kept.extend_from_slice(to_crlf(content).as_bytes()),
        false => kept.extend_from_slice(content.as_bytes()),
    }
    kept
}

/// Removes the byte order mark, which would only confuse models.
pub(super) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Truncates text to at most `max` bytes, at a character boundary.
pub(super) fn cut_text(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or_default()]
}

/// Formats a number with its noun: `1 line`, `2 lines`.
pub(super) fn count_noun(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ if noun.ends_with("ch") => format!("{number} {noun}es"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_files_are_recognized_by_their_first_bytes() {
        for (start, kind) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], Some("PNG image")),
            (b"PK\x03\x04", Some("ZIP archive")),
            (b"\xff\xfeh\0i\0", Some("UTF-16 text")),
            (b"a\0b", Some("binary file")),
            (b"caf\xe9", None),
            (b"", None),
            (b"PKZIP is a program", None),
        ] {
            assert_eq!(find_binary_kind(start), kind, "{start:?}");
        }
        let late = [vec![b'a'; SNIFFED], vec![0]].concat();
        assert_eq!(find_binary_kind(&late), None);
    }

    #[test]
    fn crlf_line_endings_are_kept_only_if_all_line_endings_are_crlf() {
        for (text, is_crlf) in [
            (&b"a\r\nb\r\n"[..], true),
            (b"a\r\nb", true),
            (b"a\r\nb\n", false),
            (b"\na\r\n", false),
            (b"a", false),
            (b"", false),
        ] {
            assert_eq!(has_crlf(text), is_crlf, "{text:?}");
        }
        assert_eq!(keep_conventions("x\ny\r\n", b"a\r\n"), b"x\r\ny\r\n");
        assert_eq!(keep_conventions("x\n", b"a\nb\r\n"), b"x\n");
        assert_eq!(keep_conventions("x\n", b"\xef\xbb\xbfa\n"), b"\xef\xbb\xbfx\n");
        assert_eq!(keep_conventions("\u{feff}x", b"\xef\xbb\xbfa"), b"\xef\xbb\xbfx");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut_text("aéb", 2), "a");
        assert_eq!(cut_text("aéb", 3), "aé");
        assert_eq!(cut_text("aéb", 9), "aéb");
    }
}
