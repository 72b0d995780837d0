//! Whole files: packed or not, blank lines, foreign line ends, bad bytes; written whole and added to by whole lines.

use std::{fs, io::Write, path::PathBuf};

use flate2::{Compression, write::GzEncoder};
use needle_core::{
    Error,
    data::{Dataset, append_lines, write_lines},
};

use super::{read, rows};

/// An empty folder of this name under the build's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("data").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn packed_files_are_read_by_their_first_bytes_even_in_several_parts() {
    let path = folder("packed").join("no-ending");
    fs::write(&path, [packed(&(rows(3) + "\n")), packed(&rows(2))].concat()).unwrap();
    let data = Dataset::open(&path).unwrap();
    assert_eq!((data.rows.len(), data.rejected.len()), (5, 0));
    assert_eq!(data.duplicates.len(), 2);
}

#[test]
fn a_packed_file_that_was_cut_is_an_error_with_its_name() {
    let path = folder("cut").join("cut.jsonl.gz");
    let whole = packed(&rows(50));
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    match Dataset::open(&path) {
        Err(Error::Io { path: named, .. }) => assert_eq!(named, path),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        Dataset::open(&path.with_file_name("none")),
        Err(Error::Io { .. })
    ));
}

#[test]
fn blank_lines_line_ends_and_byte_order_marks_are_no_trouble() {
    let line = rows(1);
    let data = read(&format!(
        "\u{feff}{line}\r\n\r\n   \n{}",
        line.replace("ping 0", "ping 1")
    ));
    assert_eq!((data.rows.len(), data.blank, data.lines()), (2, 2, 4), "{data:?}");
    assert_eq!(data.rows[1].line, 4);
    let empty = read("");
    assert!(empty.expect_rows().unwrap_err().to_string().contains("it is empty"));
}

#[test]
fn bad_bytes_spoil_their_own_line() {
    let bytes = [rows(1).as_bytes(), b"\n{\"query\":\"\xff\"}\n", rows(1).as_bytes()].concat();
    let data = Dataset::read(bytes.as_slice(), "test").unwrap();
    assert_eq!((data.rows.len(), data.rejected[0].line), (2, 2));
    assert!(data.rejected[0].reason.starts_with("not UTF-8"));
}

#[test]
fn lines_are_written_whole_and_added_whole() {
    let path = folder("written").join("rows.jsonl");
    write_lines(&path, ["a", "b"]).unwrap();
    append_lines(&path, ["c"]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\nc\n");
    fs::write(&path, "a\n{\"cut").unwrap();
    append_lines(&path, ["d"]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "a\n{\"cut\nd\n");
    write_lines(&path, []).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    let nowhere = path.join("below-a-file");
    assert!(matches!(write_lines(&nowhere, ["a"]), Err(Error::Io { .. })));
}
