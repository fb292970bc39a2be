//! The main job in a minute: a simulated chain is imported, a competing branch replaces its end,
//! and the result is compared with the simulator's own truth.

mod folder;
mod world;

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use unspent_chain::{Balance, CoinState, Order, Owner, Page, Reader};
use unspent_networks::address::show_address;

use self::world::{NETWORK, World};
use crate::{
    chain::{
        json::{BalanceJson, CoinJson, PageJson},
        text,
    },
    cli::{DemoArgs, OptionArgs},
    fault::{Fault, Outcome},
    import::{self, Request, Show, Summary},
    interrupt::Interrupt,
    output::{Output, facts, table},
};

/// Memory for the questions of the demonstration.
const CACHE: usize = 16 << 20;
/// Coins shown of the shop.
const COINS_SHOWN: usize = 5;

/// The whole story, in the form of `--json`.
#[derive(Serialize)]
struct Story {
    seed: u64,
    blocks_dir: PathBuf,
    data_dir: PathBuf,
    first_import: Summary,
    shop: ShopJson,
    reorganisation: Summary,
    contested_coin: ContestedJson,
    checked: CheckedJson,
}

#[derive(Serialize)]
struct ShopJson {
    address: String,
    balance: BalanceJson,
    page: PageJson,
}

#[derive(Serialize)]
struct ContestedJson {
    name: String,
    before: CoinJson,
    after: CoinJson,
}

#[derive(Serialize, Clone, Copy)]
struct CheckedJson {
    equals_simulator: bool,
    utxos: u64,
    verify_differences: u64,
}

/// Tells the story.
pub(crate) fn run(args: &DemoArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    folder::prepare(&args.dir)?;
    let stage = Stage {
        blocks: args.dir.join("blocks"),
        data: args.dir.join("data"),
        show: Show::suitable(output.is_json()),
        interrupt: Interrupt::listen(),
    };
    let (mut world, first_import) = grow(args.seed, &stage, output)?;
    let shop = ask_for_coins(&world, &stage, output)?;
    let (coin, reorganisation) = reorganise(&mut world, &stage, output)?;
    let checked = check(&world, &stage, output)?;
    output.say(&go_on(&stage.data, &shop.address, &coin.name, world.height()))?;
    if output.is_json() {
        let Stage { blocks: blocks_dir, data: data_dir, .. } = stage;
        let seed = args.seed;
        let story = Story {
            seed,
            blocks_dir,
            data_dir,
            first_import,
            shop,
            reorganisation,
            contested_coin: coin,
            checked,
        };
        output.document(&story)?;
    }
    Ok(if checked.verify_differences == 0 { Outcome::Done } else { Outcome::Differences })
}

fn grow(seed: u64, stage: &Stage, output: &mut Output<'_>) -> anyhow::Result<(World, Summary)> {
    output.say(&format!("1. A chain is simulated (seed {seed}) and written as a block file."))?;
    let world = World::new(seed, &stage.blocks)?;
    let file = world.write_chain()?;
    output.say(&format!("   {} blocks in {}\n", world.height() + 1, file.display()))?;
    output.say("2. The file is imported: every block becomes a change to the coin set.")?;
    let summary = stage.import(&file)?;
    output.say(&summary.text())?;
    Ok((world, summary))
}

fn ask_for_coins(
    world: &World,
    stage: &Stage,
    output: &mut Output<'_>,
) -> anyhow::Result<ShopJson> {
    let reader = stage.reader()?;
    let address = show_address(NETWORK, world.shop());
    let shop = Owner::address(world.shop());
    let balance = reader.balance(shop)?;
    let page = reader.page(shop, Order::Descending, COINS_SHOWN, None)?;
    output.say("\n3. A shop on that chain asks for its coins, newest first.")?;
    output.say(&text_of_page(&address, &balance, &page))?;
    Ok(ShopJson {
        address,
        balance: BalanceJson::new(NETWORK, &balance),
        page: PageJson::new(NETWORK, &page),
    })
}

