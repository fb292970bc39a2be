//! Rules as data, and the one function that reads them.

use super::{
    entity::{EntityEvent, EntityKind, EntityState, EntityVariant},
    payments, receipts,
    transaction::TransactionEvent,
};

/// One line of a machine: in this state, on this event, under this condition, that happens. Of
/// several lines for the same state and event the first whose condition holds counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransitionRule {
    /// Where the entity stands.
    pub from: EntityState,
    /// What happens to it.
    pub on: EntityEvent,
    /// Under which condition the line counts.
    pub when: RuleCondition,
    /// What comes of it.
    pub then: RuleOutcome,
}

/// What a line asks about the entity and the event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleCondition {
    /// Nothing.
    Always,
    /// The clock has reached its expiry.
    PastExpiry,
    /// It is of this variant.
    Is(EntityVariant),
    /// It is of this variant, and no melt was marked yet.
    IsWithoutMelt(EntityVariant),
    /// No melt was marked yet.
    WithoutMelt,
    /// A melt was marked before.
    MeltMarked,
    /// It takes back a token that we sent.
    Reverses,
    /// Somebody is taking back the token it made.
    BeingReversed,
    /// The event brings the ids that Spark gave the payment.
    WithSparkIds,
    /// Outputs for the fence were taken before.
    FenceTaken,
    /// An alarm was raised before.
    Alarmed,
    /// What the melt left over is still to come.
    ChangeOpen,
    /// All that the event tells was known before.
    KnownAlready,
    /// People don't want it any more.
    Cancelled,
}

/// What comes of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleOutcome {
    /// A real change.
    Go(EntityState, &'static [EntityEffect]),
    /// A repetition: nothing changes, no version is raised.
    Same,
    /// Not allowed, for a reason of its own.
    Refuse(RefusalReason),
}

/// What a store has to do together with the change of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntityEffect {
    /// The transaction that shows the entity moves too.
    Transaction(TransactionEvent),
    /// Proofs reserved by this entity become SPENT.
    SpendReserved,
    /// Proofs reserved by this entity become UNSPENT, but for those known to be spent.
    ReleaseReserved,
    /// Proofs that the event brings are stored UNSPENT.
    StoreUnspent,
    /// Proofs that the event brings are stored RESERVED by this entity.
    StoreReserved,
    /// Proofs that the event names are SPENT, whoever holds them.
    SpendProven,
    /// A range of a keyset's counter is taken and written into the entity.
    TakeRange,
    /// The same for the fence.
    TakeFenceRange,
    /// The melt is marked.
    MarkMelt,
    /// Proofs that the event brings are stored UNSPENT in the account of the token's mint, and no
    /// more are waited for.
    StoreSourceChange,
    /// As above; more may come.
    AddSourceChange,
    /// Change may still come: the entity stays open for it.
    OweChange,
    /// No more change is waited for.
    SettleChange,
    /// People have to know.
    RaiseAlarm,
    /// That people don't want it any more is marked.
    MarkCancelled,
    /// The send swap whose token is taken back gets this event, in the same step.
    Partner(EntityEvent),
}

/// Why an event is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RefusalReason {
    /// No line for this state.
    #[error("its state does not allow it")]
    WrongState,
    /// The event doesn't exist for this kind.
    #[error("this kind of entity knows no such event")]
    WrongKind,
    /// The event exists only for another variant.
    #[error("only an entity paid by a token has a melt to mark")]
    WrongVariant,
    /// It has not expired.
    #[error("its time has not passed")]
    NotExpired,
    /// Its token is being taken back; that decides.
    #[error("its token is being taken back")]
    BeingReversed,
    /// The payment's ids are missing.
    #[error("the ids that Spark gave the payment are missing")]
    NoSparkIds,
}

/// A refused event. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a {kind} that is {from} can't {on}: {why}; nothing was changed")]
pub struct EntityRefusal {
    /// Of what kind.
    pub kind: EntityKind,
    /// Where it stands.
    pub from: EntityState,
    /// What was tried.
    pub on: EntityEvent,
    /// What stands against it.
    pub why: RefusalReason,
}

/// What is known when an event is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntityFacts {
    /// How the entity was born.
    pub variant: EntityVariant,
    /// The clock has reached its expiry. An entity without one never expires.
    pub is_past_expiry: bool,
    /// A melt was marked.
    pub melt_initiated: bool,
    /// It takes back a token that we sent.
    pub reverses: bool,
    /// Somebody is taking back the token it made.
    pub is_being_reversed: bool,
    /// The event, or the entity, has the ids that Spark gave the payment.
    pub has_spark_ids: bool,
    /// Outputs for the fence were taken.
    pub fence_taken: bool,
    /// An alarm was raised.
    pub alarmed: bool,
    /// What the melt left over, or a part of it, may still come.
    pub change_open: bool,
    /// All that the event tells was known before.
    pub is_known: bool,
    /// People gave it up.
    pub is_cancelled: bool,
}

impl EntityFacts {
    /// Of an entity to which nothing has happened yet.
    pub fn of(variant: EntityVariant) -> Self {
        Self {
            variant,
            is_past_expiry: false,
            melt_initiated: false,
            reverses: false,
            is_being_reversed: false,
            has_spark_ids: false,
            fence_taken: false,
            alarmed: false,
            change_open: false,
            is_known: false,
            is_cancelled: false,
        }
    }

