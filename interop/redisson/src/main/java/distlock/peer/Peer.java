package distlock.peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import org.redisson.api.RedissonClient;

/**
 * Locks with Redisson as it is told: a command a line on standard input, an answer a line on standard output.
 *
 * <p>A command is {@code ID THREAD OPERATION ARGUMENT…}, separated by blanks. Commands for one thread run one after the
 * other, in a thread of that name with an id of its own, as Redisson's owners have; those of different threads run side by
 * side, so that one which waits holds up nobody else.
 *
 * <p>An answer is a JSON object with the command's {@code id}, the {@code owner} it ran as, the times {@code from} and
 * {@code at} of its beginning and its end in nanoseconds since 1970, and either its {@code value} or the simple name of the
 * exception, {@code error}, and its {@code message}. The first line, {@code ready}, comes without being asked for.
 *
 * <p>It ends when its input does, without letting go of what it holds.
 */
public final class Peer {
    private final RedissonClient client;
    private final Commands commands;
    private final Map<String, Worker> workers = new ConcurrentHashMap<>();

    private Peer(RedissonClient client, Commands commands) {
        this.client = client;
        this.commands = commands;
    }

    public static void main(String[] args) throws IOException {
        Settings settings = Settings.of(args);
        RedissonClient client = settings.connect();
        Peer peer = new Peer(client, new Commands(client, settings.place()));
        Map<String, Object> ready = new LinkedHashMap<>();
        ready.put("ready", true);
        ready.put("uuid", client.getId());
        ready.put("version", RedissonClient.class.getPackage().getImplementationVersion());
        say(ready);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            peer.take(line);
        }
        // Not exit(): nothing here is worth a shutdown hook, and some would wait for threads that wait for locks.
        Runtime.getRuntime().halt(0);
    }

    private void take(String line) {
        String[] words = line.split(" ");
        long id = Long.parseLong(words[0]);
        if (words[2].equals("interrupt")) {
            // It is for a thread that is busy, so that thread cannot be asked.
            Worker worker = worker(words[1]);
            worker.thread.interrupt();
            answer(id, worker, Instant.now(), null, null);
            return;
        }
        if (words[2].equals("asleep")) {
            Worker worker = worker(words[1]);
            answer(id, worker, Instant.now(), worker.isAsleep(), null);
            return;
        }
        Worker worker = worker(words[1]);
        String[] arguments = Arrays.copyOfRange(words, 3, words.length);
        worker.executor.execute(() -> {
            Instant from = Instant.now();
            try {
                answer(id, worker, from, commands.run(words[2], new Arguments(arguments)), null);
            } catch (Throwable problem) {
                answer(id, worker, from, null, problem);
            }
        });
    }

    private void answer(long id, Worker worker, Instant from, Object value, Throwable problem) {
        Instant at = Instant.now();
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", id);
        answer.put("owner", client.getId() + ":" + worker.thread.getId());
        answer.put("from", nanos(from));
        answer.put("at", nanos(at));
        if (problem == null) {
            answer.put("value", value);
        } else {
            answer.put("error", problem.getClass().getSimpleName());
            answer.put("message", String.valueOf(problem.getMessage()));
        }
        say(answer);
    }

    private static long nanos(Instant instant) {
        return instant.getEpochSecond() * 1_000_000_000L + instant.getNano();
    }

    private static synchronized void say(Map<String, Object> line) {
        System.out.println(Json.of(line));
        System.out.flush();
    }

    private Worker worker(String name) {
        return workers.computeIfAbsent(name, Worker::new);
    }

    /** A thread that does one thing after the other. */
    private static final class Worker {
        final ExecutorService executor;
        volatile Thread thread;

        Worker(String name) {
            executor = Executors.newSingleThreadExecutor(work -> {
                thread = new Thread(work, name);
                thread.setDaemon(true);
                return thread;
            });
            try {
                // The thread is made for the first thing it has to do.
                executor.submit(() -> { }).get();
            } catch (Exception never) {
                throw new IllegalStateException(never);
            }
        }

        /** Whether it waits for a message: Redisson's waiters sleep on a semaphore of Java's own, or on a gate of Redisson's. */
        boolean isAsleep() {
            boolean waits = Arrays.stream(thread.getStackTrace()).map(StackTraceElement::getClassName)
                .anyMatch(name -> name.equals("java.util.concurrent.Semaphore") || name.endsWith(".ReclosableLatch"));
            Thread.State state = thread.getState();
            return waits && (state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING);
        }
    }
}
