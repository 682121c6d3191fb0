package distlock.peer;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RLock;

/**
 * Goes in and out of one lock for a while, and leaves a history that shows if two were ever inside at once.
 *
 * <p>{@code stress KIND NAME KEY WHO MS}: inside, it appends {@code in WHO HOW TOKEN} to the list KEY:history, reads the number
 * KEY:number, writes it back one higher, and appends {@code out WHO}. HOW is {@code alone} or {@code shared}; those who share
 * leave the number alone. Nothing protects these steps but the lock. The kinds are those of locks, {@code semaphore} and
 * {@code permits}. Answers how often it was inside.
 */
final class Stress {
    /** Longer than any pause of a busy machine: a lease that ended in here would look like a broken lock. */
    private static final long LEASE = 60_000;

    private final Commands commands;
    private final Counts counts;
    private final String place;

    Stress(Commands commands, Counts counts, String place) {
        this.commands = commands;
        this.counts = counts;
        this.place = place;
    }

    long run(Arguments args) throws Exception {
        String kind = args.word();
        String name = args.word();
        String key = args.word();
        String who = args.word();
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(args.millis());
        long times = 0;
        try (Plain history = new Plain(place)) {
            while (System.nanoTime() < until) {
                once(kind, name, times, history, key, who);
                times++;
            }
        }
        return times;
    }

    private void once(String kind, String name, long time, Plain history, String key, String who) throws Exception {
        switch (kind) {
            case "semaphore" -> {
                counts.semaphore("acquire", name, new Arguments(new String[] {"1"}));
                shared(history, key, who);
                counts.semaphore("release", name, new Arguments(new String[] {"1"}));
            }
            case "permits" -> {
                Object ids = counts.permits("acquire", name, new Arguments(new String[] {"1", "" + LEASE}));
                shared(history, key, who);
                String id = ((List<?>) ids).get(0).toString();
                counts.permits("releaseOne", name, new Arguments(new String[] {id}));
            }
            case "read" -> {
                RLock lock = commands.lock(kind, name);
                Commands.lock(lock, LEASE);
                shared(history, key, who);
                lock.unlock();
            }
            default -> {
                RLock lock = commands.lock(kind, name);
                // By turns with a lease and with the watchdog: they end differently.
                Long token = Commands.lock(lock, time % 2 == 0 ? -1 : LEASE);
                alone(history, key, who, token);
                lock.unlock();
            }
        }
    }

    private static void shared(Plain history, String key, String who) throws IOException {
        history.ask("RPUSH", key + ":history", "in " + who + " shared 0");
        history.ask("RPUSH", key + ":history", "out " + who);
    }

    private static void alone(Plain history, String key, String who, Long token) throws IOException {
        history.ask("RPUSH", key + ":history", "in " + who + " alone " + (token == null ? 0 : token));
        String number = history.ask("GET", key + ":number");
        long next = number == null ? 1 : Long.parseLong(number) + 1;
        history.ask("SET", key + ":number", Long.toString(next));
        history.ask("RPUSH", key + ":history", "out " + who);
    }
}
