//! Writing archives: the published exporter's bytes for the same weights and the same bits.

use candle_core::{DType, Device};
use needle_core::{
    Adapter, BitMap, Checkpoint, FileMark, Tokenizer,
    quant::CodeWidth,
    weights::{Dense, Weight},
};

use super::{checkpoints::open, saving::Folder};
use crate::golden;

/// The word of the header that says how many positions are kept.
const KV_WINDOW: std::ops::Range<usize> = 12..16;

/// Every golden archive with the checkpoint it was written from.
const ARCHIVES: [(&str, &str); 5] = [
    ("a64_mixed", "a64"),
    ("b96_mixed_group32", "b96"),
    ("c48_w2", "c48"),
    ("tok64_w2", "tok64"),
    ("tok64_w4", "tok64"),
];

/// The map that the oracle names beside an archive.
fn written_with(archive: &str) -> (BitMap, serde_json::Value) {
    let with = golden::json(&format!("gen2/cact/{archive}.json"))["written_with"].take();
    let text = match with["bits_map"].as_str() {
        Some(map) => map.to_owned(),
        None => with["bits"].to_string(),
    };
    let group = with["group"].as_u64().unwrap() as usize;
    (BitMap::parse(&text).unwrap().with_group(group), with)
}

fn save(checkpoint: &Checkpoint, map: &BitMap, folder: &Folder) -> Vec<u8> {
    let path = folder.0.join("written.cact");
    let written = checkpoint.save_cact(&path, map).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(written.size_bytes, bytes.len());
    assert_eq!(folder.files(), ["written.cact"]);
    bytes
}

#[track_caller]
fn assert_same(found: &[u8], expected: &[u8], name: &str) {
    let first = found
        .iter()
        .zip(expected)
        .position(|(found, expected)| found != expected);
    assert_eq!(
        (found.len(), first),
        (expected.len(), None),
        "{name}: bytes, and the first that differs"
    );
}

#[test]
fn archives_equal_the_oracle_byte_for_byte() {
    let folder = Folder::new("writing-goldens");
    for (archive, checkpoint) in ARCHIVES {
        let (map, with) = written_with(archive);
        let mut base = open(&format!("gen2/checkpoints/{checkpoint}.safetensors"));
        if with["tokenizer"].as_bool().unwrap() {
            let tokenizer = Tokenizer::from_sentencepiece(&golden::bytes("gen2/tokenizer.model")).unwrap();
            base = base.with_tokenizer(&tokenizer).unwrap();
        }
        let mut found = save(&base, &map, &folder);
        let expected = golden::bytes(&format!("gen2/cact/{archive}.cact"));
        // The oracle gave some of its archives no window; what `needle build` of the reference gives is what we write.
        if with["kv_window"] == 0 {
            found[KV_WINDOW].fill(0);
        }
        assert_same(&found, &expected, archive);
    }
}

#[test]
fn an_archive_written_with_its_own_map_is_itself() {
    let folder = Folder::new("writing-own");
    for (archive, _) in ARCHIVES {
        let file = format!("gen2/cact/{archive}.cact");
        let base = open(&file);
        let map = BitMap::of(&base).unwrap();
        assert_eq!(BitMap::parse(&map.to_string()).unwrap(), map, "{map}");
        assert_same(&save(&base, &map, &folder), &golden::bytes(&file), archive);
    }
    let demo = Checkpoint::demo().unwrap();
    let found = save(&demo, &BitMap::of(&demo).unwrap(), &folder);
    let again = Checkpoint::open(&folder.0.join("written.cact")).unwrap();
    assert_eq!(
        (found.len(), again.format.records),
        (demo.format.size_bytes, demo.format.records)
    );
}

#[test]
fn a_pickle_gives_the_archive_of_its_safetensors_twin() {
    let folder = Folder::new("writing-pickle");
    let [pickle, twin] = ["pkl", "safetensors"].map(|end| open(&format!("gen2/checkpoints/c48.{end}")));
    for map in ["2", "3", "4", "ternary", "default=3,attn=2,engram=4"] {
        let map = BitMap::parse(map).unwrap();
        assert_same(&save(&pickle, &map, &folder), &save(&twin, &map, &folder), "c48");
    }
}

