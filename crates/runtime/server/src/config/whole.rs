//! The whole configuration.

use std::{any::Any, path::PathBuf, sync::Arc};

use toml::Value;
use unspent_model::{Network, network::NETWORKS};

use super::{
    declare::{DeclaredKey, Section},
    layers::{Layers, Origin},
    section::{RoomSection, SectionShape},
    sections::{
        AuthSection, EventsSection, HttpSection, LogSection, SourceSection, WebhooksSection,
    },
};
use crate::{
    error::{CliError, complain},
    room::{RoomFace, Rooms},
};

/// Where the data lives unless somebody says otherwise.
pub(super) const DATA_DIR: &str = "./unspent-data";
/// The network unless somebody says otherwise; only the simulated one goes without a name.
pub(super) const NETWORK: Network = Network::BitcoinRegtest;

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The network to follow.
    pub network: Network,
    /// The folder that holds the data.
    pub data_dir: PathBuf,
    /// Where blocks come from.
    pub source: SourceSection,
    /// The server.
    pub http: HttpSection,
    /// Who may call.
    pub auth: AuthSection,
    /// Log lines.
    pub log: LogSection,
    /// The log of events.
    pub events: EventsSection,
    /// URLs that are told of events.
    pub webhooks: WebhooksSection,
    pub(super) rooms: Rooms,
    /// The rooms' sections, in their order.
    pub(super) kept: Vec<Arc<dyn RoomSection>>,
    /// What was given, and by whom.
    pub(super) layers: Layers,
}

/// The tokens' file in the data folder, unless the configuration names another.
pub(super) const TOKENS_FILE: &str = "tokens.json";

impl Config {
    /// The rooms that this program has, whether they are on or not.
    pub fn rooms(&self) -> Rooms {
        self.rooms
    }

    /// Who gave a key, such as `ecash.url`.
    pub fn origin(&self, path: &str) -> &Origin {
        self.layers.origin(path)
    }

    /// What was given of a key, if anybody gave it.
    pub fn given(&self, path: &str) -> Option<&Value> {
        self.layers.get(path).map(|given| &given.value)
    }

    /// The rooms' sections, in their order.
    pub fn sections(&self) -> &[Arc<dyn RoomSection>] {
        &self.kept
    }

    /// What is understood, but should be written in another way.
    pub fn warnings(&self) -> &[String] {
        &self.layers.warnings
    }

    /// Says what is understood, but should be written in another way.
    pub fn warn(&self) {
        self.layers.warnings.iter().for_each(|warning| complain("warning", warning));
    }

    /// The network that a command is for: what its own argument says, else what somebody set. A
    /// database that is there knows its own.
    pub fn network_or(&self, asked: Option<Network>) -> Option<Network> {
        let is_set = *self.origin("network") != Origin::Default;
        asked.or_else(|| is_set.then_some(self.network))
    }

    /// Where the tokens are.
    pub fn tokens_file(&self) -> PathBuf {
        let given = self.auth.tokens_file.clone();
        given.unwrap_or_else(|| self.data_dir.join(TOKENS_FILE))
    }

    /// A room's section.
    pub fn room<T: Section + 'static>(&self) -> anyhow::Result<&T> {
        let found = self.kept.iter().find_map(|section| {
            let section: &dyn Any = section.as_ref();
            section.downcast_ref::<T>()
        });
        found.ok_or_else(|| CliError::bug(format!("nobody has read [{}]", T::NAME)).into())
    }
}

/// Every section, those of the rooms behind the source's.
fn parts(rooms: Rooms) -> Vec<SectionShape> {
    let rooms = rooms.iter().map(RoomFace::settings);
    let after = [
        SectionShape::of::<HttpSection>(),
        SectionShape::of::<AuthSection>(),
        SectionShape::of::<LogSection>(),
        SectionShape::of::<EventsSection>(),
        SectionShape::of::<WebhooksSection>(),
    ];
    std::iter::once(SectionShape::of::<SourceSection>()).chain(rooms).chain(after).collect()
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
        key("network", &[" The network to follow"], NETWORK.to_string()),
        key("data_dir", &[" Folder that holds the data"], DATA_DIR.to_owned()),
    ]
}

/// Every key that can be set.
pub fn declared_keys(rooms: Rooms) -> Vec<DeclaredKey> {
    top_keys().into_iter().chain(parts(rooms).into_iter().flat_map(|part| (part.keys)())).collect()
}

pub(super) fn section_names(rooms: Rooms) -> Vec<&'static str> {
    parts(rooms).into_iter().map(|part| part.name).collect()
}

/// What `unspent config init` writes: every key, with its default where it has one.
pub fn template(rooms: Rooms) -> String {
    let networks = NETWORKS.map(|(_, name)| name).join(", ");
    let head = format!(
        "# Configuration of `unspent serve` and of every command.\n\
         #\n\
         # Every key may also be set by the environment (UNSPENT_HTTP__LISTEN for `listen` in\n\
         # [http]) or by a flag (serve --set http.listen=127.0.0.1:8480; a room's commands have\n\
         # flags of its keys). Flags override the environment, which overrides this file. An\n\
         # unknown key is an error. `unspent config show` shows the settings in effect and why.\n\
         \n\
         # One data folder serves one network. Networks:\n\
         # {networks}\n\
         network = \"{NETWORK}\"\n\
         data_dir = \"{DATA_DIR}\"\n"
    );
    let parts = parts(rooms).into_iter().map(|part| (part.template)());
    std::iter::once(head).chain(parts).collect::<Vec<_>>().join("\n")
}
