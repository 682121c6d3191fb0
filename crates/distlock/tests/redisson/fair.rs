//! `fair` beside `RedissonClient.getFairLock`.

exclusive_beside_java!(fair, Kind::Fair, Line::Queue);
