//! The code that is kept is what the definition gives, and the definition still means what it meant.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::field_descriptor_proto::Label;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};

/// Set to `write`, the tests renew what they would compare.
const VARIABLE: &str = "MGCOMP_PROTO";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn compiled() -> FileDescriptorSet {
    let mut compiler = protox::Compiler::new([root()]).unwrap();
    compiler.include_source_info(true).open_file("mgcomp/v1/control.proto").unwrap();
    compiler.file_descriptor_set()
}

/// Without comments, which reflection does not need.
fn bare(mut set: FileDescriptorSet) -> FileDescriptorSet {
    set.file.iter_mut().for_each(|file| file.source_code_info = None);
    set
}

fn check(path: PathBuf, expected: &[u8]) {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "write") {
        fs::write(&path, expected).unwrap();
    }
    let kept = fs::read(&path).unwrap_or_default();
    assert!(
        kept == expected,
        "{} is old: {VARIABLE}=write cargo test -p mgcomp-proto renews it",
        path.display()
    );
}

#[test]
fn generated_code_and_descriptor_are_those_of_the_definition() {
    let folder = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .build_transport(false)
        .out_dir(folder.path())
        .compile_fds(compiled())
        .unwrap();
    let code = fs::read(folder.path().join("mgcomp.v1.rs")).unwrap();
    check(root().join("src/generated/mgcomp.v1.rs"), &code);
    check(root().join("src/generated/mgcomp.v1.bin"), &bare(compiled()).encode_to_vec());
}

/// By full name: fields of messages (number to name, type and label) and values of enums.
fn meaning(set: &FileDescriptorSet) -> BTreeMap<String, BTreeMap<i32, String>> {
    let mut all = BTreeMap::new();
    for file in &set.file {
        file.message_type.iter().for_each(|message| message_meaning(file.package(), message, &mut all));
        for of in &file.enum_type {
            all.insert(format!("{}.{}", file.package(), of.name()), enum_meaning(of));
        }
        for service in &file.service {
            for (index, method) in service.method.iter().enumerate() {
                let name = format!("{}.{}/{}", file.package(), service.name(), method.name());
                let (takes, gives) = (method.input_type(), method.output_type());
                let stream = (method.client_streaming(), method.server_streaming());
                let _ = index; // methods go by name
                all.insert(name, [(0, format!("{takes} {gives} {stream:?}"))].into());
            }
        }
    }
    all
}

fn message_meaning(
    within: &str,
    message: &DescriptorProto,
    all: &mut BTreeMap<String, BTreeMap<i32, String>>,
) {
    let name = format!("{within}.{}", message.name());
    let fields = message.field.iter().map(|field| {
        let label = if field.label() == Label::Repeated { "repeated " } else { "" };
        let presence = if field.proto3_optional() { "optional " } else { "" };
        let kind = format!("{:?} {}", field.r#type(), field.type_name());
        (field.number(), format!("{label}{presence}{kind} {}", field.name()))
    });
    let mut fields: BTreeMap<i32, String> = fields.collect();
    for range in &message.reserved_range {
        (range.start()..range.end()).for_each(|number| drop(fields.insert(number, RESERVED.to_owned())));
    }
    all.insert(name.clone(), fields);
    message.nested_type.iter().for_each(|nested| message_meaning(&name, nested, all));
}

fn enum_meaning(of: &EnumDescriptorProto) -> BTreeMap<i32, String> {
    let mut values: BTreeMap<i32, String> =
        of.value.iter().map(|value| (value.number(), value.name().to_owned())).collect();
    for range in &of.reserved_range {
        (range.start()..=range.end()).for_each(|number| drop(values.insert(number, RESERVED.to_owned())));
    }
    values
}

const RESERVED: &str = "reserved";

/// What old clients and servers would misunderstand.
fn broken(before: &FileDescriptorSet, now: &FileDescriptorSet) -> Vec<String> {
    let now = meaning(now);
    let mut broken = Vec::new();
    for (name, fields) in meaning(before) {
        let Some(known) = now.get(&name) else {
            broken.push(format!("{name} is gone"));
            continue;
        };
        for (number, meant) in fields {
            match known.get(&number) {
                None => broken.push(format!("{name} {number}, {meant}, is gone and not reserved")),
                Some(means) if *means == meant || means == RESERVED => {}
                Some(means) => broken.push(format!("{name} {number} was {meant} and is {means}")),
            }
        }
    }
    broken
}

#[test]
fn what_was_released_still_means_the_same() {
    let path = root().join("baseline/mgcomp.v1.bin");
    let kept = fs::read(&path).expect("the released definition is kept");
    let before = FileDescriptorSet::decode(&kept[..]).unwrap();
    assert_eq!(broken(&before, &compiled()), Vec::<String>::new());
    assert!(meaning(&before).len() > 20, "the released definition is nearly empty");
}

#[test]
fn a_change_of_meaning_would_be_found() {
    let before = compiled();
    let message = |set: &mut FileDescriptorSet, change: &dyn Fn(&mut DescriptorProto)| {
        let file = set.file.last_mut().unwrap();
        change(file.message_type.iter_mut().find(|message| message.name() == "Scope").unwrap());
    };
    let changed = |change: &dyn Fn(&mut DescriptorProto)| {
        let mut now = before.clone();
        message(&mut now, change);
        broken(&before, &now).join("\n")
    };
    assert_eq!(changed(&|_| {}), "");
    let gone = changed(&|scope| drop(scope.field.remove(0)));
    assert!(gone.contains("mgcomp.v1.Scope 1") && gone.contains("not reserved"), "{gone}");
    let renumbered = changed(&|scope| scope.field[0].number = Some(9));
    assert!(renumbered.contains("not reserved"), "{renumbered}");
    let retyped =
        changed(&|scope| scope.field[1].set_type(prost_types::field_descriptor_proto::Type::Uint64));
    assert!(retyped.contains("was optional Uint32"), "{retyped}");
}

#[test]
fn every_field_is_explained() {
    let set = compiled();
    let file = set.file.last().unwrap();
    let explained: Vec<&[i32]> = file
        .source_code_info
        .iter()
        .flat_map(|info| &info.location)
        .filter(|location| !location.leading_comments().trim().is_empty())
        .map(|location| &location.path[..])
        .collect();
    // 4 = messages, 2 = their fields; 5 = enums, 2 = their values; 6 = services, 2 = their methods.
    for (index, message) in file.message_type.iter().enumerate() {
        for (field, of) in message.field.iter().enumerate() {
            let path = [4, index as i32, 2, field as i32];
            assert!(explained.contains(&&path[..]), "{}.{}", message.name(), of.name());
        }
    }
    for (index, of) in file.enum_type.iter().enumerate() {
        for value in 0..of.value.len() {
            assert!(explained.contains(&&[5, index as i32, 2, value as i32][..]), "{} {value}", of.name());
        }
    }
    for method in 0..file.service[0].method.len() {
        assert!(explained.contains(&&[6, 0, 2, method as i32][..]), "method {method}");
    }
}
