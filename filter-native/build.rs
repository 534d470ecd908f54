//! Places side by side in the module what each request runs.

fn main() {
    println!("cargo::rerun-if-changed=known_token.ld");
    let target = std::env::var("CARGO_CFG_TARGET_OS");
    if target.is_ok_and(|target| target == "linux") {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/known_token.ld");
        println!("cargo::rustc-link-arg-cdylib=-Wl,--script={script}");
    }
}
