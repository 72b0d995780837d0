//! Pickles that would run something, or exhaust something, if they were believed.

use std::path::Path;

use needle_core::{Adapter, Checkpoint, weights::Bytes};

/// What both readers say; it must be the same, unless the pickle is a sound one of the other kind.
fn refusal(pickle: &[u8]) -> String {
    let read = || Bytes::new(pickle.to_vec());
    let error = Checkpoint::from_bytes(read(), Path::new("m.pkl"))
        .unwrap_err()
        .to_string();
    let adapter = Adapter::from_bytes(read(), Path::new("m.pkl")).unwrap_err().to_string();
    let sound = error.contains("format_version") || adapter.contains("not an adapter");
    assert!(error == adapter || sound, "{error:?} and {adapter:?}");
    assert!(error.starts_with("m.pkl: ") && !error.contains('\n'), "{error:?}");
    error
}

fn refused(pickle: &[u8], part: &str) {
    let error = refusal(pickle);
    assert!(error.contains(part), "{error:?} does not say {part:?}");
}

/// A short str of protocol 4.
fn text(value: &str) -> Vec<u8> {
    [&[0x8C, value.len() as u8], value.as_bytes()].concat()
}

/// Protocol 4, then these parts.
fn program(parts: &[&[u8]]) -> Vec<u8> {
    [&[0x80, 4], &parts.concat()[..]].concat()
}

const MULTIARRAY: &str = "numpy.core.multiarray";

#[test]
fn functions_are_neither_found_nor_called() {
    let trace = std::env::temp_dir().join(format!("needle-formats-{}-malice", std::process::id()));
    let command = format!("touch {}", trace.display());
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("nt", "system"),
        ("subprocess", "Popen"),
        ("builtins", "eval"),
        ("__builtin__", "exec"),
        ("builtins", "getattr"),
        ("importlib", "import_module"),
        ("copyreg", "_reconstructor"),
        ("functools", "partial"),
        ("operator", "attrgetter"),
        ("numpy", "load"),
        ("numpy", "ndarray.tofile"),
        ("numpy.testing._private.utils", "runstring"),
        ("numpy.core.multiarray", "fromfile"),
        ("numpy.core.multiarray", "_reconstruct.__globals__"),
        ("numpy.core.numeric", "_frombuffer\0"),
        ("_codecs", "decode"),
        ("ml_dtypes", "float8_e4m3"),
        ("torch._utils", "_rebuild_tensor_v2"),
    ] {
        let expected = format!("global {module}.{name} is refused");
        // Protocol 2's spelling and protocol 4's, called with a command.
        let argument = [&text(&command)[..], b"\x85R."].concat();
        refused(
            &[
                b"\x80\x02c",
                module.as_bytes(),
                b"\n",
                name.as_bytes(),
                b"\n",
                &argument,
            ]
            .concat(),
            &expected,
        );
        refused(&program(&[&text(module), &text(name), b"\x93", &argument]), &expected);
    }
    // As Python 2 and protocol 0 wrote it.
    refused(b"\x80\x02(S'touch x'\nios\nsystem\n.", "opcode STRING is refused");
    refused(b"\x80\x02(ios\nsystem\n.", "opcode INST is refused");
    refused(
        b"cos\nsystem\n(S'touch x'\ntR.",
        "found a file that begins with the bytes [63, 6f, 73, 0a]",
    );
    assert!(!trace.exists());
}

#[test]
fn opcodes_that_make_objects_are_refused() {
    for (opcode, name) in [
        (&b"\x81"[..], "NEWOBJ"),
        (b"\x92", "NEWOBJ_EX"),
        (b"o", "OBJ"),
        (b"P1\n", "PERSID"),
        (b"Q", "BINPERSID"),
        (b"\x82\x01", "EXT1"),
        (b"\x83\x01\x00", "EXT2"),
        (b"\x84\x01\x00\x00\x00", "EXT4"),
        (b"\x97", "NEXT_BUFFER"),
        (b"\x98", "READONLY_BUFFER"),
        (b"\x8F", "EMPTY_SET"),
        (b"0", "POP"),
        (b"2", "DUP"),
        (b"\x8B\x00\x00\x00\x10", "LONG4"),
    ] {
        refused(&program(&[b"}", opcode, b"."]), &format!("opcode {name} is refused"));
    }
    refused(&program(&[b"}\xFF."]), "unknown opcode 0xff (byte 3)");
    refused(b"\x80\x06}.", "protocol 6; protocols 2 to 5 are read");
}

