//! The configuration as people get it wrong.

use super::{load::load, sections::SourceKind, whole::template};
use crate::rooms::{chain::UtxoSection, wallet::WalletSection};

fn with(
    text: &str,
    environment: &[(&str, &str)],
    over: &[(&str, &str)],
) -> anyhow::Result<super::Config> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("unspent.toml");
    std::fs::write(&file, text).unwrap();
    let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    };
    load(Some(&file), &own(environment), &own(over))
}

fn refusal(text: &str) -> String {
    format!("{:#}", with(text, &[], &[]).unwrap_err())
}

#[test]
fn the_template_is_valid_and_says_the_defaults() {
    let written = with(&template(), &[], &[]).unwrap();
    let plain = load(None, &[], &[]).unwrap();
    assert_eq!(format!("{written:?}"), format!("{plain:?}"));
}

#[test]
fn every_commented_key_of_the_template_is_a_known_one() {
    // Keys that exclude each other or need another kind of source are tried one at a time.
    let template = template();
    let lines: Vec<&str> = template.lines().collect();
    let mut tried = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some(key) = line.strip_prefix('#').filter(|rest| {
            rest.split_once(" = ").is_some_and(|(key, _)| {
                !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            })
        }) else {
            continue;
        };
        let mut text: Vec<&str> = lines.clone();
        text[at] = key;
        let error = with(&text.join("\n"), &[], &[]).err().map(|error| format!("{error:#}"));
        assert!(!error.as_ref().is_some_and(|e| e.contains("unknown")), "{key}: {error:?}");
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn unknown_keys_are_errors_that_name_the_key() {
    assert!(refusal("prunedepth = 3").contains("unknown key `prunedepth`"));
    assert!(refusal("[utxo]\nprunedepth = 3").contains("in [utxo]: unknown field `prunedepth`"));
    assert!(refusal("[utxo.delta]\nself = true").contains("`self`"));
    assert!(refusal("[source]\nkind = \"core\"").contains("core"));
    let env = with("", &[("UNSPENT_HTP__LISTEN", "x")], &[]).unwrap_err();
    assert!(format!("{env:#}").contains("unknown key `htp`"));
    let flag = with("", &[], &[("http.lisen", "x")]).unwrap_err();
    assert!(format!("{flag:#}").contains("`lisen`"));
}

#[test]
fn flags_count_more_than_the_environment_and_that_more_than_the_file() {
    let text = "[utxo]\nprune_depth = 1\nrollback_window = 1\nbulk_memory_mb = 1";
    let environment = [("UNSPENT_UTXO__PRUNE_DEPTH", "2"), ("UNSPENT_UTXO__ROLLBACK_WINDOW", "2")];
    let config = with(text, &environment, &[("utxo.prune_depth", "3")]).unwrap();
    let utxo = config.room::<UtxoSection>().unwrap();
    assert_eq!(utxo.prune_depth, Some(3));
    assert_eq!(utxo.rollback_window, Some(2));
    assert_eq!(utxo.bulk_memory_mb, Some(1));
    let deep = with("", &[("UNSPENT_UTXO__DELTA__SELF_CONTAINED", "true")], &[]).unwrap();
    assert_eq!(deep.room::<UtxoSection>().unwrap().delta.self_contained, Some(true));
    let listen = with("", &[("UNSPENT_HTTP__LISTEN", "127.0.0.1:9")], &[]).unwrap();
    assert_eq!(listen.http.listen.port(), 9);
    // Variables of the command line are none of ours.
    assert!(with("", &[("UNSPENT_JSON", "1"), ("UNSPENT_LOG", "debug")], &[]).is_ok());
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let cardano = "network = \"cardano-preview\"\n[source]\nkind = \"cardano-node\"\n\
                   address = \"a:1\"\n";
    let config = with(cardano, &[], &[]).unwrap();
    assert_eq!(config.source.kind, SourceKind::CardanoNode);
    assert!(!config.room::<WalletSection>().unwrap().is_on(config.network));
    assert!(refusal(&format!("{cardano}[wallet]\nenabled = true")).contains("wallet.enabled"));
    assert!(refusal("network = \"dogecoin\"").contains("dogecoin"));
    assert!(refusal("[source]\nkind = \"bitcoin-node\"\nurl = \"u\"").contains("`network`"));
    let node = "network = \"bitcoin\"\n[source]\nkind = \"bitcoin-node\"\n";
    assert!(refusal(node).contains("source.url"));
    assert!(refusal(&format!("{node}url = \"u\"\nuser = \"me\"")).contains("password_file"));
    for url in ["ftp://node.example:8332", "127.0.0.1:8332", "HTTP://h"] {
        let told = refusal(&format!("{node}url = \"{url}\""));
        assert!(told.contains("source.url must begin with http:// or https://"), "{told}");
    }
    for url in ["http://127.0.0.1:8332", "https://node.example"] {
        assert!(with(&format!("{node}url = \"{url}\""), &[], &[]).is_ok(), "{url}");
    }
    let plain = refusal(&format!("{node}url = \"http://h:1\"\nroot_certificate = \"c.pem\""));
    assert!(plain.contains("source.root_certificate"), "{plain}");
    assert!(refusal("network = \"bitcoin\"").contains("bitcoin-regtest"));
    assert!(refusal("[http]\ntls_cert = \"c\"").contains("tls_key"));
    assert!(refusal("[http]\nlisten = \"nowhere\"").contains("in [http]"));
    assert!(refusal("[http]\nconcurrency = 0").contains("http.concurrency"));
    assert!(refusal("[utxo]\nprune_seconds = 0").contains("utxo.prune_seconds"));
    assert!(refusal("[utxo]\nstore = \"mmmr\"").contains("mmmr"));
    assert!(refusal("[utxo]\nindexing_strategy = \"all\"").contains("indexing_strategy"));
    assert!(refusal("[utxo]\nenabled = false\n[wallet]\nenabled = false").contains("every room"));
    let secret = refusal("[wallet]\nurl = \"postgres://me:hush@h/d\"");
    assert!(secret.contains("url_file") && !secret.contains("hush"), "{secret}");
    assert!(refusal(&format!("{cardano}[txstore]\nenabled = true")).contains("txstore.enabled"));
    assert!(refusal("[txstore]\nsafety = 5\nrollback = 6").contains("txstore.safety"));
    assert!(refusal("[txstore]\nrollback = 0").contains("txstore.rollback"));
    assert!(refusal("[txstore]\nclean_seconds = 0").contains("txstore.clean_seconds"));
    let secret = refusal("[txstore]\nurl = \"postgres://me:hush@h/d\"");
    assert!(secret.contains("txstore.url_file") && !secret.contains("hush"), "{secret}");
    assert!(refusal("= 3").contains("no TOML"));
}
