//! The configuration as people get it wrong.

use unspent_chain_room::UtxoSection;
use unspent_server::config::{
    Config, GivenFlag, Origin, SettingSources, SourceKind, check_daemon, declared_keys, load,
    template,
};
use unspent_wallet_room::WalletSection;

use crate::ROOMS;

fn with(text: &str, environment: &[(&str, &str)], over: &[(&str, &str)]) -> anyhow::Result<Config> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("unspent.toml");
    std::fs::write(&file, text).unwrap();
    let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    };
    let flags = over.iter().map(|(key, value)| GivenFlag::new(key, "--set", *value)).collect();
    let config =
        load(ROOMS, &SettingSources { file: Some(file), environment: own(environment), flags })?;
    check_daemon(&config)?;
    Ok(config)
}

fn refusal(text: &str) -> String {
    format!("{:#}", with(text, &[], &[]).unwrap_err())
}

#[test]
fn the_template_is_valid_and_says_the_defaults() {
    let written = with(&template(ROOMS), &[], &[]).unwrap();
    let plain = load(ROOMS, &SettingSources::default()).unwrap();
    for key in declared_keys(ROOMS).iter().filter(|key| key.default.is_some()) {
        let path = key.path();
        assert!(matches!(written.origin(&path), Origin::File(_)), "{path} is in the template");
    }
    // Who gave them differs, the settings don't.
    let shown = |config: &Config| {
        let Config { network, source, http, auth, log, events, .. } = config;
        let own = format!("{network:?} {source:?} {http:?} {auth:?} {log:?} {events:?}");
        format!("{own} {:?} {:?}", config.webhooks, config.sections())
    };
    assert_eq!(shown(&written), shown(&plain));
    assert!(written.data_dir.ends_with("unspent-data"), "beside the file");
}

#[test]
fn every_commented_key_of_the_template_is_a_known_one() {
    // Keys that exclude each other or need another kind of source are tried one at a time.
    let template = template(ROOMS);
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
    assert!(refusal("= 3").contains("not valid TOML"));
}

#[test]
fn an_older_name_is_still_read_with_a_warning_and_two_values_are_refused() {
    let old = [("UNSPENT_ECASH_DB", "sqlite:/a"), ("UNSPENT_UTXO_PRUNE_DEPTH", "7")];
    let config = with("[ecash]\nenabled = true", &old, &[]).unwrap();
    assert_eq!(config.room::<UtxoSection>().unwrap().prune_depth, Some(7));
    assert_eq!(config.origin("ecash.url").to_string(), "environment UNSPENT_ECASH_DB");
    let told = config.warnings().join("\n");
    assert!(told.contains("UNSPENT_ECASH_DB is called UNSPENT_ECASH__URL now"), "{told}");
    let both = [("UNSPENT_ECASH_DB", "sqlite:/a"), ("UNSPENT_ECASH__URL", "sqlite:/b")];
    let refused = with("", &both, &[]).unwrap_err().to_string();
    assert!(refused.contains("UNSPENT_ECASH_DB is the older name"), "{refused}");
    // Forgotten somewhere, it must not lead away from what the file says.
    for file in ["url = \"sqlite:/file\"", "url_file = \"/file\""] {
        let refused = with(&format!("[ecash]\n{file}"), &old, &[]).unwrap_err().to_string();
        assert!(refused.contains("the older name of UNSPENT_ECASH__URL"), "{refused}");
    }
    let same = [("UNSPENT_ECASH_DB", "sqlite:/a"), ("UNSPENT_ECASH__URL", "sqlite:/a")];
    assert!(with("", &same, &[]).is_ok());
}

/// A flag or a variable takes the place of what the file says in the other form.
#[test]
fn of_two_keys_that_exclude_each_other_the_one_that_counts_more_counts_alone() {
    let file = "[ecash]\nkey_file = \"/k\"\nurl_file = \"/u\"";
    let over = [("ecash.passphrase_file", "/p"), ("ecash.url", "sqlite:/e")];
    let config = with(file, &[], &over).unwrap();
    assert_eq!(*config.origin("ecash.key_file"), Origin::Default);
    assert_eq!(*config.origin("ecash.url_file"), Origin::Default);
    let both = with(&format!("{file}\npassphrase_file = \"/p\""), &[], &[]).unwrap_err();
    assert!(both.to_string().contains("ecash.key_file or ecash.passphrase_file"), "{both}");
}

#[test]
fn an_error_names_who_gave_the_key() {
    let file = refusal("[txstore]\nretention = \"long\"");
    assert!(file.contains("txstore.retention") && file.contains("unspent.toml"), "{file}");
    let variable = with("", &[("UNSPENT_TXSTORE__SAFETY", "deep")], &[]).unwrap_err().to_string();
    assert!(variable.contains("environment UNSPENT_TXSTORE__SAFETY"), "{variable}");
}

#[test]
fn a_path_of_the_file_is_meant_from_its_folder() {
    let text = "data_dir = \"data\"\n[ecash]\nurl = \"sqlite:e.db\"\nkey_file = \"../key\"\n\
                [wallet]\nurl = \"postgres://me@host/db\"\n";
    let config = with(text, &[], &[]).unwrap();
    let shown = |path: &str| config.given(path).unwrap().as_str().unwrap().to_owned();
    assert!(config.data_dir.is_absolute() && config.data_dir.ends_with("data"));
    let folder = config.data_dir.parent().unwrap().display().to_string();
    assert_eq!(shown("ecash.url"), format!("sqlite:{folder}/e.db"));
    assert_eq!(shown("ecash.key_file"), format!("{folder}/../key"));
    assert_eq!(shown("wallet.url"), "postgres://me@host/db");
    // What is typed is meant from where it is typed.
    let typed = with("", &[], &[("data_dir", "here")]).unwrap();
    assert_eq!(typed.data_dir, std::path::Path::new("here"));
    assert!(with("", &[], &[("data_dir", "")]).is_err());
}

#[test]
fn a_table_in_one_line_counts_key_by_key() {
    let file = "[utxo]\nprune_depth = 1\nrollback_window = 2";
    let config = with(file, &[], &[("utxo", "{prune_depth = 3}")]).unwrap();
    let utxo = config.room::<UtxoSection>().unwrap();
    assert_eq!((utxo.prune_depth, utxo.rollback_window), (Some(3), Some(2)));
    assert_eq!(config.origin("utxo.prune_depth").to_string(), "flag --set");
}

#[test]
fn a_switch_is_understood_as_people_set_variables() {
    for (text, is_on) in [("1", true), ("yes", true), ("true", true), ("0", false), ("no", false)] {
        let config = with("", &[("UNSPENT_WEBHOOKS__ALLOW_PRIVATE", text)], &[]).unwrap();
        assert_eq!(config.webhooks.allow_private, is_on, "{text}");
    }
}
