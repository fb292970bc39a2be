//! Whether real mints can be used, and why not.

use cashu::CurrencyUnit;
use unspent_ecash_room::mint::{
    MintOptions,
    check::{CheckedMint, MintBlocklist, MintProblem, ProblemList, check},
};
use unspent_testkit::ecash::{FaultProxy, MintSettings, Nutshell};

use crate::purse::options;

fn checked(url: &str, unit: &CurrencyUnit) -> Result<CheckedMint, Vec<MintProblem>> {
    check(url, unit, &MintBlocklist::default(), options())
}

#[test]
fn a_real_mint_passes_and_what_it_lacks_is_named() {
    let Some(mut mint) = Nutshell::start(MintSettings::default()) else { return };
    let found = checked(&format!("{}/", mint.url()), &CurrencyUnit::Sat).unwrap();
    assert_eq!(found.url.to_string(), mint.url());
    assert!(found.tells_of_mint_quotes);
    checked(&mint.url(), &CurrencyUnit::Usd).unwrap();
    let problems = checked(&mint.url(), &CurrencyUnit::Eur).unwrap_err();
    assert!(matches!(problems[0], MintProblem::NoKeyset(CurrencyUnit::Eur)), "{problems:?}");

    let proxy = FaultProxy::start(&mint.url());
    proxy.edit("/v1/info", |info| {
        let nuts = info["nuts"].as_object_mut().unwrap();
        nuts.remove("20");
        for entry in nuts["17"]["supported"].as_array_mut().unwrap() {
            entry["commands"] = serde_json::json!(["bolt11_melt_quote"]);
        }
    });
    let problems = checked(&proxy.url(), &CurrencyUnit::Sat).unwrap_err();
    let unit = CurrencyUnit::Sat;
    let lacks = [
        MintProblem::NoNut { nut: 20, unit: unit.clone() },
        MintProblem::NoCommand { command: "proof_state", unit: unit.clone() },
    ];
    assert_eq!(problems, lacks);
    let default = check(&mint.url(), &unit, &MintBlocklist::default(), MintOptions::default());
    let text = ProblemList(&default.unwrap_err()).to_string();
    assert!(text.contains("`ecash.allow_private` allows that"), "{text}");
    mint.kill();
    let problems = checked(&mint.url(), &unit).unwrap_err();
    assert!(matches!(problems[..], [MintProblem::NotAnswering { .. }]), "{problems:?}");
}
