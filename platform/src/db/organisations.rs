//! Organisations, their people and who was asked in, as rows. Never decides who may what.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// A new organisation with its owner.
///
/// Errors: the database.
pub async fn insert(
    tx: &mut PgConnection,
    id: Uuid,
    name: &str,
    kind: &str,
    owner: Uuid,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into organisations (id, name, kind, created_at) values ($1, $2, $3, $4)",
        id,
        name,
        kind,
        now,
    )
    .execute(&mut *tx)
    .await?;
    set_member(tx, id, owner, "owner", now).await
}

/// Locks an organisation, so that its people change one after another; false if there is none.
///
/// Errors: the database.
pub async fn lock(tx: &mut PgConnection, id: Uuid) -> Result<bool, DbError> {
    let found = sqlx::query_scalar!("select id from organisations where id = $1 for update", id)
        .fetch_optional(tx)
        .await?;
    Ok(found.is_some())
}

/// Puts somebody into an organisation, or changes the function.
///
/// Errors: the database.
pub async fn set_member(
    tx: &mut PgConnection,
    organisation: Uuid,
    account: Uuid,
    function: &str,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into organisation_members (organisation_id, account_id, function, added_at) values ($1, $2, $3, $4)
         on conflict (organisation_id, account_id) do update set function = excluded.function",
        organisation,
        account,
        function,
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Takes somebody out; false if he is not in.
///
/// Errors: the database.
pub async fn remove_member(
    tx: &mut PgConnection,
    organisation: Uuid,
    account: Uuid,
) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "delete from organisation_members where organisation_id = $1 and account_id = $2",
        organisation,
        account,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Somebody's function in an organisation.
///
/// Errors: the database.
pub async fn function(
    tx: &mut PgConnection,
    organisation: Uuid,
    account: Uuid,
) -> Result<Option<String>, DbError> {
    sqlx::query_scalar!(
        "select function from organisation_members where organisation_id = $1 and account_id = $2",
        organisation,
        account,
    )
    .fetch_optional(tx)
    .await
}

/// How many owners an organisation has.
///
/// Errors: the database.
pub async fn owners(tx: &mut PgConnection, organisation: Uuid) -> Result<i64, DbError> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from organisation_members where organisation_id = $1 and function = 'owner'"#,
        organisation,
    )
    .fetch_one(tx)
    .await
}

/// The organisations of an account.
///
/// Errors: the database.
pub async fn of_account(tx: &mut PgConnection, account: Uuid) -> Result<Vec<Uuid>, DbError> {
    sqlx::query_scalar!(
        "select organisation_id from organisation_members where account_id = $1 order by 1",
        account,
    )
    .fetch_all(tx)
    .await
}

/// An organisation of one's own.
#[derive(Debug, Clone)]
pub struct OwnRow {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// `person` or `company`.
    pub kind: String,
    /// One's function in it.
    pub function: String,
    /// Its papers were found good.
    pub verified_at: Option<DateTime<Utc>>,
    /// Its listings are stopped.
    pub suspended_at: Option<DateTime<Utc>>,
}

/// The organisations of an account with what they are.
///
/// Errors: the database.
pub async fn own(pool: &PgPool, account: Uuid) -> Result<Vec<OwnRow>, DbError> {
    sqlx::query_as!(
        OwnRow,
        "select o.id, o.name, o.kind, m.function, o.verified_at, o.suspended_at
         from organisation_members m join organisations o on o.id = m.organisation_id
         where m.account_id = $1 order by o.id",
        account,
    )
    .fetch_all(pool)
    .await
}

/// A member.
#[derive(Debug, Clone)]
pub struct MemberRow {
    /// Who.
    pub account_id: Uuid,
    /// As people know him.
    pub name: String,
    /// With country code.
    pub phone: String,
    /// As what.
    pub function: String,
}

/// The members of an organisation.
///
/// Errors: the database.
pub async fn members(pool: &PgPool, organisation: Uuid) -> Result<Vec<MemberRow>, DbError> {
    sqlx::query_as!(
        MemberRow,
        "select m.account_id, a.name, a.phone, m.function from organisation_members m
         join accounts a on a.id = m.account_id where m.organisation_id = $1 order by m.added_at, m.account_id",
        organisation,
    )
    .fetch_all(pool)
    .await
}

