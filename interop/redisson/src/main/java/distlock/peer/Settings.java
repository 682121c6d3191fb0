package distlock.peer;

import java.util.ArrayList;
import java.util.List;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;

/**
 * What the program is started with: {@code [--cluster] [--watchdog MS] [--place HOST:PORT] ADDRESS…}.
 *
 * @param addresses of the server, or of some of the cluster's
 * @param watchdog Redisson's lockWatchdogTimeout in milliseconds
 * @param place the plain server where {@link Stress} keeps its history
 */
record Settings(List<String> addresses, boolean cluster, long watchdog, String place) {
    /** How many milliseconds an answer may take. Redisson sends what is late again, and a lock that is taken twice stays. */
    private static final int PATIENCE = 20_000;

    static Settings of(String[] args) {
        List<String> addresses = new ArrayList<>();
        boolean cluster = false;
        long watchdog = 30_000;
        String place = null;
        for (int i = 0; i < args.length; i++) {
            switch (args[i]) {
                case "--cluster" -> cluster = true;
                case "--watchdog" -> watchdog = Long.parseLong(args[++i]);
                case "--place" -> place = args[++i];
                default -> addresses.add("redis://" + args[i]);
            }
        }
        String first = addresses.get(0).substring("redis://".length());
        return new Settings(addresses, cluster, watchdog, place == null ? first : place);
    }

    /**
     * All defaults but for the number of threads and connections, and for the patience: several of these share a small
     * machine, which stands still for seconds.
     */
    RedissonClient connect() {
        Config config = new Config();
        config.setThreads(4).setNettyThreads(2).setLockWatchdogTimeout(watchdog);
        if (cluster) {
            config.useClusterServers()
                .addNodeAddress(addresses.toArray(String[]::new))
                .setReadMode(ReadMode.MASTER)
                .setMasterConnectionMinimumIdleSize(1)
                .setSlaveConnectionMinimumIdleSize(1)
                .setTimeout(PATIENCE);
        } else {
            config.useSingleServer()
                .setAddress(addresses.get(0))
                .setConnectionMinimumIdleSize(1)
                .setTimeout(PATIENCE);
        }
        return Redisson.create(config);
    }
}
