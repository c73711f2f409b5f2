//! The text of an HTML page, without its markup.

/// Elements whose content is not text.
const HIDDEN: &[&str] = &["head", "noscript", "script", "style", "svg", "template"];

/// Elements whose start and end tags break the line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tr",
    "ul",
];

/// The most common named character references.
const CHARACTERS: &[(&str, &str)] = &[
    ("amp", "&"),
    ("apos", "'"),
    ("bull", "•"),
    ("copy", "©"),
    ("gt", ">"),
    ("hellip", "…"),
    ("laquo", "«"),
    ("ldquo", "“"),
    ("lsquo", "‘"),
    ("lt", "<"),
    ("mdash", "—"),
    ("middot", "·"),
    ("nbsp", " "),
    ("ndash", "–"),
    ("quot", "\""),
    ("raquo", "»"),
    ("rdquo", "”"),
    ("rsquo", "’"),
    ("times", "×"),
];

/// Returns the text of a page. Malformed pages are accepted, too.
pub(super) fn to_text(html: &str) -> String {
    let mut text = PageText::default();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        text.push(&rest[..at]);
        rest = &rest[at..];
        let Some(tag) = Tag::parse(rest) else {
            text.push("<");
            rest = &rest[1..];
            continue;
        };
        rest = &rest[tag.length..];
        text.push_tag(&tag);
        if !tag.is_end && HIDDEN.contains(&tag.name.as_str()) {
            rest = skip_element(rest, &tag.name);
        }
    }
    text.push(rest);
    text.finish()
}

struct Tag {
    name: String,
    is_end: bool,
    length: usize,
}

impl Tag {
    /// Parses the tag or comment at the start of a text.
    fn parse(text: &str) -> Option<Tag> {
        if text.starts_with("<!--") {
            let length = text.find("-->").map_or(text.len(), |at| at + 3);
            return Some(Tag { name: String::new(), is_end: false, length });
        }
        let inner = text[1..].trim_start_matches('/');
        let is_tag = inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '!' | '?'));
        if !is_tag {
            return None;
        }
        let end = inner.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(inner.len());
        Some(Tag {
            name: inner[..end].to_ascii_lowercase(),
            is_end: text.starts_with("</"),
            length: find_tag_end(text),
        })
    }
}

/// Returns the length of the tag at the start of a text. A `>` in quotes does not end it.
fn find_tag_end(text: &str) -> usize {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (byte, quote) {
            (b'>', None) => return at + 1,
            (b'"' | b'\'', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    // A quote that is not closed is ignored, so that the rest of the page stays visible.
    text.find('>').map_or(text.len(), |at| at + 1)
}

/// Returns the text after the end tag of a hidden element.
fn skip_element<'t>(text: &'t str, name: &str) -> &'t str {
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        rest = &rest[at..];
        let is_end = rest.get(2..2 + name.len()).is_some_and(|end| end.eq_ignore_ascii_case(name));
        if is_end {
            return &rest[find_tag_end(rest)..];
        }
        rest = &rest[2..];
    }
    ""
}

/// Text in which runs of spaces become one space, except in `<pre>`.
#[derive(Default)]
struct PageText {
    text: String,
    preformatted: usize,
}

impl PageText {
    fn push(&mut self, text: &str) {
        let text = decode_characters(text);
        if self.preformatted > 0 {
            return self.text.push_str(&text);
        }
        for c in text.chars() {
            let is_space = c.is_whitespace();
            if !is_space {
                self.text.push(c);
            } else if !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) {
                self.text.push(' ');
            }
        }
    }

    fn push_tag(&mut self, tag: &Tag) {
        let name = tag.name.as_str();
        if BLOCKS.contains(&name) && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        match (name, tag.is_end) {
            ("pre", false) => self.preformatted += 1,
            ("pre", true) => self.preformatted = self.preformatted.saturating_sub(1),
            ("li", false) => self.text.push_str("- "),
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                let level = name[1..].parse().unwrap_or(1);
                self.text.push_str(&format!("\n{} ", "#".repeat(level)));
            }
            ("p" | "table" | "ul" | "ol", true) => self.text.push('\n'),
            ("td" | "th", true) => self.text.push('\t'),
            _ => {}
        }
    }

    /// Returns the text without spaces at the ends of lines, and with at most one empty line in a
    /// row.
    fn finish(self) -> String {
        let mut clean = String::with_capacity(self.text.len());
        for line in self.text.lines().map(str::trim_end) {
            if !line.is_empty() || !(clean.is_empty() || clean.ends_with("\n\n")) {
                clean.push_str(line);
                clean.push('\n');
            }
        }
        clean.truncate(clean.trim_end().len());
        clean
    }
}

/// Decodes references such as `&amp;` and `&#38;`. Leaves unknown names as they are.
fn decode_characters(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        let name = rest[1..].split_once(';').map(|(name, _)| name).filter(|name| name.len() <= 10);
        match name.and_then(|name| Some((name.len() + 2, decode_character(name)?))) {
            Some((length, character)) => {
                decoded.push_str(&character);
                rest = &rest[length..];
            }
            None => {
                decoded.push('&');
                rest = &rest[1..];
            }
        }
    }
    decoded + rest
}

fn decode_character(name: &str) -> Option<String> {
    let Some(number) = name.strip_prefix('#') else {
        let known = CHARACTERS.iter().find(|(known, _)| *known == name);
        return known.map(|(_, text)| (*text).to_owned());
    };
    let number = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => number.parse().ok()?,
    };
    char::from_u32(number).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_readable_text() {
        let page = "<!doctype html><html><head><title>T</title><style>p{}</style></head><body>\
            <h1>Title</h1><script>if (a < b) { x(\"</p>\") }</script>\n\n  <p>One   two\nthree.</p>\
            <ul><li>a</li><li>b &amp; c</li></ul><pre>x\n  y</pre><a href='x>y'>link</a></body>";
        assert_eq!(to_text(page), "# Title\nOne two three.\n\n- a\n- b & c\n\nx\n  y\nlink");
    }

    #[test]
    fn character_references_are_decoded() {
        for (html, text) in [
            ("a&lt;b&gt;c", "a<b>c"),
            ("&#65;&#x42;&quot;", "AB\""),
            ("AT&T &nosuch; & &;", "AT&T &nosuch; & &;"),
            ("&#xffffffff; &#55296;", "&#xffffffff; &#55296;"),
            ("a&nbsp;b", "a b"),
        ] {
            assert_eq!(to_text(html), text, "{html}");
        }
    }

    #[test]
    fn broken_markup_hides_nothing() {
        for (html, text) in [
            ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
            ("a <b class=\"x>y</b> z", "a y z"),
            ("<", "<"),
            ("a<", "a<"),
            ("a</", "a</"),
            ("<p", ""),
            ("a<!-- b", "a"),
            ("a<!-- b -->c", "ac"),
            ("<script>x", ""),
            ("é<é>ü", "é<é>ü"),
            ("</pre></pre>a  b", "a b"),
        ] {
            assert_eq!(to_text(html), text, "{html}");
        }
    }
}
