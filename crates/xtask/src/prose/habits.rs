//! Counting the habits in one source file.

use super::lexer::{Kind, Piece, split_source};

/// A writing habit that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Habit {
    /// A doc comment that begins with What, Whether, Where, How or Which.
    QuestionDoc,
    /// A doc comment with at most two words.
    ShortDoc,
    /// A doc comment that begins with "The same", "Likewise" or "As above".
    LeaningDoc,
    /// "Somebody", "nobody", "anybody" or "whoever" in a comment or a string.
    NamelessActor,
    /// A function whose name is one word.
    OneWordFunction,
    /// A function with more than [`LONG_FUNCTION`] lines.
    LongFunction,
    /// A file with more than [`LONG_FILE`] lines.
    LongFile,
}

impl Habit {
    pub(crate) const ALL: [Habit; 7] = [
        Habit::QuestionDoc,
        Habit::ShortDoc,
        Habit::LeaningDoc,
        Habit::NamelessActor,
        Habit::OneWordFunction,
        Habit::LongFunction,
        Habit::LongFile,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Habit::QuestionDoc => "doc begins What/Whether/Where/How/Which",
            Habit::ShortDoc => "doc of at most two words",
            Habit::LeaningDoc => "doc begins The same/Likewise/As above",
            Habit::NamelessActor => "somebody/nobody/anybody/whoever",
            Habit::OneWordFunction => "one-word function name",
            Habit::LongFunction => "function over 60 lines",
            Habit::LongFile => "file over 400 lines",
        }
    }
}

const LONG_FUNCTION: usize = 60;
const LONG_FILE: usize = 400;
const QUESTION_WORDS: [&str; 5] = ["what", "whether", "where", "how", "which"];
const LEANING_STARTS: [&str; 3] = ["The same", "Likewise", "As above"];
const NAMELESS_ACTORS: [&str; 4] = ["somebody", "nobody", "anybody", "whoever"];

/// One occurrence of a habit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Occurrence {
    pub(crate) habit: Habit,
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The counts of one or several files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) files: usize,
    pub(crate) docs: usize,
    /// The number of functions whose names are checked. Functions in trait implementations are not
    /// checked, because the trait determines their names.
    pub(crate) named_functions: usize,
    pub(crate) occurrences: Vec<Occurrence>,
}

impl Counts {
    pub(crate) fn count_of(&self, habit: Habit) -> usize {
        self.occurrences.iter().filter(|occurrence| occurrence.habit == habit).count()
    }

    pub(crate) fn add_file(&mut self, file: &str, source: &str) {
        self.files += 1;
        let lines = source.lines().count();
        if lines > LONG_FILE {
            self.add_occurrence(Habit::LongFile, file, 1, format!("{lines} lines"));
        }
        let pieces = split_source(source);
        self.add_docs(file, &pieces);
        self.add_nameless_actors(file, &pieces);
        self.add_functions(file, &pieces);
    }

    pub(crate) fn merge(&mut self, other: &Counts) {
        self.files += other.files;
        self.docs += other.docs;
        self.named_functions += other.named_functions;
        self.occurrences.extend_from_slice(&other.occurrences);
    }

    fn add_occurrence(&mut self, habit: Habit, file: &str, line: usize, text: String) {
        self.occurrences.push(Occurrence { habit, file: file.to_owned(), line, text });
    }

