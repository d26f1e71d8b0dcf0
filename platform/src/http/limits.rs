//! Limits by phone, address and account. What guards secrets and money is counted in the database, so that every process counts together. Never trusts an address that a client can write.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, PoisonError},
};

use axum::http::{HeaderMap, StatusCode};
use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::{Doors, problem::Problem};
use crate::{config::Limits, db::requests};

/// So many in a window.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    name: &'static str,
    most: fn(&Limits) -> u32,
    window_s: i64,
}

/// Codes to one phone.
pub(super) const CODES_BY_PHONE: Limit = Limit {
    name: "code.phone",
    most: |limits| limits.codes_by_phone_h,
    window_s: 3600,
};
/// Codes asked for from one address, to whatever phones.
pub(super) const CODES_BY_ADDRESS: Limit = Limit {
    name: "code.address",
    most: |limits| limits.codes_by_address_h,
    window_s: 3600,
};
/// Sign-in tries on one phone.
pub(super) const SIGN_IN_BY_PHONE: Limit = Limit {
    name: "sign_in.phone",
    most: |limits| limits.sign_in_by_phone_15min,
    window_s: 900,
};
/// Anything of an unknown caller from one address.
pub(super) const BY_ADDRESS: Limit = Limit {
    name: "address",
    most: |limits| limits.by_address_15min,
    window_s: 900,
};
/// Orders made by one account.
pub(super) const ORDERS_BY_ACCOUNT: Limit = Limit {
    name: "orders.account",
    most: |limits| limits.orders_by_account_h,
    window_s: 3600,
};
/// Machines made by one account.
pub(super) const MACHINES_BY_ACCOUNT: Limit = Limit {
    name: "machines.account",
    most: |limits| limits.machines_by_account_h,
    window_s: 3600,
};
/// Organisations made and people asked in by one account.
pub(super) const INVITATIONS_BY_ACCOUNT: Limit = Limit {
    name: "invitations.account",
    most: |limits| limits.invitations_by_account_h,
    window_s: 3600,
};

/// Counts one more; too many is a 429 with how long to wait.
pub(super) async fn take(
    doors: &Doors,
    limit: Limit,
    key: &str,
    now: DateTime<Utc>,
) -> Result<(), Problem> {
    let seconds = now.timestamp();
    let begin = seconds - seconds.rem_euclid(limit.window_s);
    let start = DateTime::from_timestamp(begin, 0).unwrap_or(now);
    let hits = requests::hit(&doors.pool, &format!("{}:{key}", limit.name), start).await?;
    if i64::from(hits) <= most(doors, limit.most) {
        return Ok(());
    }
    let wait = start + TimeDelta::seconds(limit.window_s) - now;
    metrics::counter!("furrow_http_limited_total", "limit" => limit.name).increment(1);
    Err(too_many(wait.num_seconds()))
}

fn most(doors: &Doors, of: fn(&Limits) -> u32) -> i64 {
    i64::from(of(&doors.limits)) * i64::from(doors.limit_factor)
}

/// Too often, with how long to wait, s.
pub(super) fn too_many(wait_s: i64) -> Problem {
    let wait = u32::try_from(wait_s.max(1)).unwrap_or(1);
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many",
        "too often; try again later",
    )
    .retry_after(wait)
}

/// Requests of each account in the minute that runs, in this process alone: it keeps one account from
/// taking all of the process, and costs no query. Forgotten with every minute, so that it stays small.
#[derive(Debug, Default)]
pub struct Paces(Mutex<(i64, HashMap<Uuid, u32>)>);

impl Paces {
    /// Counts a request; false if it is one too many.
    pub(super) fn goes(&self, account: Uuid, doors: &Doors) -> bool {
        let minute = doors.clock.now().timestamp().div_euclid(60);
        let most = most(doors, |limits| limits.requests_by_account_min);
        i64::from(self.count(account, minute)) <= most
    }

    fn count(&self, account: Uuid, minute: i64) -> u32 {
        let mut paces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if paces.0 != minute {
            *paces = (minute, HashMap::new());
        }
        let count = paces.1.entry(account).or_default();
        *count = count.saturating_add(1);
        *count
    }
}

/// By what an address is counted: whoever has one of IPv6 has all of its /64.
pub(super) fn counted(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let net = u128::from(address) >> 64 << 64;
            format!("{}/64", Ipv6Addr::from(net))
        }
    }
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

    fn of(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_a_client_writes_is_never_believed() {
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

    #[test]
    fn a_net_of_ipv6_is_counted_as_one_address() {
        assert_eq!(counted(of("203.0.113.9")), "203.0.113.9");
        assert_eq!(counted(of("2001:db8:1:2::1")), "2001:db8:1:2::/64");
        assert_eq!(
            counted(of("2001:db8:1:2:ffff::9")),
            counted(of("2001:db8:1:2::1"))
        );
        assert_ne!(
            counted(of("2001:db8:1:3::1")),
            counted(of("2001:db8:1:2::1"))
        );
    }

    #[test]
    fn a_pace_is_forgotten_with_its_minute() {
        let (paces, one, other) = (Paces::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!([1, 2, 3].map(|_| paces.count(one, 7)), [1, 2, 3]);
        assert_eq!(paces.count(other, 7), 1);
        assert_eq!(paces.count(one, 8), 1);
    }
}
