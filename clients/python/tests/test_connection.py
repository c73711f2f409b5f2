"""The connection: starting, timeouts, the death of the process, threads."""

from __future__ import annotations

import os
import signal
import threading
import unittest
from typing import List

from support import PROGRAM, ScratchTest
from takeback_client import (
    ClosedError,
    InvalidRequestError,
    ProtocolError,
    RequestTimeoutError,
    RequestTooLongError,
    RpcError,
    ServerDiedError,
    StartError,
    Takeback,
)

#: A short timeout, because the tests below wait until it expires.
SHORT = 0.2


class StartTest(ScratchTest):
    def test_a_missing_program_is_named_with_a_hint(self) -> None:
        with self.assertRaisesRegex(StartError, "cannot run no-such-program.*hint: install"):
            Takeback(self.project, program="no-such-program")

    def test_a_missing_directory_is_named(self) -> None:
        with self.assertRaisesRegex(StartError, "there is no directory .*/nowhere"):
            Takeback(self.base / "nowhere", program=PROGRAM)

    def test_a_program_that_is_not_takeback_is_refused(self) -> None:
        with self.assertRaisesRegex(StartError, "cannot start takeback rpc: .*got hello"):
            self.connect_fake("speak nonsense")
        with self.assertRaisesRegex(StartError, "but this client speaks protocol 1"):
            self.connect_fake("speak protocol 2")
        with self.assertRaisesRegex(StartError, "ended with exit code 1.*: no such option"):
            self.connect_fake("die at once")

    def test_the_home_can_be_chosen(self) -> None:
        with Takeback(
            self.project, program=PROGRAM, home=self.base / "h", environment=self.environment
        ) as takeback:
            self.assertEqual(takeback.initialize()["home"], str(self.base / "h"))


class DeathTest(ScratchTest):
    def test_a_request_fails_if_the_process_dies_and_is_never_sent_again(self) -> None:
        takeback = self.connect_fake("die")
        with self.assertRaises(ServerDiedError) as died:
            takeback.rollback_undo()
        self.assertEqual(died.exception.exit_code, 3)
        self.assertEqual(died.exception.warnings, ["the disk is on fire"])
        self.assertEqual(self.warnings, ["the disk is on fire"])
        self.assertIsNone(takeback.server_pid)
        with self.assertRaises(ServerDiedError):
            takeback.status()
        expected = ["initialize", "rollback.undo", "initialize", "status"]
        self.assertEqual(self.received(), expected)

    def test_a_process_that_died_while_idle_is_replaced(self) -> None:
        takeback = self.connect()
        self.write("a", "1")
        takeback.checkpoint_create()
        first = takeback.server_pid
        assert first
        os.kill(first, signal.SIGKILL)
        self.assertTrue(takeback._connection._server)
        # The signal may take effect only after the next request has been sent.
        while takeback.server_pid == first:
            try:
                takeback.checkpoint_list()
            except ServerDiedError as died:
                self.assertEqual(died.exit_code, -signal.SIGKILL)
        self.assertEqual(len(takeback.checkpoint_list()["checkpoints"]), 1)

    def test_answers_to_other_requests_are_refused(self) -> None:
        takeback = self.connect_fake("answer another request")
        with self.assertRaisesRegex(ProtocolError, "expected the answer to request 2"):
            takeback.status()

    def test_an_answer_without_an_id_belongs_to_the_pending_request(self) -> None:
        with self.assertRaisesRegex(InvalidRequestError, "not a request"):
            self.connect_fake("answer with id null").status()
        with self.assertRaises(RpcError) as odd:
            self.connect_fake("answer with an unknown error").status()
        self.assertEqual((odd.exception.code, odd.exception.hint), (-1, None))


class TimeoutTest(ScratchTest):
    def test_a_late_answer_is_not_mistaken_for_the_answer_to_the_next_request(self) -> None:
        takeback = self.connect()
        pid = self.stop(takeback)
        with self.assertRaises(RequestTimeoutError) as late:
            takeback.with_timeout(SHORT).checkpoint_create(reason="late")
        self.assertTrue(late.exception.was_sent)
        with self.assertRaises(RequestTimeoutError) as unsent:
            takeback.with_timeout(SHORT).checkpoint_create(reason="never")
        self.assertFalse(unsent.exception.was_sent)
        os.kill(pid, signal.SIGCONT)
        rows = takeback.checkpoint_list()["checkpoints"]
        self.assertEqual([row["reason"] for row in rows], ["late"])
        self.assertEqual(takeback.server_pid, pid)

    def test_a_request_that_does_not_fit_into_the_pipe_can_time_out(self) -> None:
        takeback = self.connect()
        pid = self.stop(takeback)
        messages = [{"role": "assistant", "content": "x" * 300_000}]
        with self.assertRaises(RequestTimeoutError) as late:
            takeback.with_timeout(SHORT).call(
                "messages.append", agent="mine", session="s", messages=messages
            )
        self.assertTrue(late.exception.was_sent)
        os.kill(pid, signal.SIGCONT)
        kept = takeback.sessions_get("mine:s")["messages"]
        self.assertEqual([len(one["content"]) for one in kept], [300_000])

    def test_a_thread_that_waits_for_another_gives_up_without_sending(self) -> None:
        takeback = self.connect()
        pid = self.stop(takeback)
        other = threading.Thread(target=takeback.checkpoint_create, kwargs={"reason": "slow"})
        other.start()
        while not takeback._connection._lock.locked():
            pass
        with self.assertRaises(RequestTimeoutError) as waited:
            takeback.with_timeout(SHORT).checkpoint_create(reason="never")
        self.assertFalse(waited.exception.was_sent)
        os.kill(pid, signal.SIGCONT)
        other.join()
        rows = takeback.checkpoint_list()["checkpoints"]
        self.assertEqual([row["reason"] for row in rows], ["slow"])

    def test_requests_that_are_too_long_are_not_sent(self) -> None:
        takeback = self.connect_fake("answer")
        with self.assertRaisesRegex(RequestTooLongError, "more than 200"):
            takeback.explain("x" * 300)
        takeback.status()
        self.assertEqual(self.received(), ["initialize", "status"])


class SharingTest(ScratchTest):
    def test_threads_get_their_own_answers(self) -> None:
        takeback = self.connect()
        wrong: List[str] = []

        def ask(number: int) -> None:
            for count in range(10):
                command = f"echo {number} > file-{number}-{count}"
                paths = takeback.explain(command)["paths"]
                if paths != [str(self.project / f"file-{number}-{count}")]:
                    wrong.append(f"{command}: {paths}")

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_closed_client_says_so_and_its_process_has_ended(self) -> None:
        takeback = self.connect()
        server = takeback._connection._server
        assert server
        takeback.close()
        takeback.close()
        self.assertEqual(server._process.returncode, 0)
        with self.assertRaisesRegex(ClosedError, "has been closed"):
            takeback.status()

    def test_a_forked_process_needs_its_own_client(self) -> None:
        takeback = self.connect()
        child = os.fork()
        if child == 0:
            try:
                takeback.status()
            except ClosedError:
                os._exit(7)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.WEXITSTATUS(status), 7)
        self.assertEqual(takeback.initialize()["protocol"], 1)

    def test_takeback_survives_ctrl_c_in_the_terminal_of_the_agent(self) -> None:
        takeback = self.connect()
        pid = takeback.server_pid
        assert pid
        self.assertNotEqual(os.getpgid(pid), os.getpgid(0))


if __name__ == "__main__":
    unittest.main()
