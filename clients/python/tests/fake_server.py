"""A program that stands in for ``takeback rpc`` and misbehaves.

It appends the method of each request to the file ``received``, so that tests can see what was sent.
"""

import json
import sys

behavior, base = sys.argv[1:]
INFO = {"protocol": 1, "version": "9.9", "max_line_bytes": 200, "methods": []}

if behavior == "die at once":
    sys.exit("no such option")
for line in sys.stdin:
    request = json.loads(line)
    with open(f"{base}/received", "a") as received:
        print(request["method"], file=received)
    result: object = {}
    if behavior == "speak nonsense":
        print("hello", flush=True)
        continue
    if request["method"] == "initialize":
        result = {**INFO, "protocol": 2} if behavior == "speak protocol 2" else INFO
    elif behavior == "die":
        sys.stderr.write("the disk is on fire\n")
        sys.exit(3)
    elif behavior == "answer with id null":
        error = {"code": -32600, "message": "not a request"}
        print(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}), flush=True)
        continue
    elif behavior == "answer another request":
        request["id"] += 7
    elif behavior == "answer with an unknown error":
        error = {"code": -1, "message": "odd"}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
