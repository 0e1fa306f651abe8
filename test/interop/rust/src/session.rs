// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//! One session of rmcp, and how each feature is tried in it.

use std::{process::Stdio, time::Duration};

use rmcp::{
    ServiceError,
    model::*,
    service::{ClientLifecycleMode, RoleClient, RunningService, Subscription, serve_client_with_lifecycle},
    transport::{
        StreamableHttpClientTransport, TokioChildProcess, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{
    process::Command,
    time::{sleep, timeout},
};

use crate::{Outcome, handler::Handler};

/// What this driver tries, in the order of the table.
pub const FEATURES: &[&str] = &[
    "tools", "resources", "templates", "prompts", "call", "progress", "complete", "read", "get", "elicit", "sample",
    "roots", "several", "kinds", "structured", "caps", "instruct", "changes",
];

const POLL: Duration = Duration::from_millis(50);

/// How often progress is tried, and how long the steps of a call that has ended may take.
/// Steps may be missing by chance: of those that a client has not read, the newest remains, and
/// they are lost while a request is parked because the server has asked something.
const PROGRESS_ATTEMPTS: usize = 5;
const STEPS_PATIENCE: Duration = Duration::from_secs(2);

pub struct Session {
    client: RunningService<RoleClient, Handler>,
    modern: bool,
}

fn failed(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn includes(got: &str, want: &str) -> Outcome {
    if got.contains(want) { Ok(()) } else { Err(format!("got {got:?}, want {want:?} in it")) }
}

fn includes_all(got: &[String], want: &Value) -> Outcome {
    for item in want.as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !got.iter().any(|g| g == item) {
            return Err(format!("{item:?} is not in {got:?}"));
        }
    }
    Ok(())
}

fn value_of(result: Result<impl Serialize, ServiceError>) -> Result<Value, String> {
    serde_json::to_value(result.map_err(failed)?).map_err(failed)
}

/// The member of each item of a list.
fn members(list: &Value, key: &str) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|item| text(item, key).to_owned()).collect()
}

impl Session {
    pub async fn connect(job: &Value) -> Result<Self, String> {
        let modern = job["era"] == "modern";
        let lifecycle = if modern {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
        } else {
            ClientLifecycleMode::Initialize
        };
        let (handler, target) = (Handler::new(job), &job["target"]);
        let client = if let Some(url) = target["url"].as_str() {
            let mut config = StreamableHttpClientTransportConfig::with_uri(url);
            if let Some(token) = target["token"].as_str() {
                config = config.auth_header(token);
            }
            serve_client_with_lifecycle(handler, StreamableHttpClientTransport::from_config(config), lifecycle).await
        } else {
            let mut command = Command::new(text(target, "command"));
            command.args(target["args"].as_array().into_iter().flatten().filter_map(Value::as_str));
            let (child, _) = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn().map_err(failed)?;
            serve_client_with_lifecycle(handler, child, lifecycle).await
        }
        .map_err(failed)?;
        let session = Self { client, modern };
        let info = session.info()?;
        if info["protocolVersion"] != job["version"] {
            return Err(format!("negotiated {}, want {}", info["protocolVersion"], job["version"]));
        }
        if modern {
            // Some servers answer server/discover, and nothing else of the modern era.
            session.client.list_tools(None).await.map_err(failed)?;
        }
        Ok(session)
    }

    pub async fn close(self) -> Outcome {
        self.client.cancel().await.map(|_| ()).map_err(failed)
    }

    fn info(&self) -> Result<Value, String> {
        let info = self.client.peer_info().ok_or("the server said nothing of itself")?;
        serde_json::to_value(info.as_ref()).map_err(failed)
    }

    pub async fn try_feature(&self, feature: &str, want: &Value) -> Outcome {
        match feature {
            "tools" | "resources" | "templates" | "prompts" => includes_all(&self.listed(feature).await?, want),
            "progress" => self.progress(want).await,
            "complete" => self.complete(want).await,
            "read" => self.read(want).await,
            "get" => self.get(want).await,
            "kinds" => {
                let result = self.call_tool(want).await?;
                includes(&members(&result["content"], "type").join(" "), text(want, "want"))
            }
            "structured" => {
                let result = self.call_tool(want).await?;
                includes(&result["structuredContent"].to_string(), text(want, "want"))
            }
            "caps" => {
                let info = self.info()?;
                let declared: Vec<String> =
                    info["capabilities"].as_object().into_iter().flat_map(|all| all.keys().cloned()).collect();
                includes_all(&declared, want)
            }
            "instruct" => includes(text(&self.info()?, "instructions"), want.as_str().unwrap_or_default()),
            "changes" => self.changes(want).await,
            _ => self.call(want).await,
        }
    }

