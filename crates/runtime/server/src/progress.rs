//! How far a long command is: a bar on a terminal, plain lines elsewhere, nothing for programs.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// In which way progress is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    /// Not at all.
    Nothing,
    /// A bar that is drawn over.
    Bar,
    /// A line every few seconds.
    Lines,
}

impl Show {
    /// The way that fits where standard error goes.
    pub fn suitable(json: bool) -> Self {
        match (json, std::io::stderr().is_terminal()) {
            (true, _) => Self::Nothing,
            (false, true) => Self::Bar,
            (false, false) => Self::Lines,
        }
    }

    /// A plain count; `total` 0 means that nobody knows the end.
    pub fn counter(self, total: u64, what: &str) -> ProgressBar {
        if self != Self::Bar {
            return ProgressBar::hidden();
        }
        let (bar, template) = match total {
            0 => (ProgressBar::new_spinner(), "{spinner} {human_pos} {msg}"),
            _ => (ProgressBar::new(total), "{bar:32.cyan/blue} {pos}/{len} {msg}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.with_message(what.to_owned())
    }
}
