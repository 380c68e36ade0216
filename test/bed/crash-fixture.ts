// Makes a bed with one pod, says so, and waits to be killed: what the test of the reset needs.
import { startContainerd } from "./containerd/containerd.ts";
import { runWebPod } from "./containerd/web-pod.ts";
import { importImages } from "./images/images.ts";

const [stateDir = "", version] = process.argv.slice(2);
const containerd = await startContainerd({ stateDir, version: version === "2.1" ? "2.1" : "1.6" });
await importImages(containerd);
await runWebPod(containerd.endpoint, "abandoned", 18098);
process.stdout.write("ready\n");
process.stdin.resume();
