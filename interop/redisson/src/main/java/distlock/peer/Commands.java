package distlock.peer;

import java.util.List;
import java.util.concurrent.TimeUnit;

import org.redisson.RedissonMultiLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * What can be asked for. Times are milliseconds; a lease of -1 is the watchdog's.
 *
 * <pre>
 * lock KIND NAME LEASE              null, or the token of a fenced lock
 * tryLock KIND NAME WAIT LEASE      true or false; the token of a fenced lock, or null
 * unlock KIND NAME                  null
 * forceUnlock KIND NAME             whether it was locked
 * isLocked KIND NAME
 * isHeld KIND NAME                  by this thread
 * isHeldBy KIND NAME THREAD_ID
 * holdCount KIND NAME               of this thread
 * ttl KIND NAME                     -1 none, -2 not locked
 * token NAME                        the last one of a fenced lock
 * semaphore OPERATION NAME …        see {@link Counts}
 * permits OPERATION NAME …
 * latch OPERATION NAME …
 * stress KIND NAME KEY WHO MS       see {@link Stress}
 * delete NAME                       whatever it is
 * whoami                            null: the answer's owner tells
 * asleep                            whether it waits for a message; answered at once, as interrupt is
 * </pre>
 *
 * KIND is plain, fair, read, write, fenced, spin or multi; multi takes several names with commas between them.
 */
final class Commands {
    private final RedissonClient client;
    private final Counts counts;
    private final Stress stress;

    Commands(RedissonClient client, String place) {
        this.client = client;
        counts = new Counts(client);
        stress = new Stress(this, counts, place);
    }

    Object run(String operation, Arguments args) throws Exception {
        return switch (operation) {
            case "whoami" -> null;
            case "token" -> client.getFencedLock(args.word()).getToken();
            case "delete" -> client.getKeys().delete(args.word());
            case "semaphore" -> counts.semaphore(args.word(), args.word(), args);
            case "permits" -> counts.permits(args.word(), args.word(), args);
            case "latch" -> counts.latch(args.word(), args.word(), args);
            case "stress" -> stress.run(args);
            default -> run(operation, lock(args.word(), args.word()), args);
        };
    }

    private static Object run(String operation, RLock lock, Arguments args) throws Exception {
        switch (operation) {
            case "lock":
                return lock(lock, args.millis());
            case "tryLock":
                return tryLock(lock, args.millis(), args.millis());
            case "unlock":
                lock.unlock();
                return null;
            case "forceUnlock":
                return lock.forceUnlock();
            case "isLocked":
                return lock.isLocked();
            case "isHeld":
                return lock.isHeldByCurrentThread();
            case "isHeldBy":
                return lock.isHeldByThread(args.millis());
            case "holdCount":
                return lock.getHoldCount();
            case "ttl":
                return lock.remainTimeToLive();
            default:
                throw new IllegalArgumentException("no such command: " + operation);
        }
    }

    /** Waits for as long as it takes. */
    static Long lock(RLock lock, long lease) {
        // Not lockAndGetToken: it waits by a callback, which misses a message that comes just before it is in place.
        lock.lock(lease, TimeUnit.MILLISECONDS);
        return lock instanceof RFencedLock fenced ? fenced.getToken() : null;
    }

    private static Object tryLock(RLock lock, long wait, long lease) throws InterruptedException {
        if (lock instanceof RFencedLock fenced) {
            return fenced.tryLockAndGetToken(wait, lease, TimeUnit.MILLISECONDS);
        }
        if (wait == 0 && lease < 0) {
            // What a program without a wait calls; a fair lock's leaves no trace in the queue.
            return lock.tryLock();
        }
        return lock.tryLock(wait, lease, TimeUnit.MILLISECONDS);
    }

    RLock lock(String kind, String name) {
        return switch (kind) {
            case "plain" -> client.getLock(name);
            case "fair" -> client.getFairLock(name);
            case "read" -> client.getReadWriteLock(name).readLock();
            case "write" -> client.getReadWriteLock(name).writeLock();
            case "fenced" -> client.getFencedLock(name);
            case "spin" -> client.getSpinLock(name);
            case "multi" -> new RedissonMultiLock(
                List.of(name.split(",")).stream().map(client::getLock).toArray(RLock[]::new));
            default -> throw new IllegalArgumentException("no such kind: " + kind);
        };
    }
}
