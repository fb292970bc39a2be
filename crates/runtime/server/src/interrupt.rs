//! Ctrl-C and termination: the first one asks to stop at a block boundary, the second stops at
//! once.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// What shells report for a process ended by Ctrl-C.
pub const EXIT_CODE: u8 = 130;

/// Whether somebody asked to stop.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for signals from now on.
    pub fn listen() -> Self {
        let asked = Self::default();
        let flag = asked.0.clone();
        let listening = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::SeqCst) {
                std::process::exit(i32::from(EXIT_CODE));
            }
        });
        if let Err(error) = listening {
            tracing::warn!(
                %error,
                "can't listen for Ctrl-C; pressing it will end the program at once"
            );
        }
        asked
    }

    /// Stop at the next boundary.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
