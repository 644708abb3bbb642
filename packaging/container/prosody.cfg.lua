-- Prosody for compose.yaml: clients at localhost, and the component queue.localhost, whose secret is a file.
-- For more than a trial: the name of your domain, and certificates (docs/how-to tells the settings a queue needs).
data_path = "/var/lib/prosody"
log = { info = "*console" }

modules_enabled = { "disco", "roster", "saslauth", "tls", "ping" }
component_ports = { 5347 }
component_interfaces = { "*" }
c2s_require_encryption = true

local function secret_in(path)
	local file = assert(io.open(path, "r"))
	local line = file:read("*l")
	file:close()
	return line
end

VirtualHost "localhost"

Component "queue.localhost"
	component_secret = secret_in("/run/secrets/component")
