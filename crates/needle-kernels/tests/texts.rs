//! Rules of the kernel texts that a look at the text can check; clang's front end checks more (`cargo xtask check kernels`).

use std::collections::BTreeSet;

use needle_kernels::{Module, Part, emulator::signatures};

/// The portable parts, each once, without comments.
fn parts() -> Vec<(&'static str, String)> {
    let mut seen = BTreeSet::new();
    let all = Module::ALL.iter().flat_map(|module| module.parts());
    let fresh: Vec<&Part> = all.filter(|part| seen.insert(part.file)).collect();
    let code = |text: &str| {
        text.lines()
            .map(|line| line.split("//").next().unwrap())
            .collect::<Vec<_>>()
            .join("\n")
    };
    fresh.into_iter().map(|part| (part.file, code(part.text))).collect()
}

/// Metal binds by slot, CUDA by position: the numbers must count up.
fn wrong_slot(code: &str) -> Option<String> {
    for head in code
        .split("NK_KERNEL(")
        .skip(1)
        .filter_map(|rest| rest.split("NK_BUILTINS").next())
    {
        let kinds = ["IN(", "OUT(", "INOUT(", "PARAMS("];
        let args = head
            .split("NK_")
            .filter(|arg| kinds.iter().any(|kind| arg.starts_with(kind)));
        for (next, arg) in args.enumerate() {
            // The slot is the last thing in the outermost parentheses.
            let mut depth = 0;
            let end = arg.char_indices().find_map(|(at, c)| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                (c == ')' && depth == 0).then_some(at)
            });
            let slot = arg[..end?].rsplit(',').next().unwrap().trim().to_owned();
            if slot != next.to_string() {
                return Some(format!("slot {slot} where {next} belongs: {}", arg.trim()));
            }
        }
    }
    None
}

#[test]
fn slots_count_up() {
    for (file, code) in parts() {
        assert_eq!(wrong_slot(&code), None, "{file}");
    }
    let (_, code) = parts().into_iter().find(|(file, _)| *file == "rms_norm.h").unwrap();
    for (from, to) in [
        ("y, 2)", "y, 3)"),
        ("NK_PARAMS(RmsNormParams, p, 5)", "NK_PARAMS(RmsNormParams, p, 4)"),
    ] {
        assert!(
            code.contains(from) && wrong_slot(&code.replacen(from, to, 1)).is_some(),
            "{from}"
        );
    }
}

#[test]
fn references_name_their_address_space() {
    for (file, code) in parts() {
        for line in code.lines() {
            assert!(!line.contains("(&") || line.contains("NK_REG"), "{file}: {line}");
        }
    }
}

#[test]
fn nothing_belongs_to_one_gpu_alone() {
    for (file, code) in parts() {
        let foreign = [
            "double",
            "threadIdx",
            "blockIdx",
            "__",
            "#include",
            "threadgroup",
            "device ",
            "constant ",
            "std::",
            "auto ",
            "simd_shuffle",
            "atomic",
            "static_cast",
            "nullptr",
        ];
        for word in foreign {
            assert!(!code.contains(word), "{file} says `{word}`");
        }
        assert!(code.is_ascii(), "{file}");
    }
}

#[test]
fn every_kernel_is_registered_with_the_emulator() {
    let kernels: usize = parts().iter().map(|(_, code)| code.matches("NK_KERNEL(").count()).sum();
    let ends: usize = parts().iter().map(|(_, code)| code.matches("NK_END(").count()).sum();
    assert_eq!(kernels, ends);
    assert_eq!(
        signatures()
            .iter()
            .filter(|kernel| !kernel.name.starts_with("wrong"))
            .count(),
        100
    );
}
