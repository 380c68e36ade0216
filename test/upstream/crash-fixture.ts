// Starts etcd and an API server, says so, and waits to be killed: what the test of the reset needs.
import { startControlPlane } from "./control-plane.ts";

const [stateDir = ""] = process.argv.slice(2);
await startControlPlane({ stateDir, parts: [] });
process.stdout.write("ready\n");
process.stdin.resume();
