"""Spot prices: those that a test sets, each from then on, and moto's one price for all else.

moto answers one price of 2006 for every type and zone, in one page, whatever was asked for.
"""

from datetime import datetime, timezone

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.ec2.responses.spot_instances import SpotInstances

from .state import SPOT_PRICES, now

LONG_AGO = datetime(2020, 1, 1, tzinfo=timezone.utc)
PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


class InvalidParameterValue(ServiceException):
    code = "InvalidParameterValue"


def set_prices(prices):
    """Notes `{"m5.large": {"us-east-1a": "0.031"}}` as prices that hold from this second on: callers ask in whole seconds."""
    since = now().replace(microsecond=0)
    for kind, zones in prices.items():
        for zone, price in zones.items():
            SPOT_PRICES.setdefault((kind, zone), []).append((since, price))


def moment(value):
    """A time as moto hands it on: text, or parsed and without its zone."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    return value and (value if value.tzinfo else value.replace(tzinfo=timezone.utc))


def between(changes, start, end):
    """The change that held at the start, and those since, newest first."""
    until = [change for change in changes if end is None or change[0] <= end]
    held = [change for change in until if start is not None and change[0] <= start][-1:]
    return [*held, *(change for change in until if start is None or start < change[0])][::-1]


def describe_spot_price_history(response):
    start, end = (moment(response._get_param(name)) for name in ("StartTime", "EndTime"))
    if start and end and end < start:
        raise InvalidParameterValue("The start time must be before the end time.")
    products = response._get_param("ProductDescriptions") or response._get_param("ProductDescription") or PRODUCTS
    kinds = response._get_param("InstanceTypes") or response._get_param("InstanceType") or []
    filters = response._filters_from_querystring()
    offered = response.ec2_backend.describe_spot_price_history(kinds, filters)
    found = []
    for offer in offered:
        key = offer["InstanceType"], offer["Location"]
        for at, price in between([(LONG_AGO, "0.000010"), *SPOT_PRICES.get(key, [])], start, end):
            found.extend(
                {
                    "InstanceType": key[0],
                    "ProductDescription": product,
                    "SpotPrice": price,
                    "AvailabilityZone": key[1],
                    "Timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
                }
                for product in products
                if product in PRODUCTS[:1]
            )
    most = int(response._get_param("MaxResults") or 1000)
    begin = int(response._get_param("NextToken") or 0)
    rest = begin + most if begin + most < len(found) else None
    # AWS says that there is no more by an empty token.
    return ActionResult({"SpotPriceHistory": found[begin : begin + most], "NextToken": "" if rest is None else str(rest)})


SpotInstances.describe_spot_price_history = describe_spot_price_history
