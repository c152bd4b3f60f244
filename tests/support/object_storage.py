"""Object storage (S3) by moto, on loopback."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import requests

BUCKET = "lake"


class ObjectStorage:
    """Server of an S3 bucket `lake`. `environment` has the variables that pyarrow, DuckDB and boto3 read.

    `before_upload` is called before the data of an object is stored. If it returns False, the upload is
    refused.
    """

    def __init__(self) -> None:
        # Imported here: in the extra `examples`, which the suite does not install.
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class QuietHandler(WSGIRequestHandler):
            def log_request(self, *_: object) -> None:
                pass

        self.before_upload: Callable[[], bool] = lambda: True
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._respond, threaded=True, request_handler=QuietHandler)
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        # All servers of a process have the same content.
        requests.post(f"{self.environment['AWS_ENDPOINT_URL']}/moto-api/reset", timeout=20).raise_for_status()
        self.client.create_bucket(Bucket=BUCKET)

    @property
    def client(self) -> Any:
        """Client of boto3."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            region_name="us-east-1",
        )

    def objects(self) -> dict[str, bytes]:
        """Contents by key, without the empty markers of folders."""
        listed = self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return {
            entry["Key"]: self.client.get_object(Bucket=BUCKET, Key=entry["Key"])["Body"].read()
            for entry in listed
            if not entry["Key"].endswith("/")
        }

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _respond(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "partNumber=" in environ["QUERY_STRING"] and not self.before_upload():
            start_response("403 Forbidden", [("Content-Length", "0"), ("Connection", "close")])
            return [b""]
        return self._moto(environ, start_response)  # type: ignore[no-any-return]
