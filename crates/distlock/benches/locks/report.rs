//! Figures by stable keys, rows that compare them, and how both are written down.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Everything that was measured.
#[derive(Default)]
pub(crate) struct Report {
    /// One number per round.
    figures: BTreeMap<String, Vec<f64>>,
    rows: Vec<Row>,
    broken: Vec<String>,
}

/// What is asked of a row.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// Of the ratio to the other figure.
    AtMost(f64),
    /// Of the ratio to the other figure.
    AtLeast(f64),
    /// Of the figure itself.
    Below(f64),
    /// Of the figure itself.
    Above(f64),
    /// To be known, not to be judged.
    None,
}

struct Row {
    title: &'static str,
    ours: String,
    beside: Option<String>,
    target: Target,
}

impl Report {
    /// The number of one round.
    pub(crate) fn add(&mut self, key: impl Into<String>, number: f64) {
        self.figures.entry(key.into()).or_default().push(number);
    }

    /// Compares two figures, round by round.
    pub(crate) fn compare(
        &mut self,
        title: &'static str,
        ours: impl Into<String>,
        beside: impl Into<String>,
        target: Target,
    ) {
        self.rows.push(Row { title, ours: ours.into(), beside: Some(beside.into()), target });
    }

    /// Judges a figure by itself.
    pub(crate) fn judge(&mut self, title: &'static str, ours: impl Into<String>, target: Target) {
        self.rows.push(Row { title, ours: ours.into(), beside: None, target });
    }

    /// Something happened that must never happen.
    pub(crate) fn broke(&mut self, what: impl Into<String>) {
        self.broken.push(what.into());
    }

    pub(crate) fn broken(&self) -> &[String] {
        &self.broken
    }

    fn numbers(&self, key: &str) -> &[f64] {
        self.figures.get(key).map_or(&[], Vec::as_slice)
    }

    /// The median of the ratios of each round: what a noisy neighbour does to one it does to both.
    fn ratio(&self, row: &Row) -> Option<f64> {
        let (ours, beside) = (self.numbers(&row.ours), self.numbers(row.beside.as_ref()?));
        let ratios: Vec<f64> = ours.iter().zip(beside).map(|(a, b)| a / b).collect();
        (!ratios.is_empty()).then(|| median(&ratios))
    }

    fn verdict(&self, row: &Row) -> &'static str {
        let number = median(self.numbers(&row.ours));
        let ratio = self.ratio(row);
        let met = match row.target {
            Target::AtMost(limit) => ratio.is_some_and(|ratio| ratio <= limit),
            Target::AtLeast(limit) => ratio.is_some_and(|ratio| ratio >= limit),
            Target::Below(limit) => number <= limit,
            Target::Above(limit) => number >= limit,
            Target::None => return "",
        };
        if met { "met" } else { "MISSED" }
    }

    pub(crate) fn text(&self, server: &str, rounds: usize) -> String {
        let mut text = format!("Redis {server}, {rounds} rounds; median (least … most)\n\n");
        let _ = writeln!(text, "| workload | ours | beside | ratio | target | |");
        let _ = writeln!(text, "|---|---|---|---|---|---|");
        for row in &self.rows {
            let beside = row.beside.as_ref().map_or(String::new(), |key| {
                format!(
                    "{} {}",
                    key.rsplit_once('.').map_or(&**key, |(who, _)| who),
                    self.short(key)
                )
            });
            let ratio = self.ratio(row).map_or(String::new(), |ratio| format!("{ratio:.2}"));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                row.title,
                self.short(&row.ours),
                beside,
                ratio,
                row.target.text(),
                self.verdict(row)
            );
        }
        let _ = writeln!(text, "\n| figure | median | least | most |\n|---|---|---|---|");
        for (key, numbers) in &self.figures {
            let (least, most) = spread(numbers);
            let middle = number(median(numbers));
            let _ = writeln!(text, "| {key} | {middle} | {} | {} |", number(least), number(most));
        }
        text
    }

    fn short(&self, key: &str) -> String {
        match self.numbers(key) {
            [] => "not measured".to_owned(),
            numbers => number(median(numbers)),
        }
    }

    pub(crate) fn json(&self, server: &str, rounds: usize) -> String {
        let figures = self.figures.iter().map(|(key, numbers)| {
            let (least, most) = spread(numbers);
            format!(
                "{}:{{\"median\":{},\"min\":{},\"max\":{}}}",
                quoted(key),
                plain(median(numbers)),
                plain(least),
                plain(most)
            )
        });
        let rows = self.rows.iter().map(|row| {
            format!(
                "{{\"title\":{},\"ours\":{},\"beside\":{},\"ratio\":{},\"target\":{},\"verdict\":{}}}",
                quoted(row.title),
                quoted(&row.ours),
                row.beside.as_ref().map_or("null".to_owned(), |key| quoted(key)),
                self.ratio(row).map_or("null".to_owned(), plain),
                quoted(&row.target.text()),
                quoted(self.verdict(row))
            )
        });
        format!(
            "{{\"format\":1,\"server\":{},\"rounds\":{rounds},\"figures\":{{{}}},\"rows\":[{}],\"broken\":[{}]}}",
            quoted(server),
            figures.collect::<Vec<_>>().join(","),
            rows.collect::<Vec<_>>().join(","),
            self.broken.iter().map(|what| quoted(what)).collect::<Vec<_>>().join(",")
        )
    }
}

impl Target {
    fn text(self) -> String {
        match self {
            Target::AtMost(limit) => format!("≤ {limit} ×"),
            Target::AtLeast(limit) => format!("≥ {limit} ×"),
            Target::Below(limit) => format!("≤ {}", number(limit)),
            Target::Above(limit) => format!("≥ {}", number(limit)),
            Target::None => String::new(),
        }
    }
}

/// The middle one; NaN of nothing.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    percentile(&mut numbers.to_vec(), 0.5)
}

pub(crate) fn percentile(numbers: &mut [f64], part: f64) -> f64 {
    if numbers.is_empty() {
        return f64::NAN;
    }
    numbers.sort_by(f64::total_cmp);
    let at = (numbers.len() - 1) as f64 * part;
    numbers[at.round() as usize]
}

fn spread(numbers: &[f64]) -> (f64, f64) {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}

fn number(number: f64) -> String {
    match number.abs() {
        large if large >= 1000.0 => format!("{number:.0}"),
        middle if middle >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.3}"),
    }
}

/// JSON has no NaN.
fn plain(number: f64) -> String {
    if number.is_finite() { format!("{number}") } else { "null".to_owned() }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