#[test]
fn allowed_names_do_only_what_arrays_need() {
    let global = |module: &str, name: &str| [&text(module)[..], &text(name), b"\x93"].concat();
    let reconstruct = global(MULTIARRAY, "_reconstruct");
    let (ndarray, dtype) = (global("numpy", "ndarray"), global("numpy", "dtype"));
    let encode = global("_codecs", "encode");
    let call = |parts: &[&[u8]], part: &str| refused(&program(&[&parts.concat(), b"."]), part);

    call(&[&text("x"), b")R"], "REDUCE calls a str");
    call(&[b"})R"], "REDUCE calls a dict");
    call(&[&ndarray, b")R"], "REDUCE calls numpy.ndarray");
    call(
        &[&global("ml_dtypes", "bfloat16"), b")R"],
        "REDUCE calls ml_dtypes.bfloat16",
    );
    call(&[&reconstruct, b"}R"], "REDUCE with a dict for arguments");
    call(
        &[&reconstruct, b")R"],
        "unusual arguments of numpy.core.multiarray._reconstruct",
    );
    call(
        &[&reconstruct, &dtype, b"K\x00\x85C\x01b\x87R"],
        "unusual arguments of numpy.core.multiarray._reconstruct",
    );
    call(&[&dtype, &text("O8"), b"\x89\x88\x87R"], "dtype O8 is refused");
    call(&[&dtype, &text("V16"), b"\x89\x88\x87R"], "dtype V16 is refused");
    call(&[&dtype, &dtype, b"\x89\x88\x87R"], "unusual arguments of numpy.dtype");
    call(
        &[&encode, &text("x"), &text("zip"), b"\x86R"],
        "unusual arguments of _codecs.encode",
    );
    call(
        &[&encode, &text("\u{100}"), &text("latin1"), b"\x86R"],
        "latin1 cannot write a character above 255",
    );

    // BUILD is for arrays and dtypes; a dict of attributes or a __setstate__ reaches nothing.
    call(&[b"}", &text("__setstate__"), b"N\x86b"], "BUILD on a dict is refused");
    call(
        &[&text("x"), b"}", &text("__class__"), &reconstruct, b"sb"],
        "BUILD with a dict as the state",
    );
    call(&[&ndarray, b")b"], "BUILD on a function or type is refused");
    let array = [&reconstruct[..], &ndarray, b"K\x00\x85C\x01b\x87R"].concat();
    call(&[&array, b")b"], "BUILD with an unusual state");
    let single = [&dtype[..], &text("f4"), b"\x89\x88\x87R"].concat();
    call(
        &[&array, b"(K\x01K\x02\x85", &single, b"\x89C\x04abcdtb"],
        "4 bytes do not hold shape [2] of float32",
    );
    call(
        &[&array, b"(K\x01J\xFF\xFF\xFF\xFF\x85", &single, b"\x89C\x04abcdtb"],
        "an axis of length -1",
    );
    let wide = [&b"\x8A\x08"[..], &[0, 0, 0, 0, 0, 0, 0, 64]].concat();
    call(
        &[&array, b"(K\x01", &wide, &wide, b"\x86", &single, b"\x89C\x04abcdtb"],
        "4 bytes do not hold shape",
    );
    call(&[&array], "expected a dict, found an array without values");
}

#[test]
fn broken_programs_are_refused() {
    for (body, part) in [
        (&b""[..], "the file ends at byte 2, inside a value"),
        (b".", "too few values on the stack"),
        (b"\x85.", "too few values on the stack"),
        (b"N(\x85.", "too few values on the stack"),
        (b"t.", "no mark on the stack"),
        (b"R.", "too few values on the stack"),
        (b"b.", "too few values on the stack"),
        (b"Nb.", "BUILD on an empty stack"),
        (b"NNs.", "too few values on the stack"),
        (b"}NNNu.", "no mark on the stack"),
        (b"}(NNNu.", "a key without a value"),
        (b"NNa.", "appends to None"),
        (b"]NNs.", "sets items of a list"),
        (b"h\x05.", "no remembered value 5"),
        (b"q\x00.", "too few values on the stack"),
        (
            b"\x8E\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F.",
            "the file ends at byte 12, inside a value",
        ),
        (
            b"\x8E\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF.",
            "the file ends at byte 12, inside a value",
        ),
        (b"\x8C\x02\xC3\x28.", "a str is not UTF-8"),
        (b"\x8A\x09123456789.", "an int of 9 bytes"),
        (b"cnumpy", "a name without an end"),
        (b"NN\x93.", "STACK_GLOBAL without two names"),
        (b"].", "expected a dict, found a list"),
        (b"}NNs.", "expected a str, found None"),
        (b"}.", "no format_version"),
    ] {
        refused(&program(&[body]), part);
    }
}

#[test]
fn nothing_can_be_exhausted() {
    let config = |config: &[u8]| {
        let version = [&text("format_version")[..], b"K\x02"].concat();
        let fields = [&text("config")[..], config, &text("params"), b"}"].concat();
        program(&[b"}(", &version, &fields, b"u."])
    };
    // A value inside a value inside a value …, in one opcode each.
    refused(&config(&[&b"N"[..], &[0x85; 100]].concat()), "nested more than 32 deep");
    refused(&program(&[b"N", &[0x85; 200_000], b"."]), "more than 65536 values");
    refused(
        &program(&[&[b'N'; 20_000], b"."]),
        "more than 16384 values on the stack",
    );
    refused(&program(&[&[b'('; 20_000], b"."]), "more than 16384 marks");
    // A list that holds itself.
    refused(&config(b"]q\x00h\x00a"), "nested more than 32 deep");
    // Thirty tuples, each holding the one before it twice: 2³⁰ values in 200 bytes.
    let double = |index: u8| [b'q', index, b'h', index, 0x86];
    let bomb: Vec<u8> = [b'N'].into_iter().chain((0..30).flat_map(double)).collect();
    refused(&config(&bomb), "more than 65536 values");
    // A megabyte, decoded again and again.
    let long = [&[b'X'][..], &(1u32 << 20).to_le_bytes(), &vec![b'a'; 1 << 20]].concat();
    let encode = [&text("_codecs")[..], &text("encode"), b"\x93q\x00"].concat();
    let again = [&b"h\x00h\x01"[..], &text("latin1"), b"\x86R"].concat().repeat(1000);
    refused(
        &program(&[&encode, &long, b"q\x01", &again, b"."]),
        "decodes more bytes than the file holds",
    );
}
