"""An in-memory stand-in for sandbox.channel.Channel: requests in, answers out."""

import json


class FakeChannel:
    def __init__(self, *requests):
        self._requests = list(requests)
        self.answers = []

    def recv(self):
        if not self._requests:
            raise EOFError
        return json.loads(json.dumps(self._requests.pop(0))), []

    def send(self, obj, *blobs):
        assert not blobs
        self.answers.append(json.loads(json.dumps(obj)))
