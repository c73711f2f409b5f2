//! `cargo xtask recording`: an animated picture of `takeback demo`, made from a real run. The
//! README shows this picture.

use std::fmt::Write;
use std::fs;
use std::num::NonZeroU16;
use std::process::Command;

use vt100::{Cell, Color, Parser, Screen};

use crate::Failure;
use crate::run::{cargo, repository, run_step, target_directory};

/// The file of the picture, in the repository.
const FILE: &str = "docs/images/demo.svg";

/// The size of the terminal. Lines that do not fit are wrapped.
const COLUMNS: u16 = 110;
const VISIBLE_ROWS: usize = 26;
const ALL_ROWS: u16 = 200;

/// The size of a character cell, in pixels.
const CELL_WIDTH: f64 = 7.8;
const CELL_HEIGHT: usize = 18;
const MARGIN: usize = 14;

/// The pauses between lines and after the last line, in seconds.
const LINE_TIME: f64 = 0.22;
const LAST_TIME: f64 = 6.0;

/// The line at which the picture stops. This line and all lines after it are left out.
const END: &str = "Next, in one of your projects:";

const STYLE: &str = "\
svg{background:#fff;color:#1f2328;--dim:#656d76;--yellow:#9a6700;--red:#cf222e;--green:#1a7f37;\
--blue:#0969da}\
@media(prefers-color-scheme:dark){svg{background:#0d1117;color:#e6edf3;--dim:#8b949e;\
--yellow:#d29922;--red:#ff7b72;--green:#3fb950;--blue:#79c0ff}}\
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:currentColor;\
white-space:pre}\
.b{font-weight:700}.d{fill:var(--dim)}.y{fill:var(--yellow)}.r{fill:var(--red)}\
.g{fill:var(--green)}.u{fill:var(--blue)}";

/// Runs `cargo xtask recording`.
pub(crate) fn write_recording() -> Result<(), Failure> {
    run_step(cargo().args([
        "build",
        "--package",
        "takeback",
        "--package",
        "xtask",
        "--all-features",
    ]))?;
    let mut demo = Command::new(target_directory().join("debug/takeback"));
    demo.args(["demo", "--color", "always"]).env("COLUMNS", COLUMNS.to_string());
    let output = demo.output().map_err(|error| format!("cannot run the demo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let path = repository().join(FILE);
    fs::write(&path, draw_output(&format!("$ takeback demo\n{text}")))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    println!("{FILE}");
    Ok(())
}

/// Draws the output of a command as an animated picture.
fn draw_output(text: &str) -> String {
    let shown = text.split(END).next().unwrap_or(text).trim_end();
    let size = |count| NonZeroU16::new(count).expect("the terminal is not empty");
    let mut terminal = Parser::new(size(ALL_ROWS), size(COLUMNS), 0);
    terminal.process(shown.replace('\n', "\r\n").as_bytes());
    let screen = terminal.screen();
    let count = usize::from(screen.cursor_position().0) + 1;
    let (width, height) = (f64::from(COLUMNS) * CELL_WIDTH, VISIBLE_ROWS.min(count) * CELL_HEIGHT);
    let (width, height) = (width as usize + 2 * MARGIN, height + 2 * MARGIN);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"takeback demo in a terminal\">\n<style>{STYLE}{}</style>\n<g class=\"all\">\n",
        animate_rows(count)
    );
    for row in 0..count {
        push_row(&mut picture, screen, row);
    }
    picture.push_str("</g>\n</svg>\n");
    picture
}

/// Makes each row appear after the one above it, and scrolls once the picture is full. The picture
/// starts again after a pause.
fn animate_rows(count: usize) -> String {
    let total = count as f64 * LINE_TIME + LAST_TIME;
    let percent = |row: usize| 100.0 * row as f64 * LINE_TIME / total;
    let mut rules = format!(".all{{animation:s {total:.1}s infinite step-end}}@keyframes s{{");
    let first = VISIBLE_ROWS.min(count);
    rules.push_str("0%{transform:translateY(0)}");
    for row in first..count {
        let offset = (row + 1 - first) * CELL_HEIGHT;
        write!(rules, "{:.2}%{{transform:translateY(-{offset}px)}}", percent(row)).expect(WRITES);
    }
    rules.push('}');
    for row in 0..count {
        write!(
            rules,
            "#l{row}{{animation:a{row} {total:.1}s infinite step-end}}\
             @keyframes a{row}{{0%{{opacity:0}}{:.2}%{{opacity:1}}}}",
            percent(row).max(0.01)
        )
        .expect(WRITES);
    }
    rules
}

const WRITES: &str = "writing to a string succeeds";

/// Draws a row of the terminal. Adjacent cells with the same style become one piece of text,
/// positioned by its column.
fn push_row(picture: &mut String, screen: &Screen, row: usize) {
    let y = MARGIN + (row + 1) * CELL_HEIGHT - 5;
    write!(picture, "<text id=\"l{row}\" y=\"{y}\">").expect(WRITES);
    let cells = (0..COLUMNS).filter_map(|column| Some((column, screen.cell(row as u16, column)?)));
    let mut spans: Vec<(u16, &str, String)> = Vec::new();
    for (column, cell) in cells.filter(|(_, cell)| !cell.is_wide_continuation()) {
        let text = if cell.has_contents() { cell.contents() } else { " " };
        match spans.last_mut() {
            Some((_, class, span)) if *class == class_of(cell) => span.push_str(text),
            _ => spans.push((column, class_of(cell), text.to_owned())),
        }
    }
    for (column, class, span) in &spans {
        let x = MARGIN as f64 + f64::from(*column) * CELL_WIDTH;
        let span = span.trim_end().replace('&', "&amp;").replace('<', "&lt;");
        if !span.is_empty() {
            write!(picture, "<tspan x=\"{x:.1}\" class=\"{class}\">{span}</tspan>").expect(WRITES);
        }
    }
    picture.push_str("</text>\n");
}

/// Returns the CSS class for a cell.
fn class_of(cell: &Cell) -> &'static str {
    match cell.fgcolor() {
        _ if cell.dim() => "d",
        Color::Idx(1 | 9) => "r",
        Color::Idx(2 | 10) => "g",
        Color::Idx(3 | 11) => "y",
        Color::Idx(4 | 6 | 12 | 14) => "u",
        _ if cell.bold() => "b",
        _ => "n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_the_text_and_colors_of_the_terminal() {
        let picture = draw_output(
            "plain <b>\n\u{1b}[33mwarning\u{1b}[0m\n\nNext, in one of your projects:\n",
        );
        assert!(picture.contains("class=\"n\">plain &lt;b></tspan>"), "{picture}");
        assert!(picture.contains("class=\"y\">warning</tspan>"), "{picture}");
        assert!(!picture.contains("Next"), "{picture}");
    }
}
