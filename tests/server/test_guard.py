from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from firstdiff.server.guard import is_loopback
from tests.server.conftest import Opener, Page

FRIEND = "http://localhost:3000"
TOKEN = "a-token-of-some-length"


def code(page: Page, method: str = "GET", path: str = "/api/comparisons", **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return page.client.request(method, path, headers=named).status_code


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_loopback_names_with_the_right_port_may_pass(page: Page, host: str) -> None:
    assert code(page, host=f"{host}:{page.client.base_url.port}") == 200


@pytest.mark.parametrize(
    "host", ["evil.example:{port}", "127.0.0.1:1", "127.0.0.1", "127.0.0.1.evil.example:{port}", ""]
)
def test_a_name_that_was_pointed_here_may_not(page: Page, host: str) -> None:
    stated = host.format(port=page.client.base_url.port)
    for path in ("/api/comparisons", "/", "/api/about"):
        answer = page.client.get(path, headers={"host": stated})
        assert answer.status_code == 403
        assert "which is not this server's" in answer.json()["error"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000", "https://127.0.0.1:{port}"])
def test_pages_of_other_origins_may_neither_read_nor_write(page: Page, method: str, origin: str) -> None:
    stated = origin.format(port=page.client.base_url.port)
    assert code(page, method, "/api/comparisons", origin=stated) == 403


def test_the_own_page_may(page: Page) -> None:
    own = str(page.client.base_url).rstrip("/")
    assert code(page, origin=own, sec_fetch_site="same-origin") == 200
    assert page.client.post("/api/demo", headers={"origin": own}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_other_pages_load_without_saying_their_origin(page: Page, site: str) -> None:
    assert code(page, sec_fetch_site=site, sec_fetch_mode="no-cors") == 403
    assert code(page, sec_fetch_site=site, sec_fetch_mode="navigate") == 403
    assert code(page, path="/c/x", sec_fetch_site=site, sec_fetch_mode="navigate") in (200, 503)
    assert code(page, path="/c/x", sec_fetch_site=site, sec_fetch_mode="no-cors") == 403


def test_an_allowed_origin_may_send_traces_but_name_no_files(open_page: Opener, tmp_path: Path) -> None:
    page = open_page(origins=(FRIEND,))
    answer = page.client.get("/api/comparisons", headers={"origin": FRIEND, "sec-fetch-site": "same-site"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == FRIEND
    assert answer.headers["vary"] == "Origin"
    preflight = page.client.options(
        "/api/uploads",
        headers={
            "origin": FRIEND,
            "access-control-request-method": "PUT",
            "access-control-request-private-network": "true",
        },
    )
    assert preflight.status_code == 204
    assert "PUT" in preflight.headers["access-control-allow-methods"]
    assert "X-Digest" in preflight.headers["access-control-allow-headers"]
    assert preflight.headers["access-control-allow-private-network"] == "true"
    body = {"reference": {"path": str(tmp_path)}, "candidate": {"path": str(tmp_path)}}
    refused = page.client.post("/api/comparisons", json=body, headers={"origin": FRIEND})
    assert refused.status_code == 403
    assert "not name files of this machine" in refused.json()["error"]
    other = page.client.get("/api/comparisons", headers={"origin": "http://localhost:3001"})
    assert other.status_code == 403
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000.evil.example"])
def test_other_origins_are_not_even_told_what_they_might_send(open_page: Opener, origin: str) -> None:
    page = open_page(origins=(FRIEND,))
    asked = {"origin": origin, "access-control-request-method": "PUT"}
    answer = page.client.options("/api/uploads", headers=asked)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control-allow")]


def test_an_allowed_origin_behind_a_name_that_was_pointed_here_is_refused(open_page: Opener) -> None:
    page = open_page(origins=(FRIEND,))
    answer = page.client.get("/api/comparisons", headers={"origin": FRIEND, "host": "evil.example"})
    assert answer.status_code == 403


def test_an_allowed_origin_needs_the_token_too(open_page: Opener) -> None:
    page = open_page(host="0.0.0.0", token=TOKEN, origins=(FRIEND,))
    assert code(page, origin=FRIEND) == 401
    assert code(page, origin=FRIEND, authorization=f"Bearer {TOKEN}") == 200
    asked = {"origin": FRIEND, "access-control-request-method": "POST"}
    assert page.client.options("/api/comparisons", headers=asked).status_code == 204


@pytest.mark.parametrize("path", ["..%2f..%2fetc%2fpasswd", "..%2fstore.sqlite", "%2e%2e", "x%00y"])
def test_ids_are_looked_up_and_never_become_paths(page: Page, path: str) -> None:
    for route in ("/api/comparisons/{}", "/api/comparisons/{}/rows", "/api/uploads/{}", "/api/comparisons/{}/report"):
        answer = page.client.get(route.format(path))
        assert answer.status_code in (403, 404, 405)
        assert "root:" not in answer.text


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": "Bearer \xff"}, 401),
        ({"cookie": "firstdiff-1=" + TOKEN}, 401),
    ],
)
def test_with_a_token_nothing_is_reached_without_it(
    open_page: Opener, headers: Mapping[str, str], expected: int
) -> None:
    page = open_page(host="0.0.0.0", token=TOKEN)
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    assert page.client.get("/api/comparisons", headers=raw).status_code == expected
    if expected == 401:
        assert page.client.get("/", headers=raw).status_code == 401


def test_a_token_in_the_address_becomes_a_cookie(open_page: Opener) -> None:
    page = open_page(host="0.0.0.0", token=TOKEN)
    answer = page.client.get("/c/abc", params={"token": TOKEN, "view": "values"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/c/abc?view=values")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert page.client.get("/api/comparisons").status_code == 200
    assert (
        page.client.get(f"{page.client.base_url}/evil.example/?token={TOKEN}").headers["location"] == "/evil.example/"
    )


def test_with_a_token_other_names_of_the_machine_are_known(open_page: Opener) -> None:
    page = open_page(host="0.0.0.0", token=TOKEN)
    port = page.client.base_url.port
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert page.client.get("/api/about", headers={**headers, "host": f"box.lan:{port}"}).status_code == 200
    assert page.client.get("/api/about", headers={**headers, "host": "box.lan:1"}).status_code == 403
    stated = open_page(host="10.0.0.7", token=TOKEN)
    port = stated.client.base_url.port
    assert stated.client.get("/api/about", headers={**headers, "host": f"10.0.0.7:{port}"}).status_code == 200
    assert stated.client.get("/api/about", headers={**headers, "host": f"box.lan:{port}"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/c/x", "/api/comparisons", "/api/none"])
def test_every_answer_keeps_the_browser_on_its_guard(page: Page, path: str) -> None:
    headers = page.client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "script-src 'self' 'wasm-unsafe-eval';" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_no_page_loads_anything_from_elsewhere(page: Page, path: str) -> None:
    answer = page.client.get(path)
    assert "swagger" not in answer.text.lower()
    assert "http://" not in answer.text.replace("http://www.w3.org", "")
    assert "https://" not in answer.text


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("box", False)],
)
def test_what_only_this_machine_reaches(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone
