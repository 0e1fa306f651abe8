// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//! The client of rmcp, for the interop tests. It reads a JSON array of jobs from standard
//! input and prints one JSON line per server and feature, and one when a session has
//! closed.

// What one era has no longer, the other still needs.
#![allow(deprecated)]

mod handler;
mod session;

use std::{future::Future, io::Read, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::Instant};

use session::Session;

/// Limits of a feature, and of one that is known not to work.
const FEATURE_LIMIT: Duration = Duration::from_secs(120);
const BRIEF_LIMIT: Duration = Duration::from_secs(5);
const SESSIONS: usize = 4;

pub type Outcome = Result<(), String>;

#[tokio::main]
async fn main() {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).expect("read the jobs");
    let jobs: Vec<Value> = serde_json::from_str(&input).expect("parse the jobs");
    let slots = Arc::new(Semaphore::new(SESSIONS));
    let mut running = Vec::new();
    for job in jobs {
        let slots = slots.clone();
        running.push(tokio::spawn(async move {
            let _slot = slots.acquire().await.expect("a slot");
            run(job).await;
        }));
    }
    for job in running {
        job.await.expect("run a job");
    }
}

/// Connects, tries all features, and closes.
async fn run(job: Value) {
    let mut session = None;
    let connected = within(&job, "", "connect", FEATURE_LIMIT, async {
        session = Some(Session::connect(&job).await?);
        Ok(())
    })
    .await;
    let Some(session) = session.filter(|_| connected) else { return };
    for server in job["servers"].as_array().into_iter().flatten() {
        let name = server["name"].as_str().unwrap_or_default();
        for feature in session::FEATURES {
            let want = &server[feature];
            if want.is_null() {
                continue;
            }
            let brief = server["brief"].as_array().is_some_and(|all| all.iter().any(|f| f == feature));
            let limit = if brief { BRIEF_LIMIT } else { FEATURE_LIMIT };
            within(&job, name, feature, limit, session.try_feature(feature, want)).await;
        }
    }
    within(&job, "", "close", FEATURE_LIMIT, session.close()).await;
}

/// Runs one feature within its limit and prints what came of it.
async fn within(job: &Value, server: &str, feature: &str, limit: Duration, run: impl Future<Output = Outcome>) -> bool {
    let started = Instant::now();
    let error = match tokio::time::timeout(limit, run).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error),
        Err(_) => Some(format!("no result after {limit:?}")),
    };
    let line = json!({
        "job": job["id"], "server": server, "feature": feature, "ok": error.is_none(),
        "error": error.as_deref().unwrap_or_default(), "ms": started.elapsed().as_millis() as u64,
    });
    println!("{line}");
    error.is_none()
}
