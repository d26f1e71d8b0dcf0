//! Tells notices to whoever listens: the live sockets of this process, and webhooks. The inbox has them already.

use std::collections::HashMap;

use chrono::TimeDelta;
use uuid::Uuid;

use super::Jobs;
use crate::{
    db::{DbError, notices},
    notify::webhook,
    views::texts,
};

/// A lease lasts so long.
const LEASE: TimeDelta = TimeDelta::seconds(60);
/// Notices of one look.
const MOST: i64 = 200;

pub(super) async fn run(jobs: &Jobs) -> Result<(), DbError> {
    loop {
        let now = jobs.clock.now();
        let waiting = notices::lease(&jobs.pool, now, now + LEASE, MOST).await?;
        if waiting.is_empty() {
            return Ok(());
        }
        let mut accounts: Vec<Uuid> = waiting.iter().map(|n| n.account_id).collect();
        accounts.dedup();
        let mut hooks: HashMap<Uuid, Vec<(Uuid, String, Vec<u8>)>> = HashMap::new();
        for (account, id, url, secret) in notices::webhooks_of(&jobs.pool, &accounts).await? {
            hooks.entry(account).or_default().push((id, url, secret));
        }
        for notice in &waiting {
            // Nobody listening is no error.
            let _ = jobs.told.send(notice.account_id);
            for (id, url, secret) in hooks.get(&notice.account_id).into_iter().flatten() {
                let (text_zh, text_en) = texts::of(&notice.kind, &notice.data);
                let text = serde_json::json!({
                    "id": notice.id, "kind": notice.kind, "order_id": notice.order_id, "data": notice.data,
                    "text_zh": text_zh, "text_en": text_en, "created_at": notice.created_at,
                })
                .to_string();
                post(*id, url.clone(), secret.clone(), text, jobs.webhooks_inside).await;
            }
        }
        let told: Vec<Uuid> = waiting.iter().map(|n| n.id).collect();
        notices::delivered(&jobs.pool, &told, now).await?;
    }
}

/// A webhook that fails is counted; its receiver finds what it missed in the inbox.
async fn post(id: Uuid, url: String, secret: Vec<u8>, text: String, inside: bool) {
    let posted =
        tokio::task::spawn_blocking(move || webhook::post(&url, &secret, &text, inside)).await;
    let failed = match posted {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    metrics::counter!("furrow_webhook_failures_total").increment(1);
    tracing::warn!(webhook = %id, error = failed, "job.webhook");
}
