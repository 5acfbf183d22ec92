# Found by each Python, by PYTHONPATH: writes down what the server of a runner sees; the first process counts.
import json, os, sys

seen = os.environ.get("MCP_DIRECT_SEEN")
if seen and "UV" in os.environ:
    with open(f"/proc/{os.getppid()}/cmdline") as parent:
        found = {"argv": sys.orig_argv, "directory": os.getcwd(), "env": dict(os.environ), "parent": parent.read()}
    try:
        with open(seen, "x") as file:
            json.dump(found, file)
    except FileExistsError:
        pass
