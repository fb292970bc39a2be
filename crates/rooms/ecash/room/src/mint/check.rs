//! Whether a mint can be used at all.
//!
//! | asked, in this order | else |
//! |---|---|
//! | an address of HTTP | [`MintProblem::NoAddress`] |
//! | not on the list of blocked mints | [`MintProblem::Blocked`] |
//! | it answers with its description and its keysets | [`MintProblem::NotAnswering`] |
//! | an active keyset of the unit | [`MintProblem::NoKeyset`] |
//! | minting and melting by invoice in the unit (NUTs 4, 5) | [`MintProblem::NoNut`] |
//! | NUTs 7 to 12 and 20 | [`MintProblem::NoNut`] |
//! | notices on melts and proofs over a WebSocket (NUT-17) | [`MintProblem::NoCommand`] |
//!
//! Notices on mint quotes are welcome, not needed: where they lack, quotes are asked about.

use std::fmt;

use cashu::{
    CurrencyUnit, KeysetResponse, MintInfo, PaymentMethod,
    mint_url::MintUrl,
    nut00::KnownMethod,
    nut17::{SupportedMethods, WsCommand},
};

use super::{MintClient, MintOptions, MintVisit, NoResult};

/// Why a mint can't be used. Nothing of it was kept.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MintProblem {
    /// No address of a mint.
    #[error("`{0}` is not the address of a mint: it must start with https:// or http://")]
    NoAddress(String),
    /// The operator doesn't want it.
    #[error("{0} is on the list of blocked mints (`ecash.mint_blocklist`)")]
    Blocked(MintUrl),
    /// It can't be asked.
    #[error("can't connect to {mint}: {fault}")]
    NotAnswering {
        /// The mint.
        mint: MintUrl,
        /// Why.
        fault: NoResult,
    },
    /// It signs nothing in this unit.
    #[error("the mint has no active keyset for the unit {0}")]
    NoKeyset(CurrencyUnit),
    /// A part of the protocol is missing.
    #[error("the mint lacks NUT-{nut:02} for the unit {unit}")]
    NoNut {
        /// Its number.
        nut: u8,
        /// The unit that is meant.
        unit: CurrencyUnit,
    },
    /// A notice is missing.
    #[error("the mint lacks the WebSocket command `{command}` for the unit {unit}")]
    NoCommand {
        /// The protocol's name.
        command: &'static str,
        /// The unit that is meant.
        unit: CurrencyUnit,
    },
}

/// Mints that the operator doesn't want, wholly or in some units.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MintBlocklist(Vec<(MintUrl, Option<CurrencyUnit>)>);

