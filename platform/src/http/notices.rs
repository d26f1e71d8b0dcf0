//! The inbox, and the live socket that only speeds it up: a one-time ticket, catch-up by sequence, then each notice as it comes. Topics come from the server alone.

use std::time::Duration;

use axum::{
    Json,
    extract::{
        State,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    http::{HeaderMap, StatusCode, header::ORIGIN},
    response::Response,
};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tokio::{sync::broadcast::error::RecvError, time::timeout};
use uuid::Uuid;

use super::{
    Doors,
    body::{Asked, Body, Page, PageOf},
    problem::Problem,
    session::SignedIn,
};
use crate::{
    app::notices,
    db::notices::{self as rows, NoticeRow},
};

/// A peer that takes longer than this for one message is too slow.
const SLOW: Duration = Duration::from_secs(10);
/// So often is the connection asked whether it lives, and what was missed looked up.
const PING: Duration = Duration::from_secs(30);
/// Notices of one look.
const MOST: i64 = 200;

/// A notice.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct NoticeView {
    id: Uuid,
    /// From 1, without a hole.
    seq: i64,
    kind: String,
    order_id: Option<Uuid>,
    /// What its text is made of.
    #[schema(value_type = Object)]
    data: serde_json::Value,
    text_zh: String,
    text_en: String,
    created_at: DateTime<Utc>,
    read_at: Option<DateTime<Utc>>,
}

impl From<NoticeRow> for NoticeView {
    fn from(row: NoticeRow) -> Self {
        let (text_zh, text_en) = crate::views::texts::of(&row.kind, &row.data);
        Self {
            id: row.id,
            seq: row.seq,
            kind: row.kind,
            order_id: row.order_id,
            data: row.data,
            text_zh,
            text_en,
            created_at: row.created_at,
            read_at: row.read_at,
        }
    }
}

/// One's own notices, newest first.
#[utoipa::path(get, path = "/api/notices", tag = "notices", params(PageOf), responses(
    (status = 200, description = "a page", body = Page<NoticeView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn own(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Asked(page): Asked<PageOf>,
) -> Result<Json<Page<NoticeView>>, Problem> {
    let most = page.most()?;
    let limit = i64::try_from(most + 1).unwrap_or(101);
    let found = rows::page(&doors.pool, who.account.0, page.cursor, limit).await?;
    let views = found.into_iter().map(NoticeView::from).collect();
    Ok(Json(Page::of(views, most, |n: &NoticeView| n.id)))
}

/// Up to where one has read.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadBody {
    seq: i64,
}

/// Marks notices as read.
#[utoipa::path(post, path = "/api/notices/read", tag = "notices", request_body = ReadBody, responses(
    (status = 204, description = "marked"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn read(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Body(body): Body<ReadBody>,
) -> Result<StatusCode, Problem> {
    rows::read(&doors.pool, who.account.0, body.seq, doors.clock.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A ticket.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct TicketView {
    /// For `GET /api/live?ticket=…&last_seq=…`, once, within a minute.
    ticket: String,
}

/// Makes a one-time ticket for the live socket.
#[utoipa::path(post, path = "/api/live/tickets", tag = "notices", responses(
    (status = 201, description = "made", body = TicketView),
    (status = 401, description = "nobody is signed in", body = Problem)
))]
pub(super) async fn ticket(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
) -> Result<(StatusCode, Json<TicketView>), Problem> {
    let ticket = notices::ticket(&doors.pool, &who, doors.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(TicketView { ticket })))
}

/// How one enters.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveOf {
    ticket: String,
    /// The last notice that one has.
    #[serde(default)]
    last_seq: i64,
}

/// Opens the live socket: notices after `last_seq`, then each as it comes.
#[utoipa::path(get, path = "/api/live", tag = "notices", params(LiveOf), responses(
    (status = 101, description = "a WebSocket"),
    (status = 401, description = "no such ticket", body = Problem),
    (status = 403, description = "from another site", body = Problem)
))]
pub(super) async fn live(
    State(doors): State<Doors>,
    headers: HeaderMap,
    Asked(of): Asked<LiveOf>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    if !same_origin(&headers) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "wrong_origin",
            "not from this site",
        ));
    }
    let account = notices::use_ticket(&doors.pool, &of.ticket, doors.clock.now()).await?;
    let account = account.ok_or_else(|| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "wrong_ticket",
            "the ticket is used, over or none",
        )
    })?;
    let upgrade = upgrade.max_message_size(4096).max_frame_size(4096);
    Ok(upgrade.on_upgrade(move |socket| talk(doors, account, of.last_seq, socket)))
}

/// A browser says where its page is from; others say nothing.
fn same_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        return true;
    };
    let host = headers.get("host").and_then(|h| h.to_str().ok());
    let origin = origin.to_str().ok().and_then(|o| o.split_once("://"));
    origin.is_some_and(|(_, site)| Some(site) == host)
}

async fn talk(doors: Doors, account: Uuid, last_seq: i64, mut socket: WebSocket) {
    let mut fresh = doors.told.subscribe();
    let mut seq = last_seq;
    let mut ping = tokio::time::interval(PING);
    loop {
        // The inbox is the truth: whatever woke us, what comes after the last one is read from there.
        let Ok(found) = rows::after(&doors.pool, account, seq, MOST).await else {
            return;
        };
        let full = i64::try_from(found.len()).unwrap_or(0) == MOST;
        for row in found {
            let next = row.seq;
            let Ok(text) = serde_json::to_string(&NoticeView::from(row)) else {
                return;
            };
            let sent = timeout(SLOW, socket.send(Message::Text(text.into()))).await;
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
            seq = next;
        }
        if full {
            continue;
        }
        if !wait(&mut fresh, account, &mut ping, &mut socket).await {
            return;
        }
    }
}

/// Until there may be something new; false when the peer is gone.
async fn wait(
    fresh: &mut tokio::sync::broadcast::Receiver<Uuid>,
    account: Uuid,
    ping: &mut tokio::time::Interval,
    socket: &mut WebSocket,
) -> bool {
    loop {
        tokio::select! {
            told = fresh.recv() => match told {
                Ok(whose) if whose == account => return true,
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return true,
                Err(RecvError::Closed) => return false,
            },
            _ = ping.tick() => {
                let sent = timeout(SLOW, socket.send(Message::Ping(bytes::Bytes::new()))).await;
                return matches!(sent, Ok(Ok(())));
            }
            heard = socket.recv() => match heard {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return false,
                // Nothing that a client says is asked for.
                Some(Ok(_)) => {}
            },
        }
    }
}
