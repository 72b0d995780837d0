//! Archives whose numbers contradict each other, the file or the model: every lie has its own text.

use std::time::{Duration, Instant};

use needle_core::{Checkpoint, Error, Result, weights::Bytes};

use super::damage::{THREE, TWO, line, open};
use crate::{allocations::peak_bytes, golden};

/// An archive that tests change field by field.
struct Archive {
    bytes: Vec<u8>,
    /// Where the directory begins.
    directory: usize,
}

impl Archive {
    /// Generation 2's header has 30 words, generation 3's 49; 28 levels follow.
    fn of(file: &str) -> Self {
        let words = if file.starts_with("gen2") { 30 } else { 49 };
        Self {
            bytes: golden::bytes(file),
            directory: 4 * (words + 28),
        }
    }

    fn open(self) -> Result<Checkpoint> {
        open(&Bytes::new(self.bytes))
    }

    fn header(&mut self, field: usize, value: u32) {
        self.bytes[4 * field..4 * field + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn level(&mut self, place: usize, value: f32) {
        self.header(30 + place, value.to_bits());
    }

    /// The record's place in the file.
    fn record(&self, index: usize) -> usize {
        self.directory + 44 * index
    }

    fn dtype(&mut self, index: usize, dtype: u8) {
        let at = self.record(index);
        self.bytes[at] = dtype;
    }

    fn axes(&mut self, index: usize, shape: &[u32]) {
        let at = self.record(index);
        self.bytes[at + 1] = shape.len() as u8;
        for (axis, size) in shape.iter().enumerate() {
            self.bytes[at + 4 + 4 * axis..at + 8 + 4 * axis].copy_from_slice(&size.to_le_bytes());
        }
    }

    fn place(&mut self, index: usize, offset: u64, size_bytes: u64) {
        let at = self.record(index) + 20;
        self.bytes[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        self.bytes[at + 8..at + 16].copy_from_slice(&size_bytes.to_le_bytes());
    }

    fn packing(&mut self, index: usize, group: u32, bits: u32) {
        let at = self.record(index) + 36;
        self.bytes[at..at + 4].copy_from_slice(&group.to_le_bytes());
        self.bytes[at + 4..at + 8].copy_from_slice(&bits.to_le_bytes());
    }

    fn half(&mut self, at: usize, value: f32) {
        self.bytes[at..at + 2].copy_from_slice(&half::f16::from_f32(value).to_le_bytes());
    }
}

/// Every lie of an archive has its own text. Records of `c48_w2`: 0 embedding [140, 48] at 2880, 1 norm_in at 7680,
/// 2 q_proj, 53 the heads' manifest at 35712.
#[test]
fn every_lie_is_named() {
    let offsets = golden::json("gen2/cact/c48_w2.json");
    let offset = |index: usize| offsets["records"][index]["offset"].as_u64().unwrap();
    let refused = |change: &dyn Fn(&mut Archive), part: &str| {
        let mut archive = Archive::of(TWO);
        change(&mut archive);
        let error = line(&archive.open().unwrap_err());
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    };
    // The tag.
    refused(
        &|a| a.header(0, 0x05E1_2A82),
        "archive tag 0x05E12A82 is not known; this version reads 0x05E12A83",
    );
    refused(
        &|a| a.header(0, 0x05E1_2A85),
        "rebuild the archive with a current version",
    );
    refused(&|a| a.bytes[2] = 0, "archive tag 0x05002A83 is not known");
    refused(
        &|a| a.header(0, 0x1234_5678),
        "found a file that begins with the bytes [78, 56, 34, 12]; expected",
    );
    refused(&|a| a.header(0, 0x05E1_2A84), "header: ");
    // The geometry.
    refused(
        &|a| a.header(1, u32::MAX),
        "a directory of 4294967295 records reaches beyond the file's 42370 bytes",
    );
    refused(
        &|a| a.header(1, 20),
        "tensor layers.1.self_attn.k_norm: missing: the directory ends before it",
    );
    refused(&|a| a.header(1, 59), "tensor heads.confidence.bias: missing");
    refused(&|a| a.header(2, 27), "header: expected 28 codebook levels, found 27");
    refused(&|a| a.header(4, 5), "header: kv_bits 5");
    refused(&|a| a.header(5, 0), "config field vocab_size: expected 1 to");
    refused(&|a| a.header(5, u32::MAX), "config field vocab_size: expected 1 to");
    refused(&|a| a.header(6, u32::MAX), "header: hada_n 64, but d_model 4294967295");
    refused(&|a| a.header(7, 0), "config field num_heads");
    refused(
        &|a| a.header(8, 3),
        "config field num_kv_heads: 4 query heads cannot share 3",
    );
    refused(
        &|a| a.header(9, 512),
        "tensor layers.3.norm_in: the geometry asks for shape [48], found [3]",
    );
    refused(&|a| a.header(9, 100_000), "config field num_layers");
    refused(
        &|a| a.header(10, 15),
        "config field qk_head_dim: rotary halves need an even width",
    );
    refused(&|a| a.header(13, 65), "config field mhc_lanes");
    refused(
        &|a| a.header(15, 23),
        "header: engram_sub_dim 23, but d_model 48 in 2 tables gives 24",
    );
    refused(&|a| a.header(16, 0), "header: 0 engram tables for 2 orders");
    refused(&|a| a.header(17, 3), "header: 3 engram taps");
    refused(&|a| a.header(18, 4), "header: engram taps 4 positions apart");
    refused(&|a| a.header(19, 5), "header: 5 engram orders; there is room for 4");
    refused(&|a| a.header(24, 5), "header: 5 engram sites; there is room for 4");
    refused(
        &|a| a.header(24, 2),
        "header: engram sites [0, 0] are not ascending layers of 3",
    );
    refused(&|a| a.header(29, f32::NAN.to_bits()), "config field rope_theta");
    refused(
        &|a| a.level(1, f32::NAN),
        "header: a level of the 2-bit codebook is NaN",
    );
    refused(
        &|a| a.level(13, f32::INFINITY),
        "header: a level of the 4-bit codebook is inf",
    );
    refused(
        &|a| a.level(4, 1.0),
        "header: the levels of the 3-bit codebook do not ascend",
    );
    // The directory.
    let q_proj = "tensor layers.0.self_attn.q_proj: ";
    refused(
        &|a| a.dtype(2, 9),
        "tensor layers.0.self_attn.q_proj: dtype 9 is not known",
    );
    refused(
        &|a| a.dtype(2, 4),
        "tensor layers.0.self_attn.q_proj: expected numbers, found raw bytes",
    );
    refused(
        &|a| a.dtype(2, 1),
        "tensor layers.0.self_attn.q_proj: shape [64, 48] takes 6144 bytes, found ",
    );
    refused(
        &|a| {
            let at = a.record(2) + 1;
            a.bytes[at] = 5;
        },
        &format!("{q_proj}5 axes"),
    );
    refused(&|a| a.axes(2, &[64]), &format!("{q_proj}packed values with 1 axes"));
    refused(&|a| a.axes(2, &[48, 48]), &format!("{q_proj}shape [48, 48] takes"));
    refused(
        &|a| a.axes(2, &[0, 48]),
        &format!("{q_proj}packed matrix: [0, 48] holds no values"),
    );
    refused(
        &|a| a.axes(2, &[u32::MAX, u32::MAX]),
        &format!("{q_proj}shape [4294967295, 4294967295] takes"),
    );
    refused(
        &|a| a.axes(2, &[64, 47]),
        &format!("{q_proj}the geometry asks for shape [64, 48], found [64, 47]"),
    );
    refused(
        &|a| a.axes(1, &[u32::MAX; 4]),
        "tensor layers.0.norm_in: shape [4294967295",
    );
    refused(
        &|a| a.packing(2, 100, 2),
        &format!("{q_proj}packed matrix: groups of 100"),
    );
    refused(&|a| a.packing(2, 0, 2), &format!("{q_proj}packed matrix: groups of 0"));
    refused(&|a| a.packing(2, 128, 6), &format!("{q_proj}code width 6 is not known"));
    refused(
        &|a| a.packing(2, 128, 4),
        &format!("{q_proj}shape [64, 48] takes 4224 bytes, found 2176"),
    );
    refused(
        &|a| a.packing(2, 64, 2),
        &format!("{q_proj}shape [64, 48] takes 1152 bytes, found 2176"),
    );
    refused(
        &|a| a.place(2, offset(2), 1 << 40),
        "reach beyond the end of the file (42370 bytes)",
    );
    refused(
        &|a| a.place(2, u64::MAX, u64::MAX),
        "bytes 18446744073709551615..36893488147419103230 reach beyond",
    );
    refused(
        &|a| a.place(2, 0, 2176),
        &format!("{q_proj}byte 0 lies inside the header or directory, which end at 2872"),
    );
    refused(
        &|a| a.place(2, offset(2) + 1, 2176),
        &format!("byte {} is no multiple of 64", offset(2) + 1),
    );
    refused(
        &|a| a.place(2, offset(2) + 64, 2176),
        "overlap those of layers.0.self_attn.q_proj",
    );
    refused(&|a| a.place(1, offset(2), 96), "overlap those of layers.0.norm_in");
    // The values.
    refused(
        &|a| a.half(offset(1) as usize + 6, f32::NAN),
        "tensor layers.0.norm_in: value 3 is NaN",
    );
    let norms = offset(2) as usize + 64 * 32;
    refused(
        &|a| a.half(norms + 2, f32::INFINITY),
        &format!("{q_proj}the norm of row 1, group 0 is inf"),
    );
    refused(
        &|a| a.half(norms + 4, f32::NAN),
        &format!("{q_proj}the norm of row 2, group 0 is NaN"),
    );
    refused(
        &|a| a.half(norms, -1.0),
        &format!("{q_proj}the norm of row 0, group 0 is -1"),
    );
    refused(
        &|a| a.half(offset(53) as usize, 7.0),
        "tensor heads.manifest: no head has the code 7",
    );
    refused(
        &|a| a.half(offset(53) as usize, 2.0),
        "tensor heads.manifest: names the confidence head twice",
    );
}

/// Lies that `c48_w2` has no place for.
#[test]
fn lies_of_other_archives_are_named() {
    let refused = |file: &str, change: &dyn Fn(&mut Archive), part: &str| {
        let mut archive = Archive::of(file);
        change(&mut archive);
        let error = line(&archive.open().unwrap_err());
        assert!(error.contains(part), "{file}: {error:?} does not say {part:?}");
    };
    let offset = |file: &str, index: usize| {
        let directory = golden::json(&file.replace(".cact", ".json"));
        directory["records"][index]["offset"].as_u64().unwrap() as usize
    };
    // Half the group, and the bytes that this takes: right in itself, but not for the header's levels.
    let halve = |a: &mut Archive| {
        let at = a.record(2) + 20;
        let start = u64::from_le_bytes(a.bytes[at..at + 8].try_into().unwrap());
        a.packing(2, 64, 2);
        a.place(2, start, 64 * (16 + 2));
    };
    refused(
        TWO,
        &halve,
        "q_proj: groups of 64, but the levels are for groups of 128 (embedding)",
    );
    // A ternary matrix with the code 2.
    let mixed = "gen2/cact/a64_mixed.cact";
    let out_proj = offset(mixed, 8);
    let part = "tensor layers.0.self_attn.out_proj: row 1 holds the code 2, which ternary does not have";
    refused(mixed, &|a| a.bytes[out_proj + 40] = 0b10, part);
    // The tokenizer.
    let full = "gen2/cact/tok64_w2.cact";
    let tokenizer = offset(full, 54);
    refused(
        full,
        &|a| a.place(54, tokenizer as u64, 23),
        "tensor tokenizer: 23 bytes; its header alone takes 24",
    );
    refused(
        full,
        &|a| a.bytes[tokenizer + 7] = 1,
        "tensor tokenizer: pad id 16777216 of 8192 tokens",
    );
    refused(full, &|a| a.dtype(54, 1), "tensor number 54: shape [] takes 2 bytes");
    // Permutations, the mask of global layers, taps, what generation 3 does not have.
    let p1 = offset(THREE, 118);
    let swap = |a: &mut Archive, value: f32| a.bytes[p1..p1 + 4].copy_from_slice(&value.to_le_bytes());
    refused(
        THREE,
        &|a| swap(a, 128.0),
        "tensor hadamard_mlp.p1: not a permutation: 128 is no place",
    );
    refused(
        THREE,
        &|a| swap(a, 0.5),
        "tensor hadamard_mlp.p1: not a permutation: 0.5 is no place",
    );
    refused(
        THREE,
        &|a| swap(a, -1.0),
        "tensor hadamard_mlp.p1: not a permutation: -1 is no place",
    );
    let second = f32::from_le_bytes(golden::bytes(THREE)[p1 + 4..p1 + 8].try_into().unwrap());
    refused(
        THREE,
        &|a| swap(a, second),
        &format!("not a permutation: {second} occurs twice"),
    );
    refused(
        THREE,
        &|a| a.header(6, 177),
        "config field out_vocab: 177 is above vocab_size 176",
    );
    refused(
        THREE,
        &|a| a.header(10, 65),
        "header: 65 layers; an archive holds at most 64",
    );
    refused(THREE, &|a| a.header(17, 16), "header: global layer 4 of 4 layers");
    refused(
        THREE,
        &|a| a.header(19, 65),
        "header: 65 taps on queries, keys and values",
    );
    refused(
        THREE,
        &|a| a.header(19, 0),
        "tensor layers.0.self_attn.q_norm: the geometry asks for shape [12]",
    );
    let manifest = offset(THREE, 125);
    refused(
        THREE,
        &|a| a.half(manifest, 4.0),
        "heads.manifest: no head has the code 4; known are 1 to 3",
    );
    // A manifest of 13 floats announces a speech encoder: here in the place of the heads'.
    let speech = |a: &mut Archive| {
        a.dtype(125, 2);
        a.axes(125, &[13]);
        a.place(125, a.bytes.len() as u64 / 64 * 64 + 64, 52);
        a.bytes.resize(a.bytes.len() / 64 * 64 + 64 + 52, 0);
    };
    refused(
        THREE,
        &speech,
        "the archive carries a speech encoder, which this version does not read",
    );
}

#[test]
fn other_files_are_named() {
    for (bytes, part) in [
        (&b""[..], "found an empty file"),
        (b"PK\x03\x04....", "found a zip archive"),
        (b"GGUF....", "found a GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1", "found a Git LFS pointer"),
        (b"<!doctype html>", "found a web page"),
        (b"\x83", "begins with the bytes [83]"),
    ] {
        let error = line(&open(&Bytes::new(bytes.to_vec())).unwrap_err());
        assert!(
            error.contains(part) && error.ends_with("a safetensors checkpoint or a pickle"),
            "{error}"
        );
    }
    let folder = std::env::temp_dir();
    let error = Checkpoint::open(&folder).unwrap_err().to_string();
    assert!(error.ends_with("expected a file, found a directory"), "{error}");
    let error = Checkpoint::open(&folder.join("needle-formats-absent.cact")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

/// A header that promises the most layers, sites and rows must not be believed before the file is asked.
#[test]
fn promises_cost_nothing() {
    let mut archive = Archive::of(THREE);
    archive.header(10, 64);
    archive.header(5, 1 << 20);
    let started = Instant::now();
    let (error, peak) = peak_bytes(|| archive.open().unwrap_err());
    assert!(
        line(&error).contains("tensor embedding: the geometry asks for shape [1048576, 96]"),
        "{error}"
    );
    assert!(peak < 1 << 16, "{peak}");
    assert!(started.elapsed() < Duration::from_secs(30));
}
