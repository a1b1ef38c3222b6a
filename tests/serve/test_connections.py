"""Connections: those that wait for their client give way, and none stays for ever."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvicorn
from serve.conftest import Slow
from uvicorn.server import ServerState

from nmt.serve import connections, guard
from nmt.serve.app import make_app
from nmt.serve.connections import Connection, OnceAMinute
from nmt.serve.limits import Limits
from nmt.translation.translator import Translator

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = HEALTH[:-4]


class Client:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def is_open_after(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(seconds):
                return bool(await self.reader.read(1))
            return False
        return not self.reader.at_eof() and self.reader.exception() is None

    async def answer(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(1 << 20), 20)


Connect = Callable[[bytes], Awaitable[Client]]
Scenario = Callable[[Connect], Awaitable[None]]


def with_server(translator: Translator, scenario: Scenario, **limits: float) -> None:
    """Run a scenario against a server in this process."""

    @contextlib.asynccontextmanager
    async def serving() -> AsyncIterator[Connect]:
        app = make_app([("tiny", translator)], Limits(**limits))  # type: ignore[arg-type]
        config, state, loop = uvicorn.Config(app), ServerState(), asyncio.get_running_loop()
        clients = []
        server = await loop.create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)

        async def connect(first: bytes) -> Client:
            port = server.sockets[0].getsockname()[1]
            client = Client(*await asyncio.open_connection("127.0.0.1", port))
            clients.append(client)
            client.writer.write(first)
            await client.writer.drain()
            return client

        async with app.router.lifespan_context(app):
            yield connect
            for client in clients:
                client.writer.close()
            server.close()

    async def run() -> None:
        async with serving() as connect:
            await scenario(connect)

    asyncio.run(run())


@pytest.mark.parametrize("first", [b"", HALF, HEALTH + HALF])
def test_a_header_must_be_whole_in_time(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    monkeypatch.setattr(connections, "_HEADER_SECONDS", 0.2)

    async def scenario(connect: Connect) -> None:
        client = await connect(first)
        while await client.answer():
            pass

    with_server(translator, scenario)


def test_beyond_the_limit_who_waited_longest_goes(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "limit", 4)

    async def scenario(connect: Connect) -> None:
        first, *others = [await connect(HALF) for _ in range(4)]
        assert await first.is_open_after(0.1)
        new = await connect(HEALTH)
        assert b'"ok"' in await new.answer()
        assert not await first.is_open_after(1)
        assert await others[-1].is_open_after(0.1)

    with_server(translator, scenario)


def test_a_client_that_takes_no_answer_is_left(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_WRITE_SECONDS", 0.2)

    async def scenario(connect: Connect) -> None:
        client = await connect(HEALTH.replace(b"/health", b"/openapi.json") * 1000)
        for _ in range(100):
            await asyncio.sleep(0.1)
            if client.writer.transport.is_closing():
                return
            with contextlib.suppress(ConnectionError):
                client.writer.write(b"\r\n")
        raise AssertionError("the connection is still open")

    with_server(translator, scenario)


def test_a_length_over_the_limit_is_refused_unread(translator: Translator) -> None:
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"

    async def scenario(connect: Connect) -> None:
        client = await connect(head)
        assert b"413" in await asyncio.wait_for(client.answer(), 5)

    with_server(translator, scenario)


def test_an_endless_body_ends_with_its_refusal(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_DRAIN_SECONDS", 0.2)
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def scenario(connect: Connect) -> None:
        client = await connect(head)

        async def send() -> None:
            for _ in range(20_000):
                client.writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                await client.writer.drain()
                await asyncio.sleep(0)

        with pytest.raises(ConnectionError):
            await send()

    with_server(translator, scenario, body_bytes=1000)


def test_the_parts_of_a_body_share_its_limit(translator: Translator) -> None:
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def scenario(connect: Connect) -> None:
        client = await connect(head)
        for part in (b"258\r\n" + b"x" * 600 + b"\r\n",) * 2:
            client.writer.write(part)
            await asyncio.sleep(0.1)  # so that the server reads them one by one
        client.writer.write(b"0\r\n\r\n")
        assert b" 413 " in await client.answer()

    with_server(translator, scenario, body_bytes=1000)


def test_a_client_that_ends_its_own_side_is_answered(slow: Slow) -> None:
    body = b'{"q": "Is", "source": "en", "target": "fr"}'
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    async def scenario(connect: Connect) -> None:
        client = await connect(request)
        client.writer.write_eof()
        await asyncio.sleep(0.5)
        slow.go.set()
        answer = b""
        while part := await client.answer():
            answer += part
        assert b"translatedText" in answer

    with_server(slow, scenario)


def test_a_client_that_has_left_leaves_the_queue(slow: Slow) -> None:
    body = b'{"q": ["Is", "He"], "source": "en", "target": "fr"}'
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    async def n_waiting(connect: Connect) -> bytes:
        answer = await (await connect(HEALTH.replace(b"/health", b"/metrics"))).answer()
        return answer.partition(b'nmt_waiting{model="tiny"} ')[2][:1]

    async def scenario(connect: Connect) -> None:
        await connect(request)
        while not slow.started.is_set():
            await asyncio.sleep(0.02)
        client = await connect(request)
        while await n_waiting(connect) != b"2":
            await asyncio.sleep(0.02)
        client.writer.close()
        async with asyncio.timeout(10):
            while await n_waiting(connect) != b"0":
                await asyncio.sleep(0.02)
        slow.go.set()

    with_server(slow, scenario)


def test_a_message_is_logged_once_a_minute() -> None:
    once = OnceAMinute()
    records = [logging.LogRecord("a", 30, "", 1, text, (), None) for text in ("x\n1", "x\n2", "y")]
    assert [once.filter(r) for r in records] == [True, False, True]
