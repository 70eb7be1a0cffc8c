//! Tables that are saved and loaded.

use std::fs;
use std::path::Path;

use mgcomp_codecs::Cpu;
use mgcomp_transport::table::{LoadOptions, Table, TableFileError};

use super::random::Random;
use super::rows::{all, options, rows};

fn equal(a: &Table, b: &Table) {
    assert!(all(a) == all(b));
    assert_eq!((a.stored_bytes(), a.codebook().id()), (b.stored_bytes(), b.codebook().id()));
    assert_eq!((a.packed_mask(), a.row_clusters()), (b.packed_mask(), b.row_clusters()));
}

#[test]
fn what_was_saved_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.table");
    let mut random = Random(3);
    // Blocks have 1 MiB: the third table has several, the fourth one with a single row each.
    for (count, row_len, clusters) in [(0, 16, 1), (77, 13, 3), (9000, 300, 1), (30, 100_000, 1)] {
        let plain = rows(&mut random, count, row_len);
        let table = Table::build(plain.clone(), row_len, &options(Cpu::active(), clusters, 1)).unwrap();
        table.save(&path).unwrap();
        assert!(count == 0 || fs::metadata(&path).unwrap().len() < plain.len() as u64 + 32 + 3 * 200_000);
        let mut loaded = Table::load(&path, &LoadOptions { threads: 2, ..LoadOptions::default() }).unwrap();
        equal(&table, &loaded);
        assert!(all(&loaded) == plain);
        if count > 0 {
            loaded.update(0, &vec![0xcc; row_len]).unwrap();
            loaded.save(&path).unwrap();
            let again = Table::load(&path, &LoadOptions::default()).unwrap();
            equal(&loaded, &again);
            assert!(all(&again)[..row_len] == vec![0xcc; row_len]);
        }
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["rows.table"], "no drafts are left");
}

#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_passes_its_permissions_on() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.table");
    let table = Table::build(vec![1; 100], 10, &options(Cpu::active(), 1, 1)).unwrap();
    table.save(&path).unwrap();
    // Less than the user's mask leaves, and more.
    for mode in [0o600, 0o400, 0o666] {
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        table.save(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_passes_its_group_on() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.table");
    let table = Table::build(vec![1; 100], 10, &options(Cpu::active(), 1, 1)).unwrap();
    table.save(&path).unwrap();
    let own = fs::metadata(&path).unwrap().gid();
    // Any group is possible for root, for others one that they are in.
    let groups = rustix::process::getgroups().unwrap().into_iter().map(rustix::fs::Gid::as_raw);
    let mut others = groups.chain([4711]).filter(|&group| group != own);
    let Some(group) = others.find(|&group| chown(&path, None, Some(group)).is_ok()) else {
        println!("SKIPPED: files can be of one group only");
        return;
    };
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    table.save(&path).unwrap();
    let saved = fs::metadata(&path).unwrap();
    assert_eq!((saved.gid(), saved.mode() & 0o7777), (group, 0o640));
}

/// Who is named in a list is let in neither where it was on that of the old table nor where it is on that of the folder.
#[cfg(target_os = "linux")]
#[test]
fn lists_of_who_may_do_what_let_nobody_in() {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{XattrFlags, getxattr_query, setxattr};
    use rustix::io::Errno;

    // Owner, user 4711, group, all on the list at most, others: what each may do.
    let list = |may: [u16; 5]| {
        let (tags, nobody) = ([0x01u16, 0x02, 0x04, 0x10, 0x20], u32::MAX);
        let entries = tags.into_iter().zip(may).flat_map(|(tag, may)| {
            let id = if tag == 0x02 { 4711 } else { nobody };
            [&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat()
        });
        [2, 0, 0, 0].into_iter().chain(entries).collect::<Vec<u8>>()
    };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.table");
    let table = Table::build(vec![1; 100], 10, &options(Cpu::active(), 1, 1)).unwrap();
    table.save(&path).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let of_folder = list([6, 6, 6, 6, 0]);
    match setxattr(folder.path(), "system.posix_acl_default", &of_folder, XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => {
            println!("SKIPPED: this file system has no lists");
            return;
        }
        set => set.unwrap(),
    }
    let has_list = || match getxattr_query(&path, "system.posix_acl_access") {
        Err(error) => {
            assert_eq!(error, Errno::NODATA);
            false
        }
        Ok(_) => true,
    };
    table.save(&path).unwrap();
    assert_eq!((mode(&path), has_list()), (0o640, false));
    let of_file = list([6, 4, 0, 4, 4]);
    setxattr(&path, "system.posix_acl_access", &of_file, XattrFlags::empty()).unwrap();
    assert_eq!((mode(&path), has_list()), (0o644, true));
    table.save(&path).unwrap();
    assert_eq!((mode(&path), has_list()), (0o604, false));
}

fn load_into<'a>(path: &Path, memory: Option<&'a mut [u8]>) -> Result<Table<&'a mut [u8]>, TableFileError> {
    Table::load_into(path, &LoadOptions::default(), |_| memory)
}

