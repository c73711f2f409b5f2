//! Masks secrets in text: keys, tokens, passwords.
//!
//! One pass of an automaton looks for the keywords of all [`rules`]; only where one stands is the
//! expression of its rule tried. So text without secrets costs little more than reading it.
//!
//! A mask too many destroys a record, a mask too few tells a secret. Exact formats are therefore
//! taken at their word, and guesses by name only if the value looks random: see [`value`].

mod pem;
mod rules;
#[cfg(test)]
mod tests;
mod value;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;
use serde_json::Value;

use rules::{Place, RULES, Rule, Test};

/// How a mask starts. After the rule's id comes a `]`.
const MASK: &str = "[redacted:";

/// How often a mask may bring another secret to light, such as a key that seemed to go on.
const PASSES: usize = 8;

/// How often one rule is tried in one run of token characters. More keywords in a run are noise,
/// and trying all of them would take quadratic time.
const TRIES_PER_RUN: u8 = 8;

/// How far an expression that does not start at its keyword may look ahead.
const AHEAD: usize = 200;

/// Texts up to this length are searched for keywords one by one first: most have none, and making
/// the automaton for a single short text takes longer than all else that a hook does with it.
const SHORT: usize = 2000;

/// Finds secrets and masks them. Cheap to keep, costly to make: make one.
#[derive(Debug)]
pub struct Redactor {
    /// Made when it is first needed.
    keywords: OnceLock<Keywords>,
    /// For each rule, made when its keyword is first met: most are never needed.
    regexes: Vec<OnceLock<Regex>>,
}

impl Default for Redactor {
    fn default() -> Redactor {
        Redactor::new()
    }
}

