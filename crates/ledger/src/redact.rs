//! Masks secrets in text, such as keys, tokens and passwords.
//!
//! An automaton looks for the keywords of all [`rules`] in one pass. The expression of a rule is
//! tried only where its keyword occurs, so a search of text without secrets takes little more time
//! than reading the text.
//!
//! An unnecessary mask destroys part of a record; a missing mask reveals a secret. So text in the
//! exact format of a secret is always masked, but a value with a suspicious name is masked only if
//! it looks like a secret: see [`value`].

mod boundaries;
mod pem;
mod rules;
#[cfg(test)]
mod tests;
mod value;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;
use serde_json::Value;

use boundaries::{ends_word, run_end, splits_escape, starts_word};
use rules::{KeywordPosition, RULES, Rule, SecretTest};

/// The beginning of a mask. The rule's id and a `]` follow it.
const MASK: &str = "[redacted:";

/// The maximum number of passes over the text. Masking one secret can expose another, such as a key
/// that was not recognized because the masked secret directly followed it.
const MAX_PASSES: usize = 8;

/// The maximum number of times that a rule is tried in one run of token characters. Additional
/// keywords in the same run are noise, and trying all of them would take quadratic time.
const TRIES_PER_RUN: u8 = 8;

/// The number of bytes after the keyword in which a rule with [`KeywordPosition::Around`] can
/// match.
const LOOKAHEAD: usize = 200;

/// The number of bytes after the keyword in which a rule with [`KeywordPosition::Start`] or
/// [`KeywordPosition::Before`] can match. There is no limit for rules with [`SecretTest::Format`].
const LONG_LOOKAHEAD: usize = 1024;

/// The maximum length of text that is searched for each keyword in turn, without the automaton.
/// Building the automaton takes longer than everything else that a hook does with short text.
const SHORT_TEXT: usize = 2000;

/// The number of short strings after which the automaton is worth building.
const MANY_TEXTS: usize = 20;

/// A set of rules that finds and masks secrets. It compiles its rules when they are first needed;
/// use [`Redactor::shared`] to compile them only once.
#[derive(Debug)]
pub struct Redactor {
    /// The automaton, built when it is first needed.
    keywords: OnceLock<KeywordSearcher>,
    /// The number of short strings that were searched without the automaton.
    short_texts: AtomicUsize,
    /// The expression of each rule. It is compiled when the rule's keyword first occurs, because
    /// most expressions are never needed.
    regexes: Vec<OnceLock<Regex>>,
}

impl Default for Redactor {
    fn default() -> Redactor {
        Redactor::new()
    }
}

