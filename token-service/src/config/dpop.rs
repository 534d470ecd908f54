//! `[dpop]`.

use document::Section;
use protocol::settings::{Dpop, NoncePolicy, SingleUse};

pub(super) fn read(mut section: Section<'_>, default: Dpop) -> Dpop {
    let nonce = section.parsed("nonce", |text| match text {
        "optional" => Ok(NoncePolicy::Optional),
        "required" => Ok(NoncePolicy::Required),
        _ => Err("expected optional or required"),
    });
    let single_use = section.parsed("single_use", |text| match text {
        "process" => Ok(SingleUse::Process),
        "store" => Ok(SingleUse::Store),
        _ => Err("expected process or store"),
    });
    let dpop = Dpop {
        nonce: nonce.map_or(default.nonce, |nonce| nonce.value),
        single_use: single_use.map_or(default.single_use, |single_use| single_use.value),
    };
    section.finish();
    dpop
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load;

    #[test]
    fn nonces_and_the_memory_are_words() {
        let config = load("[dpop]\nnonce = 'required'\nsingle_use = 'store'\n", &[]).unwrap();
        let Dpop { nonce, single_use } = config.protocol.dpop;
        assert_eq!(nonce, NoncePolicy::Required);
        assert_eq!(single_use, SingleUse::Store);
        assert_eq!(
            load("[dpop]\nnonce = 'off'\nsingle_use = 'once'\n", &[]).unwrap_err(),
            [
                "config.toml:2: nonce: expected optional or required",
                "config.toml:3: single_use: expected process or store",
            ]
        );
    }
}
