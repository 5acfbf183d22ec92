//! The records of a wrapped server: its ledger, its place in the ring of ended servers, and its report.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mcp_lifecycle_core::launch::LaunchErrorKind;
use nix::unistd::getppid;

use super::{Require, Wrapper};
use crate::command::short_of;
use crate::identity::Cookie;
use crate::orphans::{self, WrapperLedger};
use crate::plan::Plan;
use crate::program::text::Line;

impl Wrapper {
    /// Writes the ledger, before anything is started. Without one, the server is not found when
    /// shim and guardian are killed together.
    pub(super) fn ledger(
        &self,
        identity: Option<&Cookie>,
        parent: Option<&Path>,
    ) -> Result<Option<WrapperLedger>, LaunchErrorKind> {
        let exclusive = self.exclusive.map(|(key, _)| orphans::Exclusive {
            key,
            user: getppid().as_raw().unsigned_abs(),
        });
        let (bare, unrecorded) = (!self.mark, self.unrecorded);
        let begin = |it| WrapperLedger::begin(it, parent, exclusive, bare, unrecorded);
        let ledger = identity.map(begin).transpose();
        let ledger = ledger.map_err(|error| short_of(error, orphans::UNRECORDED))?;
        Ok(ledger.flatten())
    }

    /// Opens the ring of ended servers, at this server's record. A failure is ignored.
    pub(super) fn ring(
        &self,
        identity: Option<&Cookie>,
        ledger: Option<&WrapperLedger>,
    ) -> Option<File> {
        let (directory, _) = ledger?.place();
        orphans::claim(directory, identity?.serial(), self.display_name()).ok()
    }

    fn display_name(&self) -> &OsStr {
        let program = || Path::new(&self.program).file_name();
        let given = self.name.as_ref().or(self.label.as_ref());
        given
            .map(OsString::as_os_str)
            .or_else(program)
            .unwrap_or_default()
    }

    /// Returns the beginning of each line of the report.
    pub(super) fn beginning(
        &self,
        identity: Option<&Cookie>,
        no_cgroup: Option<&String>,
    ) -> CString {
        let cgroups = no_cgroup.map_or(Ok(Path::new("")), |why| Err(why.as_str().into()));
        let with_namespace = self.require == Require::PidNamespace;
        let mut plan = Plan::new(cgroups, with_namespace.then_some(Ok(())));
        plan.hardened = self.hardened;
        let containment = plan.containment();
        let id = identity.map(|it| it.serial());
        let id = id.map_or_else(String::new, |id| format!("{id:016x}"));
        let mut line = Line::new();
        line.then("{\"schema\":\"mcp-contain/report/1\"");
        line.key("id").string(id.as_bytes());
        line.key("name").string(self.display_name().as_bytes());
        line.key("containment").then("{\"mechanism\":");
        line.string(containment.mechanism.as_bytes())
            .key("fallback");
        match &containment.fallback {
            Some(why) => line.string(why.as_bytes()),
            None => line.then("null"),
        };
        let hardened = containment.is_hardened.to_string();
        line.key("hardened").then(&hardened).then("}");
        line.c_str().to_owned()
    }
}
