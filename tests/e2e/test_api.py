"""The administration API under bad input, floods and kills, with the real programs."""

import base64
import concurrent.futures
import json
import os
import signal
import socket
import sqlite3
import statistics
import time
import unittest

from api_client import Api, admin_api, administrator, new_user
from harness import WAIT_S, EchoTarget, Mesh, MeshTest, receive_exactly, socks_connect, wait_until

BASE = "/api/v1"
INJECTIONS = ["'", "''", '"', "\\", "' OR '1'='1", "'; DROP TABLE users; --", '" OR ""="', "%", "_", "x' --", "\\'; --",
              "1; DELETE FROM agents", "') UNION SELECT password_hash FROM users --", "NULL", "{{7*7}}", "${x}", "?", "?1"]


class ApiTest(MeshTest):
    options = {"start": ("server",)}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.admin = admin_api(cls.mesh)

    def rows(self):
        """Everything that bad input must leave as it is."""
        with sqlite3.connect(os.path.join(self.mesh.config, "tunnelmesh.db"), timeout=WAIT_S) as db:
            return {table: db.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()
                    for table in ("users", "agents", "agent_policies", "service_tokens")}

    def all_items(self, api, path, **query):
        items, cursor = [], ""
        for _ in range(1000):
            more = "".join(f"&{name}={value}" for name, value in query.items())
            answer = api.get(f"{path}?cursor={cursor}{more}")
            self.assertEqual(answer.status, 200, answer)
            items += answer.data["items"]
            cursor = answer.data["nextCursor"]
            if not answer.data["hasMore"]:
                return items
        raise AssertionError("the list does not end")

    def make_agent(self, name, **more):
        answer = self.admin.post(f"{BASE}/agents", {"name": name, **more})
        self.assertEqual(answer.status, 201, answer)
        return answer.data


class Cursors(ApiTest):
    def test_a_cursor_is_good_after_its_row_is_gone(self):
        made = {self.make_agent(f"row {i}")["id"] for i in range(6)}
        first = self.admin.get(f"{BASE}/agents?limit=3").data
        last = first["items"][-1]["id"]
        behind = [a["id"] for a in self.all_items(self.admin, f"{BASE}/agents") if a["id"] > last]
        self.assertEqual(self.admin.request("DELETE", f"{BASE}/agents/{last}").status, 200)
        rest = self.admin.get(f"{BASE}/agents?limit=500&cursor={first['nextCursor']}").data
        self.assertEqual([a["id"] for a in rest["items"]], behind)
        self.assertTrue(made)

    def test_pages_are_the_whole_list_once(self):
        for i in range(7):
            self.make_agent(f"page {i}")
        whole = [a["id"] for a in self.all_items(self.admin, f"{BASE}/agents", limit=500)]
        self.assertEqual([a["id"] for a in self.all_items(self.admin, f"{BASE}/agents", limit=1)], whole)
        self.assertEqual(len(set(whole)), len(whole))

    def test_somebody_elses_cursor_opens_nothing(self):
        user = new_user(self.admin, "curious")
        for i in range(3):
            self.make_agent(f"private {i}")
        cursor = self.admin.get(f"{BASE}/agents?limit=1").data["nextCursor"]
        self.assertEqual(user.get(f"{BASE}/agents?cursor={cursor}").data["items"], [])
        # Of another list: a place in the order like any other.
        users = self.admin.get(f"{BASE}/users?limit=1").data["nextCursor"]
        self.assertEqual(user.get(f"{BASE}/agents?cursor={users}").data["items"], [])

    def test_malformed_cursors_are_refused(self):
        audit = self.admin.get(f"{BASE}/audit-logs?limit=1").data["nextCursor"]
        self.assertTrue(audit)
        for cursor in ("!", "%00", "%ff", "YQ==", "a", audit, base64.urlsafe_b64encode(b"\xff\xfe\xfd").decode(),
                       base64.urlsafe_b64encode(b"x" * 300).decode(), "A" * 2000):
            answer = self.admin.get(f"{BASE}/agents?cursor={cursor}")
            self.assertEqual(answer.status, 400, f"{cursor}: {answer}")


