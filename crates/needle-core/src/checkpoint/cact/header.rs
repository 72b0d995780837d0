//! The header: a tag, the geometry, and the levels of the 2-, 3- and 4-bit codebooks.

use std::path::Path;

use crate::{
    config::{Config, ENGRAM_TAPS, EngramConfig, Generation},
    error::{Error, Result},
    quant::CodeWidth,
};

const TAG_TWO: u32 = 0x05E1_2A83;
const TAG_THREE: u32 = 0x05E1_2A84;

/// Levels of the 2-, 3- and 4-bit codebooks, one after another.
const LEVELS: usize = 4 + 8 + 16;

/// Places for engram orders, and for sites, in a generation-2 header.
const ENGRAM_PLACES: usize = 4;

/// Layers that the bit mask of generation 3's global layers can name.
const MASK_LAYERS: usize = 64;

/// Taps on queries, keys and values above which a header is taken for damaged; published models have 3.
const MAX_TAPS: usize = 64;

pub(super) struct Header {
    pub(super) config: Config,
    /// Records in the directory.
    pub(super) record_count: usize,
    /// Where the directory begins.
    pub(super) directory: usize,
    levels: Vec<f32>,
}

/// Whether a file begins with a known tag.
pub(in super::super) fn is_it(bytes: &[u8]) -> bool {
    generation(bytes).is_some()
}

fn tag(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|&tag| u32::from_le_bytes(tag))
}

fn generation(bytes: &[u8]) -> Option<Generation> {
    match tag(bytes)? {
        TAG_TWO => Some(Generation::Two),
        TAG_THREE => Some(Generation::Three),
        _ => None,
    }
}

/// What to say of a file whose tag is nearly a known one: of another version, or damaged in one byte.
pub(in super::super) fn near_miss(bytes: &[u8]) -> Option<String> {
    let found = tag(bytes)?;
    let alike = |known: u32| (found ^ known).to_le_bytes().iter().filter(|&&byte| byte != 0).count() <= 1;
    (alike(TAG_TWO) || alike(TAG_THREE)).then(|| {
        format!(
            "archive tag {found:#010X} is not known; this version reads {TAG_TWO:#010X} (generation 2) and \
             {TAG_THREE:#010X} (generation 3): rebuild the archive with a current version"
        )
    })
}

impl Header {
    pub(super) fn read(bytes: &[u8], file: &Path) -> Result<Self> {
        let damaged = |reason: String| Error::format(file, format!("header: {reason}"));
        let generation = generation(bytes).ok_or_else(|| damaged("no archive tag".into()))?;
        let mut words = Words {
            bytes,
            at: 4,
            ended: false,
        };
        let record_count = words.size();
        let level_count = words.size();
        let config = match generation {
            Generation::Two => words.two(),
            Generation::Three => words.three(),
        };
        let levels: Vec<f32> = (0..LEVELS).map(|_| f32::from_bits(words.word())).collect();
        if words.ended {
            let (needed, found) = (words.at, bytes.len());
            return Err(damaged(format!("takes {needed} bytes, the file has {found}")));
        }
        let config = config.map_err(damaged)?;
        if level_count != LEVELS {
            return Err(damaged(format!(
                "expected {LEVELS} codebook levels, found {level_count}"
            )));
        }
        check_levels(&levels).map_err(damaged)?;
        config.validate().map_err(|error| error.in_file(file))?;
        check_sites(&config).map_err(damaged)?;
        Ok(Self {
            config,
            record_count,
            directory: words.at,
            levels,
        })
    }

    /// The archive's own levels of a width; binary and ternary ones are not stored.
    pub(super) fn levels(&self, width: CodeWidth) -> Option<&[f32]> {
        let range = match width {
            CodeWidth::Binary | CodeWidth::Ternary => return None,
            CodeWidth::Two => 0..4,
            CodeWidth::Three => 4..12,
            CodeWidth::Four => 12..LEVELS,
        };
        self.levels.get(range)
    }
}

