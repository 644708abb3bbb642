"""Compares the features of pubsub services: the same requests to Prosody's mod_pubsub, ejabberd's and ours."""
