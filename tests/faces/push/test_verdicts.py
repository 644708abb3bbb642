"""What the answers of targets mean: the table, restated."""

import pytest

from pubqueue.faces.push.targets import MAX_RETRY, Verdict, retry_after, verdict_of

V = Verdict
# fmt: off
TABLE = [
    (V.DONE, [200, 201, 202, 204, 299, 303, 304]),
    (V.FOLLOW, [307, 308]),
    (V.GONE, [410]),
    (V.BAD, [400, 411, 412, 413, 414, 415, 416, 422]),
    (V.DISABLED, [401, 402, 403, 405, 407, 417, 505]),
    (V.FAILED, [301, 302, 300, 404, 408, 409, 418, 429, 500, 502, 503, 504, 599]),
]
# fmt: on


def test_a_status_means_this():  # R32
    assert [
        (verdict, [s for s in row if verdict_of(s) is verdict]) for verdict, row in TABLE
    ] == TABLE


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_target_is_left_alone_for_a_while(status):  # R32
    assert verdict_of(status, has_retry=True) is Verdict.LATER


def test_how_long_a_target_wants_to_be_left_alone():
    now = 1_445_412_480.0
    assert retry_after({"Retry-After": "7"}, now) == 7
    assert retry_after({"Retry-After": "99999"}, now) == MAX_RETRY
    assert retry_after({"Retry-After": "Wed, 21 Oct 2015 07:28:05 GMT"}, now) == 5
    assert retry_after({"Retry-After": "Wed, 21 Oct 2015 07:00:00 GMT"}, now) == 0
    for odd in ("", "-1", "soon", "1.5", f"Wed, 21 Oct {'9' * 20} 07:28:05 GMT"):
        assert retry_after({"Retry-After": odd}, now) is None
