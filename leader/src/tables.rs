//! The SQL that makes the tables, for those who run their own migrations.
//!
//! The start runs the same SQL unless [`Builder::migrate`](crate::Builder::migrate) says otherwise. With `migrate(false)`
//! it only looks whether the tables are there, and if not, it fails with the SQL in its message.
//!
//! Each holds two `CREATE TABLE IF NOT EXISTS`, which leave tables alone that are there already. Run it with `sqlx::raw_sql`.
//!
//! ```
//! for tables in [leader::tables::POSTGRES, leader::tables::MYSQL, leader::tables::SQLITE] {
//!     assert!(tables.contains("leader_sessions") && tables.contains("leader_names"));
//! }
//! ```

/// For PostgreSQL.
pub const POSTGRES: &str = include_str!("store/postgres.sql");

/// For MySQL and MariaDB.
pub const MYSQL: &str = include_str!("store/mysql.sql");

/// For SQLite.
pub const SQLITE: &str = include_str!("store/sqlite.sql");
