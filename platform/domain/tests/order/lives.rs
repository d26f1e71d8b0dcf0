//! Random lives: whatever is asked in whatever order, no fen is made or lost and nothing is left behind.

use chrono::TimeDelta;
use furrow_domain::{
    money::{Bps, Fen},
    order::{
        actor::Role,
        command::{Command, RulingAmounts},
        effect::Effect,
        entry::{Account, Side},
        facts::Presence,
        status::Status,
    },
};
use proptest::prelude::*;

use crate::stage::{OTHER_ADMIN, Stage, actor, booking, every_command};

/// What the entries of a life moved in and out of one account.
fn moved(stage: &Stage, account: Account) -> i64 {
    stage
        .done
        .iter()
        .flat_map(|step| &step.effects)
        .filter_map(|effect| match effect {
            Effect::Money(entry) => Some(entry),
            Effect::Slot(_)
            | Effect::Plan(..)
            | Effect::Clear(_)
            | Effect::Notice(..)
            | Effect::CloseAtProvider
            | Effect::IssueStartCode
            | Effect::Strike => None,
        })
        .flat_map(|entry| &entry.legs)
        .filter(|leg| leg.account == account)
        .map(|leg| match leg.side {
            Side::Credit => leg.amount_fen.0,
            Side::Debit => -leg.amount_fen.0,
        })
        .sum()
}

fn check(stage: &Stage) {
    let funds = stage.order.funds;
    let paid_in = -moved(stage, Account::Psp);
    // I5: paid in = owner + platform + refunds + still held.
    let owner = moved(stage, Account::OwnerPending) + moved(stage, Account::OwnerAvailable);
    let held = funds.held().unwrap().0;
    assert_eq!(paid_in, owner + funds.commission.0 + funds.refunds.0 + held);
    if stage.order.status.is_over() {
        assert_eq!(held, 0, "I4: {:?}", stage.order.status);
        let credit = moved(stage, Account::RenterCredit);
        assert_eq!(credit, -moved(stage, Account::OwnerDues));
        assert!(
            credit * 5 <= stage.order.terms.prepaid_fen.0 + 4,
            "at most 20 %"
        );
        assert!(funds.fee <= stage.order.terms.prepaid_fen);
    }
}

/// The ruling that shares what is held by halves.
fn ruling(stage: &Stage) -> Command {
    let held = stage.order.funds.held().unwrap();
    let rent = Fen(held.0 / 2).min(stage.order.terms.prepaid_fen);
    Command::Rule {
        amounts: RulingAmounts {
            rent_fen: rent,
            commission_fen: Bps(700).of_rounded_down(rent).unwrap(),
            damage_fen: Fen::ZERO,
            refund_fen: held.minus(rent).unwrap(),
        },
        reason: "by halves".into(),
        approver: Some(OTHER_ADMIN),
    }
}

fn live(seed: &[(u8, u8, u16)], prepaid: i64, deposit: i64, auto: bool) {
    let mut asked = booking();
    asked.terms.prepaid_fen = Fen(prepaid);
    asked.terms.deposit_fen = Fen(deposit);
    asked.terms.auto_accept = auto;
    let mut stage = Stage::of(asked);
    let commands = every_command();
    for (which, role, minutes) in seed {
        stage.now += TimeDelta::minutes(i64::from(*minutes));
        while stage.timers.iter().any(|(_, due)| *due <= stage.now) {
            stage.tick();
        }
        let mut command = commands[usize::from(*which) % commands.len()].clone();
        match &mut command {
            Command::Pay { amount_fen } => *amount_fen = stage.order.terms.payable_fen(),
            Command::BalancePaid { amount_fen } => *amount_fen = stage.order.balance_fen,
            Command::Cancel { shown_fee_fen } => {
                let fee = furrow_domain::order::renter_fee(&stage.order, false, stage.now);
                *shown_fee_fen = Some(fee.unwrap());
            }
            Command::OwnerCancel {
                shown_penalty_fen, ..
            } => {
                let due = furrow_domain::order::owner_penalty(&stage.order, stage.now);
                *shown_penalty_fen = due.unwrap();
            }
            Command::Rule { .. } => command = ruling(&stage),
            _ => {}
        }
        stage.facts.presence = match minutes % 4 {
            0 => Presence::AtPlot,
            1 => Presence::NoDevice,
            2 => Presence::Started { at: stage.now },
            _ => Presence::Silent,
        };
        let before = stage.order.clone();
        if stage
            .try_as(&actor(Role::ALL[usize::from(*role) % 6]), &command)
            .is_err()
        {
            assert_eq!(stage.order, before);
        }
        check(&stage);
    }
    let mut ticks = 0;
    loop {
        if stage.order.status == Status::Disputed {
            // A person decides; the parties may not appeal it away for ever.
            let _ = stage.try_as(&actor(Role::Admin), &ruling(&stage.clone()));
            if stage.order.ruling.is_some_and(|r| r.appealed) {
                let mut other = actor(Role::Admin);
                other.account = Some(OTHER_ADMIN);
                let mut last = ruling(&stage);
                if let Command::Rule { approver, .. } = &mut last {
                    *approver = actor(Role::Admin).account;
                }
                stage.try_as(&other, &last).unwrap();
            }
        }
        if !stage.tick() {
            break;
        }
        ticks += 1;
        check(&stage);
        assert!(ticks < 2000, "it never ends: {:?}", stage.order.status);
    }
    assert!(
        stage.order.status.is_over(),
        "stuck in {:?}",
        stage.order.status
    );
    assert_eq!(stage.order.funds.owner_pending, Fen::ZERO, "all matured");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn nothing_is_stuck_created_or_negative(
        seed in prop::collection::vec((any::<u8>(), any::<u8>(), 0..2000_u16), 0..40),
        prepaid in 0..1_000_000_i64,
        deposit in 0..200_000_i64,
        auto in any::<bool>(),
    ) {
        live(&seed, prepaid, deposit, auto);
    }
}
