mod crds;
fn main(){ for d in crds::definitions(){ std::fs::write(format!("crds/{}",crds::file_name(&d)),crds::render(&d).unwrap()).unwrap(); }
 std::fs::write("docs/fields.md",crds::field_docs::render()).unwrap(); }
