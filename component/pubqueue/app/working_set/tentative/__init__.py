"""The changes that one request would make, tried before all of its parts are decided: tables, changes, numbers."""
