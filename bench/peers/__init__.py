"""What other pubsub services have: the same requests to Prosody's mod_pubsub, ejabberd's and to ours."""