/// A generation-2 header: the geometry, then the levels.
///
/// # Errors
/// [`Error::Config`] and [`Error::Unsupported`] for what the header has no word for.
pub(super) fn two(config: &Config, kv_window: usize, record_count: usize, levels: &[f32]) -> Result<Vec<u8>> {
    if config.qk_head_dim != config.v_head_dim {
        let (qk, v) = (config.qk_head_dim, config.v_head_dim);
        return Err(Error::config(
            "v_head_dim",
            format!("an archive has one head width, found {qk} and {v}"),
        ));
    }
    if config.sliding_window != 0 {
        return Err(Error::config(
            "sliding_window",
            "a generation-2 archive has no word for it",
        ));
    }
    let engram = &config.engram;
    for (field, values) in [("engram_orders", &engram.orders), ("engram_layers", &engram.layers)] {
        if values.len() > ENGRAM_PLACES {
            return Err(Error::config(
                field,
                format!("an archive has room for {ENGRAM_PLACES}, found {}", values.len()),
            ));
        }
    }
    let kv_bits = if config.kv_bits == 0 { 8 } else { config.kv_bits };
    let sizes = [
        record_count,
        levels.len(),
        kv_window,
        kv_bits,
        config.vocab_size,
        config.d_model,
        config.num_heads,
        config.num_kv_heads,
        config.num_layers,
        config.qk_head_dim,
        config.max_seq_len,
        config.hada_n(),
        config.mhc_lanes,
        engram.slots,
        config.engram_sub_dim(),
        config.engram_tables(),
        ENGRAM_TAPS,
        config.engram_dilation(),
    ];
    let places = |values: &[usize]| {
        let padded = values.iter().copied().chain(std::iter::repeat(0)).take(ENGRAM_PLACES);
        std::iter::once(values.len()).chain(padded).collect::<Vec<_>>()
    };
    let mut bytes = TAG_TWO.to_le_bytes().to_vec();
    for size in sizes
        .into_iter()
        .chain(places(&engram.orders))
        .chain(places(&engram.layers))
    {
        bytes.extend((size as u32).to_le_bytes());
    }
    bytes.extend((config.rope_theta as f32).to_le_bytes());
    bytes.extend(levels.iter().flat_map(|level| level.to_le_bytes()));
    Ok(bytes)
}

fn check_levels(levels: &[f32]) -> std::result::Result<(), String> {
    for (bits, range) in [(2, 0..4), (3, 4..12), (4, 12..LEVELS)] {
        let book = levels.get(range).unwrap_or_default();
        if let Some(level) = book.iter().find(|level| !(-1.0..=1.0).contains(*level)) {
            return Err(format!(
                "a level of the {bits}-bit codebook is {level}; expected −1 to 1"
            ));
        }
        if !book.is_sorted_by(|a, b| a < b) {
            return Err(format!("the levels of the {bits}-bit codebook do not ascend"));
        }
    }
    Ok(())
}

fn check_sites(config: &Config) -> std::result::Result<(), String> {
    let (sites, layers) = (&config.engram.layers, config.num_layers);
    if !sites.is_sorted_by(|a, b| a < b) || sites.iter().any(|&site| site >= layers) {
        return Err(format!("engram sites {sites:?} are not ascending layers of {layers}"));
    }
    if let Some(layer) = config.global_layers.iter().find(|&&layer| layer >= layers) {
        return Err(format!("global layer {layer} of {layers} layers"));
    }
    Ok(())
}

/// The header's fields one after another; past the end they read as 0, and `ended` is set.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    ended: bool,
}

/// What an archive says of its hash tables besides the orders and sites.
struct Tables {
    slots: usize,
    count: usize,
    taps: usize,
    dilation: usize,
    seed_heads: Option<usize>,
}

type Read<T> = std::result::Result<T, String>;