class BadInput(ApiTest):
    def setUp(self):
        self.agent = self.make_agent("bad input")
        self.policies = f"{BASE}/agents/{self.agent['id']}/policies"

    def text_fields(self, text):
        """One request for every text field, with what else it needs."""
        post, patch = "POST", "PATCH"
        policy = {"targetHost": "*", "targetPort": 1, "protocol": "tcp"}
        yield post, f"{BASE}/auth/login", {"username": text, "password": text}
        yield post, f"{BASE}/users", {"username": text}
        yield "PUT", f"{BASE}/auth/password", {"currentPassword": text, "newPassword": text}
        yield post, f"{BASE}/agents", {"name": text}
        yield post, f"{BASE}/agents", {"name": "x", "capabilities": [text]}
        yield post, f"{BASE}/agents", {"name": "x", "ownerUserId": text}
        yield patch, f"{BASE}/agents/{self.agent['id']}", {"name": text}
        for member in ("targetHost", "protocol"):
            yield post, self.policies, {**policy, member: text}
        yield post, self.policies, {**policy, "allowedCIDRs": [text]}
        yield post, self.policies, {**policy, "allowedPorts": [text]}
        for member in ("type", "ownerUserId", "agentId", "nodeId", "expiresAt"):
            yield post, f"{BASE}/tokens", {"type": "client", member: text}
        for member in ("agentIds", "serverNodeIds", "protocols", "targetCIDRs"):
            yield post, f"{BASE}/tokens", {"type": "client", "scope": {member: [text]}}

    def test_sql_in_every_text_field(self):
        stored = set()
        for text in INJECTIONS:
            for method, path, body in self.text_fields(text):
                before = self.rows()
                answer = self.admin.request(method, path, body)
                self.assertIn(answer.status, (201, 200, 400, 401, 403, 404, 409, 429), f"{path} {body}: {answer}")
                self.assertNotIn("SQL", answer.body.decode(), path)
                after = self.rows()
                if answer.status >= 300:
                    self.assertEqual(after, before, f"{path} {body}: {answer}")
                    continue
                # What was taken is stored as it was given.
                changed = [row for table in after for row in after[table] if row not in before[table]]
                self.assertEqual(len(changed), 1, f"{path} {body}")
                # (Host names are stored in lower case, lists as JSON.)
                spellings = (text.lower(), json.dumps(text)[1:-1].lower())
                cells = [str(cell).lower() for cell in changed[0]]
                self.assertTrue(any(s in cell for s in spellings for cell in cells), f"{body}: {changed}")
                for table in after:
                    self.assertGreaterEqual(len(after[table]), len(before[table]))
                stored.add(path)
        self.assertIn(f"{BASE}/agents", stored, "no injection reached the database")

    def test_sql_in_paths_queries_and_keys(self):
        before = self.rows()
        for text in INJECTIONS:
            quoted = "".join(f"%{byte:02x}" for byte in text.encode())
            for path in (f"{BASE}/agents/{quoted}", f"{BASE}/users/{quoted}", f"{BASE}/tokens/{quoted}",
                         f"{self.policies}/{quoted}", f"{BASE}/server-nodes/{quoted}"):
                for method in ("GET", "DELETE") if "tokens" not in path else ("GET",):
                    answer = self.admin.request(method, path)
                    self.assertIn(answer.status, (404, 405), f"{method} {path}: {answer}")
            for name in ("actorUserId", "action", "resourceType", "resourceId"):
                answer = self.admin.get(f"{BASE}/audit-logs?{name}={quoted}")
                self.assertEqual((answer.status, answer.data["items"]), (200, []), f"{name}={text}")
            cursor = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
            self.assertEqual(self.admin.get(f"{BASE}/agents?cursor={cursor}").status, 200)
            answer = self.admin.post(f"{BASE}/agents", {}, headers={"Idempotency-Key": text})
            self.assertEqual(answer.status, 400, answer)
            answer = self.admin.get(f"{BASE}/auth/me", headers={"Authorization": f"Bearer {text}"})
            self.assertEqual(answer.status, 401, answer)
        self.assertEqual(self.rows(), before)

    def test_long_and_malformed_texts(self):
        before = self.rows()
        for text in ("", "x" * 256, "x" * 70_000, "\x00", "a\x1fb", "\u202e" * 300, " lead", "line\nfeed"):
            for method, path, body in self.text_fields(text):
                answer = self.admin.request(method, path, body)
                if answer.status in (200, 201):  # where any such text means nothing, like an empty id
                    self.assertLess(len(text), 300, f"{path}: {answer}")
                    before = self.rows()
                else:
                    self.assertIn(answer.status, (400, 401, 403, 404, 409, 413, 429), f"{path} {text[:20]!r}: {answer}")
        for raw in (b'{"name":"\xff"}', b'{"name":"\xc3"}', b'{"name":"\xed\xa0\x80"}', b'{"name":"\xc0\xaf"}',
                    b'{"name":"\\ud800"}', b'{"name":"\\u0000"}', b'\xef\xbb\xbf{"name":"x"}', b'{"name":"x",}',
                    b'{"name":"x"}{}', b"{'name':'x'}", b'{"name":"x"', b"\x00", b"null", b"[]", b'"x"', b"1"):
            answer = self.admin.post(f"{BASE}/agents", raw)
            self.assertEqual(answer.status, 400, f"{raw}: {answer}")
        for path in ("%ff", "%c0%af", "%00", "%", "%zz", "%0a"):
            self.assertEqual(self.admin.get(f"{BASE}/agents/{path}").status, 400, path)
        self.assertEqual(self.rows(), before)

    def test_bodies_of_a_mebibyte(self):
        size = 1 << 20
        whole = b'{"name":"' + b"x" * (size - 11) + b'"}'
        self.assertEqual(len(whole), size)
        answer = self.admin.post(f"{BASE}/agents", whole)
        self.assertIn(answer.status, (400, 413), answer)
        many = b"[" + b"1," * (size // 2 - 1) + b"1]"
        policy = b'{"targetHost":"*","targetPort":1,"protocol":"tcp","allowedPorts":'
        ports = policy + many[:size - len(policy) - 3] + b"1]}"
        answer = self.admin.post(self.policies, ports)
        self.assertIn(answer.status, (400, 413), answer)
        self.assertEqual(self.admin.post(f"{BASE}/agents", whole + b" ").status, 413)
        # Nobody in particular makes the server read a megabyte.
        self.assertEqual(self.admin.post(f"{BASE}/agents", whole, token="x").status, 401)

    def test_wrong_content_types(self):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
                     "application/json; charset=utf-16", "application/jsonx", "", "application/json, text/plain"):
            answer = self.admin.post(f"{BASE}/agents", b'{"name":"x"}', headers={"Content-Type": kind})
            self.assertEqual(answer.status, 415, f"{kind}: {answer}")

    def test_a_repeated_key_with_another_body(self):
        key = {"Idempotency-Key": "only once"}
        first = self.admin.post(f"{BASE}/agents", {"name": "keyed"}, headers=key)
        self.assertEqual(first.status, 201)
        self.assertEqual(self.admin.post(f"{BASE}/agents", {"name": "other"}, headers=key).status, 409)
        again = self.admin.post(f"{BASE}/agents", {"name": "keyed"}, headers=key)
        self.assertEqual((again.status, again.data["id"], again.data["replayed"]), (201, first.data["id"], True))
        names = [a["name"] for a in self.all_items(self.admin, f"{BASE}/agents")]
        self.assertEqual((names.count("keyed"), names.count("other")), (1, 0))

    def test_the_same_key_at_the_same_time(self):
        def create(_):
            return self.admin.post(f"{BASE}/users", {"username": "only.one"}, headers={"Idempotency-Key": "race"})
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(create, range(12)))
        self.assertEqual({a.status for a in answers}, {201})
        self.assertEqual(len({a.data["id"] for a in answers}), 1)
        self.assertEqual(sum("temporaryPassword" in a.data for a in answers), 1)
        self.assertEqual(sum(a.data.get("replayed", False) for a in answers), 11)


