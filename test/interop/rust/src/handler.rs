// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//! What the client answers when a server asks, and what it has heard.

use std::sync::Mutex;

use rmcp::{
    ClientHandler, ErrorData,
    model::*,
    service::{NotificationContext, RequestContext, RoleClient},
};
use serde_json::{Value, json};

pub struct Handler {
    config: ClientConfig,
    answers: Value,
    heard: Mutex<Vec<Value>>,
}

impl Handler {
    pub fn new(job: &Value) -> Self {
        let capabilities = serde_json::from_value(json!({
            "elicitation": {"form": {}}, "sampling": {}, "roots": {},
        }))
        .expect("the capabilities of this client");
        Self {
            config: ClientConfig::new(capabilities, Implementation::new("rmcp", "1.0.0"))
                .with_protocol_version(ProtocolVersion::V_2025_11_25),
            answers: job["answers"].clone(),
            heard: Mutex::default(),
        }
    }

    fn answer(&self, name: &str) -> String {
        self.answers[name].as_str().unwrap_or_default().to_owned()
    }

    fn hear(&self, method: &str, params: Value) {
        self.heard.lock().expect("what was heard").push(json!({"method": method, "params": params}));
    }

    /// The number of notifications of a method that have the text in them.
    pub fn count(&self, method: &str, text: &str) -> usize {
        let heard = self.heard.lock().expect("what was heard");
        heard.iter().filter(|n| n["method"] == method && n["params"].to_string().contains(text)).count()
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let said = SamplingMessageContentBlock::text(self.answer("sample"));
        Ok(CreateMessageResult::new(SamplingMessage::new(Role::Assistant, said), "none".into()))
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new(self.answer("root"))]))
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": self.answer("name")})))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.hear("progress", serde_json::to_value(params).unwrap_or_default());
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.hear("tools", Value::Null);
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.hear("resources", Value::Null);
    }
}
