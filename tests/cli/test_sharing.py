"""Two chats and a script on one log at once, each with the tools, the hooks and the folder of its own process."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import PROMPT, Chat, Json, Run, logged
from tests.cli.tools import Office
from tests.extensions.written import Written

WHERE = '''
from reenact import tool


@tool
def where() -> str:
    """Tell where this is."""
    return "in the {place}"
'''


def test_two_chats_and_a_script_are_each_answered_with_their_own_tools_and_hooks(
    chat: Chat,
    run: Run,
    environ: dict[str, str],
    tmp_path: Path,
    office: Office,
) -> None:
    Written(Path(environ["HOME"])).hook("UserPromptSubmit", 'pwd >> "$HOME/hooked"')
    kitchen, garden = tmp_path / "kitchen", tmp_path / "garden"
    for place in (tmp_path, kitchen, garden):
        place.mkdir(exist_ok=True)
        (place / "tools.py").write_text(WHERE.replace("{place}", place.name))
    tools = ("--tools", "tools.py")
    chats = {place: chat(*tools, cwd=place) for place in (kitchen, garden)}
    visited = [kitchen, garden, kitchen, garden, tmp_path]
    for number in range(len(visited)):
        call: Json = {"type": "tool_use", "id": f"c{number}", "name": "where", "input": {}}
        office.api.reply(content=[call], stop_reason="tool_use")
        office.api.reply(text=f"Answer {number}.")

    for number, place in enumerate(visited[:-1]):
        chats[place].send_line("Where?")
        chats[place].wait_for(f"Answer {number}.")
        chats[place].wait_for(PROMPT)
    script = run("-p", "Where?", *tools)

    assert (script.code, script.out, script.err) == (0, "Answer 4.\n", "")
    told = [request.body["messages"][-1]["content"][0].get("content") for request in office.api.requests]
    assert [each for each in told if each is not None] == [f"in the {place.name}" for place in visited]
    assert Path(environ["HOME"], "hooked").read_text().splitlines() == list(map(str, visited))
    newest, *open_ = (one["id"] for one in run("sessions", "--output-format", "json").objects)
    for session_id in open_:
        refused = run("--resume", session_id, "-p", "Hello", "--output-format", "json")
        assert (refused.code, refused.result["error"]["type"]) == (2, "session_locked")
        assert f"session '{session_id}' is open in process " in refused.result["error"]["message"]
    office.api.reply(text="As before.")
    assert run("--continue", "-p", "And now?", "--output-format", "json").result["session_id"] == newest
    assert run("verify").code == 0


def test_a_chat_that_is_killed_in_an_answer_takes_nothing_of_another_one_with_it(chat: Chat, run: Run) -> None:
    killed, other = chat(MOCK_SCENARIO="long-stream"), chat()
    killed.send_line("Tell me everything")
    killed.wait_for("chunk-0")
    other.send_line("Hello")
    other.wait_for("Hello from mock!")
    (session_id,) = (
        one["session_id"] for one in logged(run, "turn_started") if one["session_id"] not in other.get_stripped_output()
    )

    killed.kill("SIGKILL")
    killed.wait_for_exit()
    other.wait_for(PROMPT)
    other.send_line("Still there?")
    other.wait_for("Hello from mock!")

    for question in ("Where were we?", "And now?"):
        assert run("--resume", session_id, "-p", question).out == "Hello from mock!\n"
    ends = run("log", "--type", "turn_completed", "--session", session_id, "--output-format", "json").objects
    assert [end["data"]["outcome"] for end in ends] == ["interrupted", "completed", "completed"]
    stops = run("log", "--type", "agent_stopped", "--session", session_id, "--output-format", "json").objects
    assert [stop["data"]["reason"] for stop in stops] == ["crash", "shutdown", "shutdown"]
    assert run("verify").code == 0
    assert run("replay").code == 0


def test_going_to_another_session_leaves_the_former_one_to_others(chat: Chat, run: Run) -> None:
    first = run("-p", "One", "--output-format", "json").result["session_id"]
    terminal = chat("--continue")
    assert run("--resume", first, "-p", "Hello").code == 2

    terminal.send_line("/new")
    terminal.wait_for(f"{PROMPT} /new")
    terminal.wait_for("Session ses_")

    assert run("--continue", "-p", "Two", "--output-format", "json").result["session_id"] == first
