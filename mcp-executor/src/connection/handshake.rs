use std::sync::atomic::Ordering;

use super::super::host::environment_info;
use super::super::limits::MOST_NAME;
use super::super::origin::Origin;
use super::super::registry::Registry;
use super::super::session::Session;
use super::{Connection, State};
use crate::protocol::extension::{Extensions, Lifecycle, VERSION};
use crate::protocol::{InitializeParams, InitializeResult, Params, RpcError, code};
use crate::wire::wire_containment;
use serde_json::json;

impl Connection {
    pub(super) fn initialize(&mut self, params: Params<'_>) -> Result<InitializeResult, RpcError> {
        let params: InitializeParams = params.parse()?;
        let names = [Some(&params.client_name), params.resume_session_id.as_ref()];
        if names
            .into_iter()
            .flatten()
            .any(|name| name.len() > MOST_NAME)
        {
            let text = format!("clientName and resumeSessionId must not exceed {MOST_NAME} bytes");
            return Err(RpcError::new(code::INVALID_PARAMS, text));
        }
        let session = match &params.resume_session_id {
            Some(id) => self.resume(id)?,
            None => {
                let wish = params.extensions.and_then(|e| e.mcp_lifecycle);
                let wish = wish.filter(|w| w.version >= VERSION);
                let agreed = wish.map(|w| self.agree(&w));
                Registry::open(&self.shared, agreed, self.origin.account())?
            }
        };
        let generation = session.attach();
        self.ticket = None;
        self.intake.belongs_to(&session);
        let audit = &session.audit;
        audit.attached(&self.origin, &params.client_name, generation > 1);
        let result = InitializeResult {
            session_id: Some(session.id.clone()),
            environment_info: Some(environment_info()),
            extensions: session.lifecycle.clone().map(|lifecycle| Extensions {
                mcp_lifecycle: Some(lifecycle),
            }),
        };
        self.state = State::Greeted(session, generation);
        Ok(result)
    }

    fn resume(&self, id: &str) -> Result<std::sync::Arc<Session>, RpcError> {
        if let Some(session) = self.shared.registry.find(id) {
            let text = "the session is being ended";
            return match session.has_ended() {
                true => Err(RpcError::new(code::SESSION_ATTACHED, text)),
                false => Ok(session),
            };
        }
        let error = RpcError::new(code::INVALID_REQUEST, "unknown session id");
        let mut data = json!({"kind": "unknownSession"});
        // Tells a client that knows this machine that nothing of its session is left, whether it
        // ended here or under an earlier daemon.
        match self.shared.doubts.of(id) {
            0 if self.shared.swept.load(Ordering::Acquire) => {
                data["machine"] = json!(self.machine())
            }
            0 => {}
            unproven => data["unproven"] = json!(unproven),
        }
        Err(error.with_data(data))
    }

    /// Returns [`Lifecycle::machine`]. Pipes have none: their daemons may run side by side.
    fn machine(&self) -> Option<String> {
        match self.origin {
            Origin::Stdio => None,
            Origin::Network(..) | Origin::User(_) => self.shared.machine(),
        }
    }

    fn agree(&self, wish: &Lifecycle) -> Lifecycle {
        let limits = &self.shared.limits;
        const LEAST: u64 = 4096;
        let most = (limits.window as u64).saturating_mul(4).max(LEAST);
        let longest = (limits.lease.as_millis() as u64)
            .saturating_mul(10)
            .max(100);
        let window = wish.window.unwrap_or(limits.window as u64);
        let lease = wish.lease_ms.unwrap_or(limits.lease.as_millis() as u64);
        let containment = self.shared.launcher.semantics().containment;
        Lifecycle {
            version: VERSION,
            window: Some(window.clamp(LEAST, most)),
            lease_ms: Some(lease.clamp(100, longest)),
            max_frame: Some(limits.max_frame as u64),
            grace_ms: Some(limits.orphans.longest().as_millis() as u64),
            machine: self.machine(),
            raw_output: wish.raw_output && self.origin != Origin::Stdio,
            containment: Some(wire_containment(&containment)),
        }
    }
}