impl MintBlocklist {
    /// Reads entries such as `https://mint.example` and `https://mint.example usd`.
    ///
    /// # Errors
    ///
    /// The entry that can't be read.
    pub fn parse<T: AsRef<str>>(entries: &[T]) -> Result<Self, MintProblem> {
        let read = |entry: &T| {
            let mut words = entry.as_ref().split_whitespace();
            let mint = address(words.next().unwrap_or_default())?;
            let unit = words.next().map(unit_of);
            Ok((mint, unit))
        };
        entries.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a mint is blocked for a unit.
    pub fn blocks(&self, mint: &MintUrl, unit: &CurrencyUnit) -> bool {
        let is_meant = |blocked: &Option<CurrencyUnit>| blocked.as_ref().is_none_or(|b| b == unit);
        self.0.iter().any(|(blocked, units)| blocked == mint && is_meant(units))
    }
}

/// A unit by its name; names that nobody reserved are units too.
pub(crate) fn unit_of(name: &str) -> CurrencyUnit {
    name.parse().unwrap_or_else(|_| CurrencyUnit::Custom(name.to_lowercase().into()))
}

/// What an account at a mint is called unless somebody says otherwise: the mint's host.
pub fn host_of(mint: &str) -> &str {
    mint.split("//").nth(1).unwrap_or(mint).trim_end_matches('/')
}

/// The address of a mint, in the one form that is compared: scheme and host in lower case, the
/// path as it is, no slash at the end.
///
/// # Errors
///
/// [`MintProblem::NoAddress`].
pub fn address(text: &str) -> Result<MintUrl, MintProblem> {
    let wrong = || MintProblem::NoAddress(text.chars().take(200).collect());
    let url: MintUrl = text.trim().parse().map_err(|_| wrong())?;
    let parsed = url.join("v1").map_err(|_| wrong())?;
    let is_http = matches!(parsed.scheme(), "http" | "https");
    // A mint's address is shown in lists, logs and tokens: no place for a password.
    let is_bare = parsed.username().is_empty() && parsed.password().is_none();
    let is_plain = parsed.query().is_none() && parsed.fragment().is_none();
    let is_fit = is_http && parsed.has_host() && is_bare && is_plain;
    is_fit.then_some(url).ok_or_else(wrong)
}

/// A mint that can be used in a unit.
#[derive(Clone, Debug)]
pub struct CheckedMint {
    /// Its address.
    pub url: MintUrl,
    /// What it says of itself.
    pub info: MintInfo,
    /// Its keysets.
    pub keysets: KeysetResponse,
    /// Whether it gives notice of paid mint quotes.
    pub tells_of_mint_quotes: bool,
}

/// As [`check`], with the unit by its name.
///
/// # Errors
///
/// As there.
pub fn check_named(
    text: &str,
    unit: &str,
    blocklist: &MintBlocklist,
    options: MintOptions,
) -> Result<CheckedMint, Vec<MintProblem>> {
    check(text, &unit_of(unit), blocklist, options)
}

/// The address of a mint that the operator doesn't mind.
///
/// # Errors
///
/// [`MintProblem::NoAddress`], [`MintProblem::Blocked`].
pub fn allowed(
    text: &str,
    unit: &CurrencyUnit,
    blocklist: &MintBlocklist,
) -> Result<MintUrl, Vec<MintProblem>> {
    let url = address(text).map_err(|problem| vec![problem])?;
    let is_blocked = blocklist.blocks(&url, unit);
    if is_blocked { Err(vec![MintProblem::Blocked(url)]) } else { Ok(url) }
}

/// Asks a mint whether it can be used in a unit.
///
/// # Errors
///
/// Every [`MintProblem`] that was found, at least one.
pub fn check(
    text: &str,
    unit: &CurrencyUnit,
    blocklist: &MintBlocklist,
    options: MintOptions,
) -> Result<CheckedMint, Vec<MintProblem>> {
    let url = allowed(text, unit, blocklist)?;
    look(&MintClient::new(url, options).visit(), unit)
}

/// The same at a mint whose address may be called, as a part of a visit.
///
/// # Errors
///
/// As there.
pub fn look(visit: &MintVisit<'_>, unit: &CurrencyUnit) -> Result<CheckedMint, Vec<MintProblem>> {
    let url = visit.client().url().clone();
    let away = |fault| vec![MintProblem::NotAnswering { mint: url.clone(), fault }];
    let info = visit.info().map_err(away)?;
    let keysets = visit.keysets().map_err(away)?;
    let problems = judge(&info, &keysets, unit);
    if !problems.is_empty() {
        return Err(problems);
    }
    let tells_of_mint_quotes = tells_of(&info, unit, &WsCommand::Bolt11MintQuote);
    Ok(CheckedMint { url, info, keysets, tells_of_mint_quotes })
}

/// What a mint lacks, by what it says of itself.
pub fn judge(info: &MintInfo, keysets: &KeysetResponse, unit: &CurrencyUnit) -> Vec<MintProblem> {
    let nuts = &info.nuts;
    let bolt11 = PaymentMethod::Known(KnownMethod::Bolt11);
    let has_keyset = keysets.keysets.iter().any(|keyset| keyset.active && keyset.unit == *unit);
    let mints = !nuts.nut04.disabled && nuts.nut04.get_settings(unit, &bolt11).is_some();
    let melts = !nuts.nut05.disabled && nuts.nut05.get_settings(unit, &bolt11).is_some();
    // Without states, restore and DLEQ proofs (7, 9, 12) what a crash has left can't be told from
    // a loss; 20 keeps a paid quote from being issued to others.
    let parts = [
        (4, mints),
        (5, melts),
        (7, nuts.nut07.supported),
        (8, nuts.nut08.supported),
        (9, nuts.nut09.supported),
        (10, nuts.nut10.supported),
        (11, nuts.nut11.supported),
        (12, nuts.nut12.supported),
        (17, nuts.nut17.supported.iter().any(|entry| is_for(entry, unit))),
        (20, nuts.nut20.supported),
    ];
    let commands =
        [("bolt11_melt_quote", WsCommand::Bolt11MeltQuote), ("proof_state", WsCommand::ProofState)];
    let keyset = (!has_keyset).then(|| MintProblem::NoKeyset(unit.clone()));
    let parts = parts.into_iter().filter(|(_, has)| !has);
    let parts = parts.map(|(nut, _)| MintProblem::NoNut { nut, unit: unit.clone() });
    let commands = commands.into_iter().filter(|(_, command)| !tells_of(info, unit, command));
    let commands =
        commands.map(|(command, _)| MintProblem::NoCommand { command, unit: unit.clone() });
    keyset.into_iter().chain(parts).chain(commands).collect()
}

fn is_for(entry: &SupportedMethods, unit: &CurrencyUnit) -> bool {
    entry.unit == *unit && entry.method == PaymentMethod::Known(KnownMethod::Bolt11)
}

/// Whether a mint gives notice of such things in a unit.
pub fn tells_of(info: &MintInfo, unit: &CurrencyUnit, command: &WsCommand) -> bool {
    let entries = info.nuts.nut17.supported.iter().filter(|entry| is_for(entry, unit));
    entries.flat_map(|entry| &entry.commands).any(|known| known == command)
}

/// Problems as one sentence.
pub struct ProblemList<'a>(pub &'a [MintProblem]);

