"""Connections: those that wait for their client give way, and none stays for ever."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest
from serve_attack import post

from nmt.serve import connections
from nmt.serve.app import make_app
from nmt.serve.options import ServerOptions
from nmt.serve.run import OnceAMinute, Server, listen
from nmt.translation.translator import Translator

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = HEALTH[:-4]
CHUNKED = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
TOO_LONG = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
PART, LAST = b"2710\r\n" + b"x" * 10_000 + b"\r\n", b"0\r\n\r\n"
REQUEST = post("/translate", b'{"q": ["Is", "He"], "source": "en", "target": "fr"}')


class Client(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

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
    clients = []

    async def run(listener: socket.socket) -> None:
        async def connect(first: bytes) -> Client:
            client = Client(*await asyncio.open_connection(*listener.getsockname()))
            clients.append(client)
            client.writer.write(first)
            await client.writer.drain()
            return client

        options = ServerOptions(**limits)  # type: ignore[arg-type]
        server = Server(make_app([("tiny", translator)], options))
        serving = asyncio.create_task(server.serve([listener]))
        try:
            await scenario(connect)
        finally:
            for client in clients:
                client.writer.close()
            server.should_exit = True
            await serving

    with listen("127.0.0.1", 0) as listener:
        asyncio.run(run(listener))


@pytest.mark.parametrize("first", [b"", HEALTH + HALF])
def test_a_header_must_be_whole_in_time(translator, monkeypatch, first) -> None:
    monkeypatch.setattr(connections, "_HEADER_SECONDS", 0.2)

    async def scenario(connect: Connect) -> None:
        client = await connect(first)
        while await client.answer():
            pass

    with_server(translator, scenario)


def test_beyond_the_limit_who_waited_longest_goes(translator, monkeypatch) -> None:
    monkeypatch.setattr(connections.Connection, "limit", 4)

    async def scenario(connect: Connect) -> None:
        first, *others = [await connect(HALF) for _ in range(4)]
        assert await first.is_open_after(0.1)
        new = await connect(HEALTH)
        assert b'"ok"' in await new.answer()
        assert not await first.is_open_after(1)
        assert await others[-1].is_open_after(0.1)

    with_server(translator, scenario)


def test_a_client_that_takes_no_answer_is_left(translator, monkeypatch) -> None:
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


@pytest.mark.parametrize(
    ("sent", "limits", "status"),
    [
        pytest.param([TOO_LONG], {}, b" 413 ", id="unread"),
        pytest.param([CHUNKED + b"1\r\na\r\n"], {"seconds": 0.2}, b" 408 ", id="never whole"),
        pytest.param([CHUNKED, PART, PART, LAST], {"characters": 10}, b" 413 ", id="in parts"),
    ],
)
def test_a_body_beyond_a_limit_is_refused(translator, sent, limits, status) -> None:
    async def scenario(connect: Connect) -> None:
        client = await connect(sent[0])
        for part in sent[1:]:
            client.writer.write(part)
            await asyncio.sleep(0.1)  # so that the server reads them one by one
        assert status in await asyncio.wait_for(client.answer(), 5)

    with_server(translator, scenario, **limits)


def test_an_endless_body_ends_with_its_refusal(translator, monkeypatch) -> None:
    monkeypatch.setattr(connections, "_HEADER_SECONDS", 0.2)

    async def scenario(connect: Connect) -> None:
        client = await connect(CHUNKED)

        async def send() -> None:
            while True:
                client.writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                await client.writer.drain()
                await asyncio.sleep(0)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send(), 20)

    with_server(translator, scenario, characters=10)


def test_a_client_that_ends_its_own_side_is_answered(slow) -> None:
    async def scenario(connect: Connect) -> None:
        client = await connect(REQUEST)
        client.writer.write_eof()
        await asyncio.sleep(0.5)
        slow.go.set()
        answer = b""
        while part := await client.answer():
            answer += part
        assert b"translatedText" in answer

    with_server(slow, scenario)


def test_a_client_that_has_left_leaves_the_queue(slow) -> None:
    async def n_waiting(connect: Connect) -> bytes:
        answer = await (await connect(HEALTH.replace(b"/health", b"/metrics"))).answer()
        return answer.partition(b'nmt_waiting{model="tiny"} ')[2][:1]

    async def scenario(connect: Connect) -> None:
        await connect(REQUEST)
        while not slow.started.is_set():
            await asyncio.sleep(0.02)
        client = await connect(REQUEST)
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