impl Redactor {
    /// The one that the ledger uses itself.
    pub fn shared() -> &'static Redactor {
        static SHARED: LazyLock<Redactor> = LazyLock::new(Redactor::new);
        &SHARED
    }

    /// Knows all the rules.
    pub fn new() -> Redactor {
        let regexes = RULES.iter().map(|_| OnceLock::new()).collect();
        Redactor { keywords: OnceLock::new(), regexes }
    }

    /// The text with each secret masked; borrowed if there is none.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(mut masked) = self.pass(text) else { return Cow::Borrowed(text) };
        for _ in 1..PASSES {
            match self.pass(&masked) {
                Some(again) => masked = again,
                None => break,
            }
        }
        Cow::Owned(masked)
    }

    /// Every string in a JSON value, in place. Keys are kept.
    ///
    /// A string whose key calls it a secret is masked as a whole if it looks like one.
    pub fn json(&self, value: &mut Value) {
        match value {
            Value::String(string) => self.string(string),
            Value::Array(values) => values.iter_mut().for_each(|value| self.json(value)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match value {
                        Value::String(string) => self.field(key, string),
                        other => self.json(other),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn field(&self, key: &str, string: &mut String) {
        self.string(string);
        let named = RULES.iter().find(|rule| value::is_named(rule, key, string));
        if let Some(rule) = named {
            *string = mask_of(rule);
        }
    }

    fn string(&self, string: &mut String) {
        if let Cow::Owned(masked) = self.text(string) {
            *string = masked;
        }
    }

    fn pass(&self, text: &str) -> Option<String> {
        let secrets = self.find(text);
        (!secrets.is_empty()).then(|| masked(text, &secrets))
    }

    /// All secrets, by where they start.
    fn find(&self, text: &str) -> Vec<Secret> {
        if self.keywords.get().is_none() && text.len() <= SHORT && !has_keyword(text) {
            return Vec::new();
        }
        let mut search = Search::new(self, text);
        let Keywords { automaton, rules_of } = self.keywords.get_or_init(Keywords::new);
        for hit in automaton.find_overlapping_iter(text) {
            for &rule in &rules_of[hit.pattern().as_usize()] {
                search.try_rule(rule, hit.start()..hit.end());
            }
        }
        search.secrets.sort_by_key(|secret| (secret.span.start, secret.rule));
        search.secrets
    }

    fn regex(&self, rule: usize) -> &Regex {
        self.regexes[rule].get_or_init(|| {
            let Rule { regex, place, .. } = &RULES[rule];
            let anchored = match place {
                Place::Around(_) => (*regex).to_owned(),
                _ => format!("^(?:{regex})"),
            };
            Regex::new(&anchored).expect("a test makes the expression of each rule")
        })
    }
}

/// Looks for the keywords of all rules at once.
#[derive(Debug)]
struct Keywords {
    automaton: AhoCorasick,
    /// For each keyword, the rules that it starts.
    rules_of: Vec<Vec<usize>>,
}

impl Keywords {
    fn new() -> Keywords {
        let mut words: Vec<&str> = Vec::new();
        let mut rules_of: Vec<Vec<usize>> = Vec::new();
        for (index, rule) in RULES.iter().enumerate() {
            for keyword in rule.keywords {
                match words.iter().position(|word| word.eq_ignore_ascii_case(keyword)) {
                    Some(known) => rules_of[known].push(index),
                    None => {
                        words.push(keyword);
                        rules_of.push(vec![index]);
                    }
                }
            }
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&words)
            .expect("the table of rules is small");
        Keywords { automaton, rules_of }
    }
}

/// Whether a text has any keyword of any rule.
fn has_keyword(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut keywords = RULES.iter().flat_map(|rule| rule.keywords);
    keywords.any(|keyword| {
        // Most are written as they are looked for.
        if keyword.bytes().any(|byte| byte.is_ascii_uppercase()) {
            text.contains(&keyword.to_ascii_lowercase())
        } else {
            text.contains(keyword)
        }
    })
}

/// A secret that was found.
struct Secret {
    span: Range<usize>,
    /// Its place in the table.
    rule: usize,
}

/// One pass over one text.
struct Search<'r, 't> {
    redactor: &'r Redactor,
    text: &'t str,
    secrets: Vec<Secret>,
    /// Masks that are in the text already; `None` until someone asks.
    masks: Option<Vec<Range<usize>>>,
    /// By rule; empty until the first is tried.
    progress: Vec<Progress>,
}

/// How far a rule got.
#[derive(Clone, Default)]
struct Progress {
    /// Where its last secret ends.
    done: usize,
    /// Where the run of token characters ends in which it was last tried.
    run_end: usize,
    tries: u8,
}

impl<'r, 't> Search<'r, 't> {
    fn new(redactor: &'r Redactor, text: &'t str) -> Search<'r, 't> {
        Search { redactor, text, secrets: Vec::new(), masks: None, progress: Vec::new() }
    }

    fn try_rule(&mut self, index: usize, keyword: Range<usize>) {
        let rule = &RULES[index];
        // This alone sorts out nearly all hits in plain text: `task-` has no `sk-`.
        if rule.place == Place::Start && !self.may_start(rule, &keyword) {
            return;
        }
        if !self.is_due(index, keyword.start) {
            return;
        }
        if let Some(span) = self.secret_at(index, &keyword)
            && span.start >= self.progress[index].done
            && !self.touches_mask(&span, &keyword)
        {
            self.progress[index].done = span.end;
            self.progress[index].tries = 0;
            self.secrets.push(Secret { span, rule: index });
        }
    }

    fn may_start(&self, rule: &Rule, keyword: &Range<usize>) -> bool {
        rule.keywords.contains(&&self.text[keyword.clone()])
            && starts_word(self.text, keyword.start)
    }

    /// False within a secret of this rule, or where it was tried too often.
    fn is_due(&mut self, index: usize, at: usize) -> bool {
        if self.progress.is_empty() {
            self.progress = vec![Progress::default(); RULES.len()];
        }
        let progress = &mut self.progress[index];
        if at < progress.done {
            return false;
        }
        if RULES[index].place == Place::Block {
            return true;
        }
        if at >= progress.run_end {
            progress.run_end = run_end(self.text, at);
            progress.tries = 0;
        }
        progress.tries = progress.tries.saturating_add(1);
        progress.tries <= TRIES_PER_RUN
    }

    fn secret_at(&self, index: usize, keyword: &Range<usize>) -> Option<Range<usize>> {
        let rule = &RULES[index];
        let span = match rule.place {
            Place::Start | Place::Before | Place::Around(_) => self.matched(index, keyword)?,
            Place::Name | Place::Option => self.named(index, keyword)?,
            Place::Block => return self.block(index, keyword),
        };
        let ends = match rule.test {
            Test::Format => ends_word(self.text, span.end),
            // A call or an index: what was found is a name.
            _ => !self.text[span.end..].starts_with(['(', '[']),
        };
        let fits = ends
            && !splits_escape(self.text, span.start)
            && value::passes(rule, &self.text[span.clone()]);
        fits.then_some(span)
    }

    /// What the expression finds.
    fn matched(&self, index: usize, keyword: &Range<usize>) -> Option<Range<usize>> {
        let window = match RULES[index].place {
            Place::Around(back) => self.window(keyword, back, self.progress[index].done),
            _ => keyword.start..self.text.len(),
        };
        let found = self.redactor.regex(index).captures(&self.text[window.clone()])?;
        let whole = found.get(0).expect("group 0 is the match");
        let secret = found.get(1).unwrap_or(whole);
        let span = window.start + secret.start()..window.start + secret.end();
        (secret.start() > whole.start() || starts_word(self.text, span.start)).then_some(span)
    }

    /// The value that comes after what the expression finds.
    fn named(&self, index: usize, keyword: &Range<usize>) -> Option<Range<usize>> {
        let name = value::name_before(self.text, keyword.start);
        let fits = match RULES[index].place {
            Place::Option => name.starts_with("--"),
            _ => !value::is_public_name(name),
        };
        if !fits {
            return None;
        }
        let found = self.redactor.regex(index).find(&self.text[keyword.start..])?;
        value::at(self.text, keyword.start + found.end())
            .filter(|span| span.len() >= value::shortest(&RULES[index]))
    }

    fn block(&self, index: usize, keyword: &Range<usize>) -> Option<Range<usize>> {
        let found = self.redactor.regex(index).find(&self.text[keyword.start..])?;
        pem::block(self.text, keyword.start..keyword.start + found.end())
    }

    fn window(&self, keyword: &Range<usize>, back: usize, done: usize) -> Range<usize> {
        let is_boundary = |at: &usize| self.text.is_char_boundary(*at);
        let start = (keyword.start.saturating_sub(back)..=keyword.start).find(is_boundary);
        let end = (keyword.end + AHEAD..self.text.len()).find(is_boundary);
        start.unwrap_or(keyword.start).max(done)..end.unwrap_or(self.text.len())
    }

    /// A mask is no secret, and its id no keyword.
    fn touches_mask(&mut self, span: &Range<usize>, keyword: &Range<usize>) -> bool {
        let masks = self.masks.get_or_insert_with(|| masks_in(self.text));
        let after = masks.partition_point(|mask| mask.end <= keyword.start.min(span.start));
        masks[after..]
            .iter()
            .take_while(|mask| mask.start < span.end)
            .any(|mask| overlap(mask, span) || overlap(mask, keyword))
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

fn masks_in(text: &str) -> Vec<Range<usize>> {
    text.match_indices(MASK)
        .filter_map(|(start, _)| {
            let id = &text[start + MASK.len()..];
            let end = id.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))?;
            id[end..].starts_with(']').then_some(start..start + MASK.len() + end + 1)
        })
        .collect()
}

/// The text with one mask for each group of secrets that overlap.
fn masked(text: &str, secrets: &[Secret]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let mut rest = secrets.iter().peekable();
    while let Some(first) = rest.next() {
        let (mut end, mut rule) = (first.span.end, first.rule);
        while let Some(next) = rest.next_if(|next| next.span.start < end) {
            end = end.max(next.span.end);
            rule = rule.min(next.rule);
        }
        out.push_str(&text[copied..first.span.start]);
        out.push_str(&mask_of(&RULES[rule]));
        copied = end;
    }
    out.push_str(&text[copied..]);
    out
}

fn mask_of(rule: &Rule) -> String {
    format!("{MASK}{}]", rule.id)
}

/// Whether a token can start here: no word goes on, and no long piece of base64.
fn starts_word(text: &str, at: usize) -> bool {
    let before = &text.as_bytes()[..at];
    match before.last() {
        None => true,
        Some(b'+' | b'/') => !ends_in_base64(before),
        Some(byte) if is_word(*byte) => ends_in_escape(before),
        Some(_) => true,
    }
}

/// Whether no word goes on here.
fn ends_word(text: &str, at: usize) -> bool {
    text.as_bytes().get(at).is_none_or(|byte| !is_word(*byte))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Images and the like: among so many characters some look like anything.
fn ends_in_base64(before: &[u8]) -> bool {
    const LONG: usize = 200;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    before.len() >= LONG && before.iter().rev().take(LONG).all(is_base64)
}

/// `\n`, `\u00e9` and `%3D` end in what looks like a letter but is none.
fn ends_in_escape(before: &[u8]) -> bool {
    match before {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', a, b] => a.is_ascii_hexdigit() && b.is_ascii_hexdigit(),
        _ => before.len() >= 6 && is_unicode_escape(&before[before.len() - 6..]),
    }
}

fn is_unicode_escape(six: &[u8]) -> bool {
    six.starts_with(b"\\u") && six[2..].iter().all(u8::is_ascii_hexdigit)
}

/// Whether the text before this place would end in the middle of an escape, which would break the
/// JSON that it may be a part of.
fn splits_escape(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let in_short = at > 0
        && bytes[at - 1] == b'\\'
        && bytes.get(at).is_some_and(|byte| b"bfnrtu\"\\/".contains(byte));
    let in_unicode = (1..6)
        .filter_map(|back| bytes.get(at.checked_sub(back)?..)?.get(..6))
        .any(is_unicode_escape);
    in_short || in_unicode
}

/// Where the characters end that can be in a token or between the parts of one.
fn run_end(text: &str, at: usize) -> usize {
    let in_run = |byte: &u8| is_word(*byte) || b"-./+=~%:".contains(byte);
    let rest = &text.as_bytes()[at..];
    at + rest.iter().position(|byte| !in_run(byte)).unwrap_or(rest.len())
}
