//! Real Cardano blocks of every era at hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use unspent_model::{
    BlockHash, Network, Outpoint,
    chain::{Block, Era, Output, Work},
};
use unspent_networks::{
    DecodeError,
    address::{show_address, show_stake_address},
    cardano::{framing::split_cbor_items, genesis::genesis_coins},
    decode_block,
};
use unspent_testkit::data;

const ERAS: [(&str, Era); 7] = [
    ("byron", Era::Byron),
    ("shelley", Era::Shelley),
    ("allegra", Era::Allegra),
    ("mary", Era::Mary),
    ("alonzo", Era::Alonzo),
    ("babbage", Era::Babbage),
    ("conway", Era::Conway),
];

fn network_of(name: &str) -> Network {
    match name {
        "mainnet" => Network::CardanoMainnet,
        _ => Network::CardanoPreview,
    }
}

fn created(block: &Block<Output>) -> HashSet<Outpoint> {
    let txs = block.txs.iter();
    txs.flat_map(|tx| tx.creates.iter().map(|(i, _)| Outpoint::new(tx.id, *i))).collect()
}

fn same_block_spends(block: &Block<Output>) -> usize {
    let created = created(block);
    let spends = block.txs.iter().flat_map(|tx| &tx.spends);
    spends.filter(|spend| created.contains(spend)).count()
}

fn outputs(block: &Block<Output>) -> impl Iterator<Item = &Output> {
    block.txs.iter().flat_map(|tx| tx.creates.iter().map(|(_, output)| output))
}

#[test]
fn single_blocks_of_every_era_decode_as_their_file_says() {
    let Some(folder) = data::path("cardano/eras") else { return };
    let chains = BTreeMap::from([
        ("alonzo-testnet-3273458", 11),
        ("alonzo-testnet-3268852", 2),
        ("conway-mainnet-11560713", 10),
        ("conway-mainnet-11553070", 8),
        ("conway-mainnet-11606435", 4),
        ("conway-mainnet-11544518", 2),
    ]);
    let mut eras = HashSet::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let parts: Vec<_> = name.split('-').collect();
        let raw = std::fs::read(&path).unwrap();
        let decoded = decode_block(network_of(parts[1]), &raw, None);
        if name == "byron-mainnet-301005" {
            // Whatever its name says, its header has the magic of a test network that is gone.
            assert!(matches!(decoded, Err(DecodeError::OtherNetwork { .. })), "{decoded:?}");
            continue;
        }
        let block = decoded.expect(name);
        let era = ERAS.iter().find(|(era, _)| *era == parts[0]).unwrap().1;
        assert_eq!(block.header.era, era, "{name}");
        assert_eq!(block.header.point.height, parts[2].parse::<u64>().unwrap(), "{name}");
        assert_eq!(same_block_spends(&block), chains.get(name).copied().unwrap_or(0), "{name}");
        assert!(block.txs.iter().all(|tx| !tx.is_invalid), "{name}");
        assert!(outputs(&block).all(|output| !output.is_collateral_return), "{name}");
        assert_eq!(block.header.work, Work::default());
        // pallas itself can't read one of them.
        if name != "conway-preview-3788477" {
            assert_matches_pallas(&block, &raw);
        }
        eras.insert(era);
        count += 1;
    }
    assert_eq!((count, eras.len()), (21, 7));
}

/// pallas' own view of the same block, by another path through it.
fn assert_matches_pallas(block: &Block<Output>, raw: &[u8]) {
    let theirs = pallas_traverse::MultiEraBlock::decode(raw).unwrap();
    assert_eq!(block.header.point.hash.0, *theirs.hash());
    assert_eq!(block.header.parent.0, theirs.header().previous_hash().map_or([0; 32], |h| *h));
    assert_eq!(block.header.point.slot, theirs.slot());
    assert_eq!(block.txs.len(), theirs.tx_count());
    for (ours, theirs) in block.txs.iter().zip(theirs.txs()) {
        assert_eq!(ours.id.0, *theirs.hash());
        let spends = theirs.consumes();
        let spends = spends.iter().map(|i| (*i.hash(), u32::try_from(i.index()).unwrap()));
        assert!(spends.eq(ours.spends.iter().map(|o| (o.tx.0.into(), o.index))));
        let produces = theirs.produces();
        assert_eq!(produces.len(), ours.creates.len());
        for ((index, ours), (their_index, theirs)) in ours.creates.iter().zip(&produces) {
            assert_eq!(*index as usize, *their_index);
            assert_same_output(ours, theirs);
        }
    }
}

