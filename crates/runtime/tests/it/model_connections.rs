//! Connections: kept for later requests, and closed when they are not needed.