    fn meet(&self, when: RuleCondition) -> bool {
        match when {
            RuleCondition::Always => true,
            RuleCondition::PastExpiry => self.is_past_expiry,
            RuleCondition::Is(variant) => self.variant == variant,
            RuleCondition::IsWithoutMelt(variant) => {
                self.variant == variant && !self.melt_initiated
            }
            RuleCondition::WithoutMelt => !self.melt_initiated,
            RuleCondition::MeltMarked => self.melt_initiated,
            RuleCondition::Reverses => self.reverses,
            RuleCondition::BeingReversed => self.is_being_reversed,
            RuleCondition::WithSparkIds => self.has_spark_ids,
            RuleCondition::FenceTaken => self.fence_taken,
            RuleCondition::Alarmed => self.alarmed,
            RuleCondition::ChangeOpen => self.change_open,
            RuleCondition::KnownAlready => self.is_known,
            RuleCondition::Cancelled => self.is_cancelled,
        }
    }
}

/// A line of a machine as one reads it: `rule!(Unpaid, Expire, PastExpiry => go Expired, LOST)`.
macro_rules! rule {
    ($from:ident, $on:ident, $when:ident $(($variant:ident))? => $($then:tt)+) => {
        $crate::ecash::machine::TransitionRule {
            from: $crate::ecash::EntityState::$from,
            on: $crate::ecash::EntityEvent::$on,
            when: $crate::ecash::RuleCondition::$when $(($crate::ecash::EntityVariant::$variant))?,
            then: $crate::ecash::machine::outcome!($($then)+),
        }
    };
}
pub(super) use rule;

macro_rules! outcome {
    (same) => {
        $crate::ecash::RuleOutcome::Same
    };
    (refuse $why:ident) => {
        $crate::ecash::RuleOutcome::Refuse($crate::ecash::RefusalReason::$why)
    };
    (go $next:ident, $effects:expr) => {
        $crate::ecash::RuleOutcome::Go($crate::ecash::EntityState::$next, $effects)
    };
}
pub(super) use outcome;

/// What an event does to an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntityStep {
    /// Where it stands afterwards.
    pub next: EntityState,
    /// What has to be done together with it; empty for a repetition.
    pub effects: &'static [EntityEffect],
    /// Nothing changes and no version is raised.
    pub is_repeat: bool,
}

/// A kind of entity with everything that may happen to it.
#[derive(Clone, Copy, Debug)]
pub struct EntityMachine {
    /// Whose machine it is.
    pub kind: EntityKind,
    /// The states it knows, in the order of its life.
    pub states: &'static [EntityState],
    /// The events it knows.
    pub events: &'static [EntityEvent],
    /// Everything that may happen. What is absent is refused.
    pub rules: &'static [TransitionRule],
    /// States in which nothing more is expected.
    pub terminal: &'static [EntityState],
}

/// All machines of entities.
pub const MACHINES: [EntityMachine; 6] = [
    payments::CASHU_SEND_QUOTE,
    payments::CASHU_SEND_SWAP,
    receipts::CASHU_RECEIVE_QUOTE,
    receipts::CASHU_RECEIVE_SWAP,
    payments::SPARK_SEND_QUOTE,
    receipts::SPARK_RECEIVE_QUOTE,
];

impl EntityKind {
    /// Its machine.
    pub fn machine(self) -> &'static EntityMachine {
        match self {
            Self::CashuSendQuote => &payments::CASHU_SEND_QUOTE,
            Self::CashuSendSwap => &payments::CASHU_SEND_SWAP,
            Self::CashuReceiveQuote => &receipts::CASHU_RECEIVE_QUOTE,
            Self::CashuReceiveSwap => &receipts::CASHU_RECEIVE_SWAP,
            Self::SparkSendQuote => &payments::SPARK_SEND_QUOTE,
            Self::SparkReceiveQuote => &receipts::SPARK_RECEIVE_QUOTE,
        }
    }

    /// Whether nothing more is expected in that state.
    pub fn is_terminal(self, state: EntityState) -> bool {
        self.machine().terminal.contains(&state)
    }

    /// Whether an entity in this state keeps others from being made for the same quote, token or
    /// payment. A payment that failed may be tried again; a quote to be paid by is used once.
    pub fn blocks_another(self, state: EntityState) -> bool {
        match self {
            Self::CashuReceiveQuote | Self::SparkReceiveQuote => true,
            Self::CashuSendQuote
            | Self::CashuSendSwap
            | Self::CashuReceiveSwap
            | Self::SparkSendQuote => state != EntityState::Failed,
        }
    }
}

/// What an event does to an entity, or why it may not happen.
///
/// # Errors
///
/// [`EntityRefusal`] when no line of the machine allows it.
pub fn step(
    kind: EntityKind,
    from: EntityState,
    on: EntityEvent,
    facts: &EntityFacts,
) -> Result<EntityStep, EntityRefusal> {
    let machine = kind.machine();
    let refuse = |why| Err(EntityRefusal { kind, from, on, why });
    if !machine.events.contains(&on) {
        return refuse(RefusalReason::WrongKind);
    }
    let mut lines = machine.rules.iter().filter(|rule| (rule.from, rule.on) == (from, on));
    match lines.find(|rule| facts.meet(rule.when)).map(|rule| rule.then) {
        Some(RuleOutcome::Go(next, effects)) => Ok(EntityStep { next, effects, is_repeat: false }),
        Some(RuleOutcome::Same) => Ok(EntityStep { next: from, effects: &[], is_repeat: true }),
        Some(RuleOutcome::Refuse(why)) => refuse(why),
        None => refuse(RefusalReason::WrongState),
    }
}
