"""What the tests of deploy/ share: where its files and the programs are."""

import os
import shutil
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
DEPLOY = os.path.join(ROOT, "deploy")
BIN = os.path.abspath(os.environ.get("TMESH_BIN", os.path.join(ROOT, "build", "bin")))
LIMIT_S = 60


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, mode)) as f:
        f.write(text)
    os.chmod(path, mode)


def need(program):
    """The path of a program that deploy/setup.sh installs for the tests."""
    path = shutil.which(program)
    if path is None:
        if os.environ.get("TUNNELMESH_ALLOW_DEFERRED") == "1":
            raise unittest.SkipTest(f"deferred: {program} is not installed")
        raise AssertionError(f"deferred: {program} is not installed; TUNNELMESH_ALLOW_DEFERRED=1 accepts that")
    return path


class ScratchTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="tmesh-deploy-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)

    def at(self, *parts):
        return os.path.join(self.scratch, *parts)
