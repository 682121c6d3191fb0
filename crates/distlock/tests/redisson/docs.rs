//! The Java code of README.md and `docs` compiles with Redisson.

use std::fmt::Write;
use std::process::{Command, Stdio};
use std::{env, fs, process};

use distlock_testkit::docs::blocks;
use distlock_testkit::peer::class_path;

/// What the blocks use without showing it.
const FIELDS: &str = "
    static RedissonClient redisson, redissonOld, redissonNew;
    static RLock lock;
    static org.slf4j.Logger log;
    static void ship(int order) {}
    static void report() {}
    static void book() {}
";

#[test]
fn java_blocks_compile_with_redisson() {
    let Some(class_path) = class_path() else { return };
    let blocks = blocks("java");
    assert!(!blocks.is_empty());
    let mut source =
        String::from("import java.util.concurrent.TimeUnit;\nimport org.redisson.api.*;\n");
    write!(source, "class Blocks {{{FIELDS}").expect("a string takes it");
    for (number, block) in blocks.iter().enumerate() {
        let (place, text) = (&block.place, &block.text);
        write!(source, "// {place}\nstatic void block{number}() throws Exception {{\n{text}}}\n")
            .expect("a string takes it");
    }
    source.push_str("}\n");
    let dir = env::temp_dir().join(format!("distlock-java-{}", process::id()));
    fs::create_dir_all(&dir).expect("a directory for the class");
    fs::write(dir.join("Blocks.java"), source).expect("the class");
    let mut javac = Command::new("javac");
    javac.arg("-cp").arg(class_path).args(["-d", "."]).arg("Blocks.java");
    let compiled = javac.current_dir(&dir).stdin(Stdio::null()).output();
    fs::remove_dir_all(&dir).expect("the directory is there");
    match compiled {
        Ok(done) => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        Err(error) => eprintln!("SKIPPED: no javac: {error}"),
    }
}
