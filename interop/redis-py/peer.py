"""redis-py's Lock, driven over standard input and output: a line in, a line out.

    acquire NAME LEASE_MS WAIT_MS   -> ok | busy                              (LEASE_MS 0: for ever)
    release NAME                    -> ok | LockNotOwnedError | LockError
    extend NAME MS                  -> ok | LockNotOwnedError | LockError     (to MS from now)
    reacquire NAME                  -> ok | LockNotOwnedError | LockError     (the lease again)
    locked NAME                     -> True | False
    owned NAME                      -> True | False
    token NAME                      -> what it wrote, as text
    count NAME TIMES KEY            -> ok      (so many times: locks, reads KEY, writes it back plus one, unlocks)

The one argument is the server's URL.
"""

import sys

import redis
from redis.exceptions import LockError

client = redis.Redis.from_url(sys.argv[1])
held = {}


def acquire(name, lease, wait):
    lock = client.lock(name, timeout=int(lease) / 1000 or None, sleep=0.01)
    blocking = int(wait) > 0
    if not lock.acquire(blocking=blocking, blocking_timeout=int(wait) / 1000 if blocking else None):
        return "busy"
    held[name] = lock
    return "ok"


def of(name):
    # A lock that this process never had, to ask questions with.
    return held.get(name) or client.lock(name)


def release(name):
    of(name).release()
    return "ok"


def extend(name, ms):
    of(name).extend(int(ms) / 1000, replace_ttl=True)
    return "ok"


def reacquire(name):
    of(name).reacquire()
    return "ok"


def locked(name):
    return of(name).locked()


def owned(name):
    return of(name).owned()


def token(name):
    return of(name).local.token.decode()


def count(name, times, key):
    for _ in range(int(times)):
        with client.lock(name, timeout=30, sleep=0.002):
            client.set(key, int(client.get(key) or 0) + 1)
    return "ok"


commands = {f.__name__: f for f in (acquire, release, extend, reacquire, locked, owned, token, count)}

print("ready", redis.__version__, flush=True)
for line in sys.stdin:
    words = line.split()
    try:
        answer = commands[words[0]](*words[1:])
    except LockError as error:
        answer = type(error).__name__
    print(answer, flush=True)
