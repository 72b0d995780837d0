"""The Python side of the cache's interoperability test; `cargo xtask hub-python` runs it through tests/hub/python.rs.

get REPO FILE...     find or fetch files as Python programs do; one JSON line each: path, sha256
scan                 what Python's own scan of the cache says: files, warnings
put REPO FILE...     send files as Python programs do; prints the commit
hold LOCK FLAG       take a lock as Python's downloads take it, create FLAG, hold it for a second
"""

import hashlib
import json
import pathlib
import sys
import time

from huggingface_hub import HfApi, hf_hub_download, scan_cache_dir
from huggingface_hub.utils import WeakFileLock


def get(repo, *files):
    for file in files:
        path = hf_hub_download(repo, file)
        digest = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
        print(json.dumps({"path": path, "sha256": digest}))


def scan():
    info = scan_cache_dir()
    files = sorted(
        f"{repo.repo_id} {revision.commit_hash} {file.file_path.relative_to(revision.snapshot_path).as_posix()}"
        f" {file.size_on_disk} {','.join(sorted(revision.refs))}"
        for repo in info.repos
        for revision in repo.revisions
        for file in revision.files
    )
    print(json.dumps({"files": files, "warnings": [str(warning) for warning in info.warnings]}))


def put(repo, *files):
    api = HfApi()
    api.create_repo(repo, repo_type="model", exist_ok=True)
    for file in files:
        path = pathlib.Path(file)
        commit = api.upload_file(path_or_fileobj=path, path_in_repo=path.name, repo_id=repo, repo_type="model")
    print(json.dumps({"commit": commit.oid}))


def hold(lock, flag):
    with WeakFileLock(lock):
        pathlib.Path(flag).touch()
        time.sleep(1)


{"get": get, "scan": scan, "put": put, "hold": hold}[sys.argv[1]](*sys.argv[2:])
