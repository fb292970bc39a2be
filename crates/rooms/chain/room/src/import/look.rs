//! The look through the files before anything is written.

use indicatif::ProgressBar;
use unspent_server::interrupt::Interrupt;
use unspent_source::files::FilesError;

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
    pub(crate) fn next_file(&self) {
        self.bar.inc(1);
    }

    /// Nobody asked to stop.
    pub(crate) fn goes_on(&self) -> bool {
        !self.interrupt.asked()
    }

    /// The next file is looked at, unless somebody asked to stop.
    pub(crate) fn step(&self) -> Result<(), FilesError> {
        self.next_file();
        if self.goes_on() { Ok(()) } else { Err(FilesError::Interrupted) }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
