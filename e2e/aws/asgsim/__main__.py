"""Starts the simulator: `python -m asgsim [--host 127.0.0.1] [--port 0]`."""

import argparse
import logging
import threading
from importlib.metadata import version

MOTO = "5.2.5"


def main():
    if version("moto") != MOTO:
        raise SystemExit(f"asgsim replaces parts of moto {MOTO}; this is moto {version('moto')}")
    options = argparse.ArgumentParser(prog="asgsim", description="AWS Auto Scaling, simulated")
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=0, help="0 takes a free one")
    asked = options.parse_args()

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    # Each replaces its part of moto when it is imported.
    from . import calls, launch_instances, managed_nodegroups, reconcile, spot_prices, wire  # noqa: F401

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    threading.Thread(target=reconcile.loop, daemon=True).start()
    app = wire.Sim(DomainDispatcherApplication(create_backend_app))
    server = make_server(asked.host, asked.port, app, threaded=True, request_handler=MotoRequestHandler)
    print(f"listening on {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
