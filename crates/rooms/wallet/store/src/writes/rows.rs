//! What a row of a table is, declared once: the order of its columns, their types and the
//! statements of both databases follow from one list.

use unspent_model::{
    Micros, TxId,
    wallet::{AddressId, TxStatus},
};
use unspent_sql::{BulkStatement, Column, RowId};

use crate::ids::WalletId;

/// A Rust type that a column holds, row by row.
pub(super) trait ColumnType {
    /// What is gathered of it.
    type Cell;
    /// The array that PostgreSQL takes for it.
    const ARRAY: &'static str;

    fn cell(self) -> Self::Cell;
    fn column(cells: Vec<Self::Cell>) -> Column;
}

/// Fields that are gathered as one variant of [`Column`].
macro_rules! fields {
    ($($variant:ident $array:literal $cell:ty {
        $($field:ty: $value:ident => $made:expr;)+
    })+) => {
        $($(impl ColumnType for $field {
            type Cell = $cell;
            const ARRAY: &'static str = $array;

            fn cell(self) -> Self::Cell {
                let $value = self;
                $made
            }

            fn column(cells: Vec<Self::Cell>) -> Column {
                Column::$variant(cells)
            }
        })+)+
    };
}

fields! {
    Ints "bigint[]" Option<i64> {
        i64: number => Some(number);
        u32: number => Some(number.into());
        Option<i64>: number => number;
        WalletId: wallet => Some(wallet.0);
        AddressId: address => Some(address.0);
        RowId: row => Some(row.0);
        Option<RowId>: row => row.map(RowId::get);
        Micros: moment => Some(moment.0);
        Option<Micros>: moment => moment.map(Micros::get);
        Option<u32>: number => number.map(i64::from);
    }
    Texts "text[]" Option<String> {
        &'static str: text => Some(text.to_owned());
        TxStatus: status => Some(status.name().to_owned());
        Option<TxStatus>: status => status.map(|status| status.name().to_owned());
    }
    Blobs "bytea[]" Option<Vec<u8>> {
        Vec<u8>: bytes => Some(bytes);
        Option<Vec<u8>>: bytes => bytes;
        Option<[u8; 32]>: hash => hash.map(|hash| hash.to_vec());
        Option<TxId>: name => name.map(|name| name.0.to_vec());
    }
    Hashes "bytea[]" [u8; 32] {
        [u8; 32]: hash => hash;
        TxId: name => name.0;
    }
    Flags "boolean[]" bool {
        bool: flag => flag;
    }
}

/// What a column is to its statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnRole {
    /// It is written.
    Put,
    /// It is written unless it is null: then what stands there stays.
    PutKnown,
    /// It finds the row.
    Key,
    /// It finds the row only while what the change was planned on still stands there.
    Guard,
}

/// A column of a statement: its name in the table, and that of the field it comes from.
pub(super) struct ColumnShape {
    pub(super) role: ColumnRole,
    pub(super) field: &'static str,
    pub(super) name: &'static str,
    pub(super) array: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteVerb {
    Insert,
    /// What is there already stays.
    InsertNew,
    Update,
}

/// A table as it is written: what follows from the declaration of its rows.
pub(super) struct TableShape {
    pub(super) verb: WriteVerb,
    pub(super) table: &'static str,
    pub(super) columns: &'static [ColumnShape],
}

/// Rows of one kind.
pub(super) trait BulkRow {
    const SHAPE: TableShape;
    /// Rows that were gathered, column by column.
    type Columns: Default;