fn reorganise(
    world: &mut World,
    stage: &Stage,
    output: &mut Output<'_>,
) -> anyhow::Result<(ContestedJson, Summary)> {
    let reorg = world.reorganise()?;
    let branch = world.write_branch(&reorg)?;
    let coin = world.contested_coin(&reorg).ok_or_else(|| Fault::bug("no coin is contested"))?;
    let before = stage.reader()?.coin(&coin)?;
    output.say(&format!(
        "\n4. A competing branch appears: {} blocks that replace the last {}. It has more work, so \
         the old\n   blocks are undone from the index's own records and the new ones applied.",
        reorg.new.len(),
        reorg.old.len(),
    ))?;
    let summary = stage.import(&branch)?;
    output.say(&summary.text())?;
    let after = stage.reader()?.coin(&coin)?;
    output.say("\n5. What became of a coin that both branches spend, each in its own way:")?;
    let name = text::outpoint(NETWORK, &coin);
    output.say(&facts(&[
        ("coin", name.clone()),
        ("before", text_of_state(&before)),
        ("after", text_of_state(&after)),
    ]))?;
    let (before, after) =
        (CoinJson::new(NETWORK, &coin, &before), CoinJson::new(NETWORK, &coin, &after));
    Ok((ContestedJson { name, before, after }, summary))
}

fn check(world: &World, stage: &Stage, output: &mut Output<'_>) -> anyhow::Result<CheckedJson> {
    let reader = stage.reader()?;
    let utxos = world.compare(&reader).context("the index is wrong")?;
    let verify_differences = reader.verify(&mut |_| ())?.differences;
    output.say(&format!(
        "\n6. Checked: {} coins equal the simulator's own truth, one by one; comparing all column \
         families\n   with each other found {verify_differences} differences.",
        text::grouped(u128::from(utxos)),
    ))?;
    Ok(CheckedJson { equals_simulator: true, utxos, verify_differences })
}

/// Where the story takes place.
struct Stage {
    blocks: PathBuf,
    data: PathBuf,
    show: Show,
    interrupt: Interrupt,
}

impl Stage {
    fn import(&self, file: &Path) -> anyhow::Result<Summary> {
        let request = Request {
            data_dir: &self.data,
            network: Some(NETWORK),
            genesis: &[],
            stop_at: None,
            allow_holes: false,
            no_bulk: false,
            options: &OptionArgs::default(),
            paths: &[file.to_owned()],
        };
        let summary = import::run(&request, self.show, &self.interrupt)?;
        if summary.interrupted { Err(Fault::interrupted().into()) } else { Ok(summary) }
    }

    fn reader(&self) -> anyhow::Result<Reader> {
        Ok(Reader::open(&self.data.join("chain"), CACHE)?)
    }
}

fn text_of_page(address: &str, balance: &Balance, page: &Page) -> String {
    let rows = page.coins.iter().map(|(coin, record)| {
        [
            text::outpoint(NETWORK, coin),
            text::amount(NETWORK, u128::from(record.output.lovelace)),
            record.born.block_number.to_string(),
        ]
    });
    let coins = table(["coin", "amount", "height"], rows);
    let (count, sum) = (balance.coins, text::amount(NETWORK, balance.lovelace));
    format!("{address}\n{coins}\n{count} coins, {sum} together")
}

fn text_of_state(state: &CoinState) -> String {
    match state {
        CoinState::Unspent(record) => format!("unspent since height {}", record.born.block_number),
        CoinState::Spent(spent) => {
            let by = spent.by.map(|tx| NETWORK.show_hash(&tx.0)).unwrap_or_default();
            format!("spent at height {} by {by}", spent.at.height)
        }
        CoinState::Unknown => "unknown: it never was on this branch".into(),
    }
}

fn go_on(data: &Path, address: &str, coin: &str, height: u32) -> String {
    let start = format!("   unspent --data-dir {} chain", data.display());
    let back = height.saturating_sub(10);
    let commands = [
        "status".to_owned(),
        format!("utxos {address} --limit 3"),
        format!("balance {address} --json"),
        format!("utxo '{coin}'"),
        format!("delta {height}"),
        format!("rollback --to {back}"),
        "digest".to_owned(),
    ];
    let lines = commands.iter().map(|command| format!("{start} {command}"));
    format!("\nThe data folder stays. Go on with:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