/// A packed archive at another width is what its widened values give.
#[test]
fn another_width_packs_the_widened_values() {
    let folder = Folder::new("writing-width");
    let base = open("gen2/cact/tok64_w4.cact");
    let path = folder.0.join("float.safetensors");
    base.save_safetensors(&path).unwrap();
    let tokenizer = base.tokenizer().unwrap();
    let float = Checkpoint::open(&path).unwrap().with_tokenizer(&tokenizer).unwrap();
    std::fs::remove_file(&path).unwrap();
    let map = BitMap::uniform(CodeWidth::Two);
    assert_same(
        &save(&base, &map, &folder),
        &save(&float, &map, &folder),
        "tok64 at 2 bits",
    );
}

#[test]
fn heads_can_be_left_behind() {
    let folder = Folder::new("writing-heads");
    let base = open("gen2/checkpoints/a64.safetensors");
    save(&base.without_heads(), &BitMap::uniform(CodeWidth::Four), &folder);
    let written = Checkpoint::open(&folder.0.join("written.cact")).unwrap();
    assert!(written.format.heads.is_empty());
    assert!(written.weights.iter().all(|(name, _)| !name.starts_with("heads.")));
    assert_eq!(
        open("gen2/cact/a64_mixed.cact").format.heads,
        ["contrastive", "confidence"]
    );
}

#[test]
fn the_map_comes_from_the_checkpoint() {
    let map = |file: &str| BitMap::of(&open(file)).unwrap().to_string();
    assert_eq!(map("gen2/checkpoints/a64.safetensors"), "4");
    assert_eq!(map("gen2/cact/tok64_w2.cact"), "2");
    let own = open("gen2/cact/b96_mixed_group32.cact");
    let (written, _) = written_with("b96_mixed_group32");
    let found = BitMap::of(&own).unwrap();
    assert_eq!(found.group(), 32);
    for name in [
        "embedding",
        "layers.3.self_attn.out_proj",
        "layers.*.mhc.phi_res",
        "engrams.0.tables",
        "engrams.1.tables",
    ] {
        assert_eq!(found.width(name), written.width(name), "{name}");
    }

    let mut trained = open("gen2/checkpoints/a64.safetensors");
    trained.config.weight_bits = "default=2,embedding=4".into();
    assert_eq!(BitMap::of(&trained).unwrap().to_string(), "default=2,embedding=4");
    trained.config.weight_bits = "embedding=4".into();
    assert!(BitMap::of(&trained).unwrap_err().to_string().contains("default=BITS"));
    trained.config.weight_bits.clear();
    trained.format.run.insert("stage".into(), "qapt".into());
    assert!(BitMap::of(&trained).unwrap_err().to_string().contains("stage qapt"));

    let misspelt = BitMap::parse("default=2,atn=4,mtp.q_proj=4,engram1=3,layers.9.self_attn.q_proj=2").unwrap();
    assert_eq!(misspelt.unmatched(&own.config), ["atn", "layers.9.self_attn.q_proj"]);
}

/// One layer of an archive may have a width of its own, and keeps it.
#[test]
fn a_single_matrix_has_its_own_width() {
    let folder = Folder::new("writing-single");
    let map = BitMap::parse("default=2,layers.1.self_attn.q_proj=4").unwrap();
    let first = save(&open("gen2/checkpoints/c48.safetensors"), &map, &folder);
    let again = Checkpoint::open(&folder.0.join("written.cact")).unwrap();
    assert_eq!(BitMap::of(&again).unwrap(), map);
    assert_same(&save(&again, &map, &folder), &first, "again");
}

