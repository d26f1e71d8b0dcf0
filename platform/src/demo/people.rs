//! The county's people: an admin, owners, renters, all with one password. For the demo only.

use chrono::{DateTime, Utc};
use furrow_domain::id::{AccountId, OrganisationId};
use totp_rs::Secret;
use uuid::Uuid;

use crate::{
    app::{
        accounts::totp,
        organisations::{self, Kind},
        passwords,
        who::{Origin, Who},
    },
    db::{
        Pool, accounts,
        policies::{self, WordRow},
        staff,
    },
    ids,
};

/// Everybody's password.
pub const PASSWORD: &str = "furrow-demo";
/// One of each role.
pub const RENTER: &str = "+8613800000101";
/// One of each role.
pub const OWNER: &str = "+8613800000001";
/// One of each role.
pub const ADMIN: &str = "+8613800000999";
/// Feixi county.
pub const REGION: &str = "340123";
/// The demo's second factor; a real one is random and shown once.
const TOTP: &[u8; 20] = b"furrow demo, no more";

/// Words of the demo's dictionaries: kind, code, Chinese, English. Regions are those around the county.
const WORDS: [(&str, &str, &str, &str); 13] = [
    ("machine_type", "tractor", "拖拉机", "tractor"),
    ("machine_type", "combine", "联合收割机", "combine harvester"),
    (
        "machine_type",
        "transplanter",
        "插秧机",
        "rice transplanter",
    ),
    ("machine_type", "sprayer", "植保机", "sprayer"),
    ("machine_type", "baler", "打捆机", "baler"),
    ("crop", "rice", "水稻", "rice"),
    ("crop", "wheat", "小麦", "wheat"),
    ("crop", "rape", "油菜", "rape"),
    ("region", "340100", "合肥市", "Hefei"),
    ("region", "340121", "长丰县", "Changfeng"),
    ("region", "340122", "肥东县", "Feidong"),
    ("region", "340123", "肥西县", "Feixi"),
    ("region", "340124", "庐江县", "Lujiang"),
];

/// Who lives there.
pub struct County {
    /// With all permissions.
    pub admin: Who,
    /// Owners with their organisations.
    pub owners: Vec<(AccountId, OrganisationId)>,
    /// Renters.
    pub renters: Vec<Who>,
}

/// Somebody without organisations or permissions.
#[must_use]
pub fn who(account: AccountId) -> Who {
    let origin = Origin {
        trace_id: ids::trace_id(),
        address: None,
    };
    Who::plain(account, &origin)
}

/// The admin's authenticator, base 32.
#[must_use]
pub fn totp_secret() -> String {
    Secret::new(TOTP.as_slice().into()).to_base32()
}

/// Settles the county.
///
/// Errors: the database.
pub async fn settle(pool: &Pool, now: DateTime<Utc>) -> anyhow::Result<County> {
    let kept = passwords::keep(PASSWORD).await?;
    let mut tx = pool.begin().await?;
    let mut person = async |phone: &str, name: &str| -> anyhow::Result<Uuid> {
        let id = ids::new_id(now);
        accounts::insert(&mut tx, id, phone, name, "zh", now).await?;
        accounts::set_password(&mut tx, id, &kept.salt, &kept.hash).await?;
        Ok(id)
    };
    let admin = person(ADMIN, "运营管理员").await?;
    let mut owners = Vec::new();
    for number in 1..=8 {
        let name = format!("农机合作社 {number}");
        owners.push((
            person(&format!("+86138000000{number:02}"), &name).await?,
            name,
        ));
    }
    let mut renters = Vec::new();
    for number in 1..=12 {
        let (phone, name) = (
            format!("+861380000{:04}", 100 + number),
            format!("种植户 {number}"),
        );
        renters.push(who(AccountId(person(&phone, &name).await?)));
    }
    // It is checked here, so that nobody finds out when signing in.
    totp(TOTP)?;
    staff::set_grant(&mut tx, admin, &["*".to_owned()], TOTP, &[], now).await?;
    for (kind, code, zh, en) in WORDS {
        let word = WordRow {
            code: code.into(),
            name_zh: zh.into(),
            name_en: en.into(),
        };
        policies::set_word(&mut tx, kind, &word).await?;
    }
    tx.commit().await?;
    let admin = Who {
        permissions: vec!["*".into()],
        ..who(AccountId(admin))
    };
    let mut settled = Vec::new();
    for (account, name) in owners {
        let owner = who(AccountId(account));
        let organisation = organisations::create(pool, &owner, &name, Kind::Company, now).await?;
        organisations::judge(
            pool,
            &admin,
            organisation.0,
            true,
            false,
            "papers complete",
            now,
        )
        .await?;
        settled.push((owner.account, organisation));
    }
    Ok(County {
        admin,
        owners: settled,
        renters,
    })
}