class Floods(MeshTest):
    """What clients of the API do is not felt by those who use the mesh."""

    @classmethod
    def setUpClass(cls):
        def edit(mesh):
            mesh.rewrite("server", lambda text: text.replace("server:\n", "server:\n  http: {body_timeout: 2s}\n", 1))
        cls.mesh = Mesh(edit=edit)
        cls.admin = admin_api(cls.mesh)
        cls.target = EchoTarget()
        for i in range(400):
            cls.admin.post(f"{BASE}/agents", {"name": f"many {i}"})

    @classmethod
    def tearDownClass(cls):
        cls.target.close()
        cls.mesh.close()

    def page_load(self):
        """Eight connections at once, each with a word back; how long it took."""
        began = time.monotonic()
        sockets = []
        try:
            for _ in range(8):
                sockets.append(socks_connect(self.mesh.socks_port, "127.0.0.1", self.target.port))
            for s in sockets:
                s.sendall(b"hello")
            for s in sockets:
                self.assertEqual(receive_exactly(s, 5), b"hello")
        finally:
            for s in sockets:
                s.close()
        return time.monotonic() - began

    def loads_while(self, work, count):
        """The median of page loads, alone and while `work(i)` runs for all i at once."""
        alone = statistics.median(self.page_load() for _ in range(9))
        loads = []
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            running = [pool.submit(work, i) for i in range(count)]
            while not loads or not all(r.done() for r in running):
                loads.append(self.page_load())
            answers = [r.result() for r in running]
        with_load = statistics.median(loads)
        print(f"page load: {alone * 1000:.1f} ms alone, {with_load * 1000:.1f} ms beside {count} clients "
              f"({len(loads)} loads)")
        # These tests' own threads take the processor as well.
        self.assertLess(with_load, max(10 * alone, 1.0))
        return answers

    def test_two_hundred_requests_at_once(self):
        def work(i):
            seen = []
            for _ in range(3):
                if i % 4 == 0:
                    seen.append(self.admin.post(f"{BASE}/agents", {"name": f"flood {i}"}).status)
                else:
                    seen.append(self.admin.get(f"{BASE}/agents?limit=500").status)
            return seen
        answers = [status for seen in self.loads_while(work, 200) for status in seen]
        self.assertLessEqual(set(answers), {200, 201, 503}, "anything but an answer or a refusal")
        self.assertGreater(answers.count(200), 60, "the queue's worth was served")

    def test_logins_without_end(self):
        name, _ = administrator(self.mesh)

        def work(i):
            return Api(self.mesh.http_port).login(name if i % 2 else f"user{i}", "wrong").status
        answers = self.loads_while(work, 64)
        self.assertLessEqual(set(answers), {401, 429, 503})
        self.assertLessEqual(answers.count(401), 10, "ten failures block the address")
        self.assertEqual(self.admin.get(f"{BASE}/auth/me").status, 200, "who is logged in stays so")
        throttled = Api(self.mesh.http_port).login(*administrator(self.mesh))
        self.assertEqual(throttled.status, 429)
        self.assertGreater(int(throttled.headers["retry-after"]), 60)

    def test_slow_bodies(self):
        head = (f"POST {BASE}/agents HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {self.admin.token}\r\n"
                "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n").encode()
        slow = []
        try:
            for _ in range(40):
                s = socket.create_connection(("127.0.0.1", self.mesh.http_port), timeout=WAIT_S)
                s.sendall(head + b'{"name":"' + b"x" * 1000)
                slow.append(s)
            began = time.monotonic()
            self.assertEqual(self.admin.get(f"{BASE}/auth/me").status, 200)
            self.assertLess(time.monotonic() - began, 2, "a request waited for slow bodies")
            self.page_load()
            for s in slow:
                self.assertIn(b" 408 ", receive_exactly(s, 20))
        finally:
            for s in slow:
                s.close()