impl fmt::Display for ProblemList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn description() -> Value {
        let methods =
            json!({ "methods": [{ "method": "bolt11", "unit": "sat" }], "disabled": false });
        let yes = json!({ "supported": true });
        json!({ "name": "a mint", "nuts": {
            "4": methods, "5": methods, "7": yes, "8": yes, "9": yes, "10": yes, "11": yes,
            "12": yes, "20": yes,
            "17": { "supported": [{ "method": "bolt11", "unit": "sat",
                "commands": ["bolt11_melt_quote", "proof_state"] }] },
        } })
    }

    fn keysets(active: bool) -> KeysetResponse {
        let keyset = json!({ "id": "00ad268c4d1f5826", "unit": "sat", "active": active });
        serde_json::from_value(json!({ "keysets": [keyset] })).unwrap()
    }

    fn judged(description: Value, keysets: &KeysetResponse, unit: &str) -> Vec<String> {
        let info: MintInfo = serde_json::from_value(description).unwrap();
        let problems = judge(&info, keysets, &unit_of(unit));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_mint_with_everything_passes_and_nothing_may_be_missing() {
        assert!(judged(description(), &keysets(true), "sat").is_empty());
        for nut in ["4", "5", "7", "8", "9", "10", "11", "12", "17", "20"] {
            let mut without = description();
            without["nuts"].as_object_mut().unwrap().remove(nut);
            let problems = judged(without, &keysets(true), "sat");
            let name = format!("NUT-{nut:0>2} ");
            assert!(problems[0].contains(&name), "{nut}: {problems:?}");
        }
        for command in [0, 1] {
            let mut without = description();
            let entry = &mut without["nuts"]["17"]["supported"][0]["commands"];
            entry.as_array_mut().unwrap().remove(command);
            let problems = judged(without, &keysets(true), "sat");
            assert!(problems.len() == 1 && problems[0].contains("command"), "{problems:?}");
        }
        let mut disabled = description();
        disabled["nuts"]["5"]["disabled"] = true.into();
        assert_eq!(judged(disabled, &keysets(true), "sat").len(), 1);
        assert!(judged(description(), &keysets(false), "sat")[0].contains("no active keyset"));
        // No keyset, no minting, no melting, no notices in that unit.
        assert_eq!(judged(description(), &keysets(true), "usd").len(), 6);
    }

    #[test]
    fn addresses_are_compared_in_one_form() {
        let same = |text: &str| address(text).map(|url| url.to_string());
        assert_eq!(same("HTTPS://Mint.Example/Bitcoin/").unwrap(), "https://mint.example/Bitcoin");
        assert!(same("http://127.0.0.1:3338").is_ok());
        for wrong in ["", "mint.example", "ftp://mint.example", "https://", "https://a:b@mint.x"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        assert!(address("https://mint.example/?a=b").is_err());
    }

    #[test]
    fn a_mint_is_blocked_wholly_or_in_one_unit() {
        let list =
            MintBlocklist::parse(&["https://bad.example/", "https://half.example usd"]).unwrap();
        let blocks = |mint: &str, unit: &str| list.blocks(&address(mint).unwrap(), &unit_of(unit));
        assert!(blocks("https://BAD.example", "sat") && blocks("https://bad.example", "usd"));
        assert!(blocks("https://half.example", "usd") && !blocks("https://half.example", "sat"));
        assert!(!blocks("https://good.example", "sat"));
        assert!(MintBlocklist::parse(&["nonsense"]).is_err());
        let blocked =
            check("https://bad.example", &CurrencyUnit::Sat, &list, MintOptions::default());
        assert!(matches!(&blocked.unwrap_err()[..], [MintProblem::Blocked(_)]));
    }
}
