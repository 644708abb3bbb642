"""What counts as one peer."""

import pytest

from pubqueue.faces.listener.connection import network_of


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
    ],
)
def test_an_address_of_ipv6_counts_with_its_network(peer, network):
    assert network_of(peer) == network