    fn add_docs(&mut self, file: &str, pieces: &[Piece<'_>]) {
        for (line, doc) in join_docs(pieces) {
            self.docs += 1;
            let words: Vec<&str> = doc.split_whitespace().collect();
            let first = words.first().map(|word| letters_of(word).to_ascii_lowercase());
            if first.is_some_and(|first| QUESTION_WORDS.contains(&first.as_str())) {
                self.add_occurrence(Habit::QuestionDoc, file, line, doc.clone());
            }
            if words.len() <= 2 {
                self.add_occurrence(Habit::ShortDoc, file, line, doc.clone());
            }
            if LEANING_STARTS.iter().any(|start| doc.starts_with(start)) {
                self.add_occurrence(Habit::LeaningDoc, file, line, doc);
            }
        }
    }

    fn add_nameless_actors(&mut self, file: &str, pieces: &[Piece<'_>]) {
        for piece in pieces {
            let (Kind::Doc(text) | Kind::Comment(text) | Kind::String(text)) = piece.kind else {
                continue;
            };
            for (offset, text) in text.lines().enumerate() {
                let words = text.split(|c: char| !c.is_alphanumeric());
                let is_nameless =
                    |word: &&str| NAMELESS_ACTORS.iter().any(|n| n.eq_ignore_ascii_case(word));
                for _ in words.filter(is_nameless) {
                    let line = piece.line + offset;
                    self.add_occurrence(Habit::NamelessActor, file, line, text.trim().to_owned());
                }
            }
        }
    }

    fn add_functions(&mut self, file: &str, pieces: &[Piece<'_>]) {
        for function in find_functions(pieces) {
            let Function { name, line, last_line, is_of_trait_impl } = function;
            if !is_of_trait_impl {
                self.named_functions += 1;
                if !name.contains('_') {
                    self.add_occurrence(Habit::OneWordFunction, file, line, format!("fn {name}"));
                }
            }
            let lines = last_line - line + 1;
            if lines > LONG_FUNCTION {
                self.add_occurrence(
                    Habit::LongFunction,
                    file,
                    line,
                    format!("fn {name}, {lines} lines"),
                );
            }
        }
    }
}

/// Joins adjacent doc lines into doc comments, each with the number of its first line.
fn join_docs(pieces: &[Piece<'_>]) -> Vec<(usize, String)> {
    let mut docs: Vec<(usize, String)> = Vec::new();
    let mut last_line = None;
    for piece in pieces {
        let Kind::Doc(text) = piece.kind else { continue };
        let text = text.trim();
        match docs.last_mut() {
            Some((_, doc)) if last_line == Some(piece.line) => {
                doc.push(' ');
                doc.push_str(text);
            }
            _ => docs.push((piece.line, text.to_owned())),
        }
        last_line = Some(piece.line + 1);
    }
    docs
}

/// Strips marks such as backquotes, asterisks and commas from both ends of a word.
fn letters_of(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphabetic())
}

struct Function<'s> {
    name: &'s str,
    line: usize,
    last_line: usize,
    is_of_trait_impl: bool,
}

/// The item to which a pair of braces belongs.
#[derive(Clone, Copy)]
enum Block {
    TraitImpl,
    /// The function with this index.
    Function(usize),
    Other,
}

fn find_functions<'s>(pieces: &[Piece<'s>]) -> Vec<Function<'s>> {
    let mut functions: Vec<Function<'s>> = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut at = 0;
    while let Some(piece) = pieces.get(at) {
        at += 1;
        match piece.kind {
            Kind::Word("fn") => {
                // This is a function type, such as `fn(u8) -> u8`, which has no name.
                let Some(Kind::Word(name)) = pieces.get(at).map(|next| &next.kind) else {
                    continue;
                };
                let is_of_trait_impl = matches!(blocks.last(), Some(Block::TraitImpl));
                let (end, has_body) = end_of_head(pieces, at);
                if has_body {
                    blocks.push(Block::Function(functions.len()));
                }
                let (line, last_line) = (piece.line, pieces.get(end - 1).unwrap_or(piece).line);
                functions.push(Function { name, line, last_line, is_of_trait_impl });
                at = end;
            }
            Kind::Word("impl") => {
                let (end, has_body) = end_of_head(pieces, at);
                if has_body {
                    let is_of_trait = has_trait(&pieces[at..end]);
                    blocks.push(if is_of_trait { Block::TraitImpl } else { Block::Other });
                }
                at = end;
            }
            Kind::Symbol('{') => blocks.push(Block::Other),
            Kind::Symbol('}') => {
                if let Some(Block::Function(index)) = blocks.pop() {
                    functions[index].last_line = piece.line;
                }
            }
            _ => {}
        }
    }
    functions
}

/// Finds the end of the head of a function or an implementation: the index after its `{`, or after
/// its `;` if it has no body.
fn end_of_head(pieces: &[Piece<'_>], from: usize) -> (usize, bool) {
    let mut depth = 0_usize;
    for (offset, piece) in pieces[from..].iter().enumerate() {
        match piece.kind {
            Kind::Symbol('(' | '[') => depth += 1,
            Kind::Symbol(')' | ']') => depth = depth.saturating_sub(1),
            Kind::Symbol('{') if depth == 0 => return (from + offset + 1, true),
            Kind::Symbol(';') if depth == 0 => return (from + offset + 1, false),
            _ => {}
        }
    }
    (pieces.len(), false)
}

/// True if the head of an implementation names a trait: `impl Trait for Type`, but not
/// `impl<F: for<'a> Fn(&'a str)> Type<F>`.
fn has_trait(head: &[Piece<'_>]) -> bool {
    head.windows(2)
        .any(|pair| pair[0].kind == Kind::Word("for") && pair[1].kind != Kind::Symbol('<'))
}
