//! The terminal: raw mode, keys and size. It is given back as it was, however the program ends.

use std::io::{self, Read, Write};
use std::sync::{Mutex, Once, PoisonError};
use std::{panic, thread};

use rustix::termios::{self, OptionalActions, Termios};
use tokio::sync::mpsc;

/// Alternate screen, hidden cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";

/// Colours off, visible cursor, main screen.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// The modes of the terminal before [`open`], until [`restore`] has set them again. Static, because a panic hook needs them.
static MODES: Mutex<Option<Termios>> = Mutex::new(None);

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Key {
    Quit,
    Scroll(isize),
    /// Draw every line again: another program may have written to the terminal.
    Redraw,
}

/// Switches the terminal to raw mode and to the alternate screen.
pub(super) fn open() -> io::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        // The message of a panic must be readable: on the main screen, with line breaks.
        panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
    });
    let modes = termios::tcgetattr(io::stdin())?;
    let mut raw = modes.clone();
    raw.make_raw();
    *MODES.lock().unwrap_or_else(PoisonError::into_inner) = Some(modes);
    let opened = termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)
        .map_err(io::Error::from)
        .and_then(|()| write(ENTER));
    if opened.is_err() {
        restore();
    }
    opened
}

/// Sets the terminal as it was before [`open`]. Does nothing the second time.
pub(super) fn restore() {
    let modes = MODES.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(modes) = modes {
        // If this fails, the terminal is gone.
        let _ = write(LEAVE);
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
}

/// Columns and rows.
pub(super) fn size() -> io::Result<(usize, usize)> {
    let size = termios::tcgetwinsize(io::stdout())?;
    Ok((size.ws_col.into(), size.ws_row.into()))
}

pub(super) fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Reads keys in a thread of its own, which ends with the program. The channel is closed when the terminal is gone.
pub(super) fn keys() -> io::Result<mpsc::UnboundedReceiver<Key>> {
    let (sender, keys) = mpsc::unbounded_channel();
    thread::Builder::new().name("distlock-keys".into()).spawn(move || {
        let mut parser = Parser::default();
        let mut bytes = [0; 64];
        loop {
            match io::stdin().lock().read(&mut bytes) {
                Ok(count @ 1..) => {
                    for key in bytes[..count].iter().filter_map(|byte| parser.next(*byte)) {
                        if sender.send(key).is_err() {
                            return;
                        }
                    }
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
            }
        }
    })?;
    Ok(keys)
}

/// Finds keys in the bytes that a terminal sends; a key may arrive in several reads.
#[derive(Debug, Default)]
struct Parser {
    state: Sequence,
    /// The number in a control sequence, as 5 in `ESC [ 5 ~`.
    number: u32,
}

#[derive(Debug, Default, PartialEq)]
enum Sequence {
    #[default]
    None,
    /// After ESC. ESC alone does nothing: over a slow line it may be the beginning of an arrow key.
    Escape,
    /// After `ESC [`.
    Control,
    /// After `ESC O`: how a terminal in application mode begins its arrow keys.
    Application,
}

impl Parser {
    fn next(&mut self, byte: u8) -> Option<Key> {
        match (&self.state, byte) {
            (_, 0x1b) => {
                self.state = Sequence::Escape;
                None
            }
            (Sequence::Escape, b'[') => {
                (self.state, self.number) = (Sequence::Control, 0);
                None
            }
            (Sequence::Escape, b'O') => {
                self.state = Sequence::Application;
                None
            }
            (Sequence::Control, b'0'..=b'9') => {
                self.number = self.number.saturating_mul(10).saturating_add((byte - b'0').into());
                None
            }
            // Parameters that follow, as the modifiers in `ESC [ 1 ; 5 A`.
            (Sequence::Control, 0x20..=0x3f) => None,
            (Sequence::Control | Sequence::Application, _) => {
                self.state = Sequence::None;
                match (byte, self.number) {
                    (b'A', _) => Some(Key::Scroll(-1)),
                    (b'B', _) => Some(Key::Scroll(1)),
                    (b'H', _) | (b'~', 1 | 7) => Some(Key::Scroll(isize::MIN)),
                    (b'F', _) | (b'~', 4 | 8) => Some(Key::Scroll(isize::MAX)),
                    (b'~', 5) => Some(Key::Scroll(-10)),
                    (b'~', 6) => Some(Key::Scroll(10)),
                    _ => None,
                }
            }
            (Sequence::None | Sequence::Escape, _) => {
                self.state = Sequence::None;
                match byte {
                    b'q' | 0x03 => Some(Key::Quit),
                    0x0c => Some(Key::Redraw),
                    b'j' => Some(Key::Scroll(1)),
                    b'k' => Some(Key::Scroll(-1)),
                    b' ' => Some(Key::Scroll(10)),
                    b'g' => Some(Key::Scroll(isize::MIN)),
                    b'G' => Some(Key::Scroll(isize::MAX)),
                    _ => None,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_what_a_terminal_sends() {
        let (top, end) = (Key::Scroll(isize::MIN), Key::Scroll(isize::MAX));
        let (up, down) = (Key::Scroll(-1), Key::Scroll(1));
        let cases: [(&str, &[Key]); 12] = [
            ("q", &[Key::Quit]),
            ("\u{3}x\u{c}", &[Key::Quit, Key::Redraw]),
            ("jk gG", &[down, up, Key::Scroll(10), top, end]),
            ("\x1b[A\x1b[B", &[up, down]),
            ("\x1bOA\x1bOB\x1bOH\x1bOF", &[up, down, top, end]),
            ("\x1b[5~\x1b[6~", &[Key::Scroll(-10), Key::Scroll(10)]),
            ("\x1b[H\x1b[F\x1b[1~\x1b[4~\x1b[7~\x1b[8~", &[top, end, top, end, top, end]),
            // With a modifier; keys without a meaning here, the letters of which must not be taken for keys.
            ("\x1b[1;5B", &[down]),
            ("\x1b[15~\x1b[2~\x1b[I\x1b[<0;1;1M", &[]),
            ("\x1b", &[]),
            ("\x1b\x1b[A", &[up]),
            ("äö", &[]),
        ];
        for (sent, keys) in cases {
            // A key at a time, byte by byte: the state is kept between reads.
            let mut parser = Parser::default();
            let found: Vec<Key> = sent.bytes().filter_map(|byte| parser.next(byte)).collect();
            assert_eq!(found, keys, "{sent:?}");
        }
    }
}
