#![doc = include_str!("../docs/cookbook.md")]
