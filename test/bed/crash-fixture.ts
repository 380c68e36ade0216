// Creates a test bed with one pod and the lock of an agent, prints `ready`, and waits until the test of `npm run reset` kills it.
import { lockRuntime } from "../../agent/preflight/instance-locks.ts";
import { createFiles } from "../../host/fs/files.ts";
import { FakeLog } from "../fakes/log.ts";
import { bedPaths } from "./cleanup/bed-record.ts";
import { startContainerd } from "./containerd/containerd.ts";
import { runWebPod } from "./containerd/web-pod.ts";
import { importImages } from "./images/images.ts";

const [stateDir = "", version] = process.argv.slice(2);
const containerd = await startContainerd({ stateDir, version: version === "2.1" ? "2.1" : "1.6" });
await importImages(containerd);
await runWebPod(containerd.endpoint, "abandoned", 18098);
const agent = {
  rootDir: bedPaths(stateDir).agentRoot,
  nodeName: "berth",
  containerRuntimeEndpoint: containerd.endpoint,
};
await lockRuntime(agent, createFiles("/"), new FakeLog());
process.stdout.write("ready\n");
process.stdin.resume();
