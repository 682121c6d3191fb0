//! How releases are called out in a cluster, and what that means for scripts.

/// Plain channels reach every server of a cluster, sharded ones only those that serve their slot. Neither hears the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `PUBLISH` and `SUBSCRIBE`: what single servers have, and Redisson before 3.22.
    Classic,
    /// `SPUBLISH` and `SSUBSCRIBE`: what Redisson does in a cluster of Redis 7 or later.
    Sharded,
    /// Both, for fleets in which not everybody does the same.
    Both,
}

/// The two calls in scripts that differ, as all scripts write them.
const PUBLISH: &str = "redis.pcall('publish', ";
const NUMSUB: &str = "redis.pcall('pubsub', 'numsub', ";

impl Way {
    /// The script for this way, written for the classic one. `None` if it makes no difference.
    pub(crate) fn script(self, code: &str) -> Option<String> {
        if !code.contains(PUBLISH) && !code.contains(NUMSUB) {
            return None;
        }
        match self {
            Way::Classic => None,
            Way::Sharded => Some(
                code.replace(PUBLISH, "redis.pcall('spublish', ")
                    .replace(NUMSUB, "redis.pcall('pubsub', 'shardnumsub', "),
            ),
            Way::Both => {
                let prelude = include_str!("../scripts/pubsub_both.lua");
                let code = code.replace(PUBLISH, "publish(").replace(NUMSUB, "numsub(");
                Some(format!("{prelude}{code}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_out_is_called_out_the_other_way() {
        let code =
            "local a = redis.pcall('publish', KEYS[1], '0')\nredis.pcall('pubsub', 'numsub', b)";
        let sharded = Way::Sharded.script(code).unwrap();
        assert_eq!(
            sharded,
            "local a = redis.pcall('spublish', KEYS[1], '0')\nredis.pcall('pubsub', 'shardnumsub', b)"
        );
        let both = Way::Both.script(code).unwrap();
        assert!(both.ends_with("local a = publish(KEYS[1], '0')\nnumsub(b)"), "{both}");
        assert_eq!(Way::Classic.script(code), None);
        assert_eq!(Way::Sharded.script("return 1"), None);
    }

    /// A script that called out releases in other words would be silent in a cluster.
    #[test]
    fn every_script_uses_these_words() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/scripts");
        for file in std::fs::read_dir(dir).unwrap() {
            let path = file.unwrap().path();
            if path.file_name().is_some_and(|name| name == "pubsub_both.lua") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
            let count = |word: &str| text.matches(word).count();
            assert_eq!(count("'publish'"), count(PUBLISH), "{path:?}");
            assert_eq!(count("\"publish\"") + count("spublish"), 0, "{path:?}");
            assert_eq!(count("numsub"), count(NUMSUB), "{path:?}");
        }
    }
}
