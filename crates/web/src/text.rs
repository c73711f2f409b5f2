//! Text for people: times, counts and names.

use takeback_base::text::is_armed;
use takeback_tree::RelPath;
pub(crate) use takeback_undo::view::text::*;

/// Formats a path as JSON for an attribute, with hostile characters escaped.
pub(crate) fn path_json(path: &RelPath) -> String {
    let json = serde_json::to_string(path).expect("a path becomes JSON");
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        // All these characters are in the Basic Multilingual Plane, so one escape is enough for
        // each.
        if is_armed(character) {
            shown.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_as_json_is_read_back_unchanged() {
        for name in ["plain", "a\u{202e}b", "line\nbreak", "\"<>\\"] {
            let path = RelPath::new(name.as_bytes()).unwrap();
            let json = path_json(&path);
            assert!(!json.contains(is_armed), "{json}");
            assert_eq!(serde_json::from_str::<RelPath>(&json).unwrap(), path);
        }
    }
}
