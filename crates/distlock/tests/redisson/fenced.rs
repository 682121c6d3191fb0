//! `fenced` beside `RedissonClient.getFencedLock`.

exclusive_beside_java!(fenced, Kind::Fenced, Line::Channel);
