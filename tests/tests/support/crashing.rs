//! The filter with a way to crash it: the filter's own code, with one trap before it.

use std::fs;
use std::path::Path;

use tests::{Artifacts, Form};
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CodeSection, Instruction, Module};
use wasmparser::{ExternalKind, FunctionBody, Parser, Payload, TypeRef};

/// A request with more headers than this ends the VM.
pub(crate) const MOST_HEADERS: i32 = 50;

/// Writes the filter with the trap to `path`.
pub(crate) fn write_crashing_filter(path: &Path) {
    let wasm = fs::read(Artifacts::of(Form::Wasm).unwrap().filter).unwrap();
    let mut trap = Trap {
        left: place_of(&wasm, "proxy_on_request_headers"),
    };
    let mut module = Module::new();
    trap.parse_core_module(&mut module, Parser::new(0), &wasm)
        .unwrap();
    assert_eq!(trap.left, None, "the trap is in its place");
    fs::write(path, module.finish()).unwrap();
}

/// Index of the function that is exported under this name, among the module's own functions.
fn place_of(wasm: &[u8], name: &str) -> Option<u32> {
    let mut imported = 0;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.unwrap() {
            Payload::ImportSection(imports) => {
                imported = imports
                    .into_iter()
                    .filter(|import| matches!(import.as_ref().unwrap().ty, TypeRef::Func(_)))
                    .count();
            }
            Payload::ExportSection(exports) => {
                let export = exports
                    .into_iter()
                    .map(Result::unwrap)
                    .find(|export| export.kind == ExternalKind::Func && export.name == name);
                return Some(export?.index - u32::try_from(imported).unwrap());
            }
            _ => {}
        }
    }
    None
}

/// Copies a module, with the trap at the start of one function.
struct Trap {
    /// Number of functions still to copy before that function; `None` after it was copied.
    left: Option<u32>,
}

impl Reencode for Trap {
    type Error = std::convert::Infallible;

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), Error<Self::Error>> {
        let is_it = self.left == Some(0);
        self.left = self.left.and_then(|left| left.checked_sub(1));
        if !is_it {
            return utils::parse_function_body(self, code, body);
        }
        let mut function = self.new_function_with_parsed_locals(&body)?;
        // The second parameter is the number of headers.
        function.instruction(&Instruction::LocalGet(1));
        function.instruction(&Instruction::I32Const(MOST_HEADERS));
        function.instruction(&Instruction::I32GtU);
        function.instruction(&Instruction::If(wasm_encoder::BlockType::Empty));
        function.instruction(&Instruction::Unreachable);
        function.instruction(&Instruction::End);
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            function.instruction(&self.parse_instruction(&mut operators)?);
        }
        code.function(&function);
        Ok(())
    }
}
