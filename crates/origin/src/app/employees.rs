use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use serde::Serialize;

use crate::{Error, files};

/// The employees, in an embedded SQLite database.
///
/// A query takes a few microseconds from memory, less than handing it to another thread would, so it runs where the
/// request is answered; one connection, one query at a time.
pub struct Employees {
    database: Mutex<Connection>,
}

/// One row of the list.
#[derive(Debug, Serialize)]
pub struct Employee {
    id: i64,
    first_name: String,
    last_name: String,
    email: String,
}

/// Six rows whose JSON list has 480 bytes, the size of the published experiments.
const PRELOAD: [(&str, &str, &str); 6] = [
    ("Ada", "Lovelace", "ada@example.com"),
    ("Alan", "Turing", "alan@example.com"),
    ("Grace", "Hopper", "grace@example.com"),
    ("Edsger", "Dijkstra", "edsger@example.com"),
    ("Barbara", "Liskov", "barbara@example.com"),
    ("Donald", "Knuth", "donald@example.com"),
];

impl Employees {
    /// Opens the database `employees.sqlite` in `directory`, or one in memory, and fills it when it is new.
    pub fn open(directory: Option<&Path>) -> Result<Employees, Error> {
        let (place, opened) = match directory {
            None => ("in memory".to_owned(), Connection::open_in_memory()),
            Some(directory) => {
                files::create_directory(directory)?;
                let path = directory.join("employees.sqlite");
                (path.display().to_string(), Connection::open(path))
            }
        };
        opened
            .and_then(|mut database| {
                preload(&mut database)?;
                Ok(Employees { database: Mutex::new(database) })
            })
            .map_err(|source| Error::Store { place, source })
    }

    /// All employees by id; queries the database.
    pub fn list(&self) -> Result<Vec<Employee>, rusqlite::Error> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let mut query =
            database.prepare_cached("SELECT id, first_name, last_name, email FROM employees ORDER BY id")?;
        let rows = query.query_map([], |row| {
            Ok(Employee { id: row.get(0)?, first_name: row.get(1)?, last_name: row.get(2)?, email: row.get(3)? })
        })?;
        rows.collect()
    }
}

fn preload(database: &mut Connection) -> Result<(), rusqlite::Error> {
    let transaction = database.transaction()?;
    transaction.execute(
        "CREATE TABLE IF NOT EXISTS employees (id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT \
         NULL, email TEXT NOT NULL)",
        [],
    )?;
    let rows: i64 = transaction.query_row("SELECT count(*) FROM employees", [], |row| row.get(0))?;
    if rows == 0 {
        let mut insert =
            transaction.prepare("INSERT INTO employees (first_name, last_name, email) VALUES (?1, ?2, ?3)")?;
        for employee in PRELOAD {
            insert.execute(employee)?;
        }
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(employees: &Employees) -> String {
        serde_json::to_string(&employees.list().unwrap()).unwrap()
    }

    #[test]
    fn the_list_has_480_bytes() {
        let body = body(&Employees::open(None).unwrap());
        assert_eq!(body.len(), 480, "{body}");
    }

    #[test]
    fn a_kept_database_is_filled_once_and_keeps_its_changes() {
        let directory = tempfile::tempdir().unwrap();
        let first = Employees::open(Some(directory.path())).unwrap();
        let changed = "UPDATE employees SET first_name = 'Eva' WHERE id = 1";
        first.database.lock().unwrap().execute(changed, []).unwrap();
        drop(first);

        let again = Employees::open(Some(directory.path())).unwrap();
        let body = body(&again);
        assert_eq!(body.len(), 480, "{body}");
        assert!(body.contains(r#"{"id":1,"first_name":"Eva""#), "{body}");
    }

    #[test]
    fn a_file_that_is_no_database_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("employees.sqlite");
        std::fs::write(&path, "this is not a database, and long enough to be looked at as one").unwrap();
        let error = Employees::open(Some(directory.path())).err().unwrap();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}
