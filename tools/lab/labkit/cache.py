# SPDX-License-Identifier: GPL-2.0
"""The cache: artifacts outside the checkout, each named after its ingredients, each complete.

An artifact is built in a folder of its own below tmp/ and renamed into place when it is complete,
so an interrupted build leaves nothing that could be mistaken for a result. A lock per artifact lets
two runs at once share one build. The run that waits says for what. The kernel drops the lock when
its holder dies, and the next holder removes what the dead one left behind.
"""
import contextlib
import errno
import fcntl
import glob
import hashlib
import os
import shutil
import subprocess
import tempfile
import time

from .say import LabError, cache_hint, say

NEEDED_BYTES = 3 << 30
IN_USE_S = 6 * 3600


def cache_dir():
    """The cache folder; made when missing."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.path.join(base, "mqfair")
    if len(path.split()) > 1:
        raise LabError(f"the cache folder {path} has a space in its name, and no kernel can be "
                       "built there; set XDG_CACHE_HOME to another")
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise LabError(f"the cache folder {path} cannot be made ({error.strerror}); set "
                       "XDG_CACHE_HOME to a folder that you can write") from error
    return path


def key_of(*parts):
    """A short digest of strings and bytes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:12]


@contextlib.contextmanager
def lock(name):
    """Hold the lock @name; the kernel releases it if we die."""
    folder = os.path.join(cache_dir(), "lock")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            say(f"waiting for another run that makes {name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def remove_tree(path):
    """Delete @path, also when parts of it belong to a subordinate user id."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        subprocess.run(["unshare", "--user", "--map-root-user", "--map-auto", "rm", "-rf", path],
                       check=False, stderr=subprocess.DEVNULL)


def _discard(work):
    """Remove a build folder and the files that its builder kept beside it."""
    for path in [work, *glob.glob(glob.escape(work) + ".*")]:
        remove_tree(path)
        if os.path.isfile(path):
            os.unlink(path)


def artifact(name, key, build, needed_bytes=NEEDED_BYTES):
    """The path of artifact @name of @key; if missing, @build(path) makes it in an empty folder."""
    final = os.path.join(cache_dir(), f"{name}-{key}")
    if os.path.isdir(final):
        return final
    with lock(name):
        if os.path.isdir(final):
            return final
        work = os.path.join(cache_dir(), "tmp", name)
        _discard(work)
        free = shutil.disk_usage(cache_dir()).free
        if free < needed_bytes:
            raise LabError(f"making {name} takes {needed_bytes >> 20} MiB and {cache_hint()} has "
                           f"{free >> 20} MiB left; free some space or set XDG_CACHE_HOME to a "
                           "larger disk")
        try:
            os.makedirs(work)
            build(work)
            os.rename(work, final)
        except OSError as error:
            _discard(work)
            if error.errno == errno.ENOSPC:
                raise LabError(f"the disk is full: free some space in {cache_hint()}, then run it "
                               "again") from error
            raise
        except BaseException:
            _discard(work)
            raise
    return final


@contextlib.contextmanager
def locked_folder(path, how=0):
    """Hold folder @path; the kernel releases it if we die.

    With LOCK_NB in @how, raise BlockingIOError if another process holds it.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(handle)


def _remove_abandoned(pattern):
    """Remove the scratch folders of killed runs: those that match @pattern and are not held."""
    for path in glob.glob(pattern):
        with contextlib.suppress(FileNotFoundError,
                                 BlockingIOError), locked_folder(path, fcntl.LOCK_NB):
            remove_tree(path)


@contextlib.contextmanager
def scratch(place, prefix):
    """A folder for one run in @place of the cache, gone when the run ends.

    A killed run cannot remove its own folder. So a run holds a lock on its folder while it lives,
    and the next run removes the folders that are not held. The lock "scratch" protects a folder
    that is just being made.
    """
    folder = os.path.join(cache_dir(), place)
    os.makedirs(folder, exist_ok=True)
    with lock("scratch"):
        _remove_abandoned(os.path.join(glob.escape(folder), prefix + "*"))
        path = tempfile.mkdtemp(prefix=prefix, dir=folder)
        held = contextlib.ExitStack()
        held.enter_context(locked_folder(path))
    with held:
        try:
            yield path
        finally:
            remove_tree(path)


def prune(name, keep):
    """Keep the @keep artifacts of @name that were used last; for kinds that every edit makes again.

    Artifacts used within IN_USE_S stay in any case: a guest may still be running on them.
    """
    folder = cache_dir()
    found = [os.path.join(folder, entry) for entry in os.listdir(folder)
             if entry.startswith(name + "-")]
    found.sort(key=os.path.getmtime)
    for path in found[:-keep]:
        if time.time() - os.path.getmtime(path) > IN_USE_S:
            remove_tree(path)