impl Words<'_> {
    fn word(&mut self) -> u32 {
        let word = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        self.at += 4;
        self.ended |= word.is_none();
        word.map_or(0, |&word| u32::from_le_bytes(word))
    }

    fn size(&mut self) -> usize {
        self.word() as usize
    }

    /// A length, then as many sizes in a field of `capacity` places.
    fn sizes(&mut self, what: &str, capacity: usize) -> Read<Vec<usize>> {
        let count = self.size();
        let mut sizes: Vec<usize> = (0..capacity).map(|_| self.size()).collect();
        if count > capacity {
            return Err(format!("{count} {what}; there is room for {capacity}"));
        }
        sizes.truncate(count);
        Ok(sizes)
    }

    fn two(&mut self) -> Read<Config> {
        let [kv_window, kv_bits] = [(); 2].map(|()| self.size());
        let vocab_size = self.size();
        let [d_model, num_heads, num_kv_heads, num_layers] = [(); 4].map(|()| self.size());
        let head_dim = self.size();
        let [max_seq_len, hada_n, mhc_lanes] = [(); 3].map(|()| self.size());
        let [slots, sub_dim, count, taps, dilation] = [(); 5].map(|()| self.size());
        let tables = Tables {
            slots,
            count,
            taps,
            dilation,
            seed_heads: None,
        };
        let engram = self.engram(tables, 4);
        let rope_theta = f32::from_bits(self.word());
        let config = Config {
            generation: Generation::Two,
            vocab_size,
            out_vocab: vocab_size,
            d_model,
            num_heads,
            num_kv_heads,
            num_layers,
            qk_head_dim: head_dim,
            v_head_dim: head_dim,
            max_seq_len,
            rope_theta: rope_theta.into(),
            mhc_lanes,
            pad_token_id: 0,
            engram: engram?,
            kv_window,
            kv_bits,
            weight_bits: String::new(),
            sliding_window: 0,
            global_layers: vec![],
            qkv_conv_taps: 0,
            ladder_depths: vec![],
            ladder_widths: vec![],
            ladder_order: vec![],
            source: serde_json::Map::new(),
        };
        check_derived(config, hada_n, sub_dim)
    }

    fn three(&mut self) -> Read<Config> {
        let [kv_window, kv_bits] = [(); 2].map(|()| self.size());
        let [vocab_size, out_vocab] = [(); 2].map(|()| self.size());
        let [d_model, num_heads, num_kv_heads, num_layers] = [(); 4].map(|()| self.size());
        let [qk_head_dim, v_head_dim] = [(); 2].map(|()| self.size());
        let [max_seq_len, hada_n, mhc_lanes, sliding_window] = [(); 4].map(|()| self.size());
        let global = u64::from(self.word()) | u64::from(self.word()) << 32;
        let qkv_conv_taps = self.size();
        let [slots, sub_dim, count, taps, dilation, seed_heads] = [(); 6].map(|()| self.size());
        let tables = Tables {
            slots,
            count,
            taps,
            dilation,
            seed_heads: (seed_heads != 0).then_some(seed_heads),
        };
        let engram = self.engram(tables, 16);
        let rope_theta = f32::from_bits(self.word());
        if num_layers > MASK_LAYERS {
            return Err(format!("{num_layers} layers; an archive holds at most {MASK_LAYERS}"));
        }
        if qkv_conv_taps > MAX_TAPS {
            return Err(format!("{qkv_conv_taps} taps on queries, keys and values"));
        }
        let config = Config {
            generation: Generation::Three,
            vocab_size,
            out_vocab: if out_vocab == 0 { vocab_size } else { out_vocab },
            d_model,
            num_heads,
            num_kv_heads,
            num_layers,
            qk_head_dim,
            v_head_dim,
            max_seq_len,
            rope_theta: rope_theta.into(),
            mhc_lanes,
            pad_token_id: 0,
            engram: engram?,
            kv_window,
            kv_bits,
            weight_bits: String::new(),
            sliding_window,
            global_layers: (0..MASK_LAYERS).filter(|layer| global >> layer & 1 == 1).collect(),
            qkv_conv_taps,
            ladder_depths: vec![],
            ladder_widths: vec![],
            ladder_order: vec![],
            source: serde_json::Map::new(),
        };
        check_derived(config, hada_n, sub_dim)
    }

    fn engram(&mut self, tables: Tables, sites: usize) -> Read<EngramConfig> {
        let (orders, layers) = (self.sizes("engram orders", 4), self.sizes("engram sites", sites));
        let (orders, layers) = (orders?, layers?);
        let Tables {
            slots,
            count,
            taps,
            dilation,
            ..
        } = tables;
        if orders.is_empty() || count == 0 || !count.is_multiple_of(orders.len()) {
            return Err(format!("{count} engram tables for {} orders", orders.len()));
        }
        if taps != ENGRAM_TAPS {
            return Err(format!("{taps} engram taps; expected {ENGRAM_TAPS}"));
        }
        let longest = orders.iter().copied().max().unwrap_or(0);
        if dilation != longest {
            return Err(format!(
                "engram taps {dilation} positions apart; expected the longest order, {longest}"
            ));
        }
        Ok(EngramConfig {
            heads: count / orders.len(),
            orders,
            seed_heads: tables.seed_heads,
            slots,
            layers,
        })
    }
}

/// Compares the sizes that an archive repeats with those that follow from the others.
fn check_derived(config: Config, hada_n: usize, sub_dim: usize) -> Read<Config> {
    // Above this `next_power_of_two` would overflow; validation refuses it with the field's name.
    let d = config.d_model.min(1 << 31);
    if hada_n != d.next_power_of_two() {
        return Err(format!(
            "hada_n {hada_n}, but d_model {} asks for {}",
            config.d_model,
            d.next_power_of_two()
        ));
    }
    let tables = config.engram.heads * config.engram.orders.len();
    if sub_dim != config.d_model / tables {
        let d = config.d_model;
        return Err(format!(
            "engram_sub_dim {sub_dim}, but d_model {d} in {tables} tables gives {}",
            d / tables
        ));
    }
    if ![2, 3, 4, 8].contains(&config.kv_bits) {
        return Err(format!("kv_bits {}; expected 2, 3, 4 or 8", config.kv_bits));
    }
    Ok(config)
}
