//! Removes a setting from the text of config.toml, and leaves every other line unchanged.

use toml_edit::{Document, DocumentMut, Item, TableLike};

/// Removes the lines of a setting. Returns `None` if the remaining text would not have the same
/// settings as `expected`, for example because the setting shares a line with others.
pub(super) fn remove_setting(text: &str, path: &[&str], expected: &DocumentMut) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let [tables @ .., name] = path else { return None };
    let mut table: &dyn TableLike = document.as_table();
    for inner in tables {
        table = table.get(inner)?.as_table_like()?;
    }
    let (key, value) = table.get_key_value(name)?;
    let (start, end) = (key.span()?.start, value.span()?.end);
    let start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
    let left = join(&text[..start], &text[end..]);
    let changed: DocumentMut = left.parse().ok()?;
    (list_values(&changed) == list_values(expected)).then_some(left)
}

/// Joins the text before and after a setting. If the setting's table becomes empty, also removes
/// the table's heading.
fn join(before: &str, after: &str) -> String {
    let line =
        before.strip_suffix('\n').map_or(0, |before| before.rfind('\n').map_or(0, |at| at + 1));
    let (above, heading) = before.split_at(line);
    let next = after.trim_start();
    if !heading.starts_with('[') || !(next.is_empty() || next.starts_with('[')) {
        return format!("{before}{after}");
    }
    match next.is_empty() {
        true if above.trim().is_empty() => String::new(),
        true => format!("{}\n", above.trim_end()),
        false => format!("{above}{next}"),
    }
}

/// Lists all values with their keys, without layout and comments.
fn list_values(document: &DocumentMut) -> Vec<(Vec<String>, String)> {
    let mut values = Vec::new();
    add_values(&mut values, &[], document.as_table());
    values
}

fn add_values(values: &mut Vec<(Vec<String>, String)>, above: &[String], table: &dyn TableLike) {
    for (name, item) in table.iter() {
        let path = [above, &[name.to_owned()]].concat();
        match (item.as_table_like(), item) {
            (Some(table), _) => add_values(values, &path, table),
            (None, Item::Value(value)) => {
                let mut value = value.clone();
                value.decor_mut().clear();
                values.push((path, value.to_string()));
            }
            (None, item) => values.push((path, item.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, path: &[&str], left: Option<&str>) {
        let mut expected: DocumentMut = text.parse().unwrap();
        let mut table: &mut dyn TableLike = expected.as_table_mut();
        let [tables @ .., name] = path else { unreachable!() };
        for inner in tables {
            table = table.get_mut(inner).unwrap().as_table_like_mut().unwrap();
        }
        table.remove(name);
        assert_eq!(remove_setting(text, path, &expected).as_deref(), left);
    }

    #[test]
    fn only_the_lines_of_the_setting_are_removed() {
        check(
            "# mine\n[a]\n# why\nx = 1 # one\ny = 2\n",
            &["a", "x"],
            Some("# mine\n[a]\n# why\ny = 2\n"),
        );
        check("[a]\nx = [\n  1, # one\n  2,\n]\n# end\n", &["a", "x"], Some("[a]\n# end\n"));
        check("a.x = 1", &["a", "x"], Some(""));
        check("[a]\nx = 1\n\n[b]\ny = 2\n", &["a", "x"], Some("[b]\ny = 2\n"));
    }

    #[test]
    fn the_heading_of_an_empty_table_is_removed_as_well() {
        check("# mine\n[b]\ny = 2\n\n[a]\nx = 1\n", &["a", "x"], Some("# mine\n[b]\ny = 2\n"));
        check("# why\n[a]\nx = 1\n", &["a", "x"], Some("# why\n"));
    }

    #[test]
    fn a_setting_that_shares_its_line_is_kept() {
        check("a = { x = 1, y = 2 }\n", &["a", "x"], None);
    }
}
