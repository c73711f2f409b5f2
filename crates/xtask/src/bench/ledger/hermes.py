"""Hermes's own SessionDB, as installed."""

from pathlib import Path

from hermes_state import SessionDB


class Hermes:
    def __init__(self, database):
        self.db = SessionDB(Path(database))
        # The same durability for all contenders.
        self.db._conn.execute("PRAGMA synchronous = NORMAL")

    def create_session(self, session):
        self.db.create_session(session, "bench")

    def fill(self, messages):
        """Inserts many messages per transaction with Hermes's own insert.

        Appending them one by one would take minutes.
        """
        for start in range(0, len(messages), 1000):
            chunk = messages[start : start + 1000]
            self.db._execute_write(lambda connection: self.insert(connection, chunk))
        # SessionDB itself does this after every thousandth append.
        self.db.optimize_fts()

    def insert(self, connection, messages):
        sessions = {}
        for message in messages:
            sessions.setdefault(message["session"], []).append(message)
        for session, of_session in sessions.items():
            count, calls = self.db._insert_message_rows(connection, session, of_session)
            connection.execute(
                "UPDATE sessions SET message_count = message_count + ?,"
                " tool_call_count = tool_call_count + ? WHERE id = ?",
                (count, calls, session),
            )

    def append(self, session, message):
        self.db.append_message(
            session,
            message["role"],
            content=message["content"],
            tool_name=message["tool_name"],
            tool_calls=message["tool_calls"],
            tool_call_id=message["tool_call_id"],
        )

    def count(self, session):
        return self.db.message_count(session)

    def close(self):
        self.db.close()
