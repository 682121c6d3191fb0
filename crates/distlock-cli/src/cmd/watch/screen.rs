//! The screen of `watch`: which columns fit, what they show, and drawing the lines that changed.

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use super::board::{Board, Row};
use super::terminal;
use crate::cells::{cut, width, wrap};
use crate::duration;
use crate::print::{self, Paint};
use crate::view;

/// How many cells a bar has.
const BAR: usize = 10;

/// How many columns a time takes, as `23 h 59 min`.
const TIME: usize = 11;

/// Less than this share of its lease left, and a lock is about to be lost: watchdogs renew at two thirds.
const LOW: f64 = 1.0 / 3.0;

/// Lines above the table: the title, the waits, the state of the store.
const HEAD: usize = 3;

/// A terminal that is ours. Given back when it is dropped.
pub(super) struct Screen {
    /// The lines that the terminal shows.
    drawn: Vec<String>,
    /// How many lines of the table are above what is shown.
    above: usize,
    colours: bool,
}

impl Screen {
    pub(super) fn open() -> io::Result<Screen> {
        terminal::open()?;
        Ok(Screen { drawn: Vec::new(), above: 0, colours: Paint::stdout().is_on() })
    }

    pub(super) fn scroll(&mut self, step: isize) {
        self.above = self.above.saturating_add_signed(step);
    }

    /// Makes the next drawing draw every line.
    pub(super) fn clear(&mut self) {
        self.drawn.clear();
    }

    pub(super) fn draw(&mut self, board: &Board) -> io::Result<()> {
        let (columns, rows) = terminal::size()?;
        let style = Style { colours: self.colours };
        let mut frame = style.head(board, columns);
        let table = Table::new(board, columns);
        frame.push(style.paint(BOLD, &table.heading()));
        let lines: Vec<String> =
            board.rows.iter().flat_map(|row| table.lines(row, style)).collect();
        // One line is below the table.
        let fitting = rows.saturating_sub(HEAD + 2);
        self.above = self.above.min(lines.len().saturating_sub(fitting));
        let below = lines.len().saturating_sub(self.above + fitting);
        frame.extend(lines.into_iter().skip(self.above).take(fitting));
        frame.resize(HEAD + 1 + fitting, String::new());
        frame.push(style.foot(self.above, below, columns));
        frame.truncate(rows);
        self.show(frame)
    }

    /// Writes the lines that differ from what the terminal shows.
    fn show(&mut self, frame: Vec<String>) -> io::Result<()> {
        let mut out = String::new();
        if self.drawn.len() != frame.len() {
            out.push_str("\x1b[2J");
            self.drawn.clear();
        }
        for (row, line) in frame.iter().enumerate() {
            if self.drawn.get(row) != Some(line) {
                // Erased first: behind a line that is as wide as the terminal, erasing would take its last character.
                let _ = write!(out, "\x1b[{};1H\x1b[2K{line}", row + 1);
            }
        }
        self.drawn = frame;
        if out.is_empty() { Ok(()) } else { terminal::write(&out) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        terminal::restore();
    }
}

const BOLD: &str = "1";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const GREY: &str = "90";

/// How text is emphasised, with colours or without.
#[derive(Clone, Copy)]
struct Style {
    colours: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        let wanted = self.colours || code == BOLD;
        if wanted && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }

    fn head(self, board: &Board, columns: usize) -> Vec<String> {
        let held = board.rows.iter().filter(|row| row.lock.is_held()).count();
        let waiting: u32 = board.rows.iter().filter_map(|row| view::waiters(&row.lock)).sum();
        let title = "distlock watch";
        let seen = format!(
            "  {}  {held} held, {waiting} waiting, {} holds seen",
            print::name(board.place()),
            board.holds
        );
        let seen = cut(&seen, columns.saturating_sub(width(title)));
        let waits = board.waits();
        let waits = match [0.5, 0.9, 0.99].map(|share| waits.share(share).map(duration::show)) {
            [Some(half), Some(most), Some(nearly)] => {
                let count = waits.len();
                format!("waited (sampled, {count} holds): p50 {half}  p90 {most}  p99 {nearly}")
            }
            _ => "waited (sampled): no holder has reported a wait".to_owned(),
        };
        let state = match (&board.trouble, board.seen_at) {
            (Some(trouble), seen) => {
                let since = seen.map_or("nothing seen yet".to_owned(), |at| {
                    format!("shown as it was {} ago", since(at))
                });
                let text = format!("STORE UNREACHABLE, {since}: {}", print::name(trouble));
                self.paint(RED, &cut(&text, columns))
            }
            (None, None) => cut("reading the store…", columns),
            (None, Some(_)) if board.rows.is_empty() => cut("no lock is held", columns),
            (None, Some(_)) => String::new(),
        };
        vec![self.paint(BOLD, &cut(title, columns)) + &seen, cut(&waits, columns), state]
    }