#[test]
fn what_cannot_be_written_is_named_and_leaves_nothing() {
    let folder = Folder::new("writing-faults");
    let refusal = |change: &dyn Fn(&mut Checkpoint)| {
        let mut base = open("gen2/checkpoints/c48.safetensors");
        change(&mut base);
        let outcome = base.save_cact(&folder.0.join("written.cact"), &BitMap::uniform(CodeWidth::Four));
        assert!(folder.files().is_empty());
        outcome.unwrap_err().to_string()
    };
    let put = |name: &'static str, values: &'static [f32], shape: &'static [usize]| {
        move |base: &mut Checkpoint| base.weights.insert(name, Weight::Dense(Dense::from_f32(values, shape)))
    };
    for (error, words) in
        [
            (
                refusal(&put("final_norm", &[0.0; 47], &[47])),
                ["tensor final_norm", "expected shape [48], found [47]"],
            ),
            (
                refusal(&put("final_norm", &[1e6; 48], &[48])),
                ["tensor final_norm", "1000000 is more than float16"],
            ),
            (
                refusal(&put("embedding", &[1e6; 48 * 200], &[200, 48])),
                ["tensor embedding", "expected shape"],
            ),
            (refusal(&put("other", &[0.0], &[1])), ["tensor other", "no place"]),
            (
                refusal(&|base| {
                    base.weights = base.without_heads().weights.iter().skip(1).fold(
                        Default::default(),
                        |mut all, (name, weight)| {
                            needle_core::weights::Weights::insert(&mut all, name, weight.clone());
                            all
                        },
                    )
                }),
                ["tensor embedding", "missing"],
            ),
            (
                refusal(&|base| base.config.sliding_window = 8),
                ["sliding_window", "no word"],
            ),
            (
                refusal(&|base| base.config.engram.orders = vec![1; 5]),
                ["engram_orders", "found 5"],
            ),
        ]
    {
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    let three = open("gen3/checkpoints/tok64.safetensors");
    let error = three
        .save_cact(&folder.0.join("x.cact"), &BitMap::uniform(CodeWidth::Four))
        .unwrap_err();
    assert!(error.to_string().contains("Needle 3"), "{error}");
    let tokenizer = Tokenizer::from_sentencepiece(&golden::bytes("gen2/tokenizer.model")).unwrap();
    let error = open("gen2/checkpoints/c48.safetensors")
        .with_tokenizer(&tokenizer)
        .unwrap_err();
    assert!(error.to_string().contains("8192 pieces"), "{error}");
    let error = open("gen2/checkpoints/c48.safetensors")
        .save_cact(&folder.0.join("nowhere/x.cact"), &BitMap::uniform(CodeWidth::Four))
        .unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

fn floats(weight: &Weight) -> Vec<f32> {
    let tensor = weight.to_tensor(DType::F32, &Device::Cpu).unwrap();
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// SHA-256 of the archive that release 2.0.15 writes (`merge_lora`, then `write_export` at 4 bits, window and tokenizer as its
/// `build` command gives them) from `tok64` and `adapter.protocol4.pkl`.
const REFERENCE_MERGED: &str = "0f42f756fbf0684ca085e7d8dee553db51f0da962f5f8191e5c7f25d2ca64488";

#[test]
fn a_merged_archive_equals_the_references() {
    let folder = Folder::new("writing-merged");
    let tokenizer = Tokenizer::from_sentencepiece(&golden::bytes("gen2/tokenizer.model")).unwrap();
    let adapter = Adapter::open(&golden::path("gen2/training/adapter.protocol4.pkl")).unwrap();
    let base = open("gen2/checkpoints/tok64.safetensors")
        .with_tokenizer(&tokenizer)
        .unwrap();
    let merged = base.with_adapters(std::slice::from_ref(&adapter)).unwrap();
    for (name, weight) in base.weights.iter() {
        let is_changed = floats(weight) != floats(merged.weights.get(name).unwrap());
        assert_eq!(is_changed, adapter.pairs.contains_key(name), "{name}");
    }
    let path = folder.0.join("written.cact");
    merged.save_cact(&path, &BitMap::of(&merged).unwrap()).unwrap();
    assert_eq!(FileMark::of(&path).unwrap().sha256, REFERENCE_MERGED);
}

#[test]
fn several_adapters_add_up() {
    let adapter = |file: &str| Adapter::open(&golden::path(&format!("gen2/training/{file}"))).unwrap();
    let (first, second) = (adapter("adapter.protocol4.pkl"), adapter("finetune.adapter.pkl"));
    for file in ["gen2/checkpoints/tok64.safetensors", "gen2/cact/tok64_w4.cact"] {
        let base = open(file);
        let both = base.with_adapters(&[first.clone(), second.clone()]).unwrap();
        let one_by_one = base
            .with_adapters(std::slice::from_ref(&first))
            .and_then(|base| base.with_adapters(std::slice::from_ref(&second)))
            .unwrap();
        for (name, (a, b)) in &first.pairs {
            let product = |a: &Dense, b: &Dense, scale: f64| {
                let [a, b] = [a, b].map(|dense| dense.to_tensor(DType::F64, &Device::Cpu).unwrap());
                (a.matmul(&b).unwrap().t().unwrap() * scale).unwrap()
            };
            let (c, d) = &second.pairs[name];
            let sum = (product(a, b, first.scale) + product(c, d, second.scale)).unwrap();
            let before = base
                .weights
                .get(name)
                .unwrap()
                .to_tensor(DType::F64, &Device::Cpu)
                .unwrap();
            let expected = (before + sum).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
            let found = floats(both.weights.get(name).unwrap());
            let worst = expected.iter().zip(&found).map(|(a, b)| (a - f64::from(*b)).abs());
            assert!(worst.fold(0.0, f64::max) < 1e-6, "{file}: {name}");
            assert_eq!(found, floats(one_by_one.weights.get(name).unwrap()), "{file}: {name}");
        }
        // What no adapter changes stays packed, and an archive of the sum can be written with the base's own widths.
        let folder = Folder::new("writing-adapters");
        save(&both, &BitMap::of(&both).unwrap(), &folder);
        let written = Checkpoint::open(&folder.0.join("written.cact")).unwrap();
        assert_eq!(BitMap::of(&written).unwrap(), BitMap::of(&base).unwrap());
    }
}

#[test]
fn an_adapter_of_another_model_is_refused() {
    let adapter = Adapter::open(&golden::path("gen2/training/adapter.protocol4.pkl")).unwrap();
    let refusal = |base: &Checkpoint, adapter: Adapter| base.with_adapters(&[adapter]).unwrap_err().to_string();
    let layers = refusal(&open("gen2/checkpoints/a64.safetensors"), adapter.clone());
    assert!(
        layers.contains("the adapter is of 2 layers") && layers.contains("has 4"),
        "{layers}"
    );

    let base = open("gen2/checkpoints/tok64.safetensors");
    let name = "layers.1.self_attn.k_proj";
    let mut narrow = adapter.clone();
    let (_, b) = narrow.pairs.get_mut(name).unwrap();
    *b = Dense::from_f32(&[0.0; 4 * 16], &[4, 16]);
    let error = refusal(&base, narrow);
    for word in [
        "adapter.protocol4.pkl",
        name,
        "[32, 64] [out, in]",
        "[64, 4]",
        "[4, 16]",
    ] {
        assert!(error.contains(word), "{error}");
    }
    let mut huge = adapter.clone();
    huge.scale = 1e39;
    assert!(refusal(&base, huge).contains("the sum with the base is"));
    let mut foreign = adapter;
    let pair = foreign.pairs.remove(name).unwrap();
    foreign.pairs.insert("layers.7.self_attn.k_proj".into(), pair);
    let error = refusal(&base, foreign);
    assert!(error.contains("layers.7.self_attn.k_proj: missing"), "{error}");
}

#[test]
fn an_adapter_names_its_widths() {
    let mut adapter = Adapter::open(&golden::path("gen2/training/finetune.adapter.pkl")).unwrap();
    assert_eq!(BitMap::of_adapter(&adapter).unwrap().unwrap().to_string(), "4");
    adapter
        .extra
        .insert("qat_bits_map".into(), "default=2,embedding=4".into());
    assert_eq!(
        BitMap::of_adapter(&adapter).unwrap().unwrap().to_string(),
        "default=2,embedding=4"
    );
    adapter.extra.remove("qat_bits_map");
    adapter.extra.insert("qat_bits".into(), 2.into());
    assert_eq!(BitMap::of_adapter(&adapter).unwrap().unwrap().to_string(), "2");
    adapter.extra.insert("qat_bits".into(), serde_json::Value::Null);
    assert_eq!(BitMap::of_adapter(&adapter).unwrap(), None);
}
