//! The look through the files before anything is written.

use indicatif::ProgressBar;

use crate::{fault::Fault, interrupt::Interrupt};

/// Shows how many files have been looked through, and stops when asked to.
pub(crate) struct Look<'a> {
    bar: ProgressBar,
    interrupt: &'a Interrupt,
}

impl<'a> Look<'a> {
    /// A look that `bar` shows.
    pub(crate) fn new(bar: ProgressBar, interrupt: &'a Interrupt) -> Self {
        Self { bar, interrupt }
    }

    /// The next file is looked at.
    ///
    /// # Errors
    ///
    /// When somebody asked to stop.
    pub(crate) fn step(&self) -> Result<(), Fault> {
        self.bar.inc(1);
        if self.interrupt.asked() { Err(Fault::interrupted()) } else { Ok(()) }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
