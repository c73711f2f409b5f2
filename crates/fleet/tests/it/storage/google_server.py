"""gcp-storage-emulator with what it lacks: tokens, `ifGenerationMatch=0`, pages of listings, and
empty objects. All of this is as Google documents it.

Arguments: the port, the bucket that exists, the token that is accepted.
"""

import json
import sys
from http import HTTPStatus

from gcp_storage_emulator import server
from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.storage import Storage

PORT, BUCKET, TOKEN = sys.argv[1:]
PAGE = 1000


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
        if self._request_handler.headers.get("authorization") == f"Bearer {TOKEN}":
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
# It writes all metadata after each request, although everything is in memory.
Storage._write_config_to_file = lambda self: None
server.create_server("127.0.0.1", int(PORT), in_memory=True, default_bucket=BUCKET).run()
