//! Notices: written in the transaction that causes them, one for one cause and person.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::order::{
    Order,
    effect::{NoticeKind, Recipient},
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{devices::hash, fault::Fault, who::Who};
use crate::{
    db::{
        Connection, Pool,
        notices::{self, NewNotice},
    },
    ids,
};

/// A ticket for the live socket lives so long.
const TICKET: TimeDelta = TimeDelta::seconds(60);

/// The name of a kind, as it stands in columns and texts.
#[must_use]
pub fn name(kind: NoticeKind) -> String {
    serde_json::to_value(kind)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// An order of which people are told.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// It.
    pub order: &'a Order,
    /// Its number.
    pub order_no: &'a str,
    /// The step that tells, by its id.
    pub step: &'a str,
    /// By which the logs know the request.
    pub trace_id: &'a str,
}

/// Tells the people of an order; `more` joins what the text is made of.
///
/// # Errors
///
/// The database.
pub async fn tell(
    tx: &mut Connection,
    about: About<'_>,
    to: Recipient,
    kind: NoticeKind,
    more: &Value,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let About {
        order,
        order_no,
        step,
        trace_id,
    } = about;
    let people = match to {
        Recipient::Renter => vec![order.renter.0],
        Recipient::Owner => notices::runners(tx, order.organisation.0).await?,
        Recipient::Admins => notices::judges(tx).await?,
    };
    let name = name(kind);
    let mut data = json!({
        "order_no": order_no, "status": order.status, "start": order.start, "end": order.end,
        "version": order.version,
    });
    if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
        data.extend(more.clone());
    }
    // A step tells once for each version. Reminders leave the version as it is: each of them tells once, one
    // that comes every day once a day.
    let (day, (id, epoch, version)) = (now.date_naive(), (order.id, order.epoch, order.version));
    let cause = format!("{id}:{epoch}:{version}:{step}:{day}:{name}");
    for account in people {
        let new = NewNotice {
            account,
            kind: &name,
            order: Some(order.id.0),
            data: &data,
            cause: &cause,
            trace_id,
        };
        notices::insert(tx, &new, now).await?;
    }
    Ok(())
}

/// A ticket for the live socket: shown once, used once, within a minute.
///
/// # Errors
///
/// The database.
pub async fn ticket(pool: &Pool, who: &Who, now: DateTime<Utc>) -> Result<String, Fault> {
    let ticket = super::devices::hex(&ids::secret::<32>());
    let kept = hash(ticket.as_bytes());
    notices::insert_ticket(pool, &kept, who.account.0, now + TICKET).await?;
    Ok(ticket)
}

/// Whose ticket this is; it is used up.
///
/// # Errors
///
/// The database.
pub async fn use_ticket(
    pool: &Pool,
    shown: &str,
    now: DateTime<Utc>,
) -> Result<Option<Uuid>, Fault> {
    Ok(notices::use_ticket(pool, &hash(shown.as_bytes()), now).await?)
}