fn assert_same_output(ours: &Output, theirs: &pallas_traverse::MultiEraOutput<'_>) {
    use pallas_addresses::Address;
    let address = theirs.address().unwrap();
    // pallas shortens pointers that are out of range; the chain's bytes are the address.
    assert_eq!(Address::from_bytes(&ours.addr).unwrap(), address);
    let (payment, stake) = match &address {
        Address::Shelley(x) => (Some(**x.payment().as_hash()), x.delegation().as_hash()),
        Address::Byron(_) | Address::Stake(_) => (None, None),
    };
    assert_eq!((ours.payment_credential, ours.stake_credential), (payment, stake.map(|h| **h)));
    let stake_addr = match address {
        Address::Shelley(x) => pallas_addresses::StakeAddress::try_from(x).ok(),
        Address::Byron(_) | Address::Stake(_) => None,
    };
    assert_eq!(ours.stake_addr, stake_addr.map(|x| x.to_vec()));
    assert_eq!(ours.value, theirs.value().coin());
    let value = theirs.value();
    let mut assets = Vec::new();
    for policy in value.assets() {
        for asset in policy.assets() {
            let amount = asset.output_coin().unwrap();
            assets.push((**policy.policy(), asset.name().to_vec(), amount));
        }
    }
    assets.sort();
    let got = ours.assets.iter().map(|a| (a.policy, a.name.clone(), a.quantity));
    assert_eq!(got.collect::<Vec<_>>(), assets);
    assert_eq!(ours.reference_script_hash, theirs.script_ref().map(|s| script_hash(&s)));
    assert_eq!(ours.reference_script_hash.is_some(), ours.script_ref.is_some());
}

fn script_hash(script: &pallas_primitives::conway::ScriptRef<'_>) -> [u8; 28] {
    use pallas_primitives::conway::ScriptRef;
    use pallas_traverse::{ComputeHash, OriginalHash};
    *match script {
        ScriptRef::NativeScript(x) => x.original_hash(),
        ScriptRef::PlutusV1Script(x) => x.compute_hash(),
        ScriptRef::PlutusV2Script(x) => x.compute_hash(),
        ScriptRef::PlutusV3Script(x) => x.compute_hash(),
    }
}

fn preview_files() -> Option<Vec<Vec<u8>>> {
    let names = [
        "00000.chunk",
        "block-04330.cbor",
        "block-08645.cbor",
        "block-13065.cbor",
        "chunks-00150-00199.zst",
        "chunks-00200-00249.zst",
        "chunks-00250-00299.zst",
    ];
    names.iter().map(|name| data::bytes(&format!("cardano/preview/{name}"))).collect()
}

