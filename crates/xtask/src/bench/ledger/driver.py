"""Runs one of the Python contenders: driver.py <plain|hermes> <command> <database> ...

  fill FILE            all messages of FILE, many per transaction
  append FILE          the messages of FILE, one per transaction, each timed
  write FILE N SECONDS as writer N, for SECONDS, starting when a line arrives on standard input
  count WRITERS        the number of messages in each writer's session

FILE has one message per line, as JSON. Answers are one line of JSON.
"""

import json
import sys
import time


def store(kind, database):
    if kind == "plain":
        from plain import Plain as Store
    else:
        from hermes import Hermes as Store
    return Store(database)


def read(file):
    with open(file, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def fill(store, file):
    messages = read(file)
    start = time.perf_counter()
    for session in sorted({message["session"] for message in messages}):
        store.create_session(session)
    store.fill(messages)
    store.close()
    return {"seconds": time.perf_counter() - start}


def append(store, file):
    messages = read(file)
    for session in sorted({message["session"] for message in messages}):
        store.create_session(session)
    latencies = []
    for message in messages:
        start = time.perf_counter()
        store.append(message["session"], message)
        latencies.append((time.perf_counter() - start) * 1000)
    store.close()
    return {"latencies_ms": latencies}


def write(store, file, number, seconds):
    messages = read(file)
    session = f"writer:{number}"
    store.create_session(session)
    print("ready", flush=True)
    sys.stdin.readline()
    stored = failures = at = 0
    worst = 0.0
    now = time.perf_counter()
    end = now + float(seconds)
    while now < end:
        try:
            store.append(session, messages[at % len(messages)])
            stored += 1
        except Exception:
            failures += 1
        at += 1
        before, now = now, time.perf_counter()
        worst = max(worst, now - before)
    store.close()
    return {"stored": stored, "failures": failures, "worst_ms": worst * 1000}


def count(store, writers):
    counts = [store.count(f"writer:{number}") for number in range(int(writers))]
    store.close()
    return {"counts": counts}


kind, command, database, *rest = sys.argv[1:]
commands = {"fill": fill, "append": append, "write": write, "count": count}
print(json.dumps(commands[command](store(kind, database), *rest)))
