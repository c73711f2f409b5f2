//! Keys and mouse events, independent of the library that reads them.

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// A key that the user pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Ctrl(char),
    Enter,
    Escape,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Backspace,
    Delete,
}

/// An input from the user, or a change of the terminal's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Key(Key),
    /// Text from the clipboard.
    Paste(String),
    /// A click with the left button, at this column and row.
    Click(u16, u16),
    /// A movement of the mouse wheel at this column and row, with the number of lines to scroll. A
    /// negative number scrolls up.
    Wheel(u16, u16, isize),
    Resize(u16, u16),
}

/// The number of lines to scroll for each step of the mouse wheel.
const WHEEL: isize = 3;

/// Converts an event of the terminal. Returns `None` if the screen does not use this kind of event.
pub(crate) fn convert(event: &Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => convert_key(key).map(Input::Key),
        Event::Paste(text) => Some(Input::Paste(text.clone())),
        Event::Mouse(mouse) => convert_mouse(mouse),
        Event::Resize(columns, rows) => Some(Input::Resize(*columns, *rows)),
        _ => None,
    }
}

fn convert_key(key: &KeyEvent) -> Option<Key> {
    Some(match key.code {
        KeyCode::Char(character) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Key::Ctrl(character.to_ascii_lowercase())
        }
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(character) => Key::Char(character),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        _ => return None,
    })
}

fn convert_mouse(mouse: &MouseEvent) -> Option<Input> {
    let (column, row) = (mouse.column, mouse.row);
    match mouse.kind {
        MouseEventKind::Down(MouseButton::Left) => Some(Input::Click(column, row)),
        MouseEventKind::ScrollUp => Some(Input::Wheel(column, row, -WHEEL)),
        MouseEventKind::ScrollDown => Some(Input::Wheel(column, row, WHEEL)),
        _ => None,
    }
}
