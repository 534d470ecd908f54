//! `#[forms::each]` in place of `#[test]`.

use proc_macro::{TokenStream, TokenTree};

/// Makes two tests of a function without arguments: `NAME::wasm` runs the function with `filter.wasm`, `NAME::native` with the
/// native module.
#[proc_macro_attribute]
pub fn each(_: TokenStream, function: TokenStream) -> TokenStream {
    let mut tokens = function.clone().into_iter();
    let is_fn =
        |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn");
    let name = tokens.find(is_fn).and_then(|_| tokens.next());
    let Some(TokenTree::Ident(name)) = name else {
        return error("`#[forms::each]` stands above a function");
    };
    let tests = format!(
        "mod {name} {{
            #[test]
            fn wasm() {{
                ::tests::Form::Wasm.run(super::{name});
            }}

            #[test]
            fn native() {{
                ::tests::Form::Native.run(super::{name});
            }}
        }}"
    );
    match tests.parse::<TokenStream>() {
        Ok(tests) => [function, tests].into_iter().collect(),
        Err(problem) => error(&problem.to_string()),
    }
}

fn error(problem: &str) -> TokenStream {
    let error = format!("compile_error!({problem:?});").parse();
    error.unwrap_or_default()
}