fn preview_expected() -> Option<Value> {
    let bytes = data::bytes("cardano/preview/expected.json")?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

#[derive(Default)]
struct Totals(BTreeMap<String, u64>);

impl Totals {
    fn add(&mut self, key: &str, count: usize) {
        if count > 0 {
            *self.0.entry(key.to_owned()).or_default() += count as u64;
        }
    }

    fn count(&mut self, block: &Block<Output>) {
        self.add("tx", block.txs.len());
        self.add("created", outputs(block).count());
        self.add("spent", block.txs.iter().map(|tx| tx.spends.len()).sum());
        self.add("intrablock_spend", same_block_spends(block));
        self.add("invalid_tx", block.txs.iter().filter(|tx| tx.is_invalid).count());
        for output in outputs(block) {
            let is_inline = output.inline_datum.is_some();
            self.add("inline_datum", usize::from(is_inline));
            self.add("datum_hash", usize::from(output.data_hash.is_some() && !is_inline));
            self.add("script_ref", usize::from(output.script_ref.is_some()));
            self.add("collateral_return", usize::from(output.is_collateral_return));
            // The oracle counts the types of regular outputs only.
            let is_regular = usize::from(!output.is_collateral_return);
            self.add(&format!("addr_type_{}", output.addr[0] >> 4), is_regular);
        }
    }
}

#[test]
fn the_preview_run_has_the_totals_an_independent_decoder_found() {
    let (Some(files), Some(expected)) = (preview_files(), preview_expected()) else { return };
    let network = Network::CardanoPreview;
    let genesis = data::bytes("cardano/genesis/preview-byron-genesis.json").unwrap();
    let genesis = genesis_coins(network, &[&genesis]).unwrap();
    let mut unspent: HashMap<_, _> =
        genesis.into_iter().map(|coin| (coin.outpoint, coin.record.output)).collect();
    let mut totals = Totals::default();
    let (mut blocks, mut tip, mut checked) = (0, None, 0);
    for raw in files.iter().flat_map(|file| split_cbor_items(file)) {
        let block = decode_block(network, raw.unwrap(), None).unwrap();
        totals.count(&block);
        for tx in &block.txs {
            for spend in &tx.spends {
                assert!(unspent.remove(spend).is_some(), "missing input {spend:?}");
            }
            for (index, output) in &tx.creates {
                unspent.insert(Outpoint::new(tx.id, *index), output.clone());
            }
        }
        checked += check_set(block.header.point.height, &unspent, &expected);
        check_invalid(&block, &expected);
        check_point(&block, &expected);
        check_derived(&block);
        blocks += 1;
        tip = Some(block.header.point.height);
    }
    assert_eq!((blocks, tip, checked), (27_179, Some(59_314), 18));
    assert_eq!(serde_json::to_value(&totals.0).unwrap(), expected["totals"]);
    assert_eq!(unspent.len(), 32_662);
}

/// Compares the coin set with the oracle at the heights it lists.
fn check_set(height: u64, unspent: &HashMap<Outpoint, Output>, expected: &Value) -> usize {
    let Some(known) = expected["checkpoints"].get(height.to_string()) else { return 0 };
    assert_eq!(unspent.len() as u64, known["utxos"].as_u64().unwrap(), "at {height}");
    let value: u64 = unspent.values().map(|output| output.value).sum();
    assert_eq!(value, known["lovelace"].as_u64().unwrap(), "at {height}");
    let assets: usize = unspent.values().map(|output| output.assets.len()).sum();
    assert_eq!(assets as u64, known["asset_entries"].as_u64().unwrap(), "at {height}");
    1
}

fn check_invalid(block: &Block<Output>, expected: &Value) {
    let listed = expected["invalid_transactions"].as_array().unwrap().iter();
    for entry in listed.filter(|e| e["height"].as_u64() == Some(block.header.point.height)) {
        let position = usize::try_from(entry["tx_index"].as_u64().unwrap()).unwrap();
        let tx = &block.txs[position];
        assert!(tx.is_invalid);
        assert_eq!(hex::encode(tx.id.0), entry["tx"].as_str().unwrap());
        let spends = tx.spends.iter().map(|o| serde_json::json!([hex::encode(o.tx.0), o.index]));
        assert_eq!(Value::Array(spends.collect()), entry["collateral_inputs"]);
        let (index, returned) = &tx.creates[0];
        assert_eq!(
            (tx.creates.len(), u64::from(*index)),
            (1, entry["return_index"].as_u64().unwrap())
        );
        assert_eq!(Some(returned.value), entry["return_lovelace"].as_u64());
        assert!(returned.is_collateral_return);
    }
}

fn check_point(block: &Block<Output>, expected: &Value) {
    let header = block.header;
    if let Some(known) = expected["checkpoints"].get(header.point.height.to_string()) {
        assert_eq!(Some(header.point.slot), known["slot"].as_u64());
        assert_eq!(hex::encode(header.point.hash.0), known["block_hash"].as_str().unwrap());
    }
    assert_eq!(header.epoch, Some(header.point.slot / 86_400));
    assert_eq!(header.time, 1_666_656_000 + header.point.slot);
}

fn check_derived(block: &Block<Output>) {
    for output in outputs(block) {
        if let Some(datum) = &output.inline_datum {
            let hash = pallas_crypto::hash::Hasher::<256>::hash(datum);
            assert_eq!(output.data_hash, Some(*hash));
        }
        let shown = show_address(Network::CardanoPreview, &output.addr);
        assert!(shown.starts_with("addr_test1") || output.addr[0] >> 4 == 8, "{shown}");
        if let Some(stake) = &output.stake_addr {
            assert!(show_stake_address(Network::CardanoPreview, stake).starts_with("stake_test1"));
        }
    }
}

#[test]
fn preview_blocks_are_as_pallas_reads_them_and_form_a_chain() {
    let Some(files) = preview_files() else { return };
    let mut parent: Option<BlockHash> = None;
    for (i, raw) in split_cbor_items(&files[6]).enumerate() {
        let raw = raw.unwrap();
        let block = decode_block(Network::CardanoPreview, raw, None).unwrap();
        assert!(parent.is_none_or(|parent| parent == block.header.parent));
        parent = Some(block.header.point.hash);
        if i % 7 == 0 {
            assert_matches_pallas(&block, raw);
        }
    }
}

#[test]
fn preprod_chunks_decode_and_later_preview_blocks_too() {
    let known = [
        ("preprod/01836.chunk.zst", Network::CardanoPreprod, 913, 1_405_105, Some(834)),
        ("preprod/02019.chunk", Network::CardanoPreprod, 5, 1_563_645, Some(10)),
        ("preview/10366.chunk", Network::CardanoPreview, 59, 1_917_046, None),
    ];
    for (name, network, count, first, txs) in known {
        let Some(chunk) = data::bytes(&format!("cardano/{name}")) else { return };
        let blocks: Vec<_> = split_cbor_items(&chunk)
            .map(|raw| {
                let raw = raw.unwrap();
                let block = decode_block(network, raw, None).unwrap();
                assert_matches_pallas(&block, raw);
                block
            })
            .collect();
        assert_eq!((blocks.len(), blocks[0].header.point.height), (count, first));
        let found: usize = blocks.iter().map(|block| block.txs.len()).sum();
        assert!(txs.is_none_or(|txs| txs == found), "{name}: {found}");
        if name == "preprod/01836.chunk.zst" {
            assert_eq!(blocks.iter().map(same_block_spends).sum::<usize>(), 24);
        }
    }
}

#[test]
fn known_main_network_blocks_have_their_epoch_and_time() {
    // Slots as explorers show them. A slot of the main network after Byron is Unix time less a
    // constant.
    let after_byron = |slot: u64| slot + 1_591_566_291;
    let known = [
        ("byron-mainnet-4490505", 4_492_794, 207, 1_596_058_971),
        ("shelley-mainnet-4662237", 7_948_610, 215, after_byron(7_948_610)),
        ("conway-mainnet-11544518", 149_212_813, 543, after_byron(149_212_813)),
    ];
    for (name, slot, epoch, time) in known {
        let Some(raw) = data::bytes(&format!("cardano/eras/{name}.cbor")) else { return };
        let header = decode_block(Network::CardanoMainnet, &raw, None).unwrap().header;
        assert_eq!((header.point.slot, header.epoch, header.time), (slot, Some(epoch), time));
    }
}

#[test]
fn one_byte_more_or_less_is_refused() {
    let names = ["byron-mainnet-4490505", "mary-mainnet-5616812", "conway-mainnet-11544518"];
    for name in names {
        let Some(mut raw) = data::bytes(&format!("cardano/eras/{name}.cbor")) else { return };
        let decode = |raw: &[u8]| decode_block(Network::CardanoMainnet, raw, None);
        assert!(decode(&raw).is_ok());
        assert!(matches!(decode(&raw[..raw.len() - 1]), Err(DecodeError::Malformed { .. })));
        raw.push(0);
        assert_eq!(decode(&raw), Err(DecodeError::TrailingBytes { count: 1 }));
    }
}

/// Not a check: prints how long the preview run takes. `cargo test --release -- --ignored --nocapture`
#[test]
#[ignore = "a measurement, no check: `cargo test --release -p unspent-networks -- --ignored`"]
#[allow(clippy::print_stdout)]
fn measure_decoding_of_the_preview_run() {
    let Some(files) = preview_files() else { return };
    for _ in 0..3 {
        let start = std::time::Instant::now();
        let mut blocks = 0;
        for raw in files.iter().flat_map(|file| split_cbor_items(file)) {
            let block = decode_block(Network::CardanoPreview, raw.unwrap(), None);
            std::hint::black_box(block.unwrap());
            blocks += 1;
        }
        println!("{blocks} blocks split and decoded in {:?}", start.elapsed());
    }
}
