//! The whole configuration.

use std::{any::Any, fmt::Debug, path::PathBuf, sync::Arc};

use unspent_model::{Network, network::NETWORKS};

use super::{
    declare::Section,
    sections::{
        AuthSection, EventsSection, HttpSection, LogSection, SourceSection, WebhooksSection,
    },
};
use crate::{error::CliError, rooms::ROOMS};

/// Where the data lives unless somebody says otherwise.
pub(crate) const DATA_DIR: &str = "./unspent-data";
/// The network unless somebody says otherwise; only the simulated one goes without a name.
pub(super) const NETWORK: Network = Network::BitcoinRegtest;

/// The whole configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) network: Network,
    pub(crate) data_dir: PathBuf,
    pub(crate) source: SourceSection,
    pub(crate) http: HttpSection,
    pub(crate) auth: AuthSection,
    pub(crate) log: LogSection,
    pub(crate) events: EventsSection,
    pub(crate) webhooks: WebhooksSection,
    /// The sections of the rooms, in the order of their table.
    pub(super) rooms: Vec<Arc<dyn RoomSection>>,
}

/// A section that its room has read, and that the room alone knows the type of.
pub(crate) trait RoomSection: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> RoomSection for T {}

/// The tokens' file in the data folder, unless the configuration names another.
pub(crate) const TOKENS_FILE: &str = "tokens.json";

impl Config {
    /// Where the tokens are.
    pub(crate) fn tokens_file(&self) -> PathBuf {
        let given = self.auth.tokens_file.clone();
        given.unwrap_or_else(|| self.data_dir.join(TOKENS_FILE))
    }

    /// A room's section.
    pub(crate) fn room<T: Section + 'static>(&self) -> anyhow::Result<&T> {
        let found = self.rooms.iter().find_map(|section| {
            let section: &dyn Any = section.as_ref();
            section.downcast_ref::<T>()
        });
        found.ok_or_else(|| CliError::bug(format!("nobody has read [{}]", T::NAME)).into())
    }
}

type Part = (&'static str, fn() -> String);

/// The sections that stand before those of the rooms in the template, and after them.
const BEFORE: [Part; 1] = [(SourceSection::NAME, SourceSection::template)];
const AFTER: [Part; 5] = [
    (HttpSection::NAME, HttpSection::template),
    (AuthSection::NAME, AuthSection::template),
    (LogSection::NAME, LogSection::template),
    (EventsSection::NAME, EventsSection::template),
    (WebhooksSection::NAME, WebhooksSection::template),
];

/// Every section, with its part of the template.
fn parts() -> Vec<(&'static str, String)> {
    let own = |(name, template): &Part| (*name, template());
    let rooms = ROOMS.iter().map(|room| (room.section(), room.template()));
    BEFORE.iter().map(own).chain(rooms).chain(AFTER.iter().map(own)).collect()
}

/// Names of all sections.
pub(super) fn section_names() -> Vec<&'static str> {
    parts().into_iter().map(|(name, _)| name).collect()
}

/// What `unspent config init` writes: every key, with its default where it has one.
pub(super) fn template() -> String {
    let networks = NETWORKS.map(|(_, name)| name).join(", ");
    let head = format!(
        "# Configuration of `unspent serve`.\n\
         #\n\
         # Every key may also be set by the environment (UNSPENT_HTTP__LISTEN for `listen` in\n\
         # [http]) or by a flag (--set http.listen=127.0.0.1:8480). Flags count more than the\n\
         # environment, and that more than this file. An unknown key is an error.\n\
         \n\
         # One data folder serves one network. Networks:\n\
         # {networks}\n\
         network = \"{NETWORK}\"\n\
         data_dir = \"{DATA_DIR}\"\n"
    );
    let parts = parts().into_iter().map(|(_, text)| text);
    std::iter::once(head).chain(parts).collect::<Vec<_>>().join("\n")
}
