"""Requests to the administration API, for the end-to-end tests."""

import http.client
import json
import re
import socket

from harness import WAIT_S


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # names in lower case
        self.body = body
        try:
            self.json = json.loads(body)
        except ValueError:
            self.json = None

    @property
    def data(self):
        return self.json["data"]

    @property
    def error(self):
        return self.json["data"]["error"]

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Api:
    """`request(method, path, body)`: a body that is no bytes is sent as JSON."""

    def __init__(self, port, token=None):
        self.port = port
        self.token = token

    def request(self, method, path, body=None, headers=None, token=..., timeout_s=WAIT_S):
        fields = dict(headers or {})
        token = self.token if token is ... else token
        if token:
            fields.setdefault("Authorization", f"Bearer {token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            fields.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, body, **options)

    def login(self, username, password, **options):
        """The answer; the token is kept where there is one."""
        answer = self.post("/api/v1/auth/login", {"username": username, "password": password}, token=None, **options)
        if answer.status == 200:
            self.token = answer.data["token"]
        return answer

    def begin(self, method, path, body=b"", headers=""):
        """A socket that has sent this request; nobody reads its answer yet."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {self.token}\r\n"
                  f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body)
        return s


def administrator(mesh):
    """Name and password of the one whom quickstart made."""
    name = re.search(r"^\s*administrator\s+(\S+)", mesh.quickstart_output, re.MULTILINE)
    password = re.search(r"^\s*password\s+(\S+)", mesh.quickstart_output, re.MULTILINE)
    return name.group(1), password.group(1)


def admin_api(mesh):
    """The API with the administrator logged in."""
    api = Api(mesh.http_port)
    answer = api.login(*administrator(mesh))
    if answer.status != 200:
        raise AssertionError(f"the administrator cannot log in: {answer}")
    return api


def new_user(api, name):
    """The API with a new user logged in."""
    made = api.post("/api/v1/users", {"username": name})
    user = Api(api.port)
    answer = user.login(name, made.data["temporaryPassword"])
    if answer.status != 200:
        raise AssertionError(f"{name} cannot log in: {answer}")
    return user
