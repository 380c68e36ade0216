// Creates a test bed with one pod, prints `ready`, and waits until the test of `npm run reset` kills it.
import { startContainerd } from "./containerd/containerd.ts";
import { runWebPod } from "./containerd/web-pod.ts";
import { importImages } from "./images/images.ts";

const [stateDir = "", version] = process.argv.slice(2);
const containerd = await startContainerd({ stateDir, version: version === "2.1" ? "2.1" : "1.6" });
await importImages(containerd);
await runWebPod(containerd.endpoint, "abandoned", 18098);
process.stdout.write("ready\n");
process.stdin.resume();
