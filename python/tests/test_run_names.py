"""Names of hosts, as batch systems and people write them."""

import pytest
from intarsia.run.names import hosts_in


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ()),
        ("a,b", ("a", "b")),
        ("node[08-10]", ("node08", "node09", "node10")),
        ("r[1-2]n[3,5],x", ("r1n3", "r1n5", "r2n3", "r2n5", "x")),
        ("n[1]-ib", ("n1-ib",)),
    ],
)
def test_an_expression_names_hosts(text: str, hosts: tuple[str, ...]) -> None:
    assert hosts_in(text) == hosts


@pytest.mark.parametrize(
    "text", ["a,,b", "a,", "n[1-", "n1]", "n[b]", "n[3-1]", "a,a", "n[1][", ","]
)
def test_what_is_none_says_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|closed|number|range|twice"):
        hosts_in(text)
