package distlock.peer;

import java.util.List;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** The kinds that count: semaphores, semaphores whose permits have leases, latches. */
final class Counts {
    private final RedissonClient client;

    Counts(RedissonClient client) {
        this.client = client;
    }

    /** trySetPermits N; acquire N; tryAcquire N WAIT; release N; add N; available; drain. */
    Object semaphore(String operation, String name, Arguments args) throws Exception {
        RSemaphore semaphore = client.getSemaphore(name);
        switch (operation) {
            case "trySetPermits":
                return semaphore.trySetPermits(args.number());
            case "acquire":
                semaphore.acquire(args.number());
                return null;
            case "tryAcquire":
                return semaphore.tryAcquire(args.number(), args.millis(), TimeUnit.MILLISECONDS);
            case "release":
                semaphore.release(args.number());
                return null;
            case "add":
                semaphore.addPermits(args.number());
                return null;
            case "available":
                return semaphore.availablePermits();
            case "drain":
                return semaphore.drainPermits();
            default:
                throw new IllegalArgumentException("no such command: " + operation);
        }
    }

    /**
     * trySetPermits N; setPermits N; acquire N LEASE and tryAcquire N WAIT LEASE: the ids, none if there was none in
     * time; release ID… and tryRelease ID…; updateLease ID LEASE; add N; available; acquired; total.
     */
    Object permits(String operation, String name, Arguments args) throws Exception {
        RPermitExpirableSemaphore permits = client.getPermitExpirableSemaphore(name);
        switch (operation) {
            case "trySetPermits":
                return permits.trySetPermits(args.number());
            case "setPermits":
                permits.setPermits(args.number());
                return null;
            case "acquire": {
                int n = args.number();
                long lease = args.millis();
                return lease < 0 ? permits.acquire(n) : permits.acquire(n, lease, TimeUnit.MILLISECONDS);
            }
            case "tryAcquire": {
                List<String> ids = permits.tryAcquire(args.number(), args.millis(), args.millis(), TimeUnit.MILLISECONDS);
                return ids == null ? List.of() : ids;
            }
            case "release":
                permits.release(args.rest());
                return null;
            case "tryRelease":
                return permits.tryRelease(args.rest());
            case "releaseOne":
                permits.release(args.word());
                return null;
            case "tryReleaseOne":
                return permits.tryRelease(args.word());
            case "updateLease":
                return permits.updateLeaseTime(args.word(), args.millis(), TimeUnit.MILLISECONDS);
            case "add":
                permits.addPermits(args.number());
                return null;
            case "available":
                return permits.availablePermits();
            case "acquired":
                return permits.acquiredPermits();
            case "total":
                return permits.getPermits();
            default:
                throw new IllegalArgumentException("no such command: " + operation);
        }
    }

    /** trySetCount N; countDown; await; awaitFor WAIT: whether it opened; count; delete. */
    Object latch(String operation, String name, Arguments args) throws Exception {
        RCountDownLatch latch = client.getCountDownLatch(name);
        switch (operation) {
            case "trySetCount":
                return latch.trySetCount(args.number());
            case "countDown":
                latch.countDown();
                return null;
            case "await":
                latch.await();
                return null;
            case "awaitFor":
                return latch.await(args.millis(), TimeUnit.MILLISECONDS);
            case "count":
                return latch.getCount();
            case "delete":
                return latch.delete();
            default:
                throw new IllegalArgumentException("no such command: " + operation);
        }
    }
}
