// Records how the reference kubelet answers the requests of api-cases.ts into test/golden/kubelet-api, in a minute or two:
// `bun test/differential/api/record-api.ts`, as root.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pods } from "../../../kube/resource.ts";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { startContainerd } from "../../bed/containerd/containerd.ts";
import { importImages } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { createAdminClient } from "../../upstream/admin-client.ts";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { createPods } from "../../upstream/create-pods.ts";
import { startReferenceKubelet } from "../../upstream/reference-kubelet.ts";
import { containerdRelease } from "../bed-settings.ts";
import { apiPods, areApiPodsSettled } from "./api-pods.ts";
import { apiSettings, writeApiRecording } from "./api-recording.ts";
import { askApi } from "./ask-api.ts";

process.chdir(join(import.meta.dirname, "../../.."));
const folder = await mkdtemp(join(tmpdir(), "berth-api-"));
const stateDir = join(folder, "kubelet");
const plane = await startControlPlane({ stateDir: join(folder, "plane"), print: console.log });
const kube = createAdminClient(plane, "record-api");
const containerd = await startContainerd({ stateDir, version: containerdRelease });
try {
  await importImages(containerd);
  const kubelet = await startReferenceKubelet({
    controlPlane: plane,
    nodeName: "node-a",
    endpoint: containerd.endpoint,
    stateDir,
    configuration: {
      ...apiSettings,
      authentication: {
        anonymous: { enabled: false },
        webhook: { enabled: true },
        x509: { clientCAFile: join(bedPaths(stateDir).kubeletRoot, "client-ca.crt") },
      },
    },
  });
  try {
    await createPods(plane, apiPods);
    await pollUntil("the pods of the requests", 180_000, async () =>
      areApiPodsSettled((await kube.list(pods("default"), {})).items),
    );
    // The kubelet has stats of its pods only after cAdvisor's first readings.
    await pollUntil("the summary of stats", 60_000, () =>
      plane.kubectl(["get", "--raw", "/api/v1/nodes/node-a/proxy/stats/summary"]).then(
        () => true,
        () => false,
      ),
    );
    const { port } = JSON.parse(await readFile(bedPaths(stateDir).kubeletConfig, "utf8")) as { readonly port: number };
    const answers = await askApi(plane, port);
    await writeApiRecording(answers);
    console.log(`${Object.keys(answers).length} answers`);
  } finally {
    await kubelet.kill9();
  }
} finally {
  kube.close();
  await containerd.stop();
  await plane.stop();
  await rm(folder, { recursive: true, force: true });
}
