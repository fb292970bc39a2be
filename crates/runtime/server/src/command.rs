//! The commands that a room registers: what the command line shows and reads of them is in their
//! arguments, what they do in [`DataCommand`] or [`AloneCommand`].

use clap::{ArgMatches, Args, Command, Error};

use crate::{
    config::{Config, GivenFlag},
    error::Outcome,
    output::Output,
};

/// A command that works with what the settings name.
pub trait DataCommand {
    /// The settings among its arguments.
    fn given(&self) -> Vec<GivenFlag>;

    /// Runs it.
    ///
    /// # Errors
    ///
    /// When the room says no; the error says what holds.
    fn run(&self, config: &Config, output: &mut Output<'_>) -> anyhow::Result<Outcome>;
}

/// A command that needs no data and no settings.
pub trait AloneCommand {
    /// Runs it.
    ///
    /// # Errors
    ///
    /// When it can't be done.
    fn run(&self, output: &mut Output<'_>) -> anyhow::Result<Outcome>;
}

/// A command of a room, with its arguments as they were given.
pub enum ParsedCommand {
    /// It works with what the settings name.
    OnData(Box<dyn DataCommand>),
    /// It needs none.
    Alone(Box<dyn AloneCommand>),
}

/// A command as a room registers it.
pub struct RoomCommand {
    shape: Command,
    is_alone: bool,
    parse: fn(&ArgMatches) -> Result<ParsedCommand, Error>,
}

impl RoomCommand {
    /// A command that works with what the settings name.
    pub fn on_data<A: Args + DataCommand + 'static>(
        name: &'static str,
        about: &'static str,
    ) -> Self {
        let parse =
            |given: &ArgMatches| Ok(ParsedCommand::OnData(Box::new(A::from_arg_matches(given)?)));
        Self { shape: shape::<A>(name, about), is_alone: false, parse }
    }

    /// A command that needs no data and no settings.
    pub fn alone<A: Args + AloneCommand + 'static>(
        name: &'static str,
        about: &'static str,
    ) -> Self {
        let parse =
            |given: &ArgMatches| Ok(ParsedCommand::Alone(Box::new(A::from_arg_matches(given)?)));
        Self { shape: shape::<A>(name, about), is_alone: true, parse }
    }

    /// Whether it needs no data and no settings.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// How it is called.
    pub fn name(&self) -> &str {
        self.shape.get_name()
    }

    /// What the command line shows and reads.
    pub fn shape(self) -> Command {
        self.shape
    }

    /// Reads its arguments.
    ///
    /// # Errors
    ///
    /// When two of them can't go together.
    pub fn parse(&self, given: &ArgMatches) -> Result<ParsedCommand, Error> {
        (self.parse)(given)
    }
}

/// What the list of commands says counts more than what the arguments say of themselves.
fn shape<A: Args>(name: &'static str, about: &'static str) -> Command {
    A::augment_args(Command::new(name)).about(about).long_about(None)
}
