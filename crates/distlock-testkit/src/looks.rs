//! Pauses between two looks at something that is expected.

use std::time::Duration;

/// So many looks come quickly: most of what is waited for takes a few milliseconds.
const QUICK: u32 = 10;
const SHORTEST: Duration = Duration::from_millis(2);
/// Many tests wait at the same time, and each look takes processor time from those that work.
const LONGEST: Duration = Duration::from_millis(25);

/// Ten pauses of 2 ms, then longer ones, up to 25 ms.
#[derive(Debug, Default)]
pub(crate) struct Looks(u32);

impl Looks {
    /// For how long to wait before the next look.
    pub(crate) fn next(&mut self) -> Duration {
        self.0 += 1;
        (SHORTEST * self.0.saturating_sub(QUICK).max(1)).min(LONGEST)
    }

    /// Waits before the next look.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.next()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare() {
        let mut looks = Looks::default();
        let pauses: Vec<u64> = (0..30).map(|_| looks.next().as_millis() as u64).collect();
        assert!(pauses[..QUICK as usize].iter().all(|&pause| pause == 2));
        assert!(pauses.is_sorted());
        assert_eq!(pauses[29], 25);
    }
}