class Kill(unittest.TestCase):
    def test_what_was_answered_is_there_after_a_kill(self):
        mesh = Mesh(start=("server",))
        try:
            admin = admin_api(mesh)
            made = {}

            def create(i):
                for n in range(1000):
                    try:
                        answer = admin.post(f"{BASE}/agents", {"name": f"a{i}.{n}"},
                                            headers={"Idempotency-Key": f"{i}.{n}"})
                    except OSError:
                        return
                    if answer.status == 201:
                        made[answer.data["id"]] = answer.data["name"]
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                running = [pool.submit(create, i) for i in range(6)]
                wait_until(lambda: len(made) > 60, "rows")
                mesh.programs["server"].process.send_signal(signal.SIGKILL)
                for r in running:
                    r.result()
            mesh.programs["server"].stop()
            mesh.start("server")
            for id, name in made.items():
                self.assertEqual(admin.get(f"{BASE}/agents/{id}").data["name"], name)
            # A repetition of the last ones finds what the kill left: done or not done, never twice.
            last = list(made.items())[-6:]
            for id, name in last:
                again = admin.post(f"{BASE}/agents", {"name": name}, headers={"Idempotency-Key": name[1:]})
                self.assertEqual((again.status, again.data["id"], again.data["replayed"]), (201, id, True))
        finally:
            mesh.close()


if __name__ == "__main__":
    unittest.main()
