"""docs/api/openapi.yaml against the running server, both ways.

Every operation is called for real, with success and with each documented error. Bodies of
requests that succeed and of all answers must fit the schemas, which allow no member that
they do not name. A status that is not documented fails, and so does a documented one that
nothing here could provoke. (That the document has exactly the routes that are served is
checked against the tables in tests/cpp/server/admin_api/openapi_test.cpp.)

Runs with the Python that deploy/setup.sh makes: it needs jsonschema and PyYAML.
"""

import concurrent.futures
import contextlib
import os
import re
import sqlite3
import time
import unittest

import jsonschema
import yaml
from openapi_spec_validator import validate

from api_client import Api, admin_api, administrator, new_user
from harness import WAIT_S, Mesh, wait_until

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
with open(os.path.join(ROOT, "docs", "api", "openapi.yaml"), encoding="utf-8") as text:
    DOCUMENT = yaml.safe_load(text)
BASE = "/api/v1"

# (operation, status) that cannot be had from outside, with the reason.
UNREACHABLE = {
    ("changePassword", "409"): "needs a change by somebody else between two steps of one request (unit test)",
}


def resolve(node):
    while "$ref" in node:
        found = DOCUMENT
        for part in node["$ref"].split("/")[1:]:
            found = found[part]
        node = found
    return node


class Operation:
    def __init__(self, method, path, node):
        self.method, self.path, self.node = method.upper(), path, node
        self.id = node["operationId"]
        self.who = node["x-who"]
        self.statuses = set(node["responses"])
        self.parameters = [resolve(p) for p in node.get("parameters", [])]
        self.is_keyed = any(p["name"] == "Idempotency-Key" for p in self.parameters)
        self.body_schema = None
        if "requestBody" in node:
            self.body_schema = node["requestBody"]["content"]["application/json"]["schema"]
        # A value never holds a slash; it is percent-encoded.
        self.pattern = re.compile("^" + re.sub(r"\{[^}]+\}", "[^/]+", path) + "$")

    def target(self, **values):
        """The path with these values, "nothing" for the others, and required query parameters."""
        path = re.sub(r"\{([^}]+)\}", lambda m: values.get(m.group(1), "nothing"), self.path)
        query = [f"{p['name']}=1" for p in self.parameters if p["in"] == "query" and p.get("required")]
        return path + ("?" + "&".join(query) if query else "")

    def headers(self):
        return {p["name"]: "1" for p in self.parameters if p["in"] == "header" and p.get("required")}


OPERATIONS = {
    o.id: o
    for o in (Operation(method, path, node)
              for path, methods in DOCUMENT["paths"].items() for method, node in methods.items())
}


