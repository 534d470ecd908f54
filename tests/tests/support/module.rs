//! What is in `filter.wasm`, and a copy of it with little memory.

use std::fs;
use std::ops::Range;
use std::path::Path;

use tests::{Artifacts, Form};

/// Numbers of sections of a WebAssembly module.
pub(crate) const IMPORTS: u8 = 2;
const MEMORY: u8 = 5;
pub(crate) const EXPORTS: u8 = 7;

/// Most pages of 64 KiB that the copy with little memory may have. The filter needs up to 48 in the tests.
const FEW_PAGES: u8 = 64;

/// Pages of the stack.
const STACK: u8 = 16;

/// Length of a header that does not fit into the copy with little memory.
pub(crate) const LARGE: usize = (FEW_PAGES - STACK) as usize * 64 * 1024;

fn filter() -> Vec<u8> {
    fs::read(Artifacts::of(Form::Wasm).unwrap().filter).unwrap()
}

/// The content of a section.
fn section(module: &[u8], wanted: u8) -> Range<usize> {
    let mut start = 8;
    loop {
        let number = module[start];
        // LEB128.
        let (mut size, mut shift) = (0, 0);
        loop {
            start += 1;
            size |= usize::from(module[start] & 0x7f) << shift;
            shift += 7;
            if module[start] < 0x80 {
                break;
            }
        }
        start += 1;
        if number == wanted {
            return start..start + size;
        }
        start += size;
    }
}

/// The names in the section of imports or exports. The bytes between two names are no letters, or too few for a name.
pub(crate) fn names(wanted: u8) -> Vec<String> {
    let module = filter();
    let is_of_name = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    module[section(&module, wanted)]
        .split(|byte| !is_of_name(byte))
        .filter(|name| name.len() > "env".len())
        .map(|name| String::from_utf8(name.to_vec()).unwrap())
        .collect()
}

/// Writes the filter, which may take [`FEW_PAGES`] of memory, to `path`. A request that needs more ends the VM. The code is
/// the same.
pub(crate) fn write_with_little_memory(path: &Path) {
    let mut module = filter();
    let memory = section(&module, MEMORY);
    let [count, limits, least] = module[memory.clone()] else {
        panic!("a memory without a limit, of less than 128 pages");
    };
    assert!((count, limits) == (1, 0) && least < FEW_PAGES);
    let limited = [4, 1, 1, least, FEW_PAGES];
    module.splice(memory.start - 1..memory.end, limited);
    fs::write(path, module).unwrap();
}
