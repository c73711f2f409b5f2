//! stub
use serde::Serialize;
use std::path::{Path, PathBuf};
/// Where
pub struct Surroundings<'a> {
    /// d
    pub directory: &'a Path,
    /// w
    pub workspace: &'a Path,
    /// h
    pub home: Option<&'a Path>,
}
/// A
#[derive(Serialize)]
pub struct Analysis {
    /// m
    pub mutates: bool,
    /// b
    pub because: String,
    /// e
    pub effects: Vec<Effect>,
    /// o
    pub outside: Vec<PathBuf>,
}
/// E
#[derive(Serialize)]
pub struct Effect {
    /// k
    pub kind: EffectKind,
    /// c
    pub command: String,
}
/// K
#[derive(Serialize)]
pub enum EffectKind {
    /// D
    Database,
    /// p
    Publish,
}
impl EffectKind {
    /// s
    pub fn as_str(&self) -> &'static str {
        match self {
            EffectKind::Database => "database",
            EffectKind::Publish => "publish",
        }
    }
}
/// a
pub fn analyse(script: &str, _: &Surroundings<'_>) -> Analysis {
    let mut effects = vec![];
    if script.starts_with("psql") {
        effects.push(Effect { kind: EffectKind::Database, command: script.into() });
    }
    Analysis {
        mutates: !script.starts_with("ls"),
        because: String::new(),
        effects,
        outside: vec![],
    }
}
