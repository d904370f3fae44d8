"""What we send, read by the types of the protocol's own metamodel; what its types write, read by us."""

from __future__ import annotations

import json
from typing import Any

from lsprotocol import types
from lsprotocol.converters import get_converter

from ghostdraft.lsp_server import protocol
from tests.fakes import FakeEngine
from tests.lsp_server.harness import URI, Harness, run
from tests.lsp_server.test_server import Absent, reply, requests

CONVERTER = get_converter()


def written(value: object) -> Any:
    return json.loads(json.dumps(CONVERTER.unstructure(value)))


def understood(message: dict[str, Any], method: str | None = None) -> object:
    """The message as the metamodel reads it; raises where it does not."""
    if method is not None:
        return CONVERTER.structure(message, types.METHOD_TO_TYPES[method][1])
    return CONVERTER.structure(message, types.METHOD_TO_TYPES[message["method"]][0])


async def agree_to_progress(harness: Harness, number: int) -> None:
    """Answers the server's `number`th wish to show progress."""
    wishes = "window/workDoneProgress/create"
    await harness.until(lambda: len(requests(harness, wishes)) == number)
    reply(harness, requests(harness, wishes)[-1], None)


def test_what_the_server_sends_is_understood() -> None:
    async def scenario() -> None:
        store = Absent()
        harness = Harness(load=store.load, pull=store.pull)
        capabilities = {"window": {"workDoneProgress": True}, "general": {"positionEncodings": ["utf-8", "utf-16"]}}
        start = harness.ask("initialize", {"capabilities": capabilities, "initializationOptions": {"no": 1}})
        result = understood(await harness.answer(start), types.INITIALIZE)
        assert isinstance(result.result.capabilities.inline_completion_provider, types.InlineCompletionOptions)
        harness.notify("initialized", {})
        await agree_to_progress(harness, 1)
        offer = (await harness.until(lambda: requests(harness, "window/showMessageRequest")))[0]
        reply(harness, offer, {"title": "Pull"})
        await agree_to_progress(harness, 2)
        await agree_to_progress(harness, 3)
        await harness.ready()
        harness.open("a")
        answer = understood(await harness.answer(harness.complete(0, 1)), types.TEXT_DOCUMENT_INLINE_COMPLETION)
        assert answer.result.items[0].insert_text == "a"
        sent = [
            message
            for message in harness.sent
            if message.get("method", "ghostdraft/").partition("/")[0] != "ghostdraft"
        ]
        assert {message["method"] for message in sent} == {
            "window/showMessage",
            "window/showMessageRequest",
            "window/workDoneProgress/create",
            "$/progress",
        }
        for message in sent:
            understood(message)

    run(scenario())


def test_errors_are_understood() -> None:
    async def scenario() -> None:
        harness = Harness(FakeEngine())
        error = await harness.answer(harness.complete(0, 0))
        assert CONVERTER.structure(error, types.ResponseErrorMessage).error is not None

    run(scenario())


def test_what_clients_write_is_read() -> None:
    position = types.Position(3, 4)
    place = types.Range(position, types.Position(3, 9))
    document = types.TextDocumentIdentifier(URI)
    selected = types.SelectedCompletionInfo(place, "text")
    context = types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic, selected)
    wanted = protocol.read(
        protocol.InlineCompletion, written(types.InlineCompletionParams(context, document, position))
    )
    assert wanted.context.trigger_kind == 2
    assert wanted.context.selected_completion_info == protocol.SelectedCompletion(
        protocol.Range(protocol.Position(3, 4), protocol.Position(3, 9)), "text"
    )
    change = types.DidChangeTextDocumentParams(
        types.VersionedTextDocumentIdentifier(7, URI),
        [types.TextDocumentContentChangePartial(place, "new"), types.TextDocumentContentChangeWholeDocument("all")],
    )
    changed = protocol.read(protocol.DidChange, written(change))
    assert [(one.text, one.range is None) for one in changed.content_changes] == [("new", False), ("all", True)]
    assert changed.text_document == protocol.TextDocument(URI, 7)
    folder = types.WorkspaceFolder("file:///w", "w")
    initialize = types.InitializeParams(types.ClientCapabilities(), workspace_folders=[folder], process_id=1)
    assert protocol.read(protocol.Initialize, written(initialize)).folders == (
        protocol.WorkspaceFolder("file:///w", "w"),
    )
    event = types.DidChangeWorkspaceFoldersParams(types.WorkspaceFoldersChangeEvent([folder], []))
    assert len(protocol.read(protocol.DidChangeFolders, written(event)).event.added) == 1
    command = protocol.read(protocol.ExecuteCommand, written(types.ExecuteCommandParams("c", ["1"])))
    assert command == protocol.ExecuteCommand("c", ("1",))
    opened = types.DidOpenTextDocumentParams(types.TextDocumentItem(URI, types.LanguageKind.Python, 1, "text"))
    assert protocol.read(protocol.DidOpen, written(opened)).text_document.language_id == "python"
