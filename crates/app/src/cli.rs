//! The arguments: what may be asked, with help. Options that are settings come from the sections
//! that declare them.

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use unspent_server::{
    Config, Outcome, Output, RoomFace, Rooms, auth,
    command::{ParsedCommand, RoomCommand},
    config::{GivenFlag, SettingSources, load},
};

use crate::{backup, config, demo, manual, serve};

/// What `--help` says about exit codes.
const EXIT_CODES: &str = "Exit codes:
  0    done
  1    failed; nothing is half done, and the message says where things stand
  2    wrong arguments
  3    a check found problems: chain verify, wallet audit, wallet import-btcwallet, db copy,
       ecash mint check, demo; or some of several outputs were refused: txstore freeze, unfreeze
  130  stopped by Ctrl-C at a block boundary

Errors go to standard error, with --json also to standard output, as
{\"error\":{\"code\",\"message\",\"hint\"}}.";

/// Unspent keeps the state of every coin right, through rollbacks, pruning and crashes.
#[derive(Parser)]
#[command(name = "unspent", version, after_help = EXIT_CODES)]
pub(crate) struct CommonOptions {
    /// Folder that holds the data, one network per folder [default: ./unspent-data] [env:
    /// UNSPENT_DATA_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<String>,
    /// Configuration file, which says where everything is kept; see `unspent config init`
    #[arg(long, global = true, env = "UNSPENT_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON document instead of tables
    #[arg(long, global = true, env = "UNSPENT_JSON")]
    pub(crate) json: bool,
    /// Log more to standard error: -v info, -vv debug; UNSPENT_LOG takes filters and overrides this
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl CommonOptions {
    /// The settings among them.
    pub(crate) fn given(&self) -> Vec<GivenFlag> {
        let folder = self.data_dir.as_ref();
        folder.map(|folder| GivenFlag::new("data_dir", "--data-dir", folder)).into_iter().collect()
    }
}

/// The whole tree of commands: those of the rooms, in the rooms' order, and the program's own.
pub(crate) fn command(rooms: Rooms) -> clap::Command {
    let all = || rooms.iter().flat_map(RoomFace::commands);
    let shapes = |is_alone| {
        let some = all().filter(move |command| command.is_alone() == is_alone);
        some.map(RoomCommand::shape)
    };
    let tree = CommonOptions::command().subcommand_required(true).arg_required_else_help(true);
    let tree = OnData::augment_subcommands(tree.subcommands(shapes(false)));
    Alone::augment_subcommands(tree.subcommands(shapes(true)))
}

/// A command with everything that was given with it.
pub(crate) struct Cli {
    pub(crate) options: CommonOptions,
    command: Command,
}

enum Command {
    OfRoom(ParsedCommand),
    OnData(OnData),
    Alone(Alone),
}

impl Cli {
    /// Reads what the process was started with.
    pub(crate) fn try_parse(rooms: Rooms) -> Result<Self, clap::Error> {
        Self::try_parse_from(rooms, std::env::args_os())
    }

    /// Reads arguments, the first of which is the program's name.
    pub(crate) fn try_parse_from<T: Into<OsString> + Clone>(
        rooms: Rooms,
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        let mut tree = command(rooms);
        let given = tree.try_get_matches_from_mut(arguments)?;
        let read = || {
            let options = CommonOptions::from_arg_matches(&given)?;
            Ok(Self { options, command: Command::read(rooms, &given)? })
        };
        read().map_err(|error: clap::Error| error.format(&mut tree))
    }

    /// The daemon's configuration says how it logs.
    pub(crate) fn logs_itself(&self) -> bool {
        matches!(self.command, Command::OnData(OnData::Serve(_)))
    }

    /// Whether it works on somebody's data: what it writes is for the owner alone.
    pub(crate) fn keeps_data(&self) -> bool {
        match &self.command {
            Command::OfRoom(ParsedCommand::OnData(_)) | Command::OnData(_) => true,
            Command::OfRoom(ParsedCommand::Alone(_)) => false,
            Command::Alone(command) => matches!(command, Alone::Demo(_)),
        }
    }

    /// Runs the command.
    pub(crate) fn run(&self, rooms: Rooms, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        match &self.command {
            Command::OfRoom(ParsedCommand::OnData(command)) => {
                let config = self.settings(rooms, command.given())?;
                config.warn();
                backup::check_finished(&config.data_dir)?;
                command.run(&config, output)
            }
            Command::OfRoom(ParsedCommand::Alone(command)) => command.run(output),
            Command::OnData(command) => {
                let config = self.settings(rooms, command.given())?;
                config.warn();
                command.run(&config, self.options.verbose, output)
            }
            Command::Alone(command) => command.run(rooms, &self.options, output),
        }
    }

    /// The settings that its command works with.
    #[cfg(test)]
    pub(crate) fn resolved(&self, rooms: Rooms) -> anyhow::Result<Config> {
        match &self.command {
            Command::OfRoom(ParsedCommand::OnData(command)) => {
                self.settings(rooms, command.given())
            }
            Command::OnData(command) => self.settings(rooms, command.given()),
            Command::OfRoom(ParsedCommand::Alone(_)) | Command::Alone(_) => {
                anyhow::bail!("it has no settings")
            }
        }
    }

    /// What holds for a command: defaults, the file, the environment, its flags.
    fn settings(&self, rooms: Rooms, given: Vec<GivenFlag>) -> anyhow::Result<Config> {
        let flags = given.into_iter().chain(self.options.given()).collect();
        load(rooms, &SettingSources::of_process(self.options.config.clone(), flags)?)
    }
}

impl Command {
    fn read(rooms: Rooms, given: &ArgMatches) -> Result<Self, clap::Error> {
        let name = given.subcommand_name().unwrap_or_default();
        let room = rooms.iter().flat_map(RoomFace::commands).find(|room| room.name() == name);
        if let (Some(room), Some((_, given))) = (room, given.subcommand()) {
            return Ok(Self::OfRoom(room.parse(given)?));
        }
        if OnData::has_subcommand(name) {
            return Ok(Self::OnData(OnData::from_arg_matches(given)?));
        }
        Ok(Self::Alone(Alone::from_arg_matches(given)?))
    }
}

// Not a doc comment: clap would take it for what the program is about.
// Commands that work with what the settings name.
#[derive(Subcommand)]
enum OnData {
    /// Follow a chain, keep the rooms in step, serve REST and the dashboard
    Serve(serve::ServeArgs),
    /// Tokens for the daemon's REST interface
    Token(auth::TokenArgs),
    /// Back up everything a daemon keeps, and restore it
    Db(backup::DbArgs),
}

impl OnData {
    /// The settings among its arguments.
    fn given(&self) -> Vec<GivenFlag> {
        match self {
            Self::Serve(args) => args.given(),
            Self::Token(args) => args.given(),
            Self::Db(_) => Vec::new(),
        }
    }

    fn run(
        &self,
        config: &Config,
        verbose: u8,
        output: &mut Output<'_>,
    ) -> anyhow::Result<Outcome> {
        // A restore clears away what an unfinished one left.
        if !matches!(self, Self::Db(_)) {
            backup::check_finished(&config.data_dir)?;
        }
        match self {
            Self::Serve(_) => serve::run(config, verbose, output),
            Self::Token(args) => auth::run(config, args, output),
            Self::Db(args) => backup::run(config, args, output),
        }
    }
}

// Commands that need no data and no settings; see above.
#[derive(Subcommand)]
enum Alone {
    /// The configuration: write a commented one, check one, show the settings in effect
    Config(config::ConfigArgs),
    /// Print completions for a shell: bash, zsh, fish, elvish or powershell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual as one page, or write a page for each command into a folder
    Man {
        /// The folder, such as /usr/local/share/man/man1
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// See Unspent at work in a minute: a daemon on a simulated network with two wallets (exit code
    /// 3 when its books and the network's differ)
    Demo(demo::DemoArgs),
}

impl Alone {
    fn run(
        &self,
        rooms: Rooms,
        options: &CommonOptions,
        output: &mut Output<'_>,
    ) -> anyhow::Result<Outcome> {
        match self {
            Self::Config(args) => config::run(rooms, options, args, output),
            Self::Completions { shell } => manual::completions(rooms, *shell, output),
            Self::Man { folder } => manual::pages(rooms, folder.as_deref(), output),
            Self::Demo(args) => demo::run(rooms, args, output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_begins_with_what_the_program_is() {
        let tree = command(crate::ROOMS);
        let about = tree.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(about.starts_with("Unspent keeps the state of every coin right"), "{about}");
        assert!(tree.get_long_about().is_none());
    }
}
