"""gcp-storage-emulator with what it lacks: tokens, `ifGenerationMatch=0`, pages of listings, and
empty objects. All of this is as Google documents it.

Arguments: the port, the bucket that exists, the token that is accepted, and the service account
whose tokens are accepted.
"""

import base64
import hashlib
import json
import sys
import time
from http import HTTPStatus

from gcp_storage_emulator import server
from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.storage import Storage

PORT, BUCKET, TOKEN, ACCOUNT = sys.argv[1:]
PAGE = 1000
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
# The public key of RFC 7515, appendix A.2; its exponent is 65537.
MODULUS = (
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4"
    "d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5re"
    "xMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxX"
    "FvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
)


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def is_signed(token):
    """True for a token that the service account signed and that is valid now."""
    header, claims, signature = token.split(".")
    digest = hashlib.sha256(f"{header}.{claims}".encode()).hexdigest()
    info = "3031300d060960864801650304020105000420" + digest
    expected = "0001" + "ff" * (256 - 3 - len(info) // 2) + "00" + info
    modulus = int.from_bytes(decode(MODULUS), "big")
    opened = pow(int.from_bytes(decode(signature), "big"), 65537, modulus)
    header, claims = json.loads(decode(header)), json.loads(decode(claims))
    return (
        opened == int(expected, 16)
        and header["alg"] == "RS256"
        and claims["iss"] == claims["sub"] == ACCOUNT
        and claims["scope"] == SCOPE
        and "aud" not in claims
        and claims["iat"] <= time.time() < claims["exp"] <= claims["iat"] + 3600
    )


def is_accepted(authorization):
    kind, _, token = (authorization or "").partition(" ")
    return kind == "Bearer" and (token == TOKEN or (token.count(".") == 2 and is_signed(token)))


def refuse(response, status, reason):
    response.status = HTTPStatus(status)
    error = {"code": status, "message": reason, "errors": [{"reason": reason, "message": reason}]}
    response.json({"error": error})


def insert(request, response, storage):
    if request.data is None:
        request._data = b""
    existing = storage.objects.get(request.params["bucket_name"], {})
    must_be_new = request.query.get("ifGenerationMatch") == ["0"]
    if must_be_new and request.query["name"][0] in existing:
        refuse(response, 412, "conditionNotMet")
    else:
        objects.insert(request, response, storage)


def ls(request, response, storage):
    objects.ls(request, response, storage)
    if response.status != HTTPStatus.OK:
        return
    listing = json.loads(response._content)
    after = request.query.get("pageToken", [""])[0]
    items = [item for item in listing["items"] if item["name"] > after]
    if len(items) > PAGE:
        listing["nextPageToken"] = items[PAGE - 1]["name"]
    listing["items"] = items[:PAGE]
    response.json(listing)


class Router(server.Router):
    def handle(self, method):
        if is_accepted(self._request_handler.headers.get("authorization")):
            super().handle(method)
            return
        response = server.Response(self._request_handler)
        # The connection cannot be closed before the body of the request is read.
        server._read_raw_data(self._request_handler)
        refuse(response, 401, "authError")
        response.close()


REPLACED = {objects.insert: insert, objects.ls: ls}
server.HANDLERS = tuple(
    (path, {method: REPLACED.get(handler, handler) for method, handler in handlers.items()})
    for path, handlers in server.HANDLERS
)
server.Router = Router
# By default, the emulator writes all metadata to a file after each request.
Storage._write_config_to_file = lambda self: None
server.create_server("127.0.0.1", int(PORT), in_memory=True, default_bucket=BUCKET).run()
