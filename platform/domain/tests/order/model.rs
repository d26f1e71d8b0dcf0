//! The table that the code uses, as a model: nothing outside it happens, every state is reached, and clocks alone end every order.

use std::collections::BTreeSet;

use furrow_domain::{
    money::Fen,
    order::{
        actor::Role,
        decide,
        decision::Outcome,
        refusal::Refusal,
        status::Status,
        table::{TABLE, allows},
    },
};

use crate::stage::{Stage, actor, every_command};

#[test]
fn the_table_prints() {
    let rows: Vec<String> = TABLE
        .iter()
        .map(|row| {
            let names = |states: &[Status]| {
                states
                    .iter()
                    .map(|s| s.name())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let who: Vec<String> = row
                .who
                .iter()
                .map(|r| format!("{r:?}").to_lowercase())
                .collect();
            let to = if row.to.is_empty() {
                "same".to_owned()
            } else {
                names(row.to)
            };
            format!(
                "{:<12} {:<20} {} -> {} by {}",
                row.ids,
                format!("{:?}", row.kind),
                names(row.from),
                to,
                who.join(" ")
            )
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"));
}

#[test]
fn s38_what_is_not_in_the_table_is_refused_and_changes_nothing() {
    let (mut refused, mut known) = (0, 0);
    for status in Status::ALL {
        let stage = Stage::in_state(status);
        assert_eq!(stage.order.status, status);
        for command in every_command() {
            for role in Role::ALL {
                let found = decide(
                    &stage.order,
                    &command,
                    &actor(role),
                    &stage.facts,
                    stage.now,
                );
                if allows(command.kind(), status, role) {
                    known += 1;
                    assert!(
                        !matches!(found, Err(Refusal::IllegalTransition(s)) if s != status),
                        "{command:?}"
                    );
                } else {
                    refused += 1;
                    let fine = matches!(
                        found,
                        Err(Refusal::IllegalTransition(_)) | Ok(Outcome::AlreadyApplied)
                    );
                    assert!(fine, "{status:?} {command:?} {role:?}: {found:?}");
                }
            }
        }
    }
    assert!(refused > 3000 && known > 60, "{refused} {known}");
}

#[test]
fn steps_lead_where_the_table_says() {
    for status in Status::ALL {
        let stage = Stage::in_state(status);
        for command in every_command() {
            for role in Role::ALL {
                let found = decide(
                    &stage.order,
                    &command,
                    &actor(role),
                    &stage.facts,
                    stage.now,
                );
                let Ok(Outcome::Applied(steps)) = found else {
                    continue;
                };
                let rows = TABLE.iter().filter(|row| {
                    row.kind == command.kind()
                        && row.from.contains(&status)
                        && row.who.contains(&role)
                });
                let first = steps[0].order.status;
                let lawful = rows.clone().any(|row| {
                    row.to.contains(&first) || first == status || first == Status::PendingSettlement
                });
                assert!(lawful, "{status:?} {command:?} {role:?} led to {first:?}");
                for step in &steps {
                    assert!(step.order.version >= stage.order.version);
                }
            }
        }
    }
}

#[test]
fn every_state_is_reached_and_clocks_alone_end_every_order() {
    let mut reached = BTreeSet::new();
    for status in Status::ALL {
        let mut stage = Stage::in_state(status);
        reached.insert(stage.order.status);
        let mut ticks = 0;
        while stage.order.status != Status::Disputed && stage.tick() {
            ticks += 1;
            assert!(
                ticks < 500,
                "{status:?} goes on for ever at {:?}",
                stage.order.status
            );
        }
        let end = stage.order.status;
        assert!(
            end.is_over() || end == Status::Disputed,
            "{status:?} is stuck in {end:?}"
        );
        if end.is_over() {
            assert_eq!(stage.order.funds.held(), Ok(Fen::ZERO), "{status:?}");
            assert_eq!(
                stage.order.funds.owner_pending,
                Fen::ZERO,
                "{status:?} matures"
            );
        } else {
            // Only a person decides; the clock keeps calling for one.
            assert!(!stage.timers.is_empty());
        }
    }
    assert_eq!(reached.len(), 9);
}

#[test]
fn every_state_but_the_ends_has_a_timed_exit() {
    for status in Status::ALL {
        let stage = Stage::in_state(status);
        assert!(status.is_over() || !stage.timers.is_empty(), "{status:?}");
    }
}

#[test]
fn s46_nobody_deals_with_himself_whatever_role_he_takes() {
    for status in Status::ALL {
        let stage = Stage::in_state(status);
        for command in every_command() {
            for role in [Role::Renter, Role::Owner, Role::Operator] {
                let mut both = actor(Role::Owner);
                both.role = role;
                both.account = Some(crate::stage::RENTER);
                let found = decide(&stage.order, &command, &both, &stage.facts, stage.now);
                assert_eq!(found, Err(Refusal::SelfDealing));
            }
            let mut judge = actor(Role::Admin);
            judge.organisations = vec![crate::stage::ORGANISATION];
            let found = decide(&stage.order, &command, &judge, &stage.facts, stage.now);
            assert_eq!(found, Err(Refusal::ConflictOfInterest));
            let mut stranger = actor(Role::Renter);
            stranger.account = Some(crate::stage::OTHER_ADMIN);
            let found = decide(&stage.order, &command, &stranger, &stage.facts, stage.now);
            assert_eq!(found, Err(Refusal::NotAParty));
        }
    }
}