/// Verifies, or suspends, an organisation; false if there is none.
///
/// Errors: the database.
pub async fn judge(
    tx: &mut PgConnection,
    id: Uuid,
    verified_at: Option<DateTime<Utc>>,
    suspended_at: Option<DateTime<Utc>>,
) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "update organisations set verified_at = $2, suspended_at = $3 where id = $1",
        id,
        verified_at,
        suspended_at,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Whom an organisation asks in.
#[derive(Debug, Clone)]
pub struct NewInvitation<'a> {
    /// Its id.
    pub id: Uuid,
    /// Which organisation.
    pub organisation: Uuid,
    /// With country code.
    pub phone: &'a str,
    /// As what.
    pub function: &'a str,
    /// Who asks.
    pub by: Uuid,
}

/// Asks a phone in; asking again changes the function and begins the time anew.
///
/// Errors: the database.
pub async fn invite(
    tx: &mut PgConnection,
    new: &NewInvitation<'_>,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into organisation_invitations (id, organisation_id, phone, function, invited_by, invited_at)
         values ($1, $2, $3, $4, $5, $6)
         on conflict on constraint organisation_invitations_once do update
         set function = excluded.function, invited_by = excluded.invited_by, invited_at = excluded.invited_at",
        new.id,
        new.organisation,
        new.phone,
        new.function,
        new.by,
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// An invitation.
#[derive(Debug, Clone)]
pub struct InvitationRow {
    /// Its id.
    pub id: Uuid,
    /// Which organisation.
    pub organisation_id: Uuid,
    /// Its name.
    pub organisation: String,
    /// Who is asked in.
    pub phone: String,
    /// As what.
    pub function: String,
    /// Since when.
    pub invited_at: DateTime<Utc>,
}

/// Who asks the phone of an account in, since a time.
///
/// Errors: the database.
pub async fn invitations_to(
    pool: &PgPool,
    account: Uuid,
    since: DateTime<Utc>,
) -> Result<Vec<InvitationRow>, DbError> {
    sqlx::query_as!(
        InvitationRow,
        "select i.id, i.organisation_id, o.name as organisation, i.phone, i.function, i.invited_at
         from organisation_invitations i
         join organisations o on o.id = i.organisation_id
         join accounts a on a.phone = i.phone
         where a.id = $1 and i.invited_at >= $2 order by i.id",
        account,
        since,
    )
    .fetch_all(pool)
    .await
}

/// The invitations of an organisation, since a time.
///
/// Errors: the database.
pub async fn invitations_by(
    pool: &PgPool,
    organisation: Uuid,
    since: DateTime<Utc>,
) -> Result<Vec<InvitationRow>, DbError> {
    sqlx::query_as!(
        InvitationRow,
        "select i.id, i.organisation_id, o.name as organisation, i.phone, i.function, i.invited_at
         from organisation_invitations i join organisations o on o.id = i.organisation_id
         where i.organisation_id = $1 and i.invited_at >= $2 order by i.id",
        organisation,
        since,
    )
    .fetch_all(pool)
    .await
}

/// An invitation that was taken away.
#[derive(Debug, Clone)]
pub struct TakenRow {
    /// Which organisation.
    pub organisation_id: Uuid,
    /// As what.
    pub function: String,
    /// Since when.
    pub invited_at: DateTime<Utc>,
}

/// Takes an invitation to an account's phone away, for a yes or a no.
///
/// Errors: the database.
pub async fn take_invitation(
    tx: &mut PgConnection,
    id: Uuid,
    account: Uuid,
) -> Result<Option<TakenRow>, DbError> {
    sqlx::query_as!(
        TakenRow,
        "delete from organisation_invitations i using accounts a
         where i.id = $1 and a.id = $2 and a.phone = i.phone
         returning i.organisation_id, i.function, i.invited_at",
        id,
        account,
    )
    .fetch_optional(tx)
    .await
}

/// Withdraws an invitation of an organisation; gives its function.
///
/// Errors: the database.
pub async fn withdraw_invitation(
    tx: &mut PgConnection,
    id: Uuid,
    organisation: Uuid,
) -> Result<Option<String>, DbError> {
    sqlx::query_scalar!(
        "delete from organisation_invitations where id = $1 and organisation_id = $2 returning function",
        id,
        organisation,
    )
    .fetch_optional(tx)
    .await
}