    async fn listed(&self, kind: &str) -> Result<Vec<String>, String> {
        let (list, key) = match kind {
            "tools" => (value_of(self.client.list_all_tools().await)?, "name"),
            "resources" => (value_of(self.client.list_all_resources().await)?, "uri"),
            "templates" => (value_of(self.client.list_all_resource_templates().await)?, "uriTemplate"),
            _ => (value_of(self.client.list_all_prompts().await)?, "name"),
        };
        Ok(members(&list, key))
    }

    async fn call_tool(&self, want: &Value) -> Result<Value, String> {
        let mut params = CallToolRequestParams::new(text(want, "name").to_owned());
        if let Some(arguments) = want["arguments"].as_object() {
            params = params.with_arguments(arguments.clone());
        }
        let result = value_of(self.client.call_tool(params).await)?;
        if result["isError"] == true {
            return Err(format!("tool error: {}", result["content"]));
        }
        Ok(result)
    }

    async fn call(&self, want: &Value) -> Outcome {
        loop {
            let result = self.call_tool(want).await?;
            let got = includes(&members(&result["content"], "text").join("\n"), text(want, "want"));
            if got.is_ok() || want["eventually"] != true {
                return got;
            }
            sleep(POLL).await;
        }
    }

    /// Wants every step of a call: this SDK gives each call a token.
    async fn progress(&self, want: &Value) -> Outcome {
        let steps = want["steps"].as_u64().unwrap_or_default() as usize;
        for _ in 0..PROGRESS_ATTEMPTS {
            let before = self.client.service().count("progress", "");
            self.call(want).await?;
            if timeout(STEPS_PATIENCE, self.heard("progress", before + steps)).await.is_ok() {
                return Ok(());
            }
        }
        Err(format!("steps are missing in each of {PROGRESS_ATTEMPTS} calls"))
    }

    /// Waits for the number of notifications; the limit of the feature ends it.
    async fn heard(&self, method: &str, count: usize) {
        while self.client.service().count(method, "") < count {
            sleep(POLL).await;
        }
    }

    async fn complete(&self, want: &Value) -> Outcome {
        for probe in want.as_array().into_iter().flatten() {
            let (reference, argument) = (&probe["ref"], &probe["argument"]);
            let (name, value) = (text(argument, "name"), text(argument, "value"));
            let values = if reference["type"] == "ref/prompt" {
                self.client.complete_prompt_simple(text(reference, "name"), name, value).await
            } else {
                self.client.complete_resource_simple(text(reference, "uri"), name, value).await
            }
            .map_err(failed)?;
            includes_all(&values, &json!([probe["value"]]))?;
        }
        Ok(())
    }

    async fn read(&self, want: &Value) -> Outcome {
        for probe in want.as_array().into_iter().flatten() {
            let params = ReadResourceRequestParams::new(text(probe, "uri"));
            let result = value_of(self.client.read_resource(params).await)?;
            includes(&members(&result["contents"], "text").join("\n"), text(probe, "text"))?;
        }
        Ok(())
    }

    async fn get(&self, want: &Value) -> Outcome {
        let mut params = GetPromptRequestParams::new(text(want, "name"));
        if let Some(arguments) = want["arguments"].as_object() {
            params = params.with_arguments(arguments.clone());
        }
        let result = value_of(self.client.get_prompt(params).await)?;
        includes(&result["messages"].to_string(), text(want, "want"))
    }

    /// Wants a notice for each change, and the change in the list that is fetched after
    /// a notice. Other clients of the same server cause notices, too.
    async fn changes(&self, want: &Value) -> Outcome {
        let kind = text(want, "kind");
        let mut listen = self.listen(kind).await?;
        for (step, present) in [(&want["add"], true), (&want["remove"], false)] {
            if step.is_null() {
                continue;
            }
            let mut seen = self.client.service().count(kind, "");
            self.call(step).await?;
            loop {
                match &mut listen {
                    Some(open) => {
                        open.next().await.map_err(failed)?.ok_or("the subscription ended")?;
                    }
                    None => self.heard(kind, seen + 1).await,
                }
                seen = self.client.service().count(kind, "");
                if self.listed(kind).await?.iter().any(|name| name == text(want, "item")) == present {
                    break;
                }
            }
            if present && !want["use"].is_null() {
                self.call(&want["use"]).await?;
            }
        }
        match listen {
            Some(mut open) => open.cancel().await.map_err(failed),
            None => Ok(()),
        }
    }

    /// Asks for the changes of a list, in the modern era.
    async fn listen(&self, kind: &str) -> Result<Option<Subscription>, String> {
        if !self.modern {
            return Ok(None);
        }
        let filter = json!({"toolsListChanged": kind == "tools", "resourcesListChanged": kind == "resources"});
        let filter: SubscriptionFilter = serde_json::from_value(filter).map_err(failed)?;
        self.client.listen(filter).await.map(Some).map_err(failed)
    }
}
