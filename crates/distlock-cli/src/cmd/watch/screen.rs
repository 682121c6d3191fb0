//! The terminal: drawn on while we watch, and given back as it was however that ends.

use std::io;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row as Cells, Table};
use tokio::sync::mpsc;

use super::board::{Board, Row};
use crate::duration;
use crate::print::{self, Paint};
use crate::view;

/// How many cells a bar has.
const BAR: usize = 10;

/// Name, kind, holder, how long it has held it, how many wait, the bar.
const COLUMNS: usize = 6;

/// Less than this share of its lease left, and a lock is about to be lost: watchdogs renew at two thirds.
const LOW: f64 = 1.0 / 3.0;

/// What a user wants.
pub(super) enum Key {
    Quit,
    Scroll(isize),
    /// The terminal has, or had for a moment, another size, and may have lost what stood there; or Ctrl-L.
    Redraw,
}

/// Reads keys in a thread of its own, which ends with the program.
pub(super) fn keys() -> io::Result<mpsc::UnboundedReceiver<Key>> {
    let (sender, keys) = mpsc::unbounded_channel();
    thread::Builder::new().name("distlock-keys".into()).spawn(move || {
        // An error means that the terminal is gone: nobody is left to ask for the end.
        while let Ok(event) = event::read() {
            if key(&event).is_some_and(|key| sender.send(key).is_err()) {
                return;
            }
        }
    })?;
    Ok(keys)
}

fn key(event: &Event) -> Option<Key> {
    let key = match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        Event::Resize(..) => return Some(Key::Redraw),
        _ => return None,
    };
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
        KeyCode::Char('l') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Redraw,
        // Not Esc: over a slow line an arrow key may begin with one.
        KeyCode::Char('q') => Key::Quit,
        KeyCode::Down | KeyCode::Char('j') => Key::Scroll(1),
        KeyCode::Up | KeyCode::Char('k') => Key::Scroll(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => Key::Scroll(10),
        KeyCode::PageUp => Key::Scroll(-10),
        KeyCode::Home | KeyCode::Char('g') => Key::Scroll(isize::MIN),
        KeyCode::End | KeyCode::Char('G') => Key::Scroll(isize::MAX),
        _ => return None,
    })
}

/// A terminal that is ours. Given back when it is dropped; a panic gives it back before it speaks.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    /// How many lines are above what is shown.
    above: usize,
    colours: bool,
}