impl Redactor {
    /// Returns the redactor that the whole process shares.
    pub fn shared() -> &'static Redactor {
        static SHARED: LazyLock<Redactor> = LazyLock::new(Redactor::new);
        &SHARED
    }

    /// Creates a redactor with all rules.
    pub fn new() -> Redactor {
        let regexes = RULES.iter().map(|_| OnceLock::new()).collect();
        Redactor { keywords: OnceLock::new(), short_texts: AtomicUsize::new(0), regexes }
    }

    /// Returns the text with each secret masked. The result is borrowed if there is no secret.
    ///
    /// ```
    /// use takeback_ledger::Redactor;
    ///
    /// let masked = Redactor::shared().mask_text("export API_KEY=sk-ant-api03-aB3dE6gH9jK2mN5pQ8sT");
    /// assert!(masked.contains("[redacted:") && !masked.contains("aB3dE6gH9jK2"));
    /// ```
    pub fn mask_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(mut masked) = self.mask_once(text) else { return Cow::Borrowed(text) };
        for _ in 1..MAX_PASSES {
            match self.mask_once(&masked) {
                Some(again) => masked = again,
                None => break,
            }
        }
        Cow::Owned(masked)
    }

    /// Masks the secrets in every string of a JSON value, in place. Keys are kept.
    ///
    /// If the name of a key suggests that its string is a secret, and the string looks like one,
    /// the whole string is masked.
    pub fn mask_json(&self, value: &mut Value) {
        match value {
            Value::String(string) => self.mask_string(string),
            Value::Array(values) => values.iter_mut().for_each(|value| self.mask_json(value)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match value {
                        Value::String(string) => self.mask_field(key, string),
                        other => self.mask_json(other),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn mask_field(&self, key: &str, string: &mut String) {
        self.mask_string(string);
        let named = RULES.iter().find(|rule| value::is_secret_field(rule, key, string));
        if let Some(rule) = named {
            *string = mask_of(rule);
        }
    }

    fn mask_string(&self, string: &mut String) {
        if let Cow::Owned(masked) = self.mask_text(string) {
            *string = masked;
        }
    }

    fn mask_once(&self, text: &str) -> Option<String> {
        let secrets = self.find_secrets(text);
        (!secrets.is_empty()).then(|| replace_secrets(text, &secrets))
    }

    /// Finds all secrets, in the order of their offsets.
    fn find_secrets(&self, text: &str) -> Vec<Secret> {
        let mut search = SecretSearch::new(self, text);
        if self.can_do_without_automaton(text) {
            for (keyword, rule) in find_keywords(text) {
                search.try_rule(rule, keyword);
            }
        } else {
            let KeywordSearcher { automaton, rules_of } =
                self.keywords.get_or_init(KeywordSearcher::new);
            for hit in automaton.find_overlapping_iter(text) {
                for &rule in &rules_of[hit.pattern().as_usize()] {
                    search.try_rule(rule, hit.start()..hit.end());
                }
            }
        }
        search.secrets.sort_by_key(|secret| (secret.span.start, secret.rule));
        search.secrets
    }

    /// True if searching for each keyword in turn is faster than building the automaton.
    fn can_do_without_automaton(&self, text: &str) -> bool {
        self.keywords.get().is_none()
            && text.len() <= SHORT_TEXT
            && self.short_texts.fetch_add(1, Ordering::Relaxed) < MANY_TEXTS
    }

    fn regex(&self, rule: usize) -> &Regex {
        self.regexes[rule].get_or_init(|| {
            let Rule { regex, position, .. } = &RULES[rule];
            let anchored = match position {
                KeywordPosition::Around(_) => (*regex).to_owned(),
                _ => format!("^(?:{regex})"),
            };
            Regex::new(&anchored).expect("a test compiles the expression of each rule")
        })
    }
}

/// An automaton that searches for the keywords of all rules in one pass.
#[derive(Debug)]
struct KeywordSearcher {
    automaton: AhoCorasick,
    /// The rules of each keyword.
    rules_of: Vec<Vec<usize>>,
}

impl KeywordSearcher {
    fn new() -> KeywordSearcher {
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
        KeywordSearcher { automaton, rules_of }
    }
}

/// Finds the keywords of all rules in short text, in the order of their ends.
fn find_keywords(text: &str) -> Vec<(Range<usize>, usize)> {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for (index, rule) in RULES.iter().enumerate() {
        for keyword in rule.keywords {
            // A keyword at the start of a secret is case-sensitive.
            if rule.position == KeywordPosition::Start && !text.contains(keyword) {
                continue;
            }
            let keyword = keyword.to_ascii_lowercase();
            let hits = lower.match_indices(&keyword);
            found.extend(hits.map(|(start, word)| (start..start + word.len(), index)));
        }
    }
    found.sort_by_key(|(keyword, _)| keyword.end);
    found
}

/// A secret that was found in the text.
struct Secret {
    span: Range<usize>,
    /// The index of the rule that found the secret.
    rule: usize,
}

/// One pass over the text.
struct SecretSearch<'r, 't> {
    redactor: &'r Redactor,
    text: &'t str,
    secrets: Vec<Secret>,
    /// The masks that the text already contains; `None` until they are needed.
    masks: Option<Vec<Range<usize>>>,
    /// The progress of each rule; empty until the first rule is tried.
    progress: Vec<RuleProgress>,
}

/// The progress of a rule through the text.
#[derive(Clone, Default)]
struct RuleProgress {
    /// The end of the last secret that the rule found.
    done: usize,
    /// The end of the run of token characters in which the rule was last tried.
    run_end: usize,
    tries: u8,
}

impl<'r, 't> SecretSearch<'r, 't> {
    fn new(redactor: &'r Redactor, text: &'t str) -> SecretSearch<'r, 't> {
        SecretSearch { redactor, text, secrets: Vec::new(), masks: None, progress: Vec::new() }
    }

    fn try_rule(&mut self, index: usize, keyword: Range<usize>) {
        let rule = &RULES[index];
        // This check alone rejects nearly all hits in plain text, such as the `sk-` in `task-`.
        if rule.position == KeywordPosition::Start && !self.can_start(rule, &keyword) {
            return;
        }
        if !self.is_due(index, keyword.start) {
            return;
        }
        if let Some(span) = self.find_secret_at(index, &keyword)
            && span.start >= self.progress[index].done
            && !self.touches_mask(&span, &keyword)
        {
            self.progress[index].done = span.end;
            self.progress[index].tries = 0;
            self.secrets.push(Secret { span, rule: index });
        }
    }

    fn can_start(&self, rule: &Rule, keyword: &Range<usize>) -> bool {
        starts_word(self.text, keyword.start)
            && rule.keywords.contains(&&self.text[keyword.clone()])
    }

    /// True if a rule should be tried at `at`: the position is not within the last secret that the
    /// rule found, and the rule was not tried too often in the same run.
    fn is_due(&mut self, index: usize, at: usize) -> bool {
        if self.progress.is_empty() {
            self.progress = vec![RuleProgress::default(); RULES.len()];
        }
        let progress = &mut self.progress[index];
        if at < progress.done {
            return false;
        }
        if RULES[index].position == KeywordPosition::Block {
            return true;
        }
        if at >= progress.run_end {
            progress.run_end = run_end(self.text, at);
            progress.tries = 0;
        }
        progress.tries = progress.tries.saturating_add(1);
        progress.tries <= TRIES_PER_RUN
    }

    fn find_secret_at(&self, index: usize, keyword: &Range<usize>) -> Option<Range<usize>> {
        let rule = &RULES[index];
        let span = match rule.position {
            KeywordPosition::Start | KeywordPosition::Before | KeywordPosition::Around(_) => {
                self.find_match(index, keyword)?
            }
            KeywordPosition::Name | KeywordPosition::Option => {
                self.find_named_value(index, keyword)?
            }
            KeywordPosition::Block => return self.find_block(index, keyword),
        };
        // Text before `(` or `[` is a name in code, not a value.
        let ends = if rule.test == SecretTest::Format || rule.position == KeywordPosition::Start {
            ends_word(self.text, span.end)
        } else {
            !self.text[span.end..].starts_with(['(', '['])
        };
        let fits = ends
            && !splits_escape(self.text, span.start)
            && value::looks_secret(rule, &self.text[span.clone()]);
        fits.then_some(span)
    }

    /// Finds the secret that the expression matches.
    fn find_match(&self, index: usize, keyword: &Range<usize>) -> Option<Range<usize>> {
        let window = match RULES[index].position {
            KeywordPosition::Around(back) => {
                self.match_window(keyword, back, self.progress[index].done)
            }
            _ if RULES[index].test == SecretTest::Format => keyword.start..self.text.len(),
            _ => keyword.start..self.boundary_at(keyword.end + LONG_LOOKAHEAD),
        };
        let found = self.redactor.regex(index).captures(&self.text[window.clone()])?;
        let whole = found.get(0).expect("group 0 is the match");
        let secret = found.iter().skip(1).flatten().next().unwrap_or(whole);
        let span = window.start + secret.start()..window.start + secret.end();
        (secret.start() > whole.start() || starts_word(self.text, span.start)).then_some(span)
    }

    /// Finds the value that follows a name. The expression matches the end of the name.
    fn find_named_value(&self, index: usize, keyword: &Range<usize>) -> Option<Range<usize>> {
        let name = value::name_before(self.text, keyword.start);
        let is_option = RULES[index].position == KeywordPosition::Option;
        if is_option && !name.starts_with('-') {
            return None;
        }
        let found = self.redactor.regex(index).find(&self.text[keyword.start..])?;
        if !is_option && value::is_public_name(name) {
            return None;
        }
        value::find_value(self.text, keyword.start + found.end())
            .filter(|span| span.len() >= value::shortest_length(&RULES[index]))
    }

    fn find_block(&self, index: usize, keyword: &Range<usize>) -> Option<Range<usize>> {
        let found = self.redactor.regex(index).find(&self.text[keyword.start..])?;
        pem::find_block(self.text, keyword.start..keyword.start + found.end())
    }

    fn match_window(&self, keyword: &Range<usize>, back: usize, done: usize) -> Range<usize> {
        let start = self.boundary_at(keyword.start.saturating_sub(back));
        start.max(done)..self.boundary_at(keyword.end + LOOKAHEAD)
    }

    /// Returns the first character boundary at or after an offset.
    fn boundary_at(&self, at: usize) -> usize {
        let mut offsets = at..self.text.len();
        offsets.find(|at| self.text.is_char_boundary(*at)).unwrap_or(self.text.len())
    }

    /// True if a secret or its keyword overlaps a mask. A mask is not a secret, and the id in it is
    /// not a keyword.
    fn touches_mask(&mut self, span: &Range<usize>, keyword: &Range<usize>) -> bool {
        let masks = self.masks.get_or_insert_with(|| find_masks(self.text));
        let after = masks.partition_point(|mask| mask.end <= keyword.start.min(span.start));
        masks[after..]
            .iter()
            .take_while(|mask| mask.start < span.end)
            .any(|mask| do_overlap(mask, span) || do_overlap(mask, keyword))
    }
}

fn do_overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

fn find_masks(text: &str) -> Vec<Range<usize>> {
    text.match_indices(MASK)
        .filter_map(|(start, _)| {
            let id = &text[start + MASK.len()..];
            let end = id.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))?;
            id[end..].starts_with(']').then_some(start..start + MASK.len() + end + 1)
        })
        .collect()
}

/// Replaces each group of overlapping secrets with one mask.
fn replace_secrets(text: &str, secrets: &[Secret]) -> String {
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
