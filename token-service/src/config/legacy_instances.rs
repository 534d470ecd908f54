//! `[[legacy_instances]]`.

pub(super) use registration::objects::read_legacy_instances as read;