impl Screen {
    pub(super) fn open() -> io::Result<Screen> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Screen { terminal, above: 0, colours: Paint::stdout().is_on() }),
            Err(cause) => {
                // It may have got half way.
                let _ = ratatui::try_restore();
                Err(cause)
            }
        }
    }

    pub(super) fn scroll(&mut self, step: isize) {
        self.above = self.above.saturating_add_signed(step);
    }

    /// Has the next drawing draw everything.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        // Not `clear`, which asks the terminal where its cursor is, and whose answer our keys would take.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }

    pub(super) fn draw(&mut self, board: &Board) -> io::Result<()> {
        let look = Look { colours: self.colours };
        let lines: Vec<_> = board.rows.iter().flat_map(|row| look.lines(row)).collect();
        let kind =
            board.rows.iter().map(|row| row.kind.word().len()).max().unwrap_or(0).max(4) as u16;
        let above = &mut self.above;
        self.terminal.draw(|frame| {
            let parts = [Constraint::Length(3), Constraint::Min(1), Constraint::Length(1)];
            let [head, body, foot] = Layout::vertical(parts).areas(frame.area());
            // One line of the body is its heading.
            let fitting = usize::from(body.height).saturating_sub(1);
            *above = (*above).min(lines.len().saturating_sub(fitting));
            let below = lines.len().saturating_sub(*above + fitting);
            frame.render_widget(Paragraph::new(look.head(board)), head);
            let lines = lines.into_iter().skip(*above).take(fitting).collect();
            frame.render_widget(look.table(lines, body.width, kind), body);
            frame.render_widget(Paragraph::new(look.foot(*above, below)), foot);
        })?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// How things look, with colours or without.
#[derive(Clone, Copy)]
struct Look {
    colours: bool,
}

impl Look {
    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn head(self, board: &Board) -> Vec<Line<'static>> {
        let held = board.rows.iter().filter(|row| row.lock.is_held()).count();
        let waiting: u32 = board.rows.iter().filter_map(|row| view::waiters(&row.lock)).sum();
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let title = Line::from(vec![
            Span::styled("distlock watch", bold),
            Span::raw(format!(
                "  {}  {held} held, {waiting} waiting, {} holds seen",
                print::name(board.place()),
                board.holds
            )),
        ]);
        let waits = board.waits();
        let waits = match [0.5, 0.9, 0.99].map(|share| waits.share(share).map(duration::show)) {
            [Some(half), Some(most), Some(nearly)] => {
                let count = waits.len();
                format!("waited (sampled, {count} holds): p50 {half}  p90 {most}  p99 {nearly}")
            }
            _ => "waited (sampled): no holder has said yet".to_owned(),
        };
        let state = match (&board.trouble, board.seen_at) {
            (Some(trouble), seen) => {
                let since = seen.map_or("nothing seen yet".to_owned(), |at| {
                    format!("shown as it was {} ago", since(at))
                });
                let text = format!("STORE AWAY, {since}: {}", print::name(trouble));
                Line::styled(text, self.colour(Color::Red).add_modifier(Modifier::BOLD))
            }
            (None, None) => Line::raw("looking…"),
            (None, Some(_)) if board.rows.is_empty() => Line::raw("no lock is held"),
            (None, Some(_)) => Line::raw(""),
        };
        vec![title, Line::raw(waits), state]
    }

    fn foot(self, above: usize, below: usize) -> Line<'static> {
        let more = match (above, below) {
            (0, 0) => String::new(),
            (above, below) => format!("   {above} lines above, {below} below"),
        };
        Line::styled(format!("q quits, arrows scroll{more}"), self.colour(Color::DarkGray))
    }

    fn table(self, lines: Vec<[Cell<'static>; COLUMNS]>, width: u16, kind: u16) -> Table<'static> {
        let head = ["NAME", "KIND", "HOLDER", "HELD FOR", "WAITING", "TIME TO LIVE"];
        let widths = [
            Constraint::Fill(2),
            Constraint::Length(kind),
            Constraint::Fill(3),
            Constraint::Length(11),
            Constraint::Length(7),
            Constraint::Length(BAR as u16 + 12),
        ];
        // Where there is little room, names come first.
        let least = [0, 80, 50, 100, 60, 30];
        let shown = |column: &usize| width >= least[*column];
        let columns: Vec<usize> = (0..COLUMNS).filter(shown).collect();
        let style = Style::new().add_modifier(Modifier::BOLD);
        let head = Cells::new(columns.iter().map(|column| head[*column])).style(style);
        let line = |line: [Cell<'static>; COLUMNS]| {
            let cells = line.into_iter().enumerate();
            Cells::new(cells.filter(|(column, _)| columns.contains(column)).map(|(_, cell)| cell))
        };
        let lines: Vec<Cells<'_>> = lines.into_iter().map(line).collect();
        let widths: Vec<Constraint> = columns.iter().map(|column| widths[*column]).collect();
        Table::new(lines, widths).header(head).column_spacing(1)
    }

    /// A lock: a line for what it is and whoever holds it, and one for each further holder.
    fn lines(self, row: &Row) -> Vec<[Cell<'static>; COLUMNS]> {
        let lock = &row.lock;
        let now = SystemTime::now();
        let mut holders: Vec<[Cell<'static>; 2]> = Vec::new();
        // Of these one wants to know more than who is inside.
        if !lock.is_held() || row.kind.has_permits() {
            let (free, state) = view::state(row.kind, lock);
            let colour = if free { Color::Green } else { Color::Yellow };
            holders.push([Cell::from(Span::styled(state, self.colour(colour))), Cell::default()]);
        }
        for holder in &lock.holders {
            let held = view::held_for(holder, now).map(duration::show).unwrap_or_default();
            holders.push([Cell::from(view::who(holder) + view::manner(holder)), held.into()]);
        }
        let waiters = view::waiters(lock).map(|count| count.to_string()).unwrap_or_default();
        let mut first = Some((print::name(&lock.name), row.kind.word(), waiters, self.bar(row)));
        let line = |[holder, held]: [Cell<'static>; 2]| {
            let (name, kind, waiters, bar) = first.take().unwrap_or_default();
            [name.into(), kind.into(), holder, held, waiters.into(), Cell::from(bar)]
        };
        holders.into_iter().map(line).collect()
    }

    /// How much of its lease a lock has left.
    fn bar(self, row: &Row) -> Line<'static> {
        let Some(ttl) = row.lock.ttl else { return Line::default() };
        let share = ttl.as_secs_f64() / row.longest.max(Duration::from_millis(1)).as_secs_f64();
        let full = ((share * BAR as f64).round() as usize).min(BAR);
        let colour = if share < LOW { Color::Red } else { Color::Green };
        let bar = Span::styled("█".repeat(full), self.colour(colour));
        let rest = Span::styled("░".repeat(BAR - full), self.colour(Color::DarkGray));
        Line::from(vec![bar, rest, Span::raw(format!(" {}", duration::show(ttl)))])
    }
}

fn since(at: Instant) -> String {
    duration::show(Duration::from_secs(at.elapsed().as_secs()).max(Duration::from_secs(1)))
}
