"""Refusal of connections from this machine into internal networks.

Users of the dashboard enter URLs for exports and alerts. Without this check they could send requests to
programs on this machine and to hosts behind the firewall.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from integration.core.errors import SwitchroomError

IpAddress = IPv4Address | IPv6Address

_REFUSED_NETWORKS = (ip_network("168.63.129.16/32"), ip_network("192.0.0.0/24"))
"""Global by their form, but services of a cloud's own host: of Azure, and of Oracle (192.0.0.192)."""
_NAT64_NETWORK = ip_network("64:ff9b::/96")
"""Network whose last 32 bits are an IPv4 address (RFC 6052)."""


class AddressRefused(SwitchroomError):
    """The host has an address that is not public."""


class PublicHosts:
    """Hosts that users' URLs may name: public ones, and `allow_hosts`.

    `allow_hosts`: the setting `outgoing.allow_hosts`. A name allows the URLs with this name, an address all
    hosts with this address.
    """

    def __init__(self, allow_hosts: Iterable[str]) -> None:
        self._allowed_names = {_normalize_name(host) for host in allow_hosts}
        self._allowed_addresses = {
            address for host in allow_hosts if (address := _parse_address(host)) is not None
        }

    def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of `host`, to connect to one of them.

        A second lookup could return other addresses, so the caller must not repeat it. Raises AddressRefused
        if any address is refused, OSError if the name cannot be resolved.
        """
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError as error:
            raise socket.gaierror(socket.EAI_NONAME, f"invalid host name ({error})") from None
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if _normalize_name(host) not in self._allowed_names and not all(map(self._is_allowed, addresses)):
            raise AddressRefused(
                f"{host} is an address of this machine or of an internal network. Enter a public address, or"
                " add the host to the setting outgoing.allow_hosts."
            )
        return addresses

    def _is_allowed(self, text: str) -> bool:
        address = _parse_address(text)
        return address is not None and (address in self._allowed_addresses or is_public(address))


def is_public(address: IpAddress) -> bool:
    """Return whether the entire internet can reach `address`, a single host.

    An IPv6 address that contains an IPv4 address (mapped, NAT64, 6to4) leads to that one.
    """
    if isinstance(address, IPv6Address):
        contained = address.ipv4_mapped or address.sixtofour
        if address in _NAT64_NETWORK:
            contained = IPv4Address(int(address) & 0xFFFFFFFF)
        if contained is not None:
            return is_public(contained)
        if address.is_site_local:
            return False
    return (
        address.is_global
        and not (address.is_multicast or address.is_reserved or address.is_unspecified)
        and not any(address in network for network in _REFUSED_NETWORKS)
    )


def _parse_address(text: str) -> IpAddress | None:
    """Return an IP address without its zone and brackets.

    An IPv4-mapped address as IPv4.
    """
    try:
        address = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _normalize_name(host: str) -> str:
    return host.strip("[]").rstrip(".").casefold()