def check(schema, value, what):
    # References resolve against the schema's own root.
    validator = jsonschema.Draft202012Validator(
        {"components": DOCUMENT["components"], **schema},
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    problem = jsonschema.exceptions.best_match(validator.iter_errors(value))
    if problem is not None:
        raise AssertionError(f"{what}: {problem.message} at {list(problem.absolute_path)}\n{value}")


class Documented:
    """Calls operations; whatever comes back must be what the document says."""

    def __init__(self):
        self.seen = set()

    def call(self, api, name, body=None, target=None, headers=None, **options):
        operation = OPERATIONS[name]
        target = target or operation.target()
        if not operation.pattern.match(target.split("?")[0]):
            raise AssertionError(f"{name}: {target} is not {operation.path}")
        answer = api.request(operation.method, target, body,
                             headers={**operation.headers(), **(headers or {})}, **options)
        what = f"{name} -> {answer.status}"
        if str(answer.status) not in operation.statuses:
            raise AssertionError(f"{what}: not documented: {answer}")
        response = resolve(operation.node["responses"][str(answer.status)])
        kind = answer.headers["content-type"].split(";")[0]
        if kind not in response["content"]:
            raise AssertionError(f"{what}: {kind} is not documented: {answer}")
        if kind == "application/json":
            check(response["content"][kind]["schema"], answer.json, what)
            for field, node in response.get("headers", {}).items():
                value = answer.headers.get(field.lower())
                if value is None and field != "Idempotency-Replayed":
                    raise AssertionError(f"{what}: the header {field} is missing")
                if value is not None:
                    schema = resolve(node)["schema"]
                    check(schema, int(value) if schema["type"] == "integer" else value, f"{what}: {field}")
        if answer.status < 300 and operation.body_schema is not None:
            check(operation.body_schema, body, f"{name}: the body that was accepted")
        self.seen.add((name, str(answer.status)))
        return answer


class OpenApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        def edit(mesh):
            # Places for many logins at once, and no long wait behind wrong ones.
            mesh.append("server", "security:\n  auth:\n    login_throttle: {max_attempts: 60, block: 1s}\n")

        cls.mesh = Mesh(edit=edit, start=())
        # So that secrets of tokens are kept, and may be read again.
        cls.mesh.start("server", {"TUNNELMESH_TOKEN_ENCRYPTION_KEY": "0" * 64})
        cls.mesh.start("agent")
        cls.documented = Documented()

    @classmethod
    def tearDownClass(cls):
        cls.mesh.close()

    def call(self, *arguments, status, **options):
        answer = self.documented.call(*arguments, **options)
        self.assertEqual(answer.status, status, f"{arguments[1]}: {answer}")
        return answer

    def test_the_document_is_valid(self):
        validate(DOCUMENT)

    def test_schemas_refuse_what_they_do_not_name(self):
        schema = {"$ref": "#/components/schemas/Me"}
        check(schema, {"id": "a", "username": "b", "role": "user"}, "")
        for value in ({"id": "a", "username": "b", "role": "user", "more": 1}, {"id": "a", "username": "b"},
                      {"id": "a", "username": "b", "role": "root"}):
            with self.assertRaises(AssertionError):
                check(schema, value, "")
        for name, node in DOCUMENT["components"]["schemas"].items():
            if node["type"] == "object":
                self.assertIs(node["additionalProperties"], False, name)

    def test_a_rule_that_is_broken_is_noticed(self):
        class Liar:
            def request(self, *_, **__):
                return self.answer
        liar = Liar()
        api = Api(self.mesh.http_port)
        for change in (lambda a: a.json.update(more=1), lambda a: a.headers.pop("cache-control"),
                       lambda a: setattr(a, "status", 418)):
            liar.answer = api.get(f"{BASE}/auth/me")
            change(liar.answer)
            with self.assertRaises(AssertionError):
                Documented().call(liar, "getMe")

    def test_everything(self):
        admin = admin_api(self.mesh)
        user = new_user(admin, "ulla")
        self.success(admin, user)
        self.refusals(admin, user)
        self.throttled()
        self.busy(admin)
        self.broken(admin)
        documented = {(o.id, status) for o in OPERATIONS.values() for status in o.statuses}
        self.assertEqual(sorted(documented - self.documented.seen - set(UNREACHABLE)), [], "documented and never seen")
        self.assertEqual(sorted(set(UNREACHABLE) & self.documented.seen), [], "seen after all")
        self.assertEqual(sorted(set(UNREACHABLE) - documented), [], "not documented at all")

    # ---- success ----

    def success(self, admin, user):
        self.people(admin, user)
        self.agents(admin)
        self.tokens(admin, user)
        self.presence(admin, user)
        for name in ("listAuditLogs", "listAudits"):
            page = self.call(admin, name, status=200, target=OPERATIONS[name].path + "?limit=3").data
            self.assertTrue(page["hasMore"])
            more = f"{OPERATIONS[name].path}?limit=3&cursor={page['nextCursor']}&createdFrom=2020-01-01T00:00:00Z"
            self.call(admin, name, status=200, target=more)
            found = self.call(admin, name, status=200, target=OPERATIONS[name].path + "?action=user.create").data
            self.assertTrue(found["items"])
        for name in ("getLive", "getReady"):
            self.call(admin, name, status=200, token=None)

    def people(self, admin, user):
        call = self.call
        name, password = administrator(self.mesh)
        call(Api(self.mesh.http_port), "login", {"username": name, "password": password}, status=200)
        call(user, "getMe", status=200)
        made = call(admin, "createUser", {"username": "otto"}, status=201, headers={"Idempotency-Key": "user"}).data
        again = call(admin, "createUser", {"username": "otto"}, status=201, headers={"Idempotency-Key": "user"})
        self.assertEqual((again.data.get("replayed"), again.data.get("temporaryPassword")), (True, None))
        self.assertEqual(again.headers.get("idempotency-replayed"), "true")
        one = f"{BASE}/users/{made['id']}"
        call(admin, "updateUser", {"disabled": True}, status=200, target=one)
        call(admin, "updateUser", {"disabled": False}, status=200, target=one)
        call(admin, "deleteUser", status=200, target=one)
        call(admin, "listUsers", status=200, target=f"{BASE}/users?status=deleted&limit=1")
        call(admin, "restoreUser", status=200, target=one + "/restore")
        reset = call(admin, "resetUserPassword", status=200, target=one + "/reset-password").data
        otto = Api(self.mesh.http_port)
        self.assertEqual(otto.login("otto", reset["temporaryPassword"]).status, 200)
        call(otto, "changePassword", status=200, body={"currentPassword": reset["temporaryPassword"],
                                                       "newPassword": "a new password"})
        call(admin, "listUsers", status=200)

    def agents(self, admin):
        call = self.call
        agent = call(admin, "createAgent", {"name": "cellar", "capabilities": ["tcp"]}, status=201).data
        one = f"{BASE}/agents/{agent['id']}"
        call(admin, "listAgents", status=200)
        call(admin, "getAgent", status=200, target=one)
        call(admin, "replaceAgent", {"name": "attic", "capabilities": [], "enabled": True}, status=200, target=one)
        call(admin, "updateAgent", {"enabled": False}, status=200, target=one)
        whole = {"targetHost": "10.0.0.0/8", "targetPort": 0, "protocol": "tcp", "allowedPorts": [22, "8000-8100"],
                 "allowedCIDRs": ["10.1.0.0/16"]}
        policies = one + "/policies"
        policy = call(admin, "createPolicy", whole, status=201, target=policies).data
        call(admin, "listPolicies", status=200, target=policies)
        each = f"{policies}/{policy['id']}"
        call(admin, "getPolicy", status=200, target=each)
        call(admin, "replacePolicy", {"targetHost": "*", "targetPort": 443, "protocol": "tcp"}, status=200, target=each)
        call(admin, "updatePolicy", {"allowedPorts": []}, status=200, target=each)
        call(admin, "deletePolicy", status=200, target=each)
        call(admin, "deleteAgent", status=200, target=one)

    def tokens(self, admin, user):
        call = self.call
        home = self.mesh.admin("agent", "list")[0]
        wanted = {"type": "client", "scope": {"protocols": ["tcp"], "targetPorts": [443]},
                  "expiresAt": "2099-01-01T00:00:00Z"}
        token = call(user, "createToken", wanted, status=201).data
        one = f"{BASE}/tokens/{token['id']}"
        call(user, "getToken", status=200, target=one)
        call(user, "listTokens", status=200)
        call(user, "updateToken", {"expiresAt": None, "scope": {"targetPorts": []}}, status=200, target=one)
        fresh = call(user, "rotateToken", status=201, target=one + "/rotate").data
        call(user, "revokeToken", status=200, target=f"{BASE}/tokens/{fresh['id']}/revoke")
        call(admin, "createToken", {"type": "agent", "agentId": home["id"]}, status=201)
        call(admin, "createToken", {"type": "server_node"}, status=201)
        call(admin, "listTokens", status=200)
        kept = call(admin, "createToken", {"type": "client"}, status=201).data
        for secret in (kept["secret"], None):  # the second time it is a repetition
            told = call(admin, "revealToken", {"reason": "moved", "acknowledgeRisk": True}, status=200,
                        target=f"{BASE}/tokens/{kept['id']}/reveal", headers={"Idempotency-Key": "reveal"})
            self.assertEqual(told.data.get("secret"), secret)

    def presence(self, admin, user):
        call = self.call
        home = f"{BASE}/agents/{self.mesh.admin('agent', 'list')[0]['id']}"

        def connections():
            return call(admin, "listConnections", status=200, target=home + "/connections").data["connections"]
        link = wait_until(connections, "the agent's link")[0]
        call(admin, "getMetadata", status=200, target=home + "/metadata?includeStale=true")
        for who in (admin, user):
            call(who, "getSummary", status=200)
        target = f"{home}/connections/{link['connectionId']}?connectionEpoch={link['connectionEpoch']}"
        closed = call(admin, "closeConnection", status=200, target=target, headers={"Idempotency-Key": "close"})
        self.assertTrue(closed.data["closed"])
        node = call(admin, "listServerNodes", status=200).data["items"][0]
        one = f"{BASE}/server-nodes/{node['id']}"
        call(admin, "getServerNode", status=200, target=one)
        call(admin, "updateServerNode", {"name": "front"}, status=200, target=one)
        call(admin, "deleteServerNode", status=200, target=one)
        call(admin, "restoreServerNode", status=200, target=one + "/restore")

    # ---- errors that every operation has, in the order in which a request meets them ----

    BODIES = {
        "login": {"username": "nobody", "password": "wrong"},
        "changePassword": {"currentPassword": "not this one", "newPassword": "a new password"},
        "createUser": {"username": "somebody"},
        "updateUser": {"disabled": True},
        "createAgent": {"name": "x"},
        "replaceAgent": {"name": "x", "capabilities": [], "enabled": True},
        "updateAgent": {"name": "x"},
        "createPolicy": {"targetHost": "*", "targetPort": 1, "protocol": "tcp"},
        "replacePolicy": {"targetHost": "*", "targetPort": 1, "protocol": "tcp"},
        "updatePolicy": {"targetPort": 1},
        "createToken": {"type": "client"},
        "updateToken": {"expiresAt": None},
        "revealToken": {},
        "updateServerNode": {"name": "x"},
    }

    def refusals(self, admin, user):
        call = self.call
        call(admin, "createUser", {"username": "takes.the.key"}, status=201, headers={"Idempotency-Key": "taken"})
        mine = f"{BASE}/tokens/{admin.post(f'{BASE}/tokens', {'type': 'client'}).data['id']}"
        for name, operation in OPERATIONS.items():
            if "500" not in operation.statuses:
                continue  # health
            body = self.BODIES.get(name)
            if operation.who != "anyone":
                call(admin, name, body, status=401, token=None)
                call(admin, name, body, status=401, token="x")
            if operation.who == "admin":
                call(user, name, body, status=403)
            if body is not None:
                call(admin, name, body, status=415, headers={"Content-Type": "text/plain"})
                deep = b"[" * 20 + b"]" * 20 if name != "login" else b" " * 5000
                call(admin, name, deep, status=413)
                call(admin, name, b'{"x":1}', status=400)
            query = operation.target()
            call(admin, name, body, status=400, target=query + ("&" if "?" in query else "?") + "zzz=1")
            if "404" in operation.statuses:
                call(admin, name, body, status=404)
            if operation.is_keyed and name != "revealToken":
                call(admin, name, body, status=409, headers={"Idempotency-Key": "taken"})
        call(admin, "login", self.BODIES["login"], status=401, token=None)
        call(admin, "changePassword", self.BODIES["changePassword"], status=403)
        # Somebody else's token, and a node token by a user.
        call(user, "getToken", status=404, target=mine)
        call(user, "createToken", {"type": "server_node"}, status=403)
        call(admin, "revealToken", {}, status=409, headers={"Idempotency-Key": "taken"})
        # From the layer below.
        call(admin, "createUser", b" " * (1 << 20) + b"  ", status=413)

    def throttled(self):
        api = Api(self.mesh.http_port)
        name, password = administrator(self.mesh)
        self.assertEqual(api.login(name, password).status, 200)

        def until_429(operation, body, what):
            def refused():
                return self.documented.call(api, operation, body).status == 429
            wait_until(refused, what, limit_s=WAIT_S * 4)
        until_429("login", {"username": "guess", "password": "wrong"}, "a throttled login")
        # The address is blocked for both, or was.
        call = self.documented.call(api, "changePassword", self.BODIES["changePassword"])
        self.assertIn(call.status, (403, 429))
        until_429("changePassword", self.BODIES["changePassword"], "a throttled change")
        time.sleep(1.1)  # the block

    @contextlib.contextmanager
    def database(self):
        db = sqlite3.connect(os.path.join(self.mesh.config, "tunnelmesh.db"), isolation_level=None, timeout=WAIT_S)
        try:
            yield db
        finally:
            db.close()

    def busy(self, admin):
        """A writer elsewhere, behind whom requests pile up until their budget is used up."""
        rest = [n for n, o in OPERATIONS.items() if "500" in o.statuses]
        agent = b'{"name":"piles up"}'
        login = b'{"username":"piles.up","password":"x"}'
        with self.database() as db, concurrent.futures.ThreadPoolExecutor(8) as pool:
            while rest:
                db.execute("BEGIN IMMEDIATE")
                waiting = [admin.begin("POST", f"{BASE}/agents", agent) for _ in range(64)]
                waiting += [admin.begin("POST", f"{BASE}/auth/login", login) for _ in range(16)]
                try:
                    time.sleep(0.3)  # until the server has them
                    answers = pool.map(lambda n: self.documented.call(admin, n, self.BODIES.get(n)), rest)
                    rest = [n for n, answer in zip(rest, answers) if answer.status != 503]
                finally:
                    for s in waiting:
                        s.close()
                    db.execute("ROLLBACK")
        wait_until(lambda: admin.get(f"{BASE}/auth/me").status == 200, "room for a request")

    def broken(self, admin):
        with self.database() as db:
            db.execute("ALTER TABLE users RENAME TO users_away")
            db.execute("ALTER TABLE schema_meta RENAME TO schema_meta_away")
            try:
                for name, operation in OPERATIONS.items():
                    if "500" in operation.statuses:
                        self.call(admin, name, self.BODIES.get(name), status=500)
                self.call(admin, "getReady", status=503, token=None)
                self.call(admin, "getLive", status=200, token=None)
            finally:
                db.execute("ALTER TABLE users_away RENAME TO users")
                db.execute("ALTER TABLE schema_meta_away RENAME TO schema_meta")
        wait_until(lambda: admin.get(f"{BASE}/auth/me").status == 200, "an answer after the repair")


if __name__ == "__main__":
    unittest.main()
