//! Limits by phone, address and account, counted in the database so that every process counts together. Never trusts an address that a client can write.

use std::net::IpAddr;

use axum::http::{HeaderMap, StatusCode};
use chrono::{DateTime, TimeDelta, Utc};

use super::{Doors, problem::Problem};
use crate::db::credentials;

/// So many in a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// What is counted.
    pub name: &'static str,
    /// The most.
    pub most: u32,
    /// Length of the window, s.
    pub window_s: i64,
}

/// Codes to one phone.
pub(super) const CODES_BY_PHONE: Limit = Limit {
    name: "code.phone",
    most: 5,
    window_s: 3600,
};
/// Sign-in tries on one phone.
pub(super) const SIGN_IN_BY_PHONE: Limit = Limit {
    name: "sign_in.phone",
    most: 10,
    window_s: 900,
};
/// Anything of an unknown caller from one address.
pub(super) const BY_ADDRESS: Limit = Limit {
    name: "address",
    most: 300,
    window_s: 900,
};
/// Orders made by one account.
pub(super) const ORDERS_BY_ACCOUNT: Limit = Limit {
    name: "orders.account",
    most: 60,
    window_s: 3600,
};

/// Counts one more; too many is a 429 with how long to wait.
pub(super) async fn take(
    doors: &Doors,
    limit: Limit,
    key: &str,
    now: DateTime<Utc>,
) -> Result<(), Problem> {
    let factor = doors.limit_factor.max(1);
    let seconds = now.timestamp();
    let begin = seconds - seconds.rem_euclid(limit.window_s);
    let start = DateTime::from_timestamp(begin, 0).unwrap_or(now);
    let hits = credentials::hit(&doors.pool, &format!("{}:{key}", limit.name), start).await?;
    if i64::from(hits) <= i64::from(limit.most) * i64::from(factor) {
        return Ok(());
    }
    let wait = start + TimeDelta::seconds(limit.window_s) - now;
    let wait = u32::try_from(wait.num_seconds().max(1)).unwrap_or(1);
    metrics::counter!("furrow_http_limited_total", "limit" => limit.name).increment(1);
    Err(Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many",
        "too often; try again later",
    )
    .retry_after(wait))
}

/// Where a request comes from: the peer, or, behind proxies that are known, the first address from the
/// right of `X-Forwarded-For` that is none of them.
pub(super) fn address(peer: IpAddr, headers: &HeaderMap, proxies: &[IpAddr]) -> IpAddr {
    let peer = peer.to_canonical();
    if !proxies.contains(&peer) {
        return peer;
    }
    let told = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|part| part.trim().parse::<IpAddr>().map(|a| a.to_canonical()));
    let told: Vec<_> = told.collect();
    for hop in told.into_iter().rev() {
        match hop {
            Ok(hop) if proxies.contains(&hop) => {}
            Ok(hop) => return hop,
            Err(_) => break,
        }
    }
    peer
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_is_never_believed() {
        let of = |text: &str| text.parse::<IpAddr>().unwrap();
        let headers = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            headers
        };
        let proxies = [of("10.0.0.1"), of("10.0.0.2")];
        let from = |peer: &str, told: &[&str]| address(of(peer), &headers(told), &proxies);
        assert_eq!(from("192.0.2.7", &["203.0.113.1"]), of("192.0.2.7"));
        assert_eq!(from("10.0.0.1", &[]), of("10.0.0.1"));
        assert_eq!(
            from("10.0.0.1", &["1.1.1.1, 203.0.113.9"]),
            of("203.0.113.9")
        );
        assert_eq!(
            from("10.0.0.1", &["6.6.6.6", "203.0.113.9, 10.0.0.2"]),
            of("203.0.113.9")
        );
        assert_eq!(from("10.0.0.1", &["junk"]), of("10.0.0.1"));
        assert_eq!(from("::ffff:10.0.0.1", &["203.0.113.9"]), of("203.0.113.9"));
    }
}