    fn foot(self, above: usize, below: usize, columns: usize) -> String {
        let more = match (above, below) {
            (0, 0) => String::new(),
            (above, below) => format!("   {above} lines above, {below} below"),
        };
        self.paint(GREY, &cut(&format!("q quits, arrows scroll{more}"), columns))
    }

    /// How much of its lease a lock has left, and for how long that is.
    fn time_to_live(self, row: &Row, with_bar: bool) -> Cell {
        let Some(ttl) = row.lock.ttl else { return Cell::default() };
        let share = ttl.as_secs_f64() / row.longest.max(Duration::from_millis(1)).as_secs_f64();
        let colour = if share < LOW { RED } else { GREEN };
        let text = duration::show(ttl);
        if !with_bar {
            return Cell { colour: (share < LOW).then_some(RED), text, bar: String::new() };
        }
        let full = ((share * BAR as f64).round() as usize).min(BAR);
        let bar =
            self.paint(colour, &"█".repeat(full)) + &self.paint(GREY, &"░".repeat(BAR - full));
        Cell { colour: None, text, bar: bar + " " }
    }
}

/// What one column shows of one row.
#[derive(Default)]
struct Cell {
    colour: Option<&'static str>,
    text: String,
    /// Painted already, [`BAR`] cells and a space wide; empty if there is none.
    bar: String,
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, ..Cell::default() }
    }
}

/// The columns of the table, from left to right.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Name,
    Kind,
    Holder,
    HeldFor,
    Waiting,
    TimeToLive,
}

impl Column {
    const ALL: [Column; 6] = [
        Column::Name,
        Column::Kind,
        Column::Holder,
        Column::HeldFor,
        Column::Waiting,
        Column::TimeToLive,
    ];

    fn heading(self) -> &'static str {
        match self {
            Column::Name => "NAME",
            Column::Kind => "KIND",
            Column::Holder => "HOLDER",
            Column::HeldFor => "HELD FOR",
            Column::Waiting => "WAITING",
            Column::TimeToLive => "TIME LEFT",
        }
    }

    /// The narrowest terminal that has room for it. Names come first, then holders.
    fn needs(self) -> usize {
        match self {
            Column::Name => 0,
            Column::Holder => 40,
            Column::TimeToLive => 56,
            Column::Waiting => 72,
            Column::Kind => 90,
            Column::HeldFor => 100,
        }
    }
}

/// Where the bar of the time that is left has room.
const NEEDS_BAR: usize = 110;

/// Which columns there are, and how wide each is. A cell that is wider takes several lines: nothing is cut.
struct Table {
    columns: Vec<(Column, usize)>,
    with_bar: bool,
}

impl Table {
    fn new(board: &Board, columns: usize) -> Table {
        let with_bar = columns >= NEEDS_BAR;
        let shown = Column::ALL.into_iter().filter(|column| columns >= column.needs());
        let widest = |of: &dyn Fn(&Row) -> usize, heading: &str| {
            board.rows.iter().map(of).max().unwrap_or(0).max(heading.len())
        };
        let fixed = |column: Column| match column {
            Column::Name => {
                let name = |row: &Row| width(&print::name(&row.lock.name));
                widest(&name, column.heading()).min(columns / 3)
            }
            Column::Kind => widest(&|row| row.kind.word().len(), column.heading()),
            // Gets the rest.
            Column::Holder => 0,
            Column::HeldFor => TIME,
            Column::Waiting => column.heading().len(),
            Column::TimeToLive => {
                if with_bar {
                    BAR + 1 + TIME
                } else {
                    TIME
                }
            }
        };
        let mut shown: Vec<(Column, usize)> = shown.map(|column| (column, fixed(column))).collect();
        let used: usize = shown.iter().map(|(_, width)| width + 1).sum();
        let rest = (columns + 1).saturating_sub(used);
        match shown.iter_mut().find(|(column, _)| *column == Column::Holder) {
            Some((_, width)) => *width = rest,
            // Names alone.
            None => shown.iter_mut().for_each(|(_, width)| *width = columns),
        }
        Table { columns: shown, with_bar }
    }

