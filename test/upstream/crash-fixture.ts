// Fixture of the reset test: starts etcd and an API server, prints "ready" and waits to be killed.
import { startControlPlane } from "./control-plane.ts";

const [stateDir = ""] = process.argv.slice(2);
await startControlPlane({ stateDir, components: [] });
process.stdout.write("ready\n");
process.stdin.resume();
