-- What a session was opened with, who was asked into an organisation, where an act came from.

-- Rights of staff count only in a session that was opened with the second factor.
alter table refresh_families add column second_factor_at timestamptz;
-- What a session was opened from, as its owner recognises it.
alter table refresh_families add column from_address text;

-- For staff without the authenticator: each works once.
create table admin_recovery_codes (
    account_id uuid not null references admin_grants on delete cascade,
    code_hash bytea not null,
    used_at timestamptz,
    primary key (account_id, code_hash)
);

alter table organisations add column kind text not null default 'person';
alter table organisations add constraint organisations_kind_known check (kind in ('person', 'company'));

-- After staff has changed a phone nothing is paid out until then.
alter table accounts add column payouts_held_until timestamptz;

alter table audit_log add column from_address text;

-- Asked by phone, whether the phone has an account or not; who has it decides.
create table organisation_invitations (
    id uuid primary key,
    organisation_id uuid not null references organisations,
    phone text not null,
    function text not null,
    invited_by uuid not null references accounts,
    invited_at timestamptz not null,
    constraint organisation_invitations_once unique (organisation_id, phone),
    constraint organisation_invitations_function_known check (function in ('owner', 'manager', 'operator')),
    constraint organisation_invitations_phone_form check (phone ~ '^\+[1-9][0-9]{6,14}$')
);
create index organisation_invitations_by_phone on organisation_invitations (phone);
