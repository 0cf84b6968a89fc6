"""The Merkle tree of RFC 6962 (section 2.1), over SHA-256.

Leaves and inner nodes are hashed in domains of their own, so that none passes for the other, and a tree whose leaves
are no power of two is split, not filled up: where the last leaf is counted twice, lists of other lengths have the
same root (CVE-2012-2459).
"""

import hashlib
from collections.abc import Sequence


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of one leaf, 32 bytes."""
    return hashlib.sha256(b"\x00" + data).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over the hashes of leaves (`leaf_hash`), 32 bytes; that of no leaf is the hash of nothing."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    left = 1 << (len(leaves) - 1).bit_length() - 1  # the largest power of two below their number
    return hashlib.sha256(b"\x01" + merkle_root(leaves[:left]) + merkle_root(leaves[left:])).digest()
