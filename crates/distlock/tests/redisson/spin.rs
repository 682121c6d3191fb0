//! `spin` beside `RedissonClient.getSpinLock`.

exclusive_beside_java!(spin, Kind::Spin, Line::Unseen);