#[test]
fn rows_can_be_loaded_into_memory_of_the_caller() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.table");
    let plain = rows(&mut Random(4), 50, 40);
    Table::build(plain.clone(), 40, &options(Cpu::active(), 1, 1)).unwrap().save(&path).unwrap();
    let mut memory = vec![0xa5; 50 * 40];
    assert!(all(&load_into(&path, Some(&mut memory)).unwrap()) == plain);
    for memory in [None, Some(&mut memory[..1999])] {
        let error = load_into(&path, memory).unwrap_err();
        assert!(matches!(error, TableFileError::Memory { bytes: 2000 }), "{error}");
    }
    let small = LoadOptions { max_bytes: 1999, ..LoadOptions::default() };
    let error = Table::load(&path, &small).unwrap_err();
    assert!(matches!(error, TableFileError::TooLarge { bytes: 2000, limit: 1999 }), "{error}");
}

#[test]
fn places_where_there_is_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let load = |path| Table::load(path, &LoadOptions::default()).unwrap_err();
    assert!(matches!(load(folder.path()), TableFileError::NotAFile { .. }));
    let missing = folder.path().join("missing");
    assert!(matches!(load(&missing), TableFileError::Read { .. }));
    let table = Table::build(vec![1; 100], 10, &options(Cpu::active(), 1, 1)).unwrap();
    let error = table.save(&missing.join("table")).unwrap_err();
    assert!(matches!(&error, TableFileError::Write { path, .. } if path.starts_with(&missing)), "{error}");
    // A folder is not replaced.
    let error = table.save(folder.path()).unwrap_err();
    assert!(matches!(&error, TableFileError::NotAFile { path } if path == folder.path()), "{error}");
}

#[cfg(unix)]
#[test]
fn a_link_stays_where_the_table_that_it_leads_to_is_replaced() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let [link, lost, kept] = ["link", "lost", "kept/rows.table"].map(|name| folder.path().join(name));
    fs::create_dir(kept.parent().unwrap()).unwrap();
    symlink("kept/rows.table", &link).unwrap();
    symlink("nowhere", &lost).unwrap();
    let build = |byte| Table::build(vec![byte; 100], 10, &options(Cpu::active(), 1, 1)).unwrap();
    build(1).save(&kept).unwrap();
    build(2).save(&link).unwrap();
    assert!(link.is_symlink() && all(&Table::load(&kept, &LoadOptions::default()).unwrap()) == vec![2; 100]);
    // Where it leads nowhere, nothing is made.
    let error = build(3).save(&lost).unwrap_err();
    assert!(matches!(error, TableFileError::NotAFile { .. }) && lost.is_symlink(), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    assert_eq!(fs::read_dir(kept.parent().unwrap()).unwrap().count(), 1);
}
