//! The design notes, as in the directory `docs` of the repository; links between them are relative to that directory.

#[doc = include_str!("../docs/contain.md")]
pub(crate) mod contain {}

#[doc = include_str!("../docs/contain-containers.md")]
pub(crate) mod contain_containers {}

#[doc = include_str!("../docs/contain-lazy.md")]
pub(crate) mod contain_lazy {}

#[doc = include_str!("../docs/contain-memory.md")]
pub(crate) mod contain_memory {}

#[doc = include_str!("../docs/contain-wrap.md")]
pub(crate) mod contain_wrap {}

#[doc = include_str!("../docs/contain-operate.md")]
pub(crate) mod contain_operate {}

#[doc = include_str!("../docs/contain-for-users.md")]
pub(crate) mod contain_for_users {}