    fn gather(self, into: &mut Self::Columns);
    fn len(columns: &Self::Columns) -> usize;
    fn into_columns(columns: Self::Columns) -> Vec<Column>;
}

/// Declares the rows of a table. Each column is a field with a type, so that none can be missing,
/// stand in another's place or hold another kind of value.
macro_rules! bulk_row {
    ($(#[$doc:meta])* $row:ident: $verb:ident $table:literal {
        $first_role:ident $first:ident: $first_type:ty,
        $($role:ident $field:ident $(as $name:literal)?: $type:ty,)*
    }) => {
        $(#[$doc])*
        pub(super) struct $row {
            pub(super) $first: $first_type,
            $(pub(super) $field: $type,)*
        }

        const _: () = {
            use $crate::writes::rows::{
                BulkRow, ColumnRole, ColumnShape, ColumnType, TableShape, WriteVerb,
            };

            #[derive(Default)]
            pub(in $crate::writes) struct Columns {
                $first: Vec<<$first_type as ColumnType>::Cell>,
                $($field: Vec<<$type as ColumnType>::Cell>,)*
            }

            impl BulkRow for $row {
                const SHAPE: TableShape = TableShape {
                    verb: WriteVerb::$verb,
                    table: $table,
                    columns: &[
                        ColumnShape {
                            role: ColumnRole::$first_role,
                            field: stringify!($first),
                            name: stringify!($first),
                            array: <$first_type as ColumnType>::ARRAY,
                        },
                        $(ColumnShape {
                            role: ColumnRole::$role,
                            field: stringify!($field),
                            name: bulk_row!(@name $field $($name)?),
                            array: <$type as ColumnType>::ARRAY,
                        },)*
                    ],
                };
                type Columns = Columns;

                fn gather(self, into: &mut Columns) {
                    into.$first.push(self.$first.cell());
                    $(into.$field.push(self.$field.cell());)*
                }

                fn len(columns: &Columns) -> usize {
                    columns.$first.len()
                }

                fn into_columns(columns: Columns) -> Vec<unspent_sql::Column> {
                    vec![
                        <$first_type as ColumnType>::column(columns.$first),
                        $(<$type as ColumnType>::column(columns.$field),)*
                    ]
                }
            }
        };
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}
pub(super) use bulk_row;

impl TableShape {
    /// Whether fewer rows changed than were sent means that a plan was made on something else.
    pub(super) fn is_guarded(&self) -> bool {
        self.columns.iter().any(|column| column.role == ColumnRole::Guard)
    }

    /// Its statements, made once and kept for good.
    pub(super) fn statement(&self) -> BulkStatement {
        BulkStatement { sqlite: self.sqlite().leak(), postgres: self.postgres(0).leak() }
    }

    fn sqlite(&self) -> String {
        let places = (1..=self.columns.len()).map(|place| format!("${place}"));
        if let Some(insert) = self.insert() {
            let places: Vec<String> = places.collect();
            return format!("{insert} VALUES ({}){}", places.join(", "), self.on_conflict());
        }
        let (mut sets, mut keys) = (Vec::new(), Vec::new());
        for (column, place) in self.columns.iter().zip(places) {
            let name = column.name;
            match column.role {
                ColumnRole::Put => sets.push(format!("{name} = {place}")),
                ColumnRole::PutKnown => sets.push(format!("{name} = COALESCE({place}, {name})")),
                ColumnRole::Key | ColumnRole::Guard => keys.push(format!("{name} = {place}")),
            }
        }
        format!("UPDATE {} SET {} WHERE {}", self.table, sets.join(", "), keys.join(" AND "))
    }

    /// With its arguments numbered from after `before`.
    pub(super) fn postgres(&self, before: usize) -> String {
        let arrays = self.columns.iter().zip(before + 1..);
        let arrays: Vec<_> =
            arrays.map(|(column, place)| format!("${place}::{}", column.array)).collect();
        let rows = format!("UNNEST({}) k", arrays.join(", "));
        if let Some(insert) = self.insert() {
            return format!("{insert} SELECT k.* FROM {rows}{}", self.on_conflict());
        }
        let (mut sets, mut keys) = (Vec::new(), Vec::new());
        for ColumnShape { role, field, name, .. } in self.columns {
            match role {
                ColumnRole::Put => sets.push(format!("{name} = k.{field}")),
                // The same bytes again are left where they are: long ones lie outside the row, and
                // a change of the others needn't copy them.
                ColumnRole::PutKnown => sets.push(format!(
                    "{name} = CASE WHEN k.{field} IS NULL OR k.{field} = t.{name} THEN t.{name}
                        ELSE k.{field} END"
                )),
                ColumnRole::Key | ColumnRole::Guard => keys.push(format!("t.{name} = k.{field}")),
            }
        }
        let fields: Vec<_> = self.columns.iter().map(|column| column.field).collect();
        let (table, fields) = (self.table, fields.join(", "));
        let (sets, keys) = (sets.join(", "), keys.join(" AND "));
        format!("UPDATE {table} t SET {sets} FROM {rows} ({fields}) WHERE {keys}")
    }

    fn insert(&self) -> Option<String> {
        if self.verb == WriteVerb::Update {
            return None;
        }
        let names: Vec<_> = self.columns.iter().map(|column| column.name).collect();
        Some(format!("INSERT INTO {} ({})", self.table, names.join(", ")))
    }

    fn on_conflict(&self) -> &'static str {
        if self.verb == WriteVerb::InsertNew { " ON CONFLICT DO NOTHING" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use unspent_sql::Column;

    use super::BulkRow;

    bulk_row! {
        /// A row of every role.
        Cup: Update "cups" {
            Key id: i64,
            Guard was as "colour": &'static str,
            Put colour: &'static str,
            Put is_chipped: bool,
            PutKnown mark: Option<Vec<u8>>,
        }
    }

    bulk_row! {
        Plate: InsertNew "plates" {
            Put id: i64,
            Put hash: [u8; 32],
        }
    }

    fn cup(id: i64, is_chipped: bool, mark: Option<Vec<u8>>) -> Cup {
        Cup { mark, is_chipped, colour: "red", was: "blue", id }
    }

    #[test]
    fn both_statements_follow_from_the_list_of_columns() {
        let cup = Cup::SHAPE.statement();
        assert_eq!(
            cup.sqlite,
            "UPDATE cups SET colour = $3, is_chipped = $4, mark = COALESCE($5, mark) \
                WHERE id = $1 AND colour = $2"
        );
        let postgres = cup.postgres.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            postgres,
            "UPDATE cups t SET colour = k.colour, is_chipped = k.is_chipped, \
                mark = CASE WHEN k.mark IS NULL OR k.mark = t.mark THEN t.mark ELSE k.mark END \
                FROM UNNEST($1::bigint[], $2::text[], $3::text[], $4::boolean[], $5::bytea[]) k \
                (id, was, colour, is_chipped, mark) WHERE t.id = k.id AND t.colour = k.was"
        );
        let plate = Plate::SHAPE.statement();
        let insert = "INSERT INTO plates (id, hash)";
        assert_eq!(plate.sqlite, format!("{insert} VALUES ($1, $2) ON CONFLICT DO NOTHING"));
        assert_eq!(
            Plate::SHAPE.postgres(3),
            format!(
                "{insert} SELECT k.* FROM UNNEST($4::bigint[], $5::bytea[]) k ON CONFLICT DO NOTHING"
            )
        );
        assert!(Cup::SHAPE.is_guarded() && !Plate::SHAPE.is_guarded());
    }

    #[test]
    fn columns_come_in_the_order_of_the_list_whatever_the_order_of_a_literal() {
        let mut gathered = <Cup as BulkRow>::Columns::default();
        cup(7, true, None).gather(&mut gathered);
        cup(8, false, Some(vec![1])).gather(&mut gathered);
        assert_eq!(Cup::len(&gathered), 2);
        assert_eq!(
            Cup::into_columns(gathered),
            [
                Column::ints([7, 8]),
                Column::texts(["blue", "blue"]),
                Column::texts(["red", "red"]),
                Column::Flags(vec![true, false]),
                Column::Blobs(vec![None, Some(vec![1])]),
            ]
        );
    }
}
