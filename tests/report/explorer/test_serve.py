"""Serving the explorer: real requests on loopback, what is answered, and what is refused."""

import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse

import pytest

from parley.errors import UsageError
from parley.play.simulate import simulate
from parley.report.explorer.selection import select
from parley.report.explorer.site import ViewServer
from parley.study import Study
from support.pages import games_of, index_of, unpacked
from support.records import forge
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("`parley view --serve` answers only who knows the address it printed.")


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    """Of two conditions with two simulations each, the last one is not played."""
    made = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 1})
    for simulation in list(made.simulations())[:-1]:
        simulate(made, simulation.record(made.name), [], 0.0)
    return made


@pytest.fixture
def server(study: Study) -> Iterator[ViewServer]:
    with ViewServer(lambda: select(study, {}, 100, journals=True), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: ViewServer, path: str, method: str = "GET", root: str | None = None) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    try:
        connection.putrequest(method, (server.root if root is None else root) + path)
        connection.endheaders()
        response = connection.getresponse()
        return response, response.read().decode()
    finally:
        connection.close()


def test_the_page_the_index_and_the_data_are_served_on_loopback_alone(server: ViewServer, study: Study) -> None:
    assert server.server_address[0] == "127.0.0.1"
    response, html = ask(server, "/")
    assert response.status == 200
    assert response.getheader("Content-Type") == "text/html; charset=utf-8"
    assert response.getheader("Cross-Origin-Resource-Policy") == "same-origin"
    index = index_of(html)
    assert (index["served"], index["unfinished"], len(index["simulations"]["id"])) == (True, 1, 3)
    _, script = ask(server, "/data/index.js?now")
    assert unpacked(script) | {"written": ""} == index | {"written": ""}
    _, script = ask(server, f"/{index['conditions'][1]['parts'][0]}?now")
    assert [game["id"] for game in games_of(unpacked(script))] == index["simulations"]["id"][2:]
    # What is played meanwhile is there when it is asked for.
    record = list(study.simulations())[-1].record(study.name)
    simulate(study, record, [], 0.0)
    _, html = ask(server, "/")
    assert (len(index_of(html)["simulations"]["id"]), index_of(html)["unfinished"]) == (4, 0)
    forge(record, rows=lambda rows: rows[0].update(text='{"changed": 1}'))
    games = games_of(unpacked(ask(server, "/data/0002.js")[1]))
    assert games[1]["attempts"][0]["text"] == '{"changed": 1}'
    # What goes wrong meanwhile is told.
    for simulation in study.simulations():
        simulation.record(study.name).unlink()
    response, text = ask(server, "/")
    assert (response.status, text.startswith("parley: small: no results yet")) == (500, True)


def test_who_does_not_know_the_address_and_other_files_are_refused(server: ViewServer) -> None:
    """Another user of the machine, or a page of another site, also one whose name leads here."""
    for root in ("", "/", server.root[:-1], server.root.swapcase()):
        for path in ("/", "/data/index.js", "/data/0001.js"):
            response, text = ask(server, path, root=root)
            assert (response.status, len(text) < 80) == (403, True), root
    for path in (
        *("/data/0009.js", "/data/", "/data/../small.yaml", "/../small.yaml", "/small.yaml", "//etc/passwd"),
        *("/data/%2e%2e/small.yaml", "/data/0001.js/..", "/results/small/view/index.html", "/data/0001.js%00"),
    ):
        response, text = ask(server, path)
        assert (response.status, text) == (404, "no such file\n"), path
    assert ask(server, "/", "POST")[0].status == 501
    with pytest.raises(UsageError, match=f"--port {server.server_port}: .*choose another"):
        ViewServer(list, server.server_port)  # type: ignore[arg-type]
