"""Access control: accept requests from this machine's own page, and those that carry the token.

A page of another site can make a browser send requests here. The Host header reveals a name that was pointed at this
machine (DNS rebinding); Origin and Sec-Fetch-Site reveal requests of other pages, reads included.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import TYPE_CHECKING, final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstdiff.json_text import to_json
from firstdiff.server.responses import ResponseHeader

if TYPE_CHECKING:
    from firstdiff.server.context import ServerSettings

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_ANY_HOST = ("0.0.0.0", "::", "")
_METHODS = "GET, POST, PUT, PATCH, DELETE"
EXPOSED_HEADERS = ", ".join([*ResponseHeader, "Content-Disposition"])
_POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' blob:; worker-src 'self' blob:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_ALWAYS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@final
class Guard:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        foreign = origin if origin in self._settings.origins else None
        scope["cross_origin"] = foreign is not None

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._mark(MutableHeaders(scope=message), foreign)
            await send(message)

        refusal = self._refusal(scope, headers, foreign)
        if refusal is None and foreign and scope["method"] == "OPTIONS":
            refusal = _preflight(headers)
        if refusal is None:
            refusal = self._without_token(scope, headers)
        await (refusal or self._app)(scope, receive, answer)

    def _refusal(self, scope: Scope, headers: Headers, foreign: str | None) -> Response | None:
        host = headers.get("host", "")
        if not self._knows(host):
            return _sentence(403, f"the request is for the host {host[:100]!r}, which is not this server's")
        if foreign:
            return None
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope['scheme']}://{host}":
            return _sentence(403, f"pages of {origin[:100]!r} may not talk to this server; --allow-origin lets them")
        site = headers.get("sec-fetch-site", "none")
        opened = headers.get("sec-fetch-mode") == "navigate" and not scope["path"].startswith("/api")
        if site not in ("same-origin", "none") and not opened:
            return _sentence(403, "pages of other sites may not talk to this server; --allow-origin lets them")
        return None

    def _knows(self, host: str) -> bool:
        name, port = _split(host)
        if port != self._settings.port:
            return False
        if name in _LOOPBACK:
            return True
        stated = self._settings.host
        return self._settings.token is not None and (stated in _ANY_HOST or name.strip("[]") == stated.strip("[]"))

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Return None if the request may pass; move a valid token from the address to a cookie."""
        token = self._settings.token
        if token is None:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        stated = dict(query).get("token")
        if stated is not None and _same(stated, token) and scope["method"] == "GET":
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            address = scope["path"] + (f"?{rest}" if rest else "")
            moved = Response(status_code=303, headers={"Location": "/" + address.lstrip("/")})
            moved.set_cookie(self._cookie, token, httponly=True, samesite="strict", max_age=365 * 86400)
            return moved
        given = headers.get("authorization", "").removeprefix("Bearer ").strip() or self._cookie_of(headers)
        if given and _same(given, token):
            return None
        return _sentence(401, "this server wants its token; open the address that `firstdiff serve` printed")

    @property
    def _cookie(self) -> str:
        return f"firstdiff-{self._settings.port}"  # cookies are shared by all ports of a host

    def _cookie_of(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return found.value if found else ""

    def _mark(self, headers: MutableHeaders, foreign: str | None) -> None:
        for name, value in _ALWAYS.items():
            headers[name] = value
        headers["Vary"] = "Origin"
        if foreign:
            headers["Access-Control-Allow-Origin"] = foreign
            headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
            headers["Cross-Origin-Resource-Policy"] = "cross-origin"


def is_loopback(host: str) -> bool:
    """True if an address can be reached only from this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _split(host: str) -> tuple[str, int | None]:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return host.lower(), 80
    return name.lower(), int(port) if port.isdecimal() else None


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _preflight(headers: Headers) -> Response:
    allowed = {
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Digest",
        "Access-Control-Max-Age": "600",
    }
    if headers.get("access-control-request-private-network") == "true":
        allowed["Access-Control-Allow-Private-Network"] = "true"
    return Response(status_code=204, headers=allowed)


def _sentence(code: int, text: str) -> Response:
    return Response(to_json({"error": text}), code, media_type="application/json")
