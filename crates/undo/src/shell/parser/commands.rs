//! Parses lists, pipelines and compound commands.

use std::rc::Rc;

use crate::shell::syntax::{
    Command, CommandList, CompoundCommand, CompoundKind, ListEntry, Word, WordPart,
};

use super::words::is_name;
use super::{MAX_COMMANDS, Parsed, Parser};

/// The characters that end an unquoted word.
const META: &[char] = &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')'];

impl<'t> Parser<'t> {
    /// Parses commands up to a closing parenthesis, the end of a `case` branch, or a keyword in
    /// `ends`.
    pub(super) fn parse_list(&mut self, ends: &[&str]) -> Parsed<CommandList> {
        let mut list = CommandList::new();
        self.skip_lines()?;
        while !self.is_list_end(ends) {
            let start = list.len();
            self.parse_and_or(&mut list)?;
            self.skip_blanks();
            match self.peek() {
                Some(b';') if matches!(self.peek_at(1), Some(b';' | b'&')) => break,
                Some(b';') => self.at += 1,
                Some(b'&') => {
                    self.at += 1;
                    list[start..].iter_mut().for_each(|entry| entry.in_background = true);
                }
                Some(b'\n') => {}
                _ => break,
            }
            self.check_operator_end()?;
            self.skip_lines()?;
        }
        Ok(list)
    }

    fn is_list_end(&self, ends: &[&str]) -> bool {
        matches!(self.peek(), None | Some(b')'))
            || self.rest().starts_with(";;")
            || self.rest().starts_with(";&")
            || ends.contains(&self.peek_keyword())
    }

    /// Returns the word that comes next, if it could be a keyword.
    fn peek_keyword(&self) -> &'t str {
        let rest = self.rest();
        &rest[..rest.find(META).unwrap_or(rest.len())]
    }

    /// Skips a keyword. Fails if the keyword does not come next.
    fn expect_keyword(&mut self, keyword: &'static str) -> Parsed<()> {
        if self.peek_keyword() != keyword {
            return Err("a keyword is missing");
        }
        self.at += keyword.len();
        Ok(())
    }

    fn parse_and_or(&mut self, list: &mut CommandList) -> Parsed<()> {
        self.parse_pipeline(list, false)?;
        loop {
            self.skip_blanks();
            let is_alternative = self.rest().starts_with("||");
            if !self.eat("&&") && !self.eat("||") {
                return Ok(());
            }
            self.check_operator_end()?;
            self.skip_lines()?;
            let start = list.len();
            self.parse_pipeline(list, true)?;
            list[start..].iter_mut().for_each(|entry| entry.is_alternative = is_alternative);
        }
    }

    fn parse_pipeline(&mut self, list: &mut CommandList, is_conditional: bool) -> Parsed<()> {
        let mut is_negated = false;
        while let keyword @ ("!" | "time") = self.peek_keyword() {
            self.at += keyword.len();
            is_negated |= keyword == "!";
            self.skip_blanks();
            if keyword == "time" && self.peek_keyword() == "-p" {
                self.at += 2;
                self.skip_blanks();
            }
        }
        let start = list.len();
        loop {
            let command = self.parse_command()?;
            list.push(ListEntry {
                command,
                is_conditional,
                is_alternative: false,
                is_piped: false,
                is_negated,
                in_subshell: false,
                in_background: false,
            });
            self.skip_blanks();
            if self.peek() != Some(b'|') || self.peek_at(1) == Some(b'|') {
                break;
            }
            self.at += 1;
            if self.eat("&") {
                self.require_bash()?;
            }
            self.check_operator_end()?;
            self.skip_lines()?;
        }
        if list.len() > start + 1 {
            list[start..].iter_mut().for_each(|entry| entry.in_subshell = true);
            let last = list.len() - 1;
            list[start..last].iter_mut().for_each(|entry| entry.is_piped = true);
        }
        Ok(())
    }

    fn parse_command(&mut self) -> Parsed<Command> {
        self.commands += 1;
        if self.commands > MAX_COMMANDS {
            return Err("too many commands");
        }
        if let Some(compound) = self.parse_compound()? {
            return Ok(Command::Compound(compound));
        }
        match self.peek_keyword() {
            "function" => {
                self.require_bash()?;
                self.expect_keyword("function")?;
                self.skip_blanks();
                let name = self.parse_word()?.ok_or("a function has no name")?;
                if self.eat("(") {
                    self.skip_blanks();
                    self.expect(")", "a function has no body")?;
                }
                self.parse_function(&name)
            }
            "coproc" => Err("a coprocess is not supported"),
            _ => self.parse_simple(),
        }
    }

    pub(super) fn parse_function(&mut self, name: &Word) -> Parsed<Command> {
        let name = name.bare().ok_or("a function has an unusual name")?.to_owned();
        self.skip_lines()?;
        let body = self.go_deeper(Self::parse_compound)?.ok_or("a function has no body")?;
        Ok(Command::Function { name, body: Rc::new(body) })
    }

    /// If a compound command comes next, parses it and its redirections.
    fn parse_compound(&mut self) -> Parsed<Option<CompoundCommand>> {
        let mut compound = match self.peek_keyword() {
            "" if self.rest().starts_with("((") => {
                self.require_bash()?;
                self.at += 2;
                let mut word = Word::default();
                self.go_deeper(|parser| parser.parse_arithmetic(&mut word))?;
                word.parts.push(WordPart::Hidden("arithmetic"));
                CompoundCommand { words: vec![word], ..CompoundCommand::default() }
            }
            "" if self.rest().starts_with('(') => self.go_deeper(Self::parse_subshell)?,
            "{" => self.go_deeper(Self::parse_group)?,
            "if" => self.go_deeper(Self::parse_if)?,
            "while" | "until" => self.go_deeper(Self::parse_while)?,
            "for" => self.go_deeper(Self::parse_for)?,
            "select" => {
                let mut select = self.go_deeper(Self::parse_for)?;
                // If the user's answer is invalid, the variable is empty.
                select.words.push(Word::empty());
                select
            }
            "case" => self.go_deeper(Self::parse_case)?,
            "[[" => self.go_deeper(Self::parse_test)?,
            _ => return Ok(None),
        };
        self.skip_blanks();
        while let Some(redirect) = self.parse_redirect()? {
            compound.redirects.push(redirect);
            self.skip_blanks();
        }
        Ok(Some(compound))
    }

    fn parse_subshell(&mut self) -> Parsed<CompoundCommand> {
        self.at += 1;
        let list = self.parse_list(&[])?;
        self.expect(")", "a parenthesis is not closed")?;
        Ok(CompoundCommand {
            kind: CompoundKind::Subshell,
            lists: vec![list],
            ..CompoundCommand::default()
        })
    }

    fn parse_group(&mut self) -> Parsed<CompoundCommand> {
        self.expect_keyword("{")?;
        let list = self.parse_list(&["}"])?;
        self.expect_keyword("}")?;
        Ok(CompoundCommand { lists: vec![list], ..CompoundCommand::default() })
    }

    fn parse_if(&mut self) -> Parsed<CompoundCommand> {
        let mut lists = Vec::new();
        self.expect_keyword("if")?;
        loop {
            lists.push(self.parse_list(&["then"])?);
            self.expect_keyword("then")?;
            lists.push(self.parse_list(&["elif", "else", "fi"])?);
            if self.peek_keyword() != "elif" {
                break;
            }
            self.expect_keyword("elif")?;
        }
        if self.peek_keyword() == "else" {
            self.expect_keyword("else")?;
            lists.push(self.parse_list(&["fi"])?);
        }
        self.expect_keyword("fi")?;
        Ok(CompoundCommand { kind: CompoundKind::Branches, lists, ..CompoundCommand::default() })
    }

    fn parse_while(&mut self) -> Parsed<CompoundCommand> {
        self.at += self.peek_keyword().len();
        let condition = self.parse_list(&["do"])?;
        let body = self.parse_loop_body()?;
        Ok(CompoundCommand {
            kind: CompoundKind::Loop,
            lists: vec![condition, body],
            ..CompoundCommand::default()
        })
    }

    /// Parses `do … done`.
    fn parse_loop_body(&mut self) -> Parsed<CommandList> {
        self.expect_keyword("do")?;
        let body = self.parse_list(&["done"])?;
        self.expect_keyword("done")?;
        Ok(body)
    }

    fn parse_for(&mut self) -> Parsed<CompoundCommand> {
        let mut compound =
            CompoundCommand { kind: CompoundKind::Loop, ..CompoundCommand::default() };
        self.at += self.peek_keyword().len();
        self.skip_blanks();
        if self.eat("((") {
            self.require_bash()?;
            let mut word = Word::default();
            self.parse_arithmetic(&mut word)?;
            word.parts.push(WordPart::Hidden("arithmetic"));
            compound.words.push(word);
        } else {
            let name = self.peek_keyword();
            if !is_name(name) {
                return Err("a loop has an unusual variable");
            }
            compound.variable = Some(name.to_owned());
            self.at += name.len();
            self.skip_lines()?;
            if self.peek_keyword() == "in" {
                self.expect_keyword("in")?;
                self.skip_blanks();
                while let Some(word) = self.parse_word()? {
                    compound.words.push(word);
                    self.skip_blanks();
                }
            }
        }
        self.skip_blanks();
        if !self.rest().starts_with(";;") {
            self.eat(";");
        }
        self.skip_lines()?;
        compound.lists.push(self.parse_loop_body()?);
        Ok(compound)
    }

    fn parse_case(&mut self) -> Parsed<CompoundCommand> {
        let mut compound =
            CompoundCommand { kind: CompoundKind::Branches, ..CompoundCommand::default() };
        self.expect_keyword("case")?;
        self.skip_blanks();
        compound.words.push(self.parse_word()?.ok_or("a `case` has no subject")?);
        self.skip_lines()?;
        self.expect_keyword("in")?;
        self.skip_lines()?;
        while self.peek_keyword() != "esac" {
            self.eat("(");
            loop {
                self.skip_blanks();
                compound.words.push(self.parse_word()?.ok_or("a `case` has no pattern")?);
                self.skip_blanks();
                if !self.eat("|") {
                    break;
                }
            }
            self.expect(")", "a `case` has an unusual pattern")?;
            compound.lists.push(self.parse_list(&["esac"])?);
            if !self.eat(";;&")
                && !self.eat(";;")
                && !self.eat(";&")
                && self.peek_keyword() != "esac"
            {
                return Err("a `case` is not closed");
            }
            self.skip_lines()?;
        }
        self.expect_keyword("esac")?;
        Ok(compound)
    }

    /// Parses `[[ … ]]`.
    fn parse_test(&mut self) -> Parsed<CompoundCommand> {
        self.require_bash()?;
        self.expect_keyword("[[")?;
        let mut words: Vec<Word> = Vec::new();
        loop {
            self.skip_lines()?;
            if self.peek_keyword() == "]]" {
                break;
            }
            let matching = words.last().and_then(Word::bare) == Some("=~");
            let word = if matching { self.parse_regex_word()? } else { self.parse_word()? };
            match word {
                Some(word) => words.push(word),
                None if ["&&", "||", "(", ")", "<", ">"].iter().any(|sign| self.eat(sign)) => {}
                None => return Err("a test is not closed"),
            }
        }
        self.expect_keyword("]]")?;
        Ok(CompoundCommand { kind: CompoundKind::Test, words, ..CompoundCommand::default() })
    }
}
