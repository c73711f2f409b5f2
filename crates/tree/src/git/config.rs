//! Git's configuration files, in the form in which git itself writes them.

use bstr::ByteSlice;

/// Returns the last value of a setting in a section without a subsection.
pub(super) fn find_setting(config: &[u8], section: &str, name: &str) -> Option<String> {
    let mut is_in_section = false;
    let mut value = None;
    for line in config.lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix(b"[") {
            let end = rest.find_byte(b']')?;
            is_in_section = rest[..end].eq_ignore_ascii_case(section.as_bytes());
            line = rest[end + 1..].trim();
        }
        let Some((key, text)) = line.split_once_str("=").filter(|_| is_in_section) else {
            continue;
        };
        if key.trim().eq_ignore_ascii_case(name.as_bytes()) {
            value = Some(unquote_value(&text.trim().to_str_lossy()));
        }
    }
    value
}

/// Removes the quotes, the escapes and the comment from a value.
fn unquote_value(text: &str) -> String {
    let (mut value, mut is_quoted) = (String::new(), false);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            '\\' => value.extend(characters.next()),
            '#' | ';' if !is_quoted => break,
            _ => value.push(character),
        }
    }
    value.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_git_writes_them() {
        let config = b"[core]\n\tbare = false\n\tworktree = \"/a b#\\\"c\" ; x\n\
            [Extensions] objectFormat = sha256\n[extensions \"x\"]\n\tobjectformat = other\n";
        assert_eq!(find_setting(config, "extensions", "objectformat").as_deref(), Some("sha256"));
        assert_eq!(find_setting(config, "core", "worktree").as_deref(), Some("/a b#\"c"));
        assert_eq!(find_setting(config, "core", "objectformat"), None);
    }
}
