//! The whole configuration.

use std::{any::Any, fmt::Debug, path::PathBuf, sync::Arc};

use unspent_model::{Network, network::NETWORKS};

use super::{
    declare::{DeclaredKey, Section},
    layers::{Layers, Origin},
    sections::{
        AuthSection, EventsSection, HttpSection, LogSection, SourceSection, WebhooksSection,
    },
};
use crate::{
    error::{CliError, complain},
    rooms::Rooms,
};

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
    pub(super) rooms: Rooms,
    /// The rooms' sections, in their order.
    pub(super) kept: Vec<Arc<dyn RoomSection>>,
    /// What was given, and by whom.
    pub(super) layers: Layers,
}

/// A section that its room has read, and that the room alone knows the type of.
pub(crate) trait RoomSection: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> RoomSection for T {}

/// The tokens' file in the data folder, unless the configuration names another.
pub(crate) const TOKENS_FILE: &str = "tokens.json";

impl Config {
    /// The rooms that this program has, whether they are on or not.
    pub(crate) fn rooms(&self) -> Rooms {
        self.rooms
    }

    /// Who gave a key, such as `ecash.url`.
    pub(crate) fn origin(&self, path: &str) -> &Origin {
        self.layers.origin(path)
    }

    /// Says what is understood, but should be written in another way.
    pub(crate) fn warn(&self) {
        self.layers.warnings.iter().for_each(|warning| complain("warning", warning));
    }

    /// The network that a command is for: what its own argument says, else what somebody set. A
    /// database that is there knows its own.
    pub(crate) fn network_or(&self, asked: Option<Network>) -> Option<Network> {
        let is_set = *self.origin("network") != Origin::Default;
        asked.or_else(|| is_set.then_some(self.network))
    }

    /// Where the tokens are.
    pub(crate) fn tokens_file(&self) -> PathBuf {
        let given = self.auth.tokens_file.clone();
        given.unwrap_or_else(|| self.data_dir.join(TOKENS_FILE))
    }

    /// A room's section.
    pub(crate) fn room<T: Section + 'static>(&self) -> anyhow::Result<&T> {
        let found = self.kept.iter().find_map(|section| {
            let section: &dyn Any = section.as_ref();
            section.downcast_ref::<T>()
        });
        found.ok_or_else(|| CliError::bug(format!("nobody has read [{}]", T::NAME)).into())
    }
}

/// One section as a whole: its heading, its part of the template, its keys.
struct SectionParts {
    name: &'static str,
    template: String,
    keys: Vec<DeclaredKey>,
}

fn parts_of<S: Section>() -> SectionParts {
    SectionParts { name: S::NAME, template: S::template(), keys: S::keys() }
}

/// Every section, those of the rooms behind the source's.
fn parts(rooms: Rooms) -> Vec<SectionParts> {
    let rooms = rooms.iter().map(|room| SectionParts {
        name: room.section(),
        template: room.template(),
        keys: room.keys(),
    });
    let after = [
        parts_of::<HttpSection>(),
        parts_of::<AuthSection>(),
        parts_of::<LogSection>(),
        parts_of::<EventsSection>(),
        parts_of::<WebhooksSection>(),
    ];
    std::iter::once(parts_of::<SourceSection>()).chain(rooms).chain(after).collect()
}

/// The keys that stand before the sections.
fn top_keys() -> [DeclaredKey; 2] {
    let key = |name, about, default: String| DeclaredKey {
        section: "",
        name,
        about,
        default: Some(format!("\"{default}\"")),
        example: "",
        flag: None,
        was: &[],
        rival: None,
    };
    [
        key("network", &[" The network that is followed"], NETWORK.to_string()),
        key("data_dir", &[" Folder that holds the data"], DATA_DIR.to_owned()),
    ]
}

/// Every key that can be set.
pub(crate) fn declared_keys(rooms: Rooms) -> Vec<DeclaredKey> {
    top_keys().into_iter().chain(parts(rooms).into_iter().flat_map(|part| part.keys)).collect()
}

/// Names of all sections.
pub(super) fn section_names(rooms: Rooms) -> Vec<&'static str> {
    parts(rooms).into_iter().map(|part| part.name).collect()
}

/// What `unspent config init` writes: every key, with its default where it has one.
pub(super) fn template(rooms: Rooms) -> String {
    let networks = NETWORKS.map(|(_, name)| name).join(", ");
    let head = format!(
        "# Configuration of `unspent serve` and of every command.\n\
         #\n\
         # Every key may also be set by the environment (UNSPENT_HTTP__LISTEN for `listen` in\n\
         # [http]) or by a flag (serve --set http.listen=127.0.0.1:8480; a room's commands have\n\
         # flags of its keys). Flags count more than the environment, and that more than this\n\
         # file. An unknown key is an error. `unspent config show` tells what holds and why.\n\
         \n\
         # One data folder serves one network. Networks:\n\
         # {networks}\n\
         network = \"{NETWORK}\"\n\
         data_dir = \"{DATA_DIR}\"\n"
    );
    let parts = parts(rooms).into_iter().map(|part| part.template);
    std::iter::once(head).chain(parts).collect::<Vec<_>>().join("\n")
}
