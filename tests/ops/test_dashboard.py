"""The Grafana dashboard is whole, asks for metrics that exist, and a real Prometheus understands it."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from asymspec_agents.backends import ChatRequest, HTTPBackend
from asymspec_agents.server.app import create_app
from asymspec_agents.trace import MetricsRecorder
from asymspec_agents.trace.metric_names import METRICS
from tests.architecture import ROOT
from tests.gateway.serving import running
from tests.server.serving import HeldBackend, eventually

BOARD: dict[str, Any] = json.loads((ROOT / "docs/grafana/asymspec.json").read_text("utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
PROMETHEUS = shutil.which("prometheus")


def test_the_dashboard_is_whole() -> None:
    assert BOARD["uid"] == "asymspec"
    assert BOARD["schemaVersion"] >= 36
    variables = {variable["name"]: variable for variable in BOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies on another panel"
        assert max(x for x, _ in cells) < 24
        taken |= cells
    for panel in PANELS:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_it_asks_for_metrics_that_exist_and_for_all_of_them() -> None:
    asked = {name for text in EXPRESSIONS for name in re.findall(r"\basymspec_\w+", text)}
    samples = {sample: metric.name for metric in METRICS.values() for sample in metric.samples}
    assert not asked - samples.keys()
    assert {samples[name] for name in asked} == METRICS.keys()


def test_the_documentation_lists_every_metric() -> None:
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(asymspec_\w+)`", page, re.MULTILINE))
    assert listed == METRICS.keys()


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_names_are_as_prometheus_wants_them(metric: Any) -> None:
    units = ("_seconds", "_nats")
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.kind != "histogram" or (metric.name.endswith(units) and metric.buckets)


@contextlib.contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """The address of a Prometheus that scrapes `target` every second."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    config = folder / "prometheus.yml"
    scrape = f"[{{job_name: serve, static_configs: [{{targets: ['{target}']}}]}}]"
    config.write_text(f"global: {{scrape_interval: 1s}}\nscrape_configs: {scrape}\n", "utf-8")
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                str(PROMETHEUS),
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            eventually(lambda: _is_ready(url))
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url + "/-/ready").status_code == 200
    except httpx.HTTPError:
        return False


def _asked(url: str, expression: str) -> Any:
    answer = httpx.get(url + "/api/v1/query", params={"query": expression}, timeout=60).json()
    assert answer["status"] == "success", f"{expression}: {answer}"
    return answer["data"]["result"]


@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on the path (Debian's package prometheus)")
def test_a_real_prometheus_scrapes_a_server_and_evaluates_the_dashboard(tmp_path: Path) -> None:
    metrics = MetricsRecorder()
    app = create_app({"held": HeldBackend(is_held=False)}, recorder=metrics, metrics=metrics)
    with running(app) as served, contextlib.closing(HTTPBackend(served, recorder=metrics)) as backend:
        backend.generate(ChatRequest(messages=[{"role": "user", "content": "Hello"}], asymspec={"edits": []}))
        metrics.record("request", request_id="1", arm="asymspec", mode="strict")
        metrics.record("response", request_id="1", num_tokens=3, elapsed_s=1.0, prefill_s=0.5)
        with prometheus(tmp_path, served.removeprefix("http://")) as url:
            eventually(lambda: bool(_asked(url, "asymspec_client_requests_total")))
            found = _asked(url, 'asymspec_client_tokens_total{job="serve", kind="drafted"}')
            assert float(found[0]["value"][1]) == 4
            assert _asked(url, 'asymspec_requests_total{outcome="finished", mode="strict"}')
            for text in EXPRESSIONS:
                _asked(url, text.replace("$__rate_interval", "1m").replace("$job", ".*"))
