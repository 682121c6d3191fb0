//! Text in columns: how wide it is on a terminal, and how it is broken into lines.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many columns of a terminal the text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text in lines of at most `width` columns, broken at spaces, and within a word that is longer than a line. At least one line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let wide = word.width();
        let gap = usize::from(used > 0);
        if used > 0 && used + gap + wide > width {
            lines.push(String::new());
            used = 0;
        } else if used > 0 {
            push(&mut lines, ' ');
            used += 1;
        }
        if wide <= width {
            lines.last_mut().into_iter().for_each(|line| line.push_str(word));
            used += wide;
            continue;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used > 0 && used + wide > width {
                lines.push(String::new());
                used = 0;
            }
            push(&mut lines, c);
            used += wide;
        }
    }
    lines
}

fn push(lines: &mut [String], c: char) {
    lines.last_mut().into_iter().for_each(|line| line.push(c));
}

/// As much of the text as fits into `width` columns.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_where_it_does_not_fit() {
        let holder = "distlock run on web-1, pid 7";
        assert_eq!(wrap(holder, 80), [holder]);
        assert_eq!(wrap(holder, 16), ["distlock run on", "web-1, pid 7"]);
        assert_eq!(wrap("a:very-long-name x", 6), ["a:very", "-long-", "name x"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        assert_eq!(wrap("日", 1), ["日"], "wider than the line, and not lost");
    }

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(cut("日本語", 5), "日本");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(width("日本"), 4);
    }
}