    fn heading(&self) -> String {
        let cell = |(column, width): &(Column, usize)| {
            format!("{:width$}", cut(column.heading(), *width), width = *width)
        };
        let cells: Vec<String> = self.columns.iter().map(cell).collect();
        cells.join(" ").trim_end().to_owned()
    }

    /// A lock: a row for what it is and its first holder, and one for each further holder.
    fn lines(&self, row: &Row, style: Style) -> Vec<String> {
        let lock = &row.lock;
        let now = SystemTime::now();
        let mut holders: Vec<(Cell, String)> = Vec::new();
        // Of locks with permits one wants to know more than who holds one.
        if !lock.is_held() || row.kind.has_permits() {
            let (free, text) = view::state(row.kind, lock);
            let colour = Some(if free { GREEN } else { YELLOW });
            holders.push((Cell { colour, text, bar: String::new() }, String::new()));
        }
        for holder in &lock.holders {
            let held = view::held_for(holder, now).map(duration::show).unwrap_or_default();
            holders.push(((view::brief(holder) + view::manner(holder)).into(), held));
        }
        let mut lines = Vec::new();
        for (index, (holder, held)) in holders.into_iter().enumerate() {
            let first = |text: String| if index == 0 { text } else { String::new() };
            let mut holder = Some(holder);
            let cells = self.columns.iter().map(|(column, _)| match column {
                Column::Name => first(print::name(&lock.name)).into(),
                Column::Kind => first(row.kind.word().to_owned()).into(),
                Column::Holder => holder.take().unwrap_or_default(),
                Column::HeldFor => held.clone().into(),
                Column::Waiting => {
                    first(view::waiters(lock).map(|count| count.to_string()).unwrap_or_default())
                        .into()
                }
                Column::TimeToLive if index == 0 => style.time_to_live(row, self.with_bar),
                Column::TimeToLive => Cell::default(),
            });
            lines.extend(self.row(cells.collect(), style));
        }
        lines
    }

    /// The lines of one row: as many as its longest cell needs.
    fn row(&self, cells: Vec<Cell>, style: Style) -> Vec<String> {
        let wrapped: Vec<(Cell, Vec<String>, usize)> = cells
            .into_iter()
            .zip(&self.columns)
            .map(|(cell, (_, width))| {
                let width = if cell.bar.is_empty() { *width } else { width - BAR - 1 };
                let parts = wrap(&cell.text, width.max(1));
                (cell, parts, width)
            })
            .collect();
        let height = wrapped.iter().map(|(_, parts, _)| parts.len()).max().unwrap_or(0);
        let line = |index: usize| {
            let mut line = String::new();
            let mut gap = 0;
            for (cell, parts, wide) in &wrapped {
                let text = parts.get(index).map(String::as_str).unwrap_or_default();
                let bar = if index == 0 { cell.bar.as_str() } else { "" };
                if !text.is_empty() || !bar.is_empty() {
                    line.push_str(&" ".repeat(gap));
                    line.push_str(bar);
                    line.push_str(&cell.colour.map_or(text.into(), |c| style.paint(c, text)));
                    gap = 0;
                }
                let bar = if cell.bar.is_empty() || !bar.is_empty() { 0 } else { BAR + 1 };
                gap += bar + wide.saturating_sub(width(text)) + 1;
            }
            line
        };
        (0..height).map(line).collect()
    }
}

fn since(at: Instant) -> String {
    duration::show(Duration::from_secs(at.elapsed().as_secs()).max(Duration::from_secs(1)))
}
