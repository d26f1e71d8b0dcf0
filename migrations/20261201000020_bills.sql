-- Bills of orders, each version as it was shown, what renters said against them, and those that staff looks at first.

create table bill_versions (
    order_id uuid not null references orders,
    version integer not null,
    proposed_at timestamptz not null,
    -- As what it was proposed, and by whom; nobody where the system drafted it.
    proposed_as text not null,
    proposed_by uuid references accounts,
    basis text not null,
    mark text not null,
    total_fen bigint not null,
    commission_base_fen bigint not null,
    commission_fen bigint not null,
    damage_fen bigint not null,
    needs_consent boolean not null,
    -- Photos and papers that its lines name.
    evidence uuid[] not null,
    -- Its lines, differences and what else the core made of it. The columns beside it are written from it.
    doc jsonb not null,
    trace_id text not null,
    primary key (order_id, version),
    constraint bill_versions_version_positive check (version > 0),
    constraint bill_versions_role_known check (proposed_as in ('owner', 'system', 'admin')),
    constraint bill_versions_basis_known check (basis in ('measured', 'tapped', 'booked', 'claimed')),
    constraint bill_versions_mark_known check (mark in ('green', 'amber', 'red')),
    constraint bill_versions_amounts check (total_fen between 0 and 1000000000000
        and commission_base_fen between 0 and total_fen and commission_fen between 0 and commission_base_fen
        and damage_fen between 0 and 1000000000000)
);

-- What was shown stays as it was shown.
create function bill_versions_stay() returns trigger language plpgsql as $$
begin
    raise exception 'bill versions never change' using errcode = 'restrict_violation';
end $$;
create trigger bill_versions_stay before update or delete on bill_versions
    for each row execute function bill_versions_stay();

create table bill_objections (
    id uuid primary key,
    order_id uuid not null,
    version integer not null,
    account_id uuid not null references accounts,
    at timestamptz not null,
    text text not null,
    -- Numbers of the lines it is about, from 1; none where it is about all of it.
    lines integer[] not null,
    constraint bill_objections_of_a_bill foreign key (order_id, version) references bill_versions
);
create index bill_objections_by_order on bill_objections (order_id, version);

create table bill_reviews (
    order_id uuid not null,
    version integer not null,
    -- Which of the operator's bounds it is over.
    reasons jsonb not null,
    created_at timestamptz not null,
    decided_at timestamptz,
    decided_by uuid references accounts,
    passed boolean,
    note text,
    primary key (order_id, version),
    constraint bill_reviews_of_a_bill foreign key (order_id, version) references bill_versions,
    constraint bill_reviews_decided_whole check ((decided_at is null) = (decided_by is null)
        and (decided_at is null) = (passed is null))
);
create index bill_reviews_open on bill_reviews (created_at) where decided_at is null;
