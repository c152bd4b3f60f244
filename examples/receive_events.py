"""Receive events by an outgoing webhook of Switchroom, and print them. Needs `pip install standardwebhooks`.

export SECRET=whsec_…           # of Settings › Outgoing webhooks with the URL http://127.0.0.1:9000/
python receive_events.py                   # outgoing.allow_hosts must name 127.0.0.1; the demo does
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

WEBHOOK, PORT = Webhook(os.environ["SECRET"]), int(os.environ.get("PORT", 9000))


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            event = WEBHOOK.verify(body, dict(self.headers))
        except WebhookVerificationError as error:
            self.send_error(401, str(error))
            return
        # An event can arrive twice. Store its id together with its effect.
        call = [event["data"].get(name) for name in ("id", "party", "contact", "state", "outcome")]
        print(event["timestamp"], event["type"], *filter(None, call), flush=True)
        self.send_response(204)  # Only after the effect is stored: Switchroom repeats other events.
        self.end_headers()


ThreadingHTTPServer(("127.0.0.1", PORT), Receiver).serve_forever()
