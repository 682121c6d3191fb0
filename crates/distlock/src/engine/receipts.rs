//! Who waits to hear how a release went.

use tokio::sync::oneshot;

use crate::error::Result;

/// Where somebody waits for the answer to a release.
pub(super) type Receipt = oneshot::Sender<Result<()>>;

/// Those who wait for the same answer: nobody or one, as a rule.
#[derive(Debug, Default)]
pub(super) struct Receipts(Option<Box<(Receipt, Receipts)>>);

impl Receipts {
    pub(super) fn add(&mut self, receipt: Option<Receipt>) {
        if let Some(receipt) = receipt {
            let rest = std::mem::take(self);
            *self = Receipts(Some(Box::new((receipt, rest))));
        }
    }

    pub(super) fn answer(mut self, how: &Result<()>) {
        while let Some(first) = self.0.take() {
            let (receipt, rest) = *first;
            drop(receipt.send(how.clone()));
            self = rest;
        }
    }
}
