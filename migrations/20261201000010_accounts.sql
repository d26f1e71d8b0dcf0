-- People, what they may, and how they come in. Secrets are kept as hashes only.

create table accounts (
    id uuid primary key,
    -- +86… as typed, digits only after the plus.
    phone text not null,
    name text not null,
    locale text not null default 'zh',
    password_salt bytea,
    password_hash bytea,
    -- Grows with every change of credentials or rights: older tokens are void.
    token_version integer not null default 1,
    created_at timestamptz not null,
    blocked_at timestamptz,
    block_reason text,
    constraint accounts_phone_once unique (phone),
    constraint accounts_phone_form check (phone ~ '^\+[1-9][0-9]{6,14}$'),
    constraint accounts_locale_known check (locale in ('zh', 'en')),
    constraint accounts_password_whole check ((password_salt is null) = (password_hash is null))
);

-- Owners. Whoever owns machines alone is an organisation of one.
create table organisations (
    id uuid primary key,
    name text not null,
    created_at timestamptz not null,
    verified_at timestamptz,
    suspended_at timestamptz
);
create table organisation_members (
    organisation_id uuid not null references organisations,
    account_id uuid not null references accounts,
    function text not null,
    added_at timestamptz not null,
    primary key (organisation_id, account_id),
    constraint organisation_members_function_known check (function in ('owner', 'manager', 'operator'))
);
create index organisation_members_by_account on organisation_members (account_id);

-- Staff of the operator. Made by an admin or from the command line, never by sign-up.
create table admin_grants (
    account_id uuid primary key references accounts,
    permissions text[] not null,
    totp_secret bytea not null,
    -- The last time step that was used: a code works once.
    totp_step bigint not null default 0,
    granted_at timestamptz not null
);

create table refresh_families (
    id uuid primary key,
    account_id uuid not null references accounts,
    created_at timestamptz not null,
    revoked_at timestamptz,
    revoke_reason text
);
create index refresh_families_by_account on refresh_families (account_id);
create table refresh_tokens (
    token_hash bytea primary key,
    family_id uuid not null references refresh_families,
    issued_at timestamptz not null,
    expires_at timestamptz not null,
    used_at timestamptz
);

create table sms_codes (
    id uuid primary key,
    phone text not null,
    purpose text not null check (purpose in ('sign_up', 'sign_in', 'reset', 'change_phone')),
    code_hash bytea not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    tries integer not null default 0,
    used_at timestamptz
);
create index sms_codes_by_phone on sms_codes (phone, purpose, created_at);
-- What the development gateway "sends".
create table sms_outbox (
    id uuid primary key,
    phone text not null,
    text text not null,
    created_at timestamptz not null
);

-- Counters of limits, a row a key and window.
create table rate_windows (
    key text not null,
    window_start timestamptz not null,
    hits integer not null,
    primary key (key, window_start)
);

-- Answers to mutating requests, for a day.
create table idempotency_keys (
    account_id uuid not null,
    route text not null,
    key text not null,
    body_hash bytea not null,
    created_at timestamptz not null,
    status smallint,
    answer bytea,
    primary key (account_id, route, key)
);
create index idempotency_keys_by_age on idempotency_keys (created_at);

create table audit_log (
    id uuid primary key,
    at timestamptz not null,
    account_id uuid,
    action text not null,
    object text not null,
    detail jsonb not null default '{}',
    trace_id text not null
);
create index audit_log_by_object on audit_log (object, id);
