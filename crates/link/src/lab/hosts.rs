use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::{CLIENT, ORIGIN};
use crate::LabError;

const HOSTS: &str = "/etc/hosts";

/// Makes the names of the lab known to the programs inside by covering `/etc/hosts` in the caller's mount namespace.
///
/// Nothing is written to disk: the file lives on a file system in memory that goes away with the namespace. Returns a
/// warning when the machine has no such file to cover.
pub fn install() -> Result<Option<String>, LabError> {
    let present = match fs::read_to_string(HOSTS) {
        Ok(present) => present,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some(format!(
                "this machine has no {HOSTS}, so the lab's names are unknown: use {} for the origin",
                ORIGIN.v4
            )));
        }
        Err(error) => return Err(LabError::setup(format!("reading {HOSTS}"), error)),
    };
    cover(&with_lab_names(&present)).map_err(|error| LabError::setup(format!("covering {HOSTS}"), error))?;
    Ok(None)
}

fn cover(text: &str) -> io::Result<()> {
    // Every machine has the directory /proc, and nobody looks at it while it is covered.
    const STAGE: &str = "/proc";
    let none = None::<&str>;
    mount(Some("tmpfs"), STAGE, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=0755,size=1m"))?;
    let file = Path::new(STAGE).join("hosts");
    fs::write(&file, text)?;
    fs::set_permissions(&file, Permissions::from_mode(0o644))?;
    mount(Some(&file), HOSTS, none, MsFlags::MS_BIND, none)?;
    umount2(STAGE, MntFlags::MNT_DETACH)?;
    Ok(())
}

/// The lab's names, and of the present lines those that name nothing of the lab.
fn with_lab_names(present: &str) -> String {
    let mut text = String::new();
    let mut names = Vec::new();
    for side in [&CLIENT, &ORIGIN] {
        let name6 = format!("{}6", side.name);
        text += &format!("{}\t{}\n{}\t{name6}\n", side.v4, side.name, side.v6);
        names.extend([side.name.to_owned(), name6]);
    }
    for line in present.lines() {
        let entry = line.split('#').next().unwrap_or_default();
        if !entry.split_whitespace().any(|word| names.iter().any(|name| name == word)) {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labs_names_win_and_other_lines_stay() {
        let present = "127.0.0.1 localhost\n192.0.2.7 build origin # old\n::1 localhost # origin";
        let text = with_lab_names(present);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["10.77.0.1\tclient", "fd77::1\tclient6"]);
        assert_eq!(
            lines[2..],
            ["10.77.0.2\torigin", "fd77::2\torigin6", "127.0.0.1 localhost", "::1 localhost # origin"]
        );
    }
}
