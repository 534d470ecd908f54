//! `[[legacy_instances]]`.

use std::collections::BTreeSet;

use document::Section;
use domain::LegacyInstance;
use registration::legacy_instance;

pub(super) fn read(root: &mut Section<'_>) -> Vec<LegacyInstance> {
    let mut seen = BTreeSet::new();
    root.sections("legacy_instances")
        .into_iter()
        .filter_map(|section| legacy_instance::read(section, &mut seen))
        .collect()
}
