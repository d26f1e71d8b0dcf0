//! The books of a life: each entry on the ledger's accounts, each refund against its payment, all paid out in the end.

use std::collections::BTreeMap;

use furrow_domain::{
    id::PaymentId,
    ledger::{
        account::{Account, Channel, OfOrder, OfOwner, OfPlatform, OfRenter},
        deposit::{Deposit, State},
        posting::{Parties, Standing, posted},
        refund::{Refundable, split},
        txn::{Txn, TxnKind},
    },
    money::Fen,
    order::{
        effect::Effect,
        entry::{self, Entry, EntryKind, Side},
    },
};
use uuid::Uuid;

use crate::stage::{ORGANISATION, RENTER, Stage};

/// Balances, and what each payment brought and gave back.
#[derive(Default)]
pub struct Books {
    balances: BTreeMap<Account, i64>,
    payments: Vec<Refundable>,
    refunds: Vec<(PaymentId, Fen, Fen)>,
    deposit: Deposit,
}

impl Books {
    pub fn post(&mut self, txn: &Txn) {
        let mut sum = 0;
        for line in txn.lines() {
            sum += match line.side {
                Side::Debit => line.amount_fen.0,
                Side::Credit => -line.amount_fen.0,
            };
            *self.balances.entry(line.account).or_default() +=
                line.account.kind().change(line.side, line.amount_fen).0;
        }
        assert_eq!(sum, 0, "{txn:?}");
        for (account, balance) in &self.balances {
            assert!(
                *balance >= 0 || !account.never_negative(),
                "{account}: {balance}"
            );
        }
    }

    pub fn balance(&self, account: Account) -> Fen {
        Fen(self.balances.get(&account).copied().unwrap_or_default())
    }

    fn between(&mut self, kind: TxnKind, debit: Account, credit: Account, amount: Fen) {
        if let Some(txn) = Txn::between(kind, debit, credit, amount).unwrap() {
            self.post(&txn);
        }
    }

    /// An entry of an order; what it credits to the renter is booked against payments.
    fn take(&mut self, stage: &Stage, entry: &Entry) {
        let comes = |l: &&entry::Leg| l.account == entry::Account::Psp;
        if let Some(leg) = entry.legs.iter().find(comes) {
            let id = u128::try_from(self.payments.len() + 100).unwrap();
            self.payments.push(Refundable {
                payment: PaymentId(Uuid::from_u128(id)),
                left_fen: leg.amount_fen,
            });
        }
        let payment = self.payments.last().map(|p| (p.payment, Channel::Sandbox));
        let parties = Parties {
            order: stage.order.id,
            organisation: ORGANISATION,
            renter: RENTER,
            payment,
        };
        let standing = Standing {
            available: self.balance(Account::Owner(ORGANISATION, OfOwner::Available)),
            receivable: self.balance(Account::Owner(ORGANISATION, OfOwner::Receivable)),
        };
        let txn = posted(entry, &parties, standing).unwrap().unwrap();
        self.post(&txn);
        let mut of_deposit = Fen::ZERO;
        if let Some((_, amount, after)) = self.deposit.moved(entry).unwrap() {
            if after.releasing_fen > self.deposit.releasing_fen {
                of_deposit = amount;
            }
            self.deposit = after;
        }
        let back: i64 = entry
            .legs
            .iter()
            .filter(|l| l.account == entry::Account::RefundPayable && l.side == Side::Credit)
            .map(|l| l.amount_fen.0)
            .sum();
        let late = entry.kind == EntryKind::E2;
        let from = if late && back > 0 {
            let last = self.payments.len() - 1;
            last..last + 1
        } else {
            0..self.payments.len()
        };
        let rent = Fen(back - of_deposit.0);
        let (parts, missing) = split(rent, of_deposit, &self.payments[from]);
        assert_eq!(missing, Fen::ZERO, "{entry:?} goes back beyond what came");
        for part in parts {
            let of = self.payments.iter_mut().find(|p| p.payment == part.payment);
            let of = of.unwrap();
            of.left_fen = of.left_fen.minus(part.amount_fen).unwrap();
            assert!(of.left_fen >= Fen::ZERO);
            self.refunds
                .push((part.payment, part.amount_fen, part.deposit_fen));
        }
    }
}

/// Books a life that is over, pays everything out, and finds nothing anywhere.
pub fn closed(stage: &Stage) {
    let mut books = Books::default();
    let entries = stage.done.iter().flat_map(|step| &step.effects);
    for effect in entries {
        if let Effect::Money(entry) = effect {
            books.take(stage, entry);
        }
    }
    let psp = Account::Psp(Channel::Sandbox);
    let order = stage.order.id;
    for (_, amount, deposit) in std::mem::take(&mut books.refunds) {
        let payable = Account::Order(order, OfOrder::RefundPayable);
        books.between(TxnKind::E8, payable, psp, amount);
        books.deposit = books.deposit.released(deposit).unwrap();
    }
    for of in [
        OfOrder::RentEscrow,
        OfOrder::DepositHeld,
        OfOrder::DepositFrozen,
        OfOrder::RefundPayable,
        OfOrder::DisputeHold,
    ] {
        let account = Account::Order(order, of);
        assert_eq!(books.balance(account), Fen::ZERO, "{account}");
    }
    let state = books.deposit.state();
    assert!(
        matches!(
            state,
            State::Unpaid | State::FullyDeducted | State::Released
        ),
        "{state:?}"
    );
    let available = books.balance(Account::Owner(ORGANISATION, OfOwner::Available));
    let transit = Account::Owner(ORGANISATION, OfOwner::PayoutInTransit);
    let free = Account::Owner(ORGANISATION, OfOwner::Available);
    books.between(TxnKind::E13, free, transit, available);
    books.between(TxnKind::E13Paid, transit, Account::Bank, available);
    let credit = Account::Renter(RENTER, OfRenter::Credit);
    let transit = Account::Renter(RENTER, OfRenter::PayoutInTransit);
    let owed = books.balance(credit);
    books.between(TxnKind::E20, credit, transit, owed);
    books.between(TxnKind::E13Paid, transit, Account::Bank, owed);
    // What is left with provider and bank is our share, less what an owner still owes us.
    let left = books.balance(psp).0 + books.balance(Account::Bank).0;
    let share = books.balance(Account::Platform(OfPlatform::Commission)).0;
    let owes = books
        .balance(Account::Owner(ORGANISATION, OfOwner::Receivable))
        .0;
    assert_eq!(left, share - owes);
    for (account, balance) in &books.balances {
        let stays = matches!(
            account,
            Account::Psp(_)
                | Account::Bank
                | Account::Platform(OfPlatform::Commission)
                | Account::Owner(_, OfOwner::Receivable)
        );
        assert!(stays || *balance == 0, "{account}: {balance}");
    }
}
